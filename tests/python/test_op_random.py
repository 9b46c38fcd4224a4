"""Random numbers against Philox4x32-10 in Python's integers and the float steps in NumPy."""

import numpy as np
import pytest
from running import FLOATS, INTS, assert_equal, compiled, execute, numpy_type, run, tensor_type

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.graph import DeviceRef, Graph, TensorType, ops

pytestmark = pytest.mark.compiler
MASK = 2**32 - 1
HALVES = ["float16", "bfloat16"]


def philox(seed, counter):
    """The four words of one block."""
    (a, b, c, d), k0, k1 = counter, seed & MASK, seed >> 32
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (q >> 32) ^ b ^ k0, q & MASK, (p >> 32) ^ d ^ k1, p & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return a, b, c, d


def uniform(seed, count, dtype, lower, upper):
    kind = numpy_type(dtype)
    words = [philox(seed, (i // 4 & MASK, i // 4 >> 32, 0, 0))[i % 4] >> 8 for i in range(count)]
    if lower == upper:
        return np.full(count, lower, kind)
    if dtype in INTS:
        span = np.float64(upper - lower)
        return np.array([lower + int(np.floor(np.float64(w) * 2.0**-24 * span)) for w in words], kind)
    wide = np.float64 if dtype == "float64" else np.float32
    low, high = wide(kind.type(lower)), wide(kind.type(upper))
    values = (low + np.array(words, wide) * wide(2.0**-24) * (high - low)).astype(kind)
    below = np.nextafter(kind.type(upper), kind.type(lower))
    return np.where(values >= kind.type(upper), below, values)


def normal_steps(seed, count):
    """u and the angle in float32, and the exact normal of them."""
    pairs = [philox(seed, (0, 0, i & MASK, i >> 32))[:2] for i in range(count)]
    u, v = ((np.array(words, np.float64).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-32)
            for words in zip(*pairs))
    angle = np.float32(2 * np.pi) * v
    return np.sqrt(-2 * np.log(u.astype(np.float64))) * np.sin(angle.astype(np.float64))


def draw(seed, shape, dtype, op=ops.random.uniform, dims=None, **options):
    def build(*xs):
        ops.random.set_seed(seed)
        return op(tensor_type(dtype, dims or shape), **options)

    types = [tensor_type("float32", dims)] if dims else []
    return execute(compiled(build, types), [np.zeros(shape, np.float32)] if dims else [])[0]


def test_the_words_of_the_specification():
    assert philox(0, (0, 0, 0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    words = draw(0, (4,), "uint64", range=(0, 2**24))
    assert words.tolist() == [w >> 8 for w in (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)]


@pytest.mark.parametrize("dtype", FLOATS + INTS)
@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**64 - 1])
def test_uniform(dtype, seed):
    for shape, bounds in [((7,), (0, 1)), ((5, 37), (2, 100)), ((2, 3, 5), (3, 3)), ((), (0, 7)), ((0, 4), (0, 1))]:
        expected = uniform(seed, int(np.prod(shape)), dtype, *bounds).reshape(shape)
        assert_equal(draw(seed, shape, dtype, range=bounds), expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_stays_below_its_upper_bound(dtype):
    # One step wide: most values round to the upper bound and take the one before it.
    kind = numpy_type(dtype)
    for lower in (1, -2, 0):
        upper = float(np.nextafter(kind.type(lower), kind.type(9)))
        got = draw(3, (64,), dtype, range=(lower, upper))
        assert_equal(got, uniform(3, 64, dtype, lower, upper))
        assert (got >= kind.type(lower)).all() and (got < kind.type(upper)).all()
    assert_equal(draw(3, (64,), dtype, range=(-1, 0)), uniform(3, 64, dtype, -1, 0))


@pytest.mark.parametrize("dtype, bounds", [("int64", (-2**63, 2**63 - 1)), ("uint64", (0, 2**64 - 1)),
                                           ("int8", (-128, 127)), ("uint8", (250, 255)), ("int32", (-5, 6))])
def test_uniform_over_whole_ranges(dtype, bounds):
    assert_equal(draw(11, (33,), dtype, range=bounds), uniform(11, 33, dtype, *bounds))


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal(dtype):
    for seed in (0, 9, 2**63 + 5):
        got = draw(seed, (3, 50), dtype, ops.random.normal, mean=1, std=2)
        exact = 1 + 2 * normal_steps(seed, 150).reshape(3, 50)
        eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype, 2.0**-21)
        # The logarithm is within four last places, the square root halves that, and the sine and sum add theirs.
        np.testing.assert_allclose(got.astype(np.float64), exact, rtol=eps, atol=4e-6)
    assert draw(2, (0,), dtype, ops.random.gaussian).shape == (0,)


@pytest.mark.parametrize("dtype", INTS)
def test_normal_integers(dtype):
    got = draw(4, (200,), dtype, ops.random.normal, mean=50, std=12.5)
    exact = 50 + 12.5 * normal_steps(4, 200)
    clear = np.abs(exact - np.floor(exact) - 0.5) > 1e-3
    assert_equal(got[clear], np.round(exact[clear]).astype(got.dtype))


def test_symbolic_shapes_and_fusion():
    def build(x):
        ops.random.set_seed(5)
        like = TensorType(DType.float32, x.shape, CPU())
        return [ops.where(ops.random.uniform(like) > 0.5, x, 0), ops.random.normal(like).transpose(0, 1)]

    model = compiled(build, [tensor_type("float32", ["n", "m"])])
    for shape in ((3, 5), (40, 33), (0, 2)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        dropped, normal = execute(model, [x])
        u = uniform(5, x.size, "float32", 0, 1).reshape(shape)
        assert_equal(dropped, np.where(u > 0.5, x, np.float32(0)))
        if x.size:
            np.testing.assert_allclose(normal.T, normal_steps(6, x.size).reshape(shape), rtol=4e-6, atol=4e-6)


def test_large_element_numbers():
    """Blocks far beyond the first, also read alone."""
    n = 2**20

    def build(x):
        ops.random.set_seed(3)
        return x + ops.random.uniform(TensorType(DType.float32, [n], CPU()))[-3:]

    got = run(build, np.zeros(3, np.float32))[0]
    words = [philox(3, (i // 4, 0, 0, 0))[i % 4] >> 8 for i in range(n - 3, n)]
    assert_equal(got, np.array(words, np.float32) * np.float32(2.0**-24))


def test_each_op_takes_the_next_seed():
    like = TensorType(DType.float32, [6], CPU())

    def build(s):
        ops.random.set_seed(2**64 - 1)
        first = [ops.random.uniform(like) for _ in range(3)]
        ops.random.set_seed(s)
        return first + [ops.random.uniform(like) for _ in range(2)]

    seed = np.array([41], np.uint64)
    got = execute(compiled(build, [ops.random.SeedType(CPU())]), [seed])
    for values, s in zip(got, (2**64 - 1, 0, 1, 41, 42), strict=True):
        assert_equal(values, uniform(s, 6, "float32", 0, 1))


@pytest.mark.parametrize("kind", ["uint64", "int32", "uint8"])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_seeds_of_other_types(kind, shape):
    def build(s):
        ops.random.set_seed(s)
        return ops.random.uniform(TensorType(DType.float32, [6], CPU()))

    model = compiled(build, [tensor_type(kind, shape)])
    for seed in (0, 17):
        assert_equal(execute(model, [np.full(shape, seed, kind)])[0], uniform(seed, 6, "float32", 0, 1))


def test_seeds_in_regions():
    like = TensorType(DType.float32, [6], CPU())

    def build(p):
        ops.random.set_seed(7)
        first = ops.random.uniform(like)

        def inside():
            drawn = ops.random.uniform(like)
            ops.random.set_seed(100)
            return drawn + ops.random.uniform(like)

        taken = ops.cond(p, [like], inside, lambda: first)[0]
        return [first, taken, ops.random.uniform(like)]

    first, taken, last = run(build, np.array(True))
    assert_equal(first, uniform(7, 6, "float32", 0, 1))
    assert_equal(taken, uniform(8, 6, "float32", 0, 1) + uniform(100, 6, "float32", 0, 1))
    # The seed that the branch set ends with it.
    assert_equal(last, uniform(9, 6, "float32", 0, 1))


def test_bounds_that_are_tensors():
    like = TensorType(DType.float32, ["n"], CPU())

    def build(x, a, b):
        ops.random.set_seed(1)
        return [ops.random.uniform(like, range=(a, b)), ops.random.normal(like, a, b)]

    model = compiled(build, [tensor_type("float32", ["n"]), *[tensor_type("float32", [])] * 2])
    x = np.zeros(20, np.float32)
    flat, bell = execute(model, [x, np.float32(-2), np.float32(3)])
    assert_equal(flat, uniform(1, 20, "float32", -2, 3))
    np.testing.assert_allclose(bell, -2 + 3 * normal_steps(2, 20), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="random.uniform: the lower bound is above the upper bound"):
        execute(model, [x, np.float32(4), np.float32(3)])
    for bad in (0, -1, np.nan):
        with pytest.raises(ValueError, match="random.normal: std must be positive"):
            execute(model, [x, np.float32(-5), np.float32(bad)])


def test_texts(tmp_path):
    like = TensorType(DType.float32, [6], CPU())
    with Graph("g", input_types=[like, TensorType(DType.uint64, [2], CPU())]) as g:
        with pytest.raises(RuntimeError, match=r"No seed set! Set with `ops.random.set_seed`."):
            ops.random.uniform(like)
        ops.random.set_seed()
        x, pair = (v.tensor for v in g.inputs)
        for call, text in [
            (lambda: ops.random.uniform(like, range=(x, 1)), "Expected a scalar value"),
            (lambda: ops.random.normal(like, x), "Expected a scalar value"),
            (lambda: ops.random.uniform(like, range=(2, 1)), "the lower bound 2 is above the upper bound 1"),
            (lambda: ops.random.normal(like, 0, 0), "std must be positive"),
            (lambda: ops.random.set_seed(pair), r"Seed must be a scalar or rank-1 tensor with shape \[1\], got shape"),
            (lambda: ops.random.set_seed(-1), "-1"),
            (lambda: ops.random.set_seed(2**64), "1844674407370955161"),
            (lambda: ops.random.uniform(TensorType(DType.bool, [2], CPU())),
             "op 'random.uniform' does not support dtype DType.bool"),
        ]:
            with pytest.raises(ValueError, match=text):
                call()
        assert ops.random.SeedType(DeviceRef.CPU()) == TensorType(DType.uint64, [1], CPU())
        g.output(ops.random.uniform(like), ops.random.gaussian(like))
    path = tmp_path / "graph.kiln"
    path.write_text(str(g))
    assert str(Graph("ignored", path=path)) == path.read_text()
