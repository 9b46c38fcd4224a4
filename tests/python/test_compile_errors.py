"""Failures of compiling name the op, its graph and the user's line."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from kiln.engine import InferenceSession
from kiln.graph import Graph, ops
from running import session, tensor_type

pytestmark = pytest.mark.engine

ONE = tensor_type("float32", [1, 1])


def huge(x):
    return ops.tile(x, [2**28, 2**28])


def line_of(function, part: str) -> str:
    lines, first = inspect.getsourcelines(function)
    (number,) = (first + i for i, line in enumerate(lines) if part in line)
    return f"{__file__}:{number}"


def failure(graph, start="Failed to compile the model.\n") -> str:
    with pytest.raises(RuntimeError) as caught:
        session().compile(graph)
    text = str(caught.value)
    assert text.startswith(start)
    return text


@pytest.mark.parametrize(
    "wrap",
    [
        lambda y: y,
        lambda y: y + 1,
        lambda y: ops.softmax(y),
        lambda y: ops.concat([y, y]),
        lambda y: y @ ops.transpose(y, 0, 1),
        lambda y: y[1:, ::2],
    ],
)
def test_a_size_beyond_memory_names_the_line(wrap):
    text = failure(Graph("case", lambda x: wrap(huge(x)), [ONE]))
    assert "While compiling graph 'case', op '" in text
    assert "test_compile_errors.py:" in text


@pytest.mark.parametrize("shape", [[2**31, 2**31], [2**40, 2**40], [2**62, 2**62, 2]])
def test_a_size_beyond_64_bits_is_refused_at_once(shape):
    text = rf"The result of 'broadcast_to' has type .*{shape[0]}.* which takes more bits than 64 bits can count"
    with pytest.raises(ValueError, match=text):
        Graph("case", lambda x: ops.sum(ops.broadcast_to(x[0, 0], shape)), [ONE])
    with pytest.raises(ValueError, match="Input 1 of graph 'case' has type .* more bits than 64 bits can count"):
        Graph("case", input_types=[ONE, tensor_type("float32", shape)])
    # As in NumPy, an axis of size 0 does not help.
    for dims in ([*shape, 0], [0, *shape], ["n", *shape]):
        with pytest.raises(ValueError, match=text):
            Graph("case", lambda x, dims=dims: ops.broadcast_to(x[0, 0], dims), [tensor_type("float32", ["n", 1])])
    with pytest.raises(ValueError):
        np.zeros([*shape, 0])


@pytest.mark.parametrize("columns", [(), (4,), (2, 3)])
def test_slices_beyond_64_bits_are_refused_at_once(columns):
    for index in (slice(2**63 - 1, None), slice(2**70, None), slice(None, 2**64)):
        with pytest.raises(ValueError, match="slice index computation overflow"):
            Graph("case", lambda x, index=index: x[index], [tensor_type("float32", ["n", *columns])])
    if columns:
        with pytest.raises(ValueError, match="slice index computation overflow"):
            Graph("case", lambda x: x[:: 2**63 - 1], [tensor_type("float32", ["n", *columns])])
    model = session().load(Graph("case", lambda x: x[:: 2**40], [tensor_type("float32", ["n", *columns])]))
    x = np.arange(5 * int(np.prod(columns)), dtype="f4").reshape(5, *columns)
    np.testing.assert_array_equal(model(x)[0].to_numpy(), x[:: 2**40])


def test_padding_beyond_64_bits_is_refused_at_once():
    with pytest.raises(ValueError, match="The result of 'pad' has type .* more bits than 64 bits can count"):
        Graph("case", lambda x: ops.pad(x, [2**62, 2**62 - 3]), [tensor_type("int8", ["n"])])


def test_opaque_inputs(tmp_path):
    path = tmp_path / "opaque.txt"
    path.write_text("""kiln.module version 1 {
  kiln.graph @g(%x: opaque<"state">) -> () {} {
    kiln.output()
  }
}
""")
    text = failure(Graph("g", path=path), start="Failed to compile the model. ")
    assert "Input 0 of graph 'g' is opaque" in text and "Give the graph tensors or buffers." in text


def test_one_name_for_weights_of_two_types():
    def build(x):
        return [x @ ops.constant_external("w", tensor_type("float32", [4, 4])),
                ops.constant_external("w", tensor_type("float32", [4]))]

    text = failure(Graph("case", build, [tensor_type("float32", ["n", 4])]), start="Failed to compile the model. ")
    assert "Weight 'w' is declared twice with different types: f32 [4, 4] and f32 [4]" in text


def test_the_advice_is_left_out_where_it_was_taken():
    unfinished = Graph("case", input_types=[ONE])
    assert "source-tracebacks" in failure(unfinished, start="Failed to compile the model. ")
    Graph.debug.source_tracebacks = True
    try:
        assert "source-tracebacks" not in failure(unfinished, start="Failed to compile the model. ")
    finally:
        Graph.debug.source_tracebacks = False


def test_the_line_of_the_op_itself():
    text = failure(Graph("case", huge, [ONE]))
    assert f"\nWhile compiling graph 'case', op 'tile' ({line_of(huge, 'tile')}).\n" in text
    assert "\nSet KILN_DEBUG=source-tracebacks before the graph is built to see" in text


def test_a_value_beyond_the_address_space_names_the_line():
    def build(x):
        return ops.sum(ops.softmax(ops.broadcast_to(x, [2**25, 2**25])), axis=0)

    text = failure(Graph("case", build, [ONE]))
    assert "does not fit the address space" in text
    assert "While compiling graph 'case', op 'softmax'" in text and line_of(build, "softmax") in text


def test_inside_a_branch():
    def build(x, p):
        return ops.cond(p, [tensor_type("float32", [2**28, 2**28])], lambda: huge(x), lambda: huge(x) + 1)

    text = failure(Graph("case", build, [ONE, tensor_type("bool", [])]))
    assert "While compiling graph 'case', op '" in text and "test_compile_errors.py:" in text


def test_the_traceback_is_shown():
    Graph.debug.source_tracebacks = True
    try:
        graph = Graph("case", huge, [ONE])
    finally:
        Graph.debug.source_tracebacks = False
    text = failure(graph)
    assert "\nWhile compiling graph 'case', op 'tile'.\nSource Traceback:\n" in text
    place = line_of(huge, "tile")
    assert f"  {place}\n    return ops.tile(x, [2**28, 2**28])\n" in text
    assert "KILN_DEBUG" not in text


def test_a_traceback_is_shown_at_run_time_too():
    Graph.debug.source_tracebacks = True
    try:
        graph = Graph("case", lambda x: ops.tile(x, [2**60]), [tensor_type("float32", ["n"])])
    finally:
        Graph.debug.source_tracebacks = False
    with pytest.raises(ValueError, match="Source Traceback:\n"):
        InferenceSession().load(graph).execute(np.ones(16, np.float32))


def fails_in_a_region(x, index):
    first = x + 1
    second = first * 2
    return [second[index]]  # fails when it runs


@pytest.mark.parametrize("side", [0, 1])
def test_ops_of_regions_have_lines_of_their_own(side):
    def build(x, index):
        regions = [lambda: [x[0]], lambda: [x[0]]]
        regions[side] = lambda: fails_in_a_region(x, index)
        return ops.cond(index == 7 if side == 0 else index != 7, [tensor_type("float32", [])], *regions)

    graph = Graph("regions", build, [tensor_type("float32", ["n"]), tensor_type("int64", [])])
    with pytest.raises(ValueError, match="Index 7 out of range") as caught:
        InferenceSession().load(graph).execute(np.zeros(3, np.float32), np.array(7))
    assert line_of(fails_in_a_region, "fails when it runs") in str(caught.value)


def test_ops_of_loops_have_lines_of_their_own():
    def build(x, index):
        return ops.while_loop([x[0]], lambda v: v < 10, lambda v: [v + fails_in_a_region(x, index)[0]])[0]

    graph = Graph("loops", build, [tensor_type("float32", ["n"]), tensor_type("int64", [])])
    with pytest.raises(ValueError, match="Index 7 out of range") as caught:
        InferenceSession().load(graph).execute(np.zeros(3, np.float32), np.array(7))
    assert line_of(fails_in_a_region, "fails when it runs") in str(caught.value)
