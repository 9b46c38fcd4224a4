"""Graphs that are long, deep or nested: compiled in reasonable time, or refused with a sentence."""

import numpy as np
import pytest
from running import assert_equal, compiled, execute, session, tensor_type

from kiln.dtype import DType
from kiln.graph import DeviceRef, Dim, Graph, TensorType, ops

CPU = DeviceRef.CPU()
F32 = DType.float32


def repeated(count, step):
    def build(x):
        for _ in range(count):
            x = step(x)
        return x

    return build


@pytest.mark.compiler
def test_a_chain_of_many_ops():
    model = compiled(repeated(20_000, lambda x: x + 1), [tensor_type("float64", ["n"])])
    assert_equal(execute(model, [np.arange(3.0)])[0], np.arange(3.0) + 20_000)
    model = compiled(repeated(20_001, lambda x: ops.permute(x, [1, 0])), [tensor_type("float64", ["n", "m"])])
    x = np.arange(6.0).reshape(2, 3)
    assert_equal(execute(model, [x])[0], x.T)


@pytest.mark.compiler
def test_a_chain_of_values_that_are_read_twice():
    model = compiled(repeated(100, lambda x: x - x * 0.5), [tensor_type("float64", ["n"])])
    assert_equal(execute(model, [np.array([1.0, -3.0])])[0], np.array([1.0, -3.0]) * 0.5**100)
    model = compiled(repeated(100, lambda x: x - x * 0.5), [tensor_type("float64", [])])
    assert execute(model, [np.array(1.0)])[0] == 0.5**100


@pytest.mark.compiler
def test_a_chain_of_rows():
    model = compiled(repeated(60, lambda x: ops.softmax(x, axis=1)), [tensor_type("float64", [4, 4])])
    x = np.arange(16.0).reshape(4, 4)
    expected = x
    for _ in range(60):
        e = np.exp(expected - expected.max(1, keepdims=True))
        expected = e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(execute(model, [x])[0], expected, rtol=1e-12)


@pytest.mark.compiler
def test_dims_of_many_divisions():
    def build(x):
        dim = Dim("n")
        for _ in range(32):
            dim = (dim + 3) // 2
        return ops.broadcast_to(x[0], [dim])

    size = 1000
    for _ in range(32):
        size = (size + 3) // 2
    model = compiled(build, [tensor_type("float32", ["n"])])
    assert execute(model, [np.ones(1000, np.float32)])[0].shape == (size,)


@pytest.mark.compiler
@pytest.mark.parametrize("depth", [70, 400])
def test_subgraphs_in_one_another(depth):
    with Graph("main", input_types=[TensorType(F32, ["n"], CPU)]) as graph:
        inner = None
        for level in range(depth):
            sub = graph.add_subgraph(f"s{level}", input_types=[TensorType(F32, ["n"], CPU)])
            with sub:
                x = sub.inputs[0].tensor + 1
                sub.output(x if inner is None else ops.call(inner, x)[0])
            inner = sub
        graph.output(ops.call(inner, graph.inputs[0])[0])
    assert_equal(session().load(graph)(np.zeros(2, np.float32))[0].to_numpy(), np.full(2, depth, np.float32))


@pytest.mark.graph
def test_lists_that_hold_themselves():
    twice = []
    twice += [twice, twice]
    deep = 1.0
    for _ in range(100_000):
        deep = [deep]
    with Graph("case"):
        for value in (twice, deep):
            with pytest.raises(ValueError, match="at most 8 axes"):
                ops.constant(value, F32, CPU)


EMPTY = {
    "softmax": lambda x: ops.softmax(x, 1),
    "softmax of no columns": lambda x: ops.softmax(x, 0),
    "logsoftmax": lambda x: ops.logsoftmax(x, 0),
    "concat": lambda x: ops.concat([x, x], 1),
    "stack": lambda x: ops.stack([x, x + 1], 1),
    "slice": lambda x: x[::2],
    "tile": lambda x: ops.tile(x, [2, 1]),
    "top_k": lambda x: ops.top_k(x, 0, 1)[0],
    "pad": lambda x: ops.pad(x, [1, 1, 0, 0]),
    "max_pool2d": lambda x: ops.max_pool2d(ops.reshape(x, [x.shape[0], 1, 1, x.shape[1]]), 1),
    "cast": lambda x: ops.permute(x, [1, 0]).cast(DType.float64) * 2,
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", EMPTY)
def test_nothing_takes_no_time(name):
    """Rows without elements are not visited: 2^50 of them would take days."""
    model = compiled(EMPTY[name], [tensor_type("float32", ["n", "m"])])
    assert execute(model, [np.zeros((2**50, 0), np.float32)])[0].size == 0


@pytest.mark.compiler
@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("columns", [0, "m"])
@pytest.mark.parametrize("rows", [1, 7, "n"])
def test_kernels_without_results_are_not_started(name, columns, rows):
    model = compiled(EMPTY[name], [tensor_type("float32", [rows, columns])])
    assert execute(model, [np.zeros((7 if rows == "n" else rows, 0), np.float32)])[0].size == 0


@pytest.mark.compiler
@pytest.mark.parametrize("reduce", [ops.min, ops.max, ops.sum, ops.argmax, ops.mean])
@pytest.mark.parametrize("shape", [(8, 0, 3, "b"), (8, 0, 3, 2), ("a", "b", 3, 0), (0, 8, 3)])
def test_reductions_without_results(reduce, shape):
    model = compiled(lambda x: reduce(x, 2), [tensor_type("float32", shape)])
    given = tuple({"a": 4, "b": 2}.get(n, n) for n in shape)
    assert execute(model, [np.zeros(given, np.float32)])[0].size == 0
