"""What depends on weights alone is made once; what a call writes is made in each call."""

import numpy as np
import pytest
from running import assert_equal, session, tensor_type

from kiln.dtype import DType
from kiln.graph import BufferType, DeviceRef, Graph, Weight, ops

pytestmark = pytest.mark.compiler
CPU = DeviceRef.CPU()
F32 = DType.float32
W = np.arange(6, dtype=np.float32).reshape(3, 2)


def weight():
    return Weight("w", F32, [3, 2], CPU)


def constant():
    return ops.constant(W, device=CPU)


def calls(build, types, arguments):
    """The results of each of several calls of one model."""
    model = session().load(Graph("case", build, types), weights_registry={"w": W})
    return [[r.to_numpy().copy() for r in model(*each)] for each in arguments]


# What a graph with the input x and the weight w stores, and its values.
FULL = {"weight": (lambda x, w: w, lambda x: W), "constant": (lambda x, w: constant(), lambda x: W),
        "input": (lambda x, w: x, lambda x: x), "zeros": (lambda x, w: x * 0, lambda x: x * 0)}
ROW = {"weight": (lambda x, w: w[1], lambda x: W[1]), "input": (lambda x, w: x[2], lambda x: x[2]),
       "constant": (lambda x, w: ops.constant([1.0, 2.0], F32, CPU), lambda x: np.array([1, 2], np.float32)),
       "broadcast": (lambda x, w: ops.broadcast_to(ops.constant(9.0, F32, CPU), [2]),
                     lambda x: np.full(2, 9, np.float32))}


@pytest.mark.parametrize("rows", [3, "n"])
@pytest.mark.parametrize("full", FULL)
@pytest.mark.parametrize("row", ROW)
def test_a_created_buffer_holds_every_store(full, row, rows):
    def build(x):
        w = weight()
        source = FULL[full][0](x, w)
        b = ops.buffer_create(BufferType(F32, [rows, 2], CPU))
        b[...] = ops.rebind(source, [rows, 2]) if source.shape != x.shape else source
        b[0] = ROW[row][0](x, w)
        return [b[...], x + 1]

    inputs = [np.full((3, 2), k, np.float32) + W for k in (10, 20, 30)]
    for x, (held, _) in zip(inputs, calls(build, [tensor_type("float32", [rows, 2])], [[x] for x in inputs])):
        expected = FULL[full][1](x).copy()
        expected[0] = ROW[row][1](x)
        assert_equal(held, expected)


@pytest.mark.parametrize("value", [weight, constant])
def test_a_created_buffer_that_a_branch_changes(value):
    def build(p):
        b = ops.buffer_create(BufferType(F32, [3, 2], CPU))
        b[...] = value()
        ops.cond(p, [], lambda: ops.buffer_store(b, ops.buffer_load(b) * 2), lambda: None)
        return b[...]

    results = calls(build, [tensor_type("bool", [])], [[np.array(p)] for p in (True, False, True, True, False)])
    for (got,), p in zip(results, (True, False, True, True, False)):
        assert_equal(got, W * 2 if p else W)


@pytest.mark.parametrize("value", [weight, constant])
def test_a_loop_begins_anew_in_each_call(value):
    def build(n):
        start = ops.constant(0, DType.int64, device=CPU)
        return ops.while_loop([value(), start], lambda v, i: i < n, lambda v, i: [v * 2, i + 1])[0]

    for n, (got,) in zip((3, 0, 1), calls(build, [tensor_type("int64", [])], [[np.array(n)] for n in (3, 0, 1)])):
        assert_equal(got, W * 2**n)


@pytest.mark.parametrize("value", [weight, constant])
def test_a_scatter_into_weights_begins_anew_in_each_call(value):
    def build(x, i):
        return ops.scatter(value(), x, i, axis=0)

    types = [tensor_type("float32", [1, 2]), tensor_type("int64", [1, 2])]
    arguments = [[np.full((1, 2), 100, np.float32), np.full((1, 2), k)] for k in (0, 1, 2)]
    for k, (got,) in enumerate(calls(build, types, arguments)):
        expected = W.copy()
        expected[k] = 100
        assert_equal(got, expected)


@pytest.mark.parametrize("value", [weight, constant])
@pytest.mark.parametrize("filler", [0.0, 3.0, "input"])
def test_padded_weights_in_a_product(value, filler):
    def build(x):
        padded = ops.pad(value(), [1, 0, 0, 2], value=x[0, 0] if filler == "input" else filler)
        return [x @ padded, padded * 1]

    inputs = [np.arange(8, dtype=np.float32).reshape(2, 4) + k for k in (5, 7)]
    for x, got in zip(inputs, calls(build, [tensor_type("float32", [2, 4])], [[x] for x in inputs])):
        fill = x[0, 0] if filler == "input" else filler
        padded = np.pad(W, [(1, 0), (0, 2)], constant_values=fill)
        assert_equal(got[0], x @ padded)
        assert_equal(got[1], padded)


@pytest.mark.parametrize("value", [weight, constant])
def test_weights_beside_inputs_in_one_tensor(value):
    def build(x):
        w = value()
        both = ops.concat([w, x])
        twice = ops.concat([w, w + 1], axis=1)
        return [ops.softmax(both) @ ops.transpose(both, 0, 1), x @ ops.transpose(x, 0, 1) @ twice]

    inputs = [np.arange(6, dtype=np.float32).reshape(3, 2) + k for k in (1, 2)]
    for x, got in zip(inputs, calls(build, [tensor_type("float32", [3, 2])], [[x] for x in inputs])):
        both = np.concatenate([W, x]).astype(np.float64)
        soft = np.exp(both - both.max(1, keepdims=True))
        np.testing.assert_allclose(got[0], soft / soft.sum(1, keepdims=True) @ both.T, rtol=1e-5)
        np.testing.assert_allclose(got[1], x @ x.T @ np.concatenate([W, W + 1], axis=1), rtol=1e-5)
