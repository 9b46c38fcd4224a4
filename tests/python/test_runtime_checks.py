"""What only a run can see: sizes that do not fit, indices and divisors of zero are refused with a sentence."""

import subprocess
import sys

import numpy as np
import pytest
from running import assert_equal, compiled, execute, tensor_type

from kiln.dtype import DType
from kiln.graph import DeviceRef, Dim, ops

pytestmark = pytest.mark.compiler


def refuse(build, types, arrays, *words, fine=()):
    """The call is refused with the words in its text; the model serves `fine` before and after."""
    model = compiled(build, [tensor_type(*t) for t in types])
    for _ in range(2):
        with pytest.raises(ValueError) as error:
            execute(model, arrays)
        for word in words:
            assert word in str(error.value), str(error.value)
        if fine:
            execute(model, fine)


@pytest.mark.parametrize("axis", [0, -1])
def test_scatter_with_more_indices_than_the_input_has(axis):
    def build(x, updates, indices):
        return ops.scatter(x, updates, indices, axis)

    first, second = (("r", "a"), ("s", "b")) if axis else ((3, "a"), (2, "b"))
    types = [("float32", first), ("float32", second), ("int64", second)]
    x = np.zeros((3, 2), np.float32)
    fine = (x, np.ones((2, 2), np.float32), np.zeros((2, 2), np.int64))
    wide = (2, 100000) if axis == 0 else (100000, 2)
    for shape in ((2, 5) if axis == 0 else (5, 2), wide):
        arrays = (x, np.ones(shape, np.float32), np.ones(shape, np.int64))
        other = 1 if axis == 0 else 0
        refuse(build, types, arrays, f"scatter: axis {other} of indices has size {shape[other]}, more than "
                                     f"{x.shape[other]} of the input", fine=fine)


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_pad_of_an_empty_axis(mode):
    build = lambda x: ops.pad(x, [0, 0, 3, 4], mode)  # noqa: E731
    types = [("float32", (2, "n"))]
    refuse(build, types, [np.zeros((2, 0), np.float32)], f"pad: mode '{mode}' cannot extend the empty axis 1",
           fine=[np.zeros((2, 3), np.float32)])
    # Nothing is wrong with padding the other axis, nor with padding by nothing.
    for paddings in ([3, 4, 0, 0], [0, 0, 0, 0]):
        model = compiled(lambda x: ops.pad(x, paddings, mode), [tensor_type("float32", (2, "n"))])
        assert execute(model, [np.zeros((2, 0), np.float32)])[0].shape == (2 + sum(paddings), 0)


def test_dims_divided_by_zero():
    a, b = Dim("a"), Dim("b")
    types = [("float32", ("a", "b"))]
    text = "divides by b, which is 0"
    arrays, fine = [np.zeros((4, 0), np.float32)], [np.zeros((4, 2), np.float32)]
    refuse(lambda x: ops.shape_to_tensor([a // b]), types, arrays, text, fine=fine)
    refuse(lambda x: ops.range(0, a // b, 1, dtype=DType.int64, device=DeviceRef.CPU()), types, arrays, text, fine=fine)
    refuse(lambda x: ops.shape_to_tensor([a // (b // 3)]), types, fine, "divides by b // 3, which is 0")
    model = compiled(lambda x: ops.shape_to_tensor([a // b]), [tensor_type(*types[0])])
    assert_equal(execute(model, [np.zeros((-7 % 16, 2), np.float32)])[0], np.array([4], np.int64))


def test_ranges_that_no_dim_can_count():
    def build(*bounds):
        return ops.range(*bounds, out_dim="q", dtype=DType.int64 if kind == "int64" else DType.float32,
                         device=DeviceRef.CPU())

    for kind, low, high, step in [("int64", -(2**63), 10, 1), ("int64", 2**63 - 1, -10, -1), ("float32", 0, 1e30, 1)]:
        arrays = [np.array(v, kind) for v in (low, high, step)]
        refuse(build, [(kind, ())] * 3, arrays, "range: the elements from start to stop are more than a dim can count",
               fine=[np.array(v, kind) for v in (0, 5 * step, step)])


def test_symbols_that_nothing_defines():
    for use in (lambda x: x[Dim("m")], lambda x: x[0 : Dim("m")], lambda x: ops.tile(x, [Dim("m")]),
                lambda x: x.broadcast_to(["m", 3])):
        with pytest.raises(ValueError, match="The symbol 'm' is not defined in graph 'case'"):
            compiled(use, [tensor_type("float32", (3,))])


@pytest.mark.parametrize("style, expected", [("COMPACT", "note = hello\n"), ("FULL", "note = hello\n"), ("NONE", "")])
def test_a_text_is_printed(style, expected):
    code = f"""
import sys
sys.path[:0] = {sys.path!r}
import numpy as np
from running import session, tensor_type
from kiln.graph import Graph, ops
def build(x):
    ops.print("hello", "note")
    return x
session().set_debug_print_options({style!r})
session().load(Graph("case", build, [tensor_type("float32", (3,))])).execute(np.zeros(3, np.float32))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, expected), result.stderr


def expanded(i):
    return ops.broadcast_to(ops.unsqueeze(i, -1), ["k", 3])


PARTS = {
    "slice": ("gather", lambda x, i: ops.gather(x, i, 0)[0:1]),
    "slice of a chain": ("gather", lambda x, i: (ops.exp(ops.gather(x, i, 0)) * 2)[::2]),
    "one row": ("gather", lambda x, i: ops.softmax(ops.gather(x, i, 0)[0])),
    "dead": ("gather", lambda x, i: (ops.gather(x, i, 0), x + 1)[1]),
    "shape": ("gather", lambda x, i: ops.shape_to_tensor(ops.gather(x, i, 0).shape)),
    "indices": ("gather", lambda x, i: ops.gather(x, ops.gather(ops.range(0, "n", 1, dtype=DType.int64,
                                                                         device=DeviceRef.CPU()), i, 0), 0)[0:1]),
    "not taken": ("gather", lambda x, i: ops.where(x[0:1] > 1e9, ops.gather(x, i, 0)[0:1], x[0:1])),
    "last axis": ("gather", lambda x, i: ops.gather(ops.permute(x, [1, 0]), i, 1)[:, 0:1]),
    "gather_nd": ("gather_nd", lambda x, i: ops.gather_nd(x, ops.unsqueeze(i, -1))[0:1]),
    "gather_nd, two": ("gather_nd", lambda x, i: ops.gather_nd(x, ops.stack([i, i * 0], -1))[0:1]),
    "scatter": ("scatter", lambda x, i: (ops.scatter(x, ops.cast(expanded(i), DType.float32), expanded(i), 0), x)[1]),
}


@pytest.mark.parametrize("part", PARTS)
def test_indices_that_nobody_reads_are_checked(part):
    op, build = PARTS[part]
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for k in (3, 100):
        fine = np.arange(k) % 4
        for bad in (4, -5, 2**40):
            wrong = fine.copy()
            wrong[-1] = bad
            refuse(build, [("float32", ("n", 3)), ("int64", ("k",))], [x, wrong],
                   f"{op}: index {bad} is out of bounds for axis {1 if part == 'last axis' else 0} with size 4",
                   fine=[x, fine])


def test_a_branch_that_is_not_taken_checks_no_indices():
    def build(x, i, p):
        return ops.cond(p, [tensor_type("float32", [1, 3])], lambda: ops.gather(x, i, 0)[0:1], lambda: x[0:1])

    model = compiled(build, [tensor_type("float32", [4, 3]), tensor_type("int64", ["k"]), tensor_type("bool", [])])
    x, wrong = np.ones((4, 3), np.float32), np.array([0, 4])
    assert_equal(execute(model, [x, wrong, np.array(False)])[0], x[0:1])
    with pytest.raises(ValueError, match="gather: index 4 is out of bounds for axis 0 with size 4"):
        execute(model, [x, wrong, np.array(True)])


def test_a_gather_of_rows_without_elements():
    types = [("float32", ("n", 0)), ("int64", ("k",))]
    x = np.zeros((5, 0), np.float32)
    refuse(lambda x, i: ops.gather(x, i, 0), types, [x, np.array([0, 7])],
           "gather: index 7 is out of bounds for axis 0 with size 5", fine=[x, np.array([4, -5])])


@pytest.mark.parametrize("rows", [0, 2])
def test_scatter_into_nothing(rows):
    def build(x, updates, indices):
        return ops.scatter(x, updates, indices, 0)

    types = [("float32", ("n", 3)), ("float32", ("k", 3)), ("int64", ("k", 3))]
    x = np.zeros((rows, 3), np.float32)
    refuse(build, types, [x, np.ones((1, 3), np.float32), np.full((1, 3), rows)],
           f"scatter: index {rows} is out of bounds for axis 0 with size {rows}",
           fine=[x, np.ones((0, 3), np.float32), np.zeros((0, 3), np.int64)])
