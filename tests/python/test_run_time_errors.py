"""What a call refuses, and how: framed, with the op, the user's line and the numbers that were given."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from kiln.dtype import DType
from kiln.graph import BufferType, DeviceRef, Dim, Graph, ops
from running import run, session, tensor_type

pytestmark = pytest.mark.engine

CPU = DeviceRef.CPU()


def failure(build, *arrays, shapes) -> str:
    """The text of the ValueError that running `build` raises; it must have the frame and the line."""
    types = [tensor_type(str(a.dtype), s) for a, s in zip(arrays, shapes, strict=True)]
    model = session().load(Graph("case", build, types))
    with pytest.raises(ValueError) as caught:
        model.execute(*arrays)
    text = str(caught.value)
    assert text.startswith('An error occurred in kernel entry point named "')
    lines, first = inspect.getsourcelines(build)
    places = [f"{__file__}:{first + i}" for i in range(len(lines))]
    assert any(f"({place})" in text for place in places), text
    return text


def rows(n: int, columns: int = 6) -> np.ndarray:
    return np.ones((n, columns), np.float32)


def sentence(text: str) -> str:
    return text.split("error: ", 1)[1]


@pytest.mark.parametrize("scale", [1, 2])
def test_negative_sizes_name_their_op(scale):
    text = failure(lambda x: ops.concat([x[:-1] * scale, x]), rows(0), shapes=[["n", 6]])
    assert "op 'slice_tensor' of graph 'case'" in text
    assert sentence(text) == "slice stop index -1 out of range for dimension size 0"


def test_a_static_target_of_negative_size_names_its_op():
    text = failure(lambda x: ops.broadcast_to(x[:1, :1], [Dim("n") - 5, 3]), rows(3), shapes=[["n", 6]])
    assert "op 'broadcast_to' of graph 'case'" in text
    assert sentence(text) == "broadcast_to: axis 0 of the result would have n + -5 elements, which is -2"


def test_a_run_time_target_of_negative_size_names_its_op():
    text = failure(
        lambda x, shape: ops.broadcast_to(x[:1], shape, out_dims=["a", 6]),
        rows(3),
        np.array([-2, 6]),
        shapes=[["n", 6], [2]],
    )
    assert sentence(text) == "broadcast_to: the target's extent -2 on axis 0 is negative"


def test_a_size_beyond_64_bits_names_its_op():
    text = failure(lambda x: ops.tile(x, [2**60]), np.ones(16, np.float32), shapes=[["n"]])
    assert "op 'tile' of graph 'case'" in text
    assert "tile: axis 0 of the result would have " in text and text.endswith(" elements, which does not fit 64 bits")


@pytest.mark.parametrize(
    "build",
    [
        lambda x: ops.tile(x, [2**50]),
        lambda x: ops.softmax(ops.tile(x, [2**50])),
    ],
)
def test_a_value_beyond_the_address_space_names_its_op(build):
    text = failure(build, np.ones(16, np.float32), shapes=[["n"]])
    assert sentence(text).endswith(" does not fit the address space")


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("step", [2, 2**31, 2**40 + 1, 2**63 - 1])
def test_large_steps_take_the_first_element(n, step):
    x = np.arange(n, dtype=np.float32)
    (result,) = run(lambda x: x[::step], x, shapes=[["n"]])
    np.testing.assert_array_equal(result, x[::step])


def test_a_branch_that_is_not_taken_may_have_no_size():
    def build(x, big):
        types = [tensor_type("float32", [])]
        return ops.cond(
            big, types, lambda: ops.sum(ops.concat([x[5:], x[5:]]), axis=0)[0], lambda: ops.sum(x, axis=0)[0]
        )

    (result,) = run(build, np.ones(3, np.float32), np.array(False), shapes=[["n"], []])
    assert result == 3


@pytest.mark.parametrize("index", [-10, -6, 5, 2**62])
def test_an_index_is_reported_as_given(index):
    x = np.ones(5, np.float32)
    for build, others in (
        (lambda x, i: x[i], [np.array(index)]),
        (lambda x: x[index], []),
        (lambda x: x[index] + 1, []),
    ):
        text = failure(build, x, *others, shapes=[["n"]] + [[]] * len(others))
        assert sentence(text) == f"Index {index} out of range of dim 5"


@pytest.mark.parametrize("dtype", ["uint64", "uint32", "uint8"])
def test_an_unsigned_index_is_reported_as_given(dtype):
    x, most = np.ones(5, np.float32), np.array(np.iinfo(dtype).max, dtype)
    text = failure(lambda x, i: x[i], x, most, shapes=[["n"], []])
    assert sentence(text) == f"Index {most} out of range of dim 5"
    text = failure(lambda x, i: x[(slice(i, None), "m")], x, most, shapes=[["n"], []])
    assert sentence(text) == f"slice start index {most} out of range for dimension size 5"
    text = failure(lambda x, i: ops.gather(x, i, axis=0), x, most.reshape(1), shapes=[["n"], [1]])
    assert sentence(text) == f"gather: index {most} is out of bounds for axis 0 with size 5"
    text = failure(lambda x, i: ops.gather_nd(x, i), x, most.reshape(1, 1), shapes=[["n"], [1, 1]])
    assert sentence(text) == f"gather_nd: index {most} is out of bounds for axis 0 with size 5"


@pytest.mark.parametrize("bound", [-4, 4, -(2**40)])
def test_bounds_of_slices_are_reported_as_given(bound):
    x = np.ones(3, np.float32)
    for which, build, others in (
        ("start", lambda x: x[bound:], []),
        ("stop", lambda x: x[:bound], []),
        ("start", lambda x, i: x[(slice(i, None), "m")], [np.array(bound)]),
        ("stop", lambda x, i: x[(slice(None, i), "m")], [np.array(bound)]),
    ):
        text = failure(build, x, *others, shapes=[["n"]] + [[]] * len(others))
        assert sentence(text) == f"slice {which} index {bound} out of range for dimension size 3"


def test_bounds_in_the_wrong_order_are_reported_as_given():
    x = np.ones(5, np.float32)
    order = "start and stop should be increasing for positive step and decreasing for negative step, but got "
    text = failure(lambda x, i: x[(slice(i, -4), "m")], x, np.array(-2), shapes=[["n"], []])
    assert sentence(text) == order + "start -2, stop -4 for step 1"
    text = failure(lambda x: x[3:-3], x, shapes=[["n"]])
    assert sentence(text) == order + "start 3, stop -3 for step 1"
    with pytest.raises(ValueError, match="start -2, stop -4 for step 1"):
        Graph("case", lambda x: x[-2:-4], [tensor_type("float32", [5])])


def test_slices_that_are_stored_report_the_bound_as_given():
    def build(state):
        ops.buffer_store_slice(state, ops.constant(np.ones(1, np.float32), device=CPU), [(slice(-7, -6), 1)])

    model = session().load(Graph("case", build, [BufferType(DType.float32, ["n"], CPU)]))
    with pytest.raises(ValueError, match="slice start index -7 out of range for dimension size 5"):
        model.execute(np.zeros(5, np.float32))


def test_rebind_shows_the_numbers_of_both_shapes():
    text = failure(lambda x, y: ops.rebind(x, ["m", 2]) + y, np.ones((3, 2), np.float32), np.ones((4, 2), np.float32),
                   shapes=[["n", 2], ["m", 2]])
    assert sentence(text) == (
        "rebind shape check failed: \nexpected shape: [m = 4, 2]\nactual shape: [n = 3, 2]"
    )


def test_rebind_shows_a_number_that_it_has_just_found():
    text = failure(lambda x: ops.rebind(x, ["new", "new"], "square"), rows(3, 2), shapes=[["n", "m"]])
    assert sentence(text) == (
        "rebind shape check failed: square\nexpected shape: [new = 3, new = 3]\nactual shape: [n = 3, m = 2]"
    )
    text = failure(lambda x: ops.rebind(x, [2 * Dim("half"), 2]), rows(3, 2), shapes=[["n", 2]])
    assert "\nactual shape: [n = 3, 2]" in text


def test_rebind_does_not_make_a_negative_size():
    text = failure(lambda x: ops.rebind(x, [Dim("rest") + 5]), np.ones(3, np.float32), shapes=[["n"]])
    assert sentence(text).startswith("rebind shape check failed: ")


@pytest.mark.parametrize(("n", "m"), [(5, 2), (2, 5), (3, 3), (0, 4), (4, 0)])
def test_ranges_between_sizes_may_be_empty(n, m):
    def build(x, y):
        r = ops.range(Dim("n"), Dim("m"), 1, dtype=DType.int64, device=CPU)
        down = ops.range(Dim("n"), Dim("m"), -2, dtype=DType.int64, device=CPU)
        return [
            r,
            r + 1,
            ops.concat([r, down * 10]),
            ops.sum(r, axis=0),
            ops.unsqueeze(r, 1) * ops.unsqueeze(down, 0),
            r[::2],
        ]

    results = run(build, np.zeros(n, np.float32), np.zeros(m, np.float32), shapes=[["n"], ["m"]])
    up, down = np.arange(n, m), np.arange(n, m, -2)
    expected = [up, up + 1, np.concatenate([up, down * 10]), up.sum(keepdims=True), np.outer(up, down), up[::2]]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("n", [0, 3, 5, 8])
def test_ranges_of_one_length_meet(n):
    def build(x):
        low = ops.range(0, Dim("n") - 5, 1, dtype=DType.int64, device=CPU)
        high = ops.range(1, Dim("n") - 4, 1, dtype=DType.int64, device=CPU)
        return [low, low + high, ops.concat([high, low * low])]

    low = np.arange(0, n - 5)
    high = low + 1
    results = run(build, np.zeros(n, np.float32), shapes=[["n"]])
    for result, wanted in zip(results, [low, low + high, np.concatenate([high, low * low])], strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_the_size_of_a_range_that_is_empty_has_a_name():
    def build(x, y):
        return y + ops.rebind(ops.range(0, Dim("n") - 5, 1, dtype=DType.int64, device=CPU), ["m"])

    text = failure(build, np.zeros(3, np.float32), np.ones(2, np.int64), shapes=[["n"], ["m"]])
    assert sentence(text).startswith("rebind shape check failed: ")
    assert text.endswith("expected shape: [m = 2]\nactual shape: [max(0, n + -5) = 0]")


def test_a_range_that_may_be_empty_keeps_its_type():
    types = [tensor_type("float32", ["n"]), tensor_type("float32", ["m"])]
    graph = Graph("case", lambda x, y: ops.range(Dim("n"), Dim("m"), 1, dtype=DType.int64, device=CPU), types)
    text = str(session().load(graph).output_metadata[0])
    assert "int64" in text and "kiln" not in text


@pytest.mark.parametrize(("n", "m"), [(5, 2), (2, 5)])
def test_a_range_with_a_size_from_elsewhere_is_checked(n, m):
    def build(x, y):
        length = Dim("m") - Dim("n")
        return ops.range(Dim("n"), Dim("m"), 1, dtype=DType.float32, device=CPU) + ops.rebind(x[:2], [length])

    arrays = np.zeros(n, np.float32), np.zeros(m, np.float32)
    text = failure(build, *arrays, shapes=[["n"], ["m"]])
    assert str(m - n) in sentence(text)
