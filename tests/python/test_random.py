"""Random tensors draw from the seed of the process, or of the graph that is being built."""

import numpy as np
import pytest
from test_op_random import normal_steps
from test_op_random import uniform as expected_uniform

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.experimental import functional as F
from kiln.experimental import random
from kiln.experimental.compilation import as_subgraph, compile
from kiln.experimental.sharding import DeviceMapping, DeviceMesh, Replicated, Sharded, TensorLayout
from kiln.experimental.tensor import Tensor
from kiln.graph import ops

F32 = DType.float32


def words(seed, *shape, dtype="float32", bounds=(0, 1)):
    return expected_uniform(seed, int(np.prod(shape)), dtype, *bounds).reshape(shape)


def test_every_op_advances_the_seed():
    random.set_seed(2**32 - 1)
    for i in range(4):
        np.testing.assert_array_equal(random.uniform([2, 3]).to_numpy(), words(2**32 - 1 + i, 2, 3))
    made = random.gaussian([5], mean=2, std=3).to_numpy()
    np.testing.assert_allclose(made, 2 + 3 * normal_steps(2**32 + 3, 5), rtol=1e-5)
    random.set_seed(0)
    np.testing.assert_array_equal(F.uniform([4], (2, 9), dtype=DType.int32).to_numpy(),
                                  words(0, 4, dtype="int32", bounds=(2, 9)))
    np.testing.assert_array_equal(F.uniform_like(Tensor.zeros([2])).to_numpy(), words(1, 2))
    np.testing.assert_array_equal(F.normal([3]).to_numpy().shape, [3])
    like = F.normal_like(TensorLayout(DType.float64, [2], CPU()))
    assert like.dtype == DType.float64 and like.shape == [2]
    assert random.normal is random.gaussian and F.gaussian is random.gaussian


def test_functions_and_lazy_blocks_share_the_seed():
    @F.functional
    def noisy(x):
        return x + F.uniform([3])

    random.set_seed(10)
    for i in range(3):
        np.testing.assert_allclose(noisy(Tensor([1, 2, 3])).to_numpy(), words(10 + i, 3) + [1, 2, 3], rtol=1e-6)
    with F.lazy():
        a, b = F.uniform([2]), F.uniform([2])
    np.testing.assert_array_equal(b.to_numpy(), words(14, 2))
    np.testing.assert_array_equal(a.to_numpy(), words(13, 2))


def test_copies_are_equal_and_parts_are_not():
    mesh = DeviceMesh([CPU()] * 4, (2, 2), ("dp", "tp"))
    random.set_seed(3)
    x = F.uniform([4, 2], device=DeviceMapping(mesh, [Sharded(0), Replicated()]))
    np.testing.assert_array_equal(x.to_numpy(), words(3, 4, 2))
    a, b, c, _ = (shard.to_numpy() for shard in x.local_shards)
    assert (a == b).all() and (a != c).any()
    np.testing.assert_array_equal(F.uniform_like(x).to_numpy(), words(4, 4, 2))


def test_graphs_have_seeds_of_their_own():
    def dropped(x):
        return x * F.uniform([3])

    layout = TensorLayout(F32, [3], CPU())
    with pytest.raises(RuntimeError) as error:
        compile(dropped)(layout)
    assert str(error.value).startswith("No seed set! Set with `ops.random.set_seed`.")

    def seeded(x):
        random.set_seed(8)
        return dropped(x), F.uniform([3])

    run = compile(seeded)(layout)
    random.set_seed(100)
    for _ in range(2):
        a, b = run(Tensor([1, 1, 1]))
        np.testing.assert_array_equal(a.to_numpy(), words(8, 3))
        np.testing.assert_array_equal(b.to_numpy(), words(9, 3))
    np.testing.assert_array_equal(F.uniform([2]).to_numpy(), words(100, 2))

    def given(x, seed):
        ops.random.set_seed(seed)
        return dropped(x)

    run = compile(given)(layout, TensorLayout(DType.uint64, [1], CPU()))
    for seed in (1, 2**63):
        made = run(Tensor([1, 1, 1]), Tensor([seed], dtype=DType.uint64))
        np.testing.assert_array_equal(made.to_numpy(), words(seed, 3))


def test_subgraphs_draw_from_the_seed_around_them():
    def dropped(x):
        x = x * F.uniform([3])
        return x + F.cond(x[0] > -1, [x.type], lambda: [F.uniform([3])], lambda: [x])[0]

    drops = as_subgraph(dropped)
    deeper = as_subgraph(lambda x: drops(x) + F.uniform([3]))

    def called(x, seed):
        ops.random.set_seed(seed)
        y = drops(x)
        z = F.uniform([3])
        own = as_subgraph(lambda v: [random.set_seed(50), v * F.uniform([3])][1])(x)
        return y, z, drops(x), own, deeper(x), F.uniform([3])

    layouts = TensorLayout(F32, [3], CPU()), TensorLayout(DType.uint64, [1], CPU())
    x = np.ones(3, np.float32)
    a, b, c, d, e, f, g, h, i = (words(7 + i, 3) for i in range(9))
    expected = [a + b, c, d + e, words(50, 3), f + g + h, i]
    for allowed in (True, False):
        run = compile(called, allow_subgraphs=allowed)(*layouts)
        results = run(Tensor(x), Tensor([7], dtype=DType.uint64))
        if not allowed:  # the seed that an inlined function sets is that of the graph
            a, b, c, d, e, f = (words(51 + i, 3) for i in range(6))
            expected[2:] = [a + b, words(50, 3), c + d + e, f]
        for made, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(made.to_numpy(), wanted)
    random.set_seed(7)
    np.testing.assert_array_equal(drops(Tensor(x)).to_numpy(), words(7, 3) + words(8, 3))
    with pytest.raises(RuntimeError, match="No seed set! Set with `ops.random.set_seed`."):
        compile(lambda x: drops(x))(layouts[0])


def test_tensors_as_parameters():
    low, high = Tensor(-2.0), Tensor(3.0, dtype=DType.float64)
    for place in (CPU(), DeviceMapping(DeviceMesh([CPU()] * 2, (2,), ("x",)), [Sharded(0)])):
        for bounds in ((low, high), (-2, high), (low, 3), (np.float32(-2), np.array(3.0))):
            random.set_seed(5)
            made = F.uniform([4], bounds, device=place)
            np.testing.assert_allclose(made.to_numpy(), words(5, 4) * 5 - 2, rtol=1e-6)
    random.set_seed(5)
    plain = F.normal([4], -2, 3).to_numpy()
    for mean, std in ((low, high), (-2, high), (low, 3)):
        random.set_seed(5)
        np.testing.assert_array_equal(F.normal([4], mean, std).to_numpy(), plain)
        random.set_seed(5)
        np.testing.assert_array_equal(F.normal_like(Tensor.zeros([4]), mean, std).to_numpy(), plain)
    mesh = DeviceMesh([CPU()] * 2, (2,), ("x",))
    random.set_seed(5)
    np.testing.assert_array_equal(F.normal([4], low.to(mesh), high.to(mesh)).to_numpy(), plain)

    def drawn(low, high):
        random.set_seed(5)
        return F.uniform([4], (low, high)), F.uniform([4], range=(ops.constant(-2, F32, CPU()), high))

    scalar = TensorLayout(F32, [], CPU())
    run = compile(drawn)(scalar, scalar)
    made, again = run(low, Tensor(3.0))
    np.testing.assert_allclose(made.to_numpy(), words(5, 4) * 5 - 2, rtol=1e-6)
    np.testing.assert_allclose(again.to_numpy(), words(6, 4) * 5 - 2, rtol=1e-6)
    with pytest.raises(ValueError, match="Expected a scalar value"):
        F.uniform([4], (Tensor([1]), 2))
    with pytest.raises(ValueError, match="random.uniform: the lower bound is above the upper bound"):
        F.uniform([4], (high, low))
    with pytest.raises(ValueError, match="random.normal: std must be positive"):
        F.normal([4], std=low)
    with pytest.raises(ValueError, match="random.uniform: the lower bound is above the upper bound"):
        run(Tensor(3.0), low)


def test_errors():
    for seed in (-1, 2**64, 1.5):
        with pytest.raises(ValueError, match="The seed must be an int in the range of uint64"):
            random.set_seed(seed)
    with pytest.raises(ValueError, match="range is a pair"):
        random.uniform([2], 3)
    with pytest.raises(ValueError, match="the lower bound 2.* is above the upper bound 1"):
        random.uniform([2], (2, 1))
    with pytest.raises(ValueError, match="std must be positive, got 0"):
        random.gaussian([2], std=0)
    with pytest.raises(ValueError, match="the symbolic dimension n|'n'"):
        random.uniform(["n"])
