"""Ops of which only the shape is used: what they check and define is not lost with their values."""

import numpy as np
import pytest
from running import assert_equal, compiled, execute, tensor_type, to_buffer

from kiln.driver import Buffer
from kiln.dtype import DType
from kiln.graph import BufferType, DeviceRef, Dim, ops

pytestmark = pytest.mark.compiler
CPU = DeviceRef.CPU()
TYPES = [tensor_type("float32", ["n"]), tensor_type("int64", [])]


def counting(size):
    return ops.range(0, size, 1, dtype=DType.int64, device=CPU)


def spread(size, name):
    return ops.broadcast_to(ops.constant(0.0, DType.float32, CPU), ops.reshape(size, [1]), out_dims=[name])


def line(x):
    return ops.reshape(x, [1, 1, x.shape[0], 1])


def filters(*shape):
    return ops.constant(np.ones(shape, np.float32), DType.float32, CPU)


# name: op on x and a scalar, size of x, the scalar, what the error says.
REFUSED = {
    "start": (lambda x, e: x[-3:], 2, 0, "slice start index -3 out of range"),
    "stop": (lambda x, e: x[:3], 2, 0, "slice stop index 3 out of range"),
    "negative_size": (lambda x, e: x[3:], 2, 0, "slice start index 3 out of range"),
    "pick": (lambda x, e: x[2], 2, 0, "out of range|out of bounds"),
    "out_dim": (lambda x, e: x[(slice(0, e), 5),], 9, 2, "5"),
    "top_k": (lambda x, e: ops.top_k(x, 3)[0], 2, 0, "cannot be larger than dimension size"),
    "max": (lambda x, e: ops.max(x, axis=0), 0, 0, "the reduced axis 0 is empty"),
    "argmin": (lambda x, e: ops.argmin(x, axis=0), 0, 0, "the reduced axis 0 is empty"),
    "reflect": (lambda x, e: ops.pad(x, [1, 1], mode="reflect"), 0, 0, "pad"),
    "broadcast": (lambda x, e: spread(e, "m"), 2, -3, "broadcast_to"),
    "conv2d": (lambda x, e: ops.conv2d(line(x), filters(1, 3, 1, 1)), 2, 0, "output spatial dim must be positive"),
    "conv2d_transpose": (lambda x, e: ops.conv2d_transpose(line(x), filters(1, 3, 1, 1), padding=(0, 0, 3, 2)), 3, 0,
                         "output spatial dim must be positive"),
    "max_pool2d": (lambda x, e: ops.max_pool2d(line(x), (1, 4)), 2, 0, "axis 2 of the result would have"),
    "range": (lambda x, e: ops.range(e, 0, 1, out_dim="m", dtype=DType.int64, device=CPU), 2, 5, "range"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_checks_remain(name):
    op, size, scalar, text = REFUSED[name]
    model = compiled(lambda x, e: ops.shape_to_tensor(op(x, e).shape), TYPES)
    with pytest.raises(ValueError, match=text):
        execute(model, [np.ones(size, np.float32), np.array(scalar)])


DEFINED = {
    "slice": lambda x, e: x[(slice(0, e), "k"),],
    "range": lambda x, e: ops.range(0, e, 1, out_dim="k", dtype=DType.int64, device=CPU),
    "broadcast": lambda x, e: spread(e, "k"),
}


@pytest.mark.parametrize("name", DEFINED)
def test_symbols_are_defined(name):
    def build(x, e):
        shape = DEFINED[name](x, e).shape
        return counting(Dim("k")), ops.shape_to_tensor(shape)

    model = compiled(build, TYPES)
    for n in (0, 3, 4):
        numbers, shape = execute(model, [np.ones(4, np.float32), np.array(n)])
        assert_equal(numbers, np.arange(n))
        assert_equal(shape, np.array([n]))


def test_a_symbol_of_a_buffer():
    model = compiled(lambda e, b: counting(b[(slice(0, e), "k"),].shape[0]),
                     [TYPES[1], BufferType(DType.float32, [4], CPU)])
    assert_equal(execute(model, [np.array(3)], [to_buffer(np.ones(4, np.float32))])[0], np.arange(3))


# name: a value of a dim n, what it is for a small n; for a large one it does not fit 64 bits.
WRAPPING = {
    "dim": lambda x: Dim("n") * 4,
    "concat": lambda x: ops.shape_to_tensor(ops.concat([x] * 4).shape)[0],
    "pad": lambda x: ops.shape_to_tensor(ops.pad(x, [2**57, 2**56, 0, 0]).shape)[0] - (2**57 + 2**56 - 3 * x.shape[0]),
    "tile": lambda x: ops.shape_to_tensor(ops.tile(x, [4, 1]).shape)[0],
}


@pytest.mark.parametrize("name", WRAPPING)
def test_sizes_that_would_wrap(name):
    model = compiled(lambda x: ops.cast(WRAPPING[name](x), DType.int64), [tensor_type("float32", ["n", 0])])
    assert execute(model, [np.zeros((5, 0), np.float32)])[0] == 20
    with pytest.raises(ValueError, match="64 bits"):
        model.execute(Buffer(DType.float32, [2**63 - 2, 0]))
