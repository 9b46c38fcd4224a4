"""A failure at run has one sentence, whether a function runs eagerly, lazily, as one graph or compiled."""

import numpy as np
import pytest

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.experimental import functional as F
from kiln.experimental.compilation import compile
from kiln.experimental.sharding import TensorLayout
from kiln.experimental.tensor import Tensor
from kiln.graph import ops

F32, I64, BOOL = DType.float32, DType.int64, DType.bool


def tensor(values, dtype=F32):
    return Tensor(values, dtype=dtype)


def eager(function, *tensors):
    return function(*tensors).to_numpy()


def lazy(function, *tensors):
    with F.lazy():
        result = function(*tensors)
    return result.to_numpy()


def as_one(function, *tensors):
    return F.functional(function)(*tensors).to_numpy()


def compiled(function, *tensors):
    return compile(function)(*(TensorLayout(x.dtype, x.shape, CPU()) for x in tensors))(*tensors).to_numpy()


def symbolic(function, *tensors):
    """With one symbol for each size that an axis of the tensors has."""
    layouts = (TensorLayout(x.dtype, [f"size_{int(dim)}" for dim in x.shape], CPU()) for x in tensors)
    return compile(function)(*layouts)(*tensors).to_numpy()


MODES = [eager, lazy, as_one, compiled, symbolic]
X, MASK = tensor([1, 2, 3, 4]), tensor([True, False, True, False], BOOL)
TWO, THREE = tensor([9, 8]), tensor([9, 8, 7])


@pytest.mark.parametrize("mode", MODES)
def test_counts(mode):
    def scattered(size):
        return lambda x, mask, updates: F.masked_scatter(x, mask, updates, size)

    def repeated(size):
        return lambda x, counts: F.repeat_interleave(x, counts, 0, size)

    for function, tensors, sentence in [
        (scattered(3), (X, MASK, THREE), "masked_scatter: out_dim is 3 but the mask has 2 true elements"),
        (scattered("k"), (X, MASK, THREE), "masked_scatter: out_dim is 3 but the mask has 2 true elements"),
        (scattered(2), (X, MASK, THREE), "masked_scatter: out_dim is 2 but there are 3 updates"),
        (scattered(3), (X, MASK, TWO), "masked_scatter: out_dim is 3 but there are 2 updates"),
        (repeated(7), (X, tensor([1, 2, 1, 1], I64)), "repeat_interleave: out_dim is 7 but the repeats add up to 5"),
        (repeated("k"), (X, tensor([1, 2, -1, 1], I64)),
         "repeat_interleave: the repeats must not be negative, but one is -1"),
    ]:
        with pytest.raises(ValueError) as error:
            mode(function, *tensors)
        assert str(error.value).endswith(sentence), (function, str(error.value))
    for size in (2, "k"):
        np.testing.assert_array_equal(mode(scattered(size), X, MASK, TWO), [9, 2, 8, 4])


@pytest.mark.parametrize("mode", MODES)
def test_a_size_that_two_ops_give(mode):
    def both(x, y):
        return F.concat([F.rebind(x, ["n"]), F.rebind(y, ["n"])])

    def counted(x, y):
        return F.concat([F.nonzero(x, "n"), F.nonzero(y, "n")], 1)

    np.testing.assert_array_equal(mode(both, TWO, TWO), [9, 8, 9, 8])
    np.testing.assert_array_equal(mode(counted, TWO, tensor([0, 1, 1])), [[0, 1], [1, 2]])
    if mode is eager:  # sizes are numbers between two calls
        return
    for function, x, y in ((both, TWO, THREE), (counted, TWO, tensor([1, 1, 1]))):
        with pytest.raises(ValueError, match="rebind shape check failed|nonzero: out_dim is 2|rebind cannot succeed"):
            mode(function, x, y)


@pytest.mark.parametrize("name", ["resize_nearest", "resize_linear", "resize_bicubic"])
def test_sizes_that_become_0_or_come_from_it(name):
    resize = getattr(ops, name)
    image, count = TensorLayout(F32, [1, 2, "h", "w"], CPU()), TensorLayout(F32, ["n"], CPU())
    run = compile(lambda x, n: Tensor.from_graph_value(
        resize(x.__tensorvalue__(), [1, 2, n.shape[0], x.shape[3]])))(image, count)
    total = compile(lambda x, n: F.sum(Tensor.from_graph_value(
        resize(x.__tensorvalue__(), [1, 2, n.shape[0], 3])), None))(image, count)
    for h, n in ((4, 0), (0, 4)):
        for call in (run, total):
            with pytest.raises(ValueError) as error:
                call(Tensor.ones([1, 2, h, 3]), Tensor.zeros([n]))
            assert str(error.value).endswith(f"{name}: axis 2 has size {h} and cannot become {n}.")
    assert run(Tensor.ones([1, 2, 0, 3]), Tensor.zeros([0])).to_numpy().shape == (1, 2, 0, 3)
    made = run(Tensor.ones([1, 2, 4, 3]), Tensor.zeros([7])).to_numpy()
    np.testing.assert_allclose(made, np.ones((1, 2, 7, 3)), rtol=1e-5)
    np.testing.assert_allclose(total(Tensor.ones([1, 2, 4, 3]), Tensor.zeros([7])).to_numpy(), [42], rtol=1e-5)
