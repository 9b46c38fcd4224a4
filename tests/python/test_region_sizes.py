"""Results of regions whose sizes only the call knows: symbols born before the region, or in it."""

import numpy as np
import pytest
from running import compiled, execute, tensor_type

from kiln.driver import CPU as HOST
from kiln.dtype import DType
from kiln.graph import Dim, Graph, ops

pytestmark = pytest.mark.compiler

CPU = HOST()
X = np.arange(1, 7, dtype=np.float32)


def renamed(x, i):
    return ops.rebind(x, ["k"]), X


def algebraic(x, i):
    return ops.rebind(x, [Dim("z") * 2]), X


def ranged(x, i):
    return ops.range(0.0, i, 1.0, out_dim="k", dtype=DType.float32, device=CPU), np.arange(4, dtype=np.float32)


def sliced(x, i):
    return x[(slice(ops.constant(1, DType.int64, CPU), i), "k")], X[1:4]


def between_sizes(x, i):
    return ops.range(2, x.shape[0], 1, dtype=DType.float32, device=CPU), np.arange(2, 6, dtype=np.float32)


MAKERS = {m.__name__: m for m in (renamed, algebraic, ranged, sliced, between_sizes)}


def simple(p, v):
    return [ops.cond(p, [v.type], lambda: v + 1.0, lambda: v)[0]]


def swapped(p, v):
    return [ops.cond(p, [v.type], lambda: v, lambda: v + 1.0)[0]]


def two(p, v):
    scalar = tensor_type("float32", [])
    a, b = ops.cond(p, [v.type, scalar], lambda: (v * 2.0, ops.sum(v, axis=0)[0]), lambda: (v, ops.max(v, axis=0)[0]))
    return [a + b, a]


def with_loop(p, v):
    def twice():
        i = ops.constant(0, DType.int32, CPU)
        return ops.while_loop([i, v], lambda k, w: k < 2, lambda k, w: [k + 1, w * 2.0])[1]

    return [ops.cond(p, [v.type], twice, lambda: v)[0]]


def inside_loop(p, v):
    i = ops.constant(0, DType.int32, CPU)
    return [ops.while_loop([i, v], lambda k, w: k < 3,
                           lambda k, w: [k + 1, ops.cond(p, [w.type], lambda: w + 1.0, lambda: w * 2.0)[0]])[1]]


def nested(p, v):
    def inner():
        return ops.cond(v[0] > 0.5, [v.type], lambda: v * 3.0, lambda: v * 5.0)[0]

    return [ops.cond(p, [v.type], inner, lambda: v)[0]]


CONDITIONS = {
    "simple": (simple, lambda p, v: [v + 1 if p else v]),
    "swapped": (swapped, lambda p, v: [v if p else v + 1]),
    "two": (two, lambda p, v: [v * 2 + v.sum() if p else v + v.max(), v * 2 if p else v]),
    "with_loop": (with_loop, lambda p, v: [v * 4 if p else v]),
    "inside_loop": (inside_loop, lambda p, v: [v + 3 if p else v * 8]),
    "nested": (nested, lambda p, v: [v * (3 if v[0] > 0.5 else 5) if p else v]),
}


@pytest.mark.parametrize("dims", [[6], ["n"]], ids=["static", "symbolic"])
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("maker", MAKERS)
def test_results_with_a_size_born_before_the_region(maker, condition, dims):
    build, reference = CONDITIONS[condition]
    values = []

    def body(x, i, p):
        v, expected = MAKERS[maker](x, i)
        values.append(expected)
        return build(p, v)

    types = [tensor_type("float32", dims), tensor_type("int64" if maker == "sliced" else "float32", []),
             tensor_type("bool", [])]
    model = compiled(body, types)
    number = np.array(4, np.int64 if maker == "sliced" else np.float32)
    for p in (True, False, True):
        results = execute(model, [X, number, np.array(p)])
        for got, expected in zip(results, reference(p, values[0]), strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("p", [True, False])
def test_results_with_a_size_born_in_the_regions(p):
    def body(x, y, p):
        q, h = tensor_type("float32", ["q"]), tensor_type("float32", [Dim("h") * 2])
        a, b, c = ops.cond(
            p, [q, q, h],
            lambda: (ops.rebind(x, ["q"]), ops.rebind(x * 2.0, ["q"]), ops.rebind(y, [Dim("h") * 2])),
            lambda: (ops.rebind(y, ["q"]), ops.rebind(y * 3.0, ["q"]), ops.rebind(x, [Dim("h") * 2])),
        )
        return [a + b, ops.concat([a, a]), ops.sum(b, axis=0), c, ops.range(0, Dim("q"), dtype=DType.int32, device=CPU)]

    model = compiled(body, [tensor_type("float32", [6]), tensor_type("float32", ["m"]), tensor_type("bool", [])])
    y = np.array([3, 5], np.float32)
    a = X if p else y
    b = X * 2 if p else y * 3
    expected = [a + b, np.concatenate([a, a]), b.sum(keepdims=True), y if p else X, np.arange(len(a), dtype=np.int32)]
    for got, wanted in zip(execute(model, [X, y, np.array(p)]), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("p", [True, False])
def test_subgraphs_with_conditions_on_born_sizes(p):
    def body(x, p):
        types = [tensor_type("float32", ["s"]), tensor_type("bool", [])]
        sub = Graph.current.add_subgraph(
            "sub", lambda v, q: ops.cond(q, [v.type], lambda: v + 1.0, lambda: v)[0], types)
        return ops.call(sub, ops.rebind(x, ["k"]), p)

    results = execute(compiled(body, [tensor_type("float32", ["n"]), tensor_type("bool", [])]), [X, np.array(p)])
    np.testing.assert_array_equal(results[0], X + 1 if p else X)


def test_texts_of_sizes_born_in_regions(tmp_path):
    q = tensor_type("float32", ["q"])
    with Graph("g", input_types=[tensor_type("float32", [6]), tensor_type("bool", [])]) as graph:
        x, p = graph.inputs
        graph.output(ops.cond(p, [q], lambda: ops.rebind(x, ["q"]), lambda: ops.rebind(x, ["q"]))[0] * 2.0)
    path = tmp_path / "g.txt"
    path.write_text(str(graph))
    assert str(Graph("g", path=path)) == str(graph)
