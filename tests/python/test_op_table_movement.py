"""Ops that move data, products, norms and selections against NumPy."""

import itertools
import math

import numpy as np
import pytest
from running import (
    BOOL,
    FLOATS,
    INTS,
    NUMBERS,
    SMALL_FLOATS,
    assert_equal,
    assert_ulp,
    compiled,
    execute,
    generator,
    numpy_type,
    run,
    sample,
    tensor_type,
    ulp_of,
    unit,
)

from kiln.driver import CPU, Buffer
from kiln.dtype import DType
from kiln.graph import BufferType, DeviceRef, ops

pytestmark = pytest.mark.compiler
MOVED = BOOL + NUMBERS + SMALL_FLOATS


def values(rng, dtype, shape):
    if dtype in SMALL_FLOATS:
        return rng.integers(0, 128, shape).astype(np.uint8).view(numpy_type(dtype))
    return sample(rng, dtype, shape)


def bits(array):
    """What a move must keep: every bit, NaN payloads included."""
    return array.view(f"u{array.dtype.itemsize}")


# name: op, oracle, cases of (input shapes with symbols, actual shapes)
MOVES = {
    "reshape": (lambda x: ops.reshape(x, [-1, 2]), lambda x: x.reshape(-1, 2), [((3, 4), (3, 4)), (("n", 4), (3, 4)),
                                                                               (("n", 4), (0, 4))]),
    "flatten": (lambda x: ops.flatten(x, 1), lambda x: x.reshape(x.shape[0], -1), [((2, 3, 4), (2, 3, 4)),
                                                                                   (("a", "b", 2), (2, 0, 2))]),
    "broadcast_to": (lambda x: ops.broadcast_to(x, [5, 2, 3]), lambda x: np.broadcast_to(x, (5, 2, 3)),
                     [((2, 1), (2, 1)), ((3,), (3,)), ((), ()), ((1, 1, 3), (1, 1, 3))]),
    "transpose": (lambda x: ops.transpose(x, 0, -1), lambda x: np.swapaxes(x, 0, -1),
                  [((3, 5), (3, 5)), (("a", "b", "c"), (2, 3, 4)), (("a", "b"), (0, 3)), ((40, 33), (40, 33))]),
    "permute": (lambda x: ops.permute(x, [2, 0, 1]), lambda x: np.transpose(x, (2, 0, 1)),
                [((2, 3, 4), (2, 3, 4)), (("a", "b", "c"), (5, 1, 7))]),
    "squeeze": (lambda x: ops.squeeze(x, 1), lambda x: x[:, 0], [(("n", 1), (3, 1)), ((2, 1, 3), (2, 1, 3))]),
    "unsqueeze": (lambda x: ops.unsqueeze(x, -1), lambda x: x[..., None], [(("n",), (3,)), ((), ())]),
    "concat": (lambda x, y: ops.concat([x, y, x], 1), lambda x, y: np.concatenate([x, y, x], 1),
               [((2, 3), (2, 4), (2, 3), (2, 4)), (("n", "a"), ("n", "b"), (2, 3), (2, 0))]),
    "stack": (lambda x, y: ops.stack([x, y], -1), lambda x, y: np.stack([x, y], -1),
              [((2, 3), (2, 3), (2, 3), (2, 3)), (("n",), ("n",), (5,), (5,))]),
    "split": (lambda x: ops.split(x, [1, 0, 3], -1), lambda x: np.split(x, [1, 1], -1), [(("n", 4), (3, 4))]),
    "chunk": (lambda x: ops.chunk(x, 2, 0), lambda x: np.split(x, 2, 0), [((4, "n"), (4, 3))]),
    "slice": (lambda x: [x[1], x[:, 1:3], x[..., -1], x[::-1, ::2], x[None, 0, ..., None], x[-1, -2:]],
              lambda x: [x[1], x[:, 1:3], x[..., -1], x[::-1, ::2], x[None, 0, ..., None], x[-1, -2:]],
              [((3, 4), (3, 4)), ((2, 5, 3), (2, 5, 3))]),
    "slice_symbolic": (lambda x: [x[1:], x[:-1], x[0:2], x[::2], x[-2], x[1::3]],
                       lambda x: [x[1:], x[:-1], x[0:2], x[::2], x[-2], x[1::3]],
                       [(("n", 3), (5, 3)), (("n",), (9,)), (("n", "m"), (2, 0))]),
    "pad": (lambda x: ops.pad(x, [1, 2, 0, 3]), lambda x: np.pad(x, [(1, 2), (0, 3)]), [(("n", 2), (3, 2)),
                                                                                        ((0, 2), (0, 2))]),
    "pad_reflect": (lambda x: ops.pad(x, [1, 5, 4, 0], "reflect"), lambda x: np.pad(x, [(1, 5), (4, 0)], "reflect"),
                    [(("n", 3), (4, 3)), ((1, 2), (1, 2))]),
    "pad_edge": (lambda x: ops.pad(x, [1, 2, 3, 0], "edge"), lambda x: np.pad(x, [(1, 2), (3, 0)], "edge"),
                 [(("n", 3), (4, 3)), ((1, 2), (1, 2))]),
    "tile": (lambda x: ops.tile(x, [2, 3]), lambda x: np.tile(x, (2, 3)), [(("n", 3), (4, 3)), ((0, 2), (0, 2))]),
}


@pytest.mark.parametrize("dtype", MOVED)
@pytest.mark.parametrize("name", MOVES)
def test_move(name, dtype):
    if name == "pad" and dtype == "float8_e8m0fnu":
        name = "pad_edge"  # the type has no zero to pad with
    op, oracle, cases = MOVES[name]
    rng = generator(name, dtype)
    types, arrays, counts = [], [], []
    for i, case in enumerate(cases):
        half = len(case) // 2
        for symbolic, actual in zip(case[:half], case[half:]):
            types.append(tensor_type(dtype, [f"{d}{i}" if isinstance(d, str) else d for d in symbolic]))
            arrays.append(values(rng, dtype, actual))
        counts.append(half)

    def build(*xs):
        remaining, results = iter(xs), []
        for count in counts:
            made = op(*itertools.islice(remaining, count))
            results += made if isinstance(made, list) else [made]
        return results

    expected, remaining = [], iter(arrays)
    for count in counts:
        made = oracle(*itertools.islice(remaining, count))
        expected += made if isinstance(made, list) else [made]
    results = execute(compiled(build, types, name), arrays)
    assert len(results) == len(expected)
    for got, want in zip(results, expected):
        assert got.dtype == want.dtype
        assert_equal(bits(got), bits(np.ascontiguousarray(want).reshape(want.shape)))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_the_end_of_a_row_leaves_what_lies_behind(dtype):
    """Rows whose last vector has any number of elements, behind each of which other ones lie already."""
    widths = [*range(1, 19), 31, 32, 33, 63, 64, 65, 127, 128, 129]
    x = generator("row end", dtype).integers(1, 60, (3, max(widths))).astype(numpy_type(dtype))
    y = generator("row end", "wide", dtype).integers(1, 60, x.shape).astype("float64" if dtype in INTS else "int64")

    def rows(x, y, cast, join):
        for n in widths:
            yield join([x[:, :n], x[:, :n] - x[:, :n]], 1)
            yield join([x[:, :n], cast(y[:, :n])], 1)

    results = run(lambda x, y: list(rows(x, y, lambda v: ops.cast(v, getattr(DType, dtype)), ops.concat)), x, y)
    expected = rows(x, y, lambda v: v.astype(numpy_type(dtype)), np.concatenate)
    for got, wanted in zip(results, expected, strict=True):
        assert_equal(got, wanted)


def test_slice_bounds_are_checked_at_run():
    model = compiled(lambda x: [x[2:4], x[3]], [tensor_type("float32", ["n"])])
    assert [r.tolist() for r in execute(model, [np.arange(5, dtype=np.float32)])] == [[2, 3], 3]
    for size in (0, 1, 3):
        with pytest.raises(ValueError):
            execute(model, [np.zeros(size, np.float32)])
    assert execute(model, [np.arange(4, dtype=np.float32)])[1] == 3


def test_slices_by_tensors():
    types = [tensor_type("float32", ["n", 3]), tensor_type("int64", [])]
    model = compiled(lambda x, i: [x[i], x[(slice(i, None), "k"), :]], types)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for i in (0, 1, 3, -1):
        picked = execute(model, [x, np.array(i)])
        assert_equal(picked[0], x[i])
        assert_equal(picked[1], x[i:])
    for i in (4, -5, 2**40):
        with pytest.raises(ValueError):
            execute(model, [x, np.array(i)])


@pytest.mark.parametrize("size", ["n", 7])
def test_slices_whose_step_is_a_tensor(size):
    types = [tensor_type("float32", [size, 3]), tensor_type("int64", []), tensor_type("int32", []),
             tensor_type("uint64", [])]
    model = compiled(lambda x, a, s, u: [x[(slice(None, None, s), "k")], x[(slice(a, None, s), "m"), 1] * 2,
                                         ops.exp(x)[(slice(1, a, u), "p"), ::2]], types)
    x = np.arange(21, dtype=np.float32).reshape(7, 3)
    for a in (1, 4, 7, -2):
        for s in (1, 2, 3, 7, 100, 2**31 - 1):
            u = 2**63 - 1 if s == 100 else s
            got = execute(model, [x, np.array(a), np.array(s, np.int32), np.array(u, np.uint64)])
            assert_equal(got[0], x[::s])
            assert_equal(got[1], x[a::s, 1] * 2)
            np.testing.assert_allclose(got[2], np.exp(x.astype(np.float64))[1:a:u, ::2], rtol=1e-6)
    for s, u, shown in ((0, 1, 0), (-1, 1, -1), (1, 0, 0), (1, 2**63, 2**63)):
        with pytest.raises(ValueError, match=f"expected positive integer step but got {shown}\\b"):
            execute(model, [x, np.array(4), np.array(s, np.int32), np.array(u, np.uint64)])


def test_buffers_are_read_and_written_with_steps_that_are_tensors():
    types = [BufferType(DType.float32, [8], DeviceRef.CPU()), tensor_type("int64", []), tensor_type("float32", ["k"])]

    def body(b, s, x):
        old = b[(slice(None, None, s), "k")]
        ops.buffer_store_slice(b, x, [(slice(None, None, s), "k")])
        return old * 1

    model = compiled(body, types)
    for s in (1, 2, 3, 8):
        held = np.arange(8, dtype=np.float32)
        buffer = Buffer.from_numpy(held.copy())
        expected = held.copy()
        expected[::s] = -1
        old = model.execute(buffer, np.array(s), np.full(len(held[::s]), -1, np.float32))[0].to_numpy()
        assert_equal(old, held[::s])
        assert_equal(buffer.to_numpy(), expected)


def test_rebind():
    types = [tensor_type("float32", ["n"]), tensor_type("float32", ["m"])]
    model = compiled(lambda x, y: x + ops.rebind(y, ["n"], "sizes agree"), types)
    x = np.ones(3, np.float32)
    assert_equal(execute(model, [x, x])[0], x + x)
    with pytest.raises(ValueError, match="rebind shape check failed: sizes agree"):
        execute(model, [x, np.ones(4, np.float32)])


def test_range():
    model = compiled(lambda x: [ops.range(0, x.shape[0], dtype=DType.int64, device=CPU()),
                                ops.range(x.shape[0], 0, -2, dtype=DType.float32, device=CPU()),
                                ops.shape_to_tensor(x.shape)], [tensor_type("float32", ["n", 2])])
    for n in (0, 1, 7):
        a, b, c = execute(model, [np.zeros((n, 2), np.float32)])
        assert a.tolist() == list(range(n)) and b.tolist() == list(range(n, 0, -2)) and c.tolist() == [n, 2]
    model = compiled(lambda: [ops.range(1, 2, 0.25, dtype=DType.float64, device=CPU())], [])
    assert execute(model, [])[0].tolist() == np.arange(1, 2, 0.25).tolist()


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_ranges_over_all_of_an_integer(dtype):
    info = np.iinfo(dtype)
    low, high, span = int(info.min), int(info.max), int(info.max) - int(info.min)
    kind = getattr(DType, dtype)
    model = compiled(lambda a, b, s: ops.range(a, b, s, out_dim="k", dtype=kind, device=CPU()),
                     [tensor_type(dtype, [])] * 3)
    cases = [(low, high, max(span // 7, 1) if span // 7 <= high else high), (0, high, high // 3), (low, low, 1),
             (high - 5, high, 2), (low, low + 9, 4)]
    if low < 0:
        cases += [(high, low, -(high // 2)), (low + 9, low, -4), (high, low, low), (0, low, low), (5, -5, -3)]
    for start, stop, step in cases:
        got = execute(model, [np.array(v, dtype) for v in (start, stop, step)])[0]
        assert got.tolist() == list(range(start, stop, step)), (start, stop, step)


# Gathering and scattering

INDICES = ["int8", "uint8", "int16", "int32", "int64", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "float64"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(dtype, axis):
    rng = generator("gather", dtype, axis)
    x = values(rng, dtype, (5, 6, 4))
    index = rng.integers(-x.shape[axis], x.shape[axis], (2, 3))
    types = [tensor_type(dtype, ["a", "b", "c"]), tensor_type("int64", ["i", 3])]
    model = compiled(lambda x, i: ops.gather(x, i, axis), types)
    assert_equal(bits(execute(model, [x, index])[0]), bits(np.take(x, index, axis)))
    assert execute(model, [x, index[:0]])[0].size == 0
    bad = index.copy()
    bad[1, 1] = x.shape[axis]
    with pytest.raises(ValueError, match=f"gather: index {x.shape[axis]} is out of bounds for axis {axis % 3} with "
                                         f"size {x.shape[axis]}"):
        execute(model, [x, bad])


@pytest.mark.parametrize("index_type", INDICES)
def test_gather_takes_any_integers(index_type):
    x = np.arange(10, dtype=np.float32)
    index = np.array([0, 3, 9], index_type)
    assert_equal(run(lambda x, i: ops.gather(x, i, 0), x, index)[0], x[[0, 3, 9]])


def test_gather_nd():
    rng = generator("gather_nd")
    x = sample(rng, "float32", (2, 3, 4))
    index = np.array([[0, 0], [1, 2], [-1, -3]])
    assert_equal(run(lambda x, i: ops.gather_nd(x, i), x, index, shapes=[["a", "b", 4], ["n", 2]])[0],
                 x[tuple(np.moveaxis(index, -1, 0))])
    batched = rng.integers(0, 3, (2, 5, 1))
    expected = np.stack([x[b][batched[b, :, 0]] for b in range(2)])
    assert_equal(run(lambda x, i: ops.gather_nd(x, i, batch_dims=1), x, batched)[0], expected)
    with pytest.raises(ValueError):
        run(lambda x, i: ops.gather_nd(x, i), x, np.array([[2, 0]]))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "int16", "bool"])
def test_scatter(dtype, axis):
    rng = generator("scatter", dtype, axis)
    x, updates = values(rng, dtype, (4, 5)), values(rng, dtype, (3, 4))
    index = rng.integers(-x.shape[axis], x.shape[axis], (3, 4))
    expected = x.copy()
    for position in np.ndindex(index.shape):
        target = list(position)
        target[axis] = index[position]
        expected[tuple(target)] = updates[position]
    got = run(lambda x, u, i: ops.scatter(x, u, i, axis), x, updates, index)[0]
    assert_equal(bits(got), bits(expected))


# Products

MATMULS = [((2, 3), (3, 4)), ((1, 1), (1, 1)), ((5,), (5, 3)), ((2, 5), (5,)), ((7,), (7,)), ((2, 3, 4), (4, 5)),
           ((2, 1, 3, 4), (5, 4, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((17, 33), (33, 65)), ((1, 128), (128, 96)),
           ((64, 64), (64, 64)), ((3, 7, 8), (3, 8, 1)), ((130,), (130,)), ((3, 1, 40), (3, 40, 21)), ((1, 0), (0, 5)),
           ((0, 4), (4, 1)), ((2, 1, 1, 9), (3, 9, 1)), ((33,), (33, 70))]


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_matmul(dtype, symbolic):
    rng = generator("matmul", dtype)
    arrays, types = [], []
    for i, (a, b) in enumerate(MATMULS):
        arrays += [sample(rng, dtype, a, False), sample(rng, dtype, b, False)]
        left, right = list(a), list(b)
        if symbolic:
            left[-1] = right[-2 if len(b) > 1 else -1] = f"k{i}"
            if len(a) > 1:
                left[-2] = f"m{i}"
        types += [tensor_type(dtype, left), tensor_type(dtype, right)]

    def build(*xs):
        return [xs[i] @ xs[i + 1] for i in range(0, len(xs), 2)]

    results = execute(compiled(build, types, "matmul"), arrays)
    for i, got in enumerate(results):
        a, b = arrays[2 * i], arrays[2 * i + 1]
        if dtype in INTS:
            with np.errstate(all="ignore"):
                assert_equal(got, np.asarray(np.matmul(a, b), a.dtype))
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        exact, size = np.asarray(a @ b), np.asarray(np.abs(a) @ np.abs(b))
        eps = 2.0**-52 if dtype == "float64" else 2.0**-23
        rounding = 0 if dtype in ("float32", "float64") else np.abs(exact) * unit(dtype)
        assert_ulp(got, exact, 1, a.shape[-1] * eps * size + rounding)


def test_matmul_keeps_nan_and_infinity():
    a = np.array([[1, np.nan], [np.inf, 0]], np.float32)
    assert_equal(run(ops.matmul, a, np.eye(2, dtype=np.float32))[0], a @ np.eye(2, dtype=np.float32))


def test_outer():
    a, b = np.arange(3, dtype=np.float32), np.arange(4, dtype=np.float32)
    assert_equal(run(ops.outer, a, b, shapes=[["n"], ["m"]])[0], np.outer(a, b))


# Norms and selections


@pytest.mark.parametrize("dtype", FLOATS)
def test_layer_norm(dtype):
    rng = generator("layer_norm", dtype)
    for shape in ((4, 64), (2, 3, 7), (1, 1), (0, 5)):
        x, gamma, beta = (sample(rng, dtype, s, False) for s in (shape, shape[-1:], shape[-1:]))
        got = run(lambda x, g, b: ops.layer_norm(x, g, b, 1e-5), x, gamma, beta,
                  shapes=[[f"d{i}" for i in range(x.ndim - 1)] + [shape[-1]], shape[-1:], shape[-1:]])[0]
        wide = x.astype(np.float64)
        centred = wide - wide.mean(-1, keepdims=True) if x.size else wide
        exact = gamma.astype(np.float64) * centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        exact = exact + beta.astype(np.float64)
        slack = norm_slack(dtype, exact, np.abs(gamma.astype(np.float64)) + np.abs(beta.astype(np.float64)))
        assert_ulp(got, exact, ulp_of(dtype), slack)


def norm_slack(dtype, exact, scale):
    if dtype == "float64":
        return 1e-13 * (np.abs(exact) + scale)
    rounding = 0 if dtype == "float32" else np.abs(exact) * unit(dtype)
    return 1e-5 * (np.abs(exact) + scale) + rounding


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_rms_norm(dtype, before):
    rng = generator("rms_norm", dtype)
    kind = numpy_type(dtype)
    for shape in ((4, 64), (2, 3, 7), (0, 5)):
        x, weight = sample(rng, dtype, shape, False), sample(rng, dtype, shape[-1:], False)
        got = run(lambda x, w: ops.rms_norm(x, w, 1e-6, 1.0, before), x, weight)[0]
        wide, w = x.astype(np.float64), weight.astype(np.float64) + 1
        r = 1 / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6) if x.size else np.ones(shape[:-1] + (1,))
        exact = wide * r * w
        slack = norm_slack(dtype, exact, 1e-3)
        if not before and dtype in ("float16", "bfloat16"):
            exact = (wide * r).astype(kind).astype(np.float64) * (weight.astype(np.float64) + 1).astype(kind).astype(
                np.float64)
            slack = slack + 2 * np.abs(exact) * unit(dtype)
        assert_ulp(got, exact, ulp_of(dtype), slack)


@pytest.mark.parametrize("k", [0, 1, 3, 7])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_top_k(dtype, k):
    rng = generator("top_k", dtype, k)
    x = sample(rng, dtype, (5, 7))
    x[2] = x[2, 0]  # ties go to the lower index
    got_values, got_indices = run(lambda x: ops.top_k(x, k), x, shapes=[["n", 7]])
    keys = x.astype(np.float64) if dtype in FLOATS else x.astype(object)
    if dtype in FLOATS:
        keys = np.where(np.isnan(keys), np.inf, keys)
        nan_first = [sorted(range(7), key=lambda j: (not np.isnan(float(x[i, j])), -keys[i, j], j)) for i in range(5)]
        expected = np.array(nan_first)[:, :k]
    else:
        expected = np.array([sorted(range(7), key=lambda j: (-keys[i, j], j)) for i in range(5)])[:, :k]
    assert_equal(got_indices, expected.astype(np.int64).reshape(5, k))
    assert_equal(got_values, np.take_along_axis(x, expected.astype(np.int64).reshape(5, k), 1))


@pytest.mark.parametrize(("shape", "axis"), [((3, 5000), 1), ((5000, 3), 0), ((2, 400, 5), 1), ((4000,), 0),
                                             ((0, 40), 1)])
@pytest.mark.parametrize("k", [1, 15, 40, 300])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bfloat16"])
def test_top_k_of_long_rows(dtype, k, shape, axis):
    rng = generator("long top_k", dtype, k, shape)
    k = min(k, shape[axis])
    x = rng.integers(-100 if dtype != "uint8" else 0, 100, shape).astype(numpy_type(dtype))  # with many ties
    if dtype in FLOATS and x.size:
        x.reshape(-1)[[0, 7, -1]] = np.nan, -0.0, np.inf
    got_values, got_indices = run(lambda x: ops.top_k(x, k, axis), x)
    wide = x.astype(np.float64)
    order = np.argsort(-np.where(np.isnan(wide), np.inf, wide), axis=axis, kind="stable")
    # NaN comes before infinity.
    if dtype in FLOATS:
        order = np.take_along_axis(order, np.argsort(~np.isnan(np.take_along_axis(wide, order, axis)), axis=axis,
                                                     kind="stable"), axis)
    expected = np.take(order, np.arange(k), axis)
    assert_equal(got_indices, expected.astype(np.int64))
    assert_equal(got_values, np.take_along_axis(x, expected, axis))


@pytest.mark.parametrize(("shape", "axis"), [((5, 7), 1), ((7, 5), 0), ((3, 900), -1), ((2, 60, 3), 1), ((0, 4), 1)])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_bottom_k(dtype, shape, axis):
    x = sample(generator("bottom_k", dtype, shape), dtype, shape)
    order = np.argsort(x.astype(np.float64) if dtype in FLOATS else x, axis=axis, kind="stable")
    for k in (0, 1, 4, shape[axis]):
        values, indices = run(lambda x, k=k: ops.bottom_k(x, k, axis), x)
        expected = np.take(order, np.arange(k), axis)
        assert_equal(indices, expected.astype(np.int64))
        assert_equal(values, np.take_along_axis(x, expected, axis))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_argsort(dtype):
    for n in (0, 1, 2, 17, 300):
        x = sample(generator("argsort", dtype, n), dtype, (n,))
        x[n // 2 :] = x[: n - n // 2]  # ties
        keys = x.astype(np.float64) if dtype in FLOATS else x
        up, down = run(lambda x: [ops.argsort(x), ops.argsort(x, ascending=False)], x, shapes=[["n"]])
        assert_equal(up, np.argsort(keys, kind="stable").astype(np.int64))
        assert_equal(down, (n - 1 - np.argsort(keys[::-1], kind="stable")[::-1]).astype(np.int64))
    with pytest.raises(ValueError, match="argsort only implemented for input tensors of rank 1"):
        run(lambda x: ops.argsort(x), np.ones((2, 2), np.float32))


def test_softmax_extremes():
    x = np.array([[-math.inf] * 3, [1, math.inf, 2], [1e30, -1e30, 0], [math.nan, 0, 1], [88, 89, -1000]], np.float32)
    got = run(ops.softmax, x)[0]
    assert np.isnan(got[0]).all() and np.isnan(got[1]).all() and np.isnan(got[3]).all()
    assert got[2].tolist() == [1, 0, 0]
    wide = x[4].astype(np.float64)
    assert_ulp(got[4], np.exp(wide - 89) / np.exp(wide - 89).sum(), 8)


@pytest.mark.parametrize("dtype", ["float32", "int64", "float64", "uint32", "bfloat16"])
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("shape, order", [((70, 5), [1, 0]), ((5, 70), [1, 0]), ((64, 64), [1, 0]), ((1, 130), [1, 0]),
                                          ((2, 19, 3, 33), [0, 2, 3, 1]), ((2, 3, 33, 19), [0, 3, 1, 2]),
                                          ((3, 17, 2, 20), [3, 1, 0, 2]), ((0, 7, 9), [0, 2, 1])])
def test_copies_that_turn_the_last_axis(dtype, symbolic, shape, order):
    x = values(generator("turned", dtype), dtype, shape)
    shapes = [[f"d{i}" for i in range(len(shape))]] if symbolic else None
    assert_equal(bits(run(lambda x: ops.permute(x, order), x, shapes=shapes)[0]), bits(np.transpose(x, order)))
    part = (slice(None),) * (len(shape) - 2) + (slice(1, None), slice(None, None, 2))
    if 0 not in shape:
        got = run(lambda x: ops.permute(x[part], order), x)[0]
        assert_equal(bits(got), bits(np.ascontiguousarray(np.transpose(x[part], order))))
        got = run(lambda x: ops.permute(x[part[:-1]], order), x)[0]
        assert_equal(bits(got), bits(np.ascontiguousarray(np.transpose(x[part[:-1]], order))))
