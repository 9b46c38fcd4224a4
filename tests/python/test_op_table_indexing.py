"""Scatters, running sums and ops whose size the data decides, against NumPy."""

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
    unit,
)
from test_op_table_movement import bits, values

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.graph import Graph, TensorType, ops

pytestmark = pytest.mark.compiler

COMBINERS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
HALVES = ["float16", "bfloat16"]


def accumulator(dtype):
    """What a chain of float32 and float64 operations is made in; halves are rounded once."""
    return np.dtype("float32") if dtype in HALVES else numpy_type(dtype)


def scattered(x, updates, index, axis, combine):
    out = x.astype(accumulator(str(x.dtype)))
    for position in np.ndindex(index.shape):
        target = list(position)
        target[axis] = index[position]
        target = tuple(target)
        update = updates[position].astype(out.dtype)
        out[target] = update if combine is None else combine(out[target], update)
    return out.astype(x.dtype)


def scattered_nd(x, updates, index, combine):
    out = x.astype(accumulator(str(x.dtype)))
    for position in np.ndindex(index.shape[:-1]):
        target = tuple(index[position])
        update = updates[position].astype(out.dtype)
        out[target] = update if combine is None else combine(out[target], update)
    return out.astype(x.dtype)


def numbers_for(rng, name, dtype, shape):
    """Integers as floats where an order of sums or another rounding would show."""
    if dtype in FLOATS and name in ("add", "mul"):
        return rng.integers(-3, 4, shape).astype(numpy_type(dtype))
    return sample(rng, dtype, shape)


@pytest.mark.parametrize("name", COMBINERS)
@pytest.mark.parametrize("dtype", NUMBERS + BOOL)
def test_scatter_combining(name, dtype):
    if dtype == "bool" and name in ("add", "mul"):
        with pytest.raises(ValueError, match=f"op 'scatter_{name}' does not support dtype DType.bool"):
            run(lambda x, i: getattr(ops, f"scatter_{name}")(x, x, i), np.ones(3, bool), np.zeros(3, np.int64))
        return
    rng = generator("scatter", name, dtype)
    op = getattr(ops, f"scatter_{name}")
    for axis, index_type in ((0, np.int32), (1, np.int64), (-1, np.int64)):
        x, updates = numbers_for(rng, name, dtype, (4, 5)), numbers_for(rng, name, dtype, (3, 4))
        index = rng.integers(-x.shape[axis], x.shape[axis], (3, 4)).astype(index_type)
        with np.errstate(all="ignore"):
            expected = scattered(x, updates, index, axis, COMBINERS[name])
        for shapes in (None, [["a", "b"], ["c", "d"], ["c", "d"]]):
            got = run(lambda x, u, i: op(x, u, i, axis), x, updates, index, shapes=shapes)[0]
            assert_equal(got, expected)


@pytest.mark.parametrize("name", [None, *COMBINERS])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int8", "uint64", "bool"])
def test_scatter_nd(name, dtype):
    if dtype == "bool" and name in ("add", "mul"):
        return
    rng = generator("scatter_nd", name, dtype)
    op = getattr(ops, f"scatter_nd_{name}" if name else "scatter_nd")
    # Elements, rows and planes; rows that fill vectors and tails; no index at all.
    for shape, rows, depth in [((4, 5), (7,), 2), ((6, 37), (9,), 1), ((3, 4, 20), (2, 3), 2), ((5,), (0,), 1),
                               ((3, 2), (2,), 0), ((4, 0), (3,), 1)]:
        x = numbers_for(rng, name, dtype, shape)
        updates = numbers_for(rng, name, dtype, rows + shape[depth:])
        index = np.zeros(rows + (0,), int)
        if depth:
            index = np.stack([rng.integers(-n, n, rows) for n in shape[:depth]], -1)
        with np.errstate(all="ignore"):
            expected = scattered_nd(x, updates, index, COMBINERS[name] if name else None)
        symbolic = [[f"x{i}" for i in range(len(shape))], [f"r{i}" for i in range(len(rows))]]
        symbolic += [symbolic[1] + [depth]]
        symbolic[1] = symbolic[1] + symbolic[0][depth:]
        for shapes in (None, symbolic):
            assert_equal(run(op, x, updates, index, shapes=shapes)[0], expected)


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_scatter_nd_moves_any_element(dtype):
    rng = generator("scatter_nd", dtype)
    x, updates = values(rng, dtype, (4, 3)), values(rng, dtype, (2, 3))
    expected = x.copy()
    expected[[1, 3]] = updates
    assert_equal(bits(run(ops.scatter_nd, x, updates, np.array([[1], [-1]]))[0]), bits(expected))
    with pytest.raises(ValueError, match="op 'scatter_nd_max' does not support dtype"):
        run(ops.scatter_nd_max, x, updates, np.array([[1], [-1]]))


def test_duplicates_of_halves_are_rounded_once():
    # Each added alone to 2048 would vanish.
    x, ones = np.array([2048], np.float16), np.ones(8, np.float16)
    index = np.zeros((8, 1), np.int64)
    assert run(ops.scatter_nd_add, x, ones, index)[0].tolist() == [2056]
    assert run(lambda x, u, i: ops.scatter_add(x, u, i, 0), x, ones, index[:, 0])[0].tolist() == [2056]


@pytest.mark.parametrize("bad", [3, -4, 2**40])
def test_scatter_refuses_indices(bad):
    x, index = np.zeros((2, 3), np.float32), np.array([[0, 0], [1, bad]])
    with pytest.raises(ValueError, match=f"scatter_nd_add: index {bad} is out of bounds for axis 1 with size 3"):
        run(ops.scatter_nd_add, x, np.ones(2, np.float32), index, shapes=[["n", 3], ["k"], ["k", 2]])
    with pytest.raises(ValueError, match=f"scatter_max: index {bad} is out of bounds for axis 1 with size 3"):
        run(ops.scatter_max, x, np.ones((1, 2), np.float32), index[1:])
    # Also when nobody reads the result.
    with pytest.raises(ValueError, match=f"scatter_nd: index {bad} is out of bounds"):
        run(lambda x, u, i: (ops.scatter_nd(x, u, i), x)[1], x, np.ones(2, np.float32), index)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum(dtype, exclusive, reverse):
    rng = generator("cumsum", dtype, exclusive, reverse)
    cases = [((7,), 0), ((3, 130), -1), ((5, 4, 67), 1), ((4, 3), 0), ((0, 3), 0), ((3, 0), 1), ((2, 0, 3), 0)]
    arrays = [sample(rng, dtype, shape, dtype in INTS) for shape, _ in cases]
    types = [tensor_type(dtype, [f"d{i}{k}" if i % 2 else n for k, n in enumerate(shape)])
             for i, (shape, _) in enumerate(cases)]

    def build(*xs):
        return [ops.cumsum(x, axis, exclusive, reverse) for x, (_, axis) in zip(xs, cases)]

    for got, x, (_, axis) in zip(execute(compiled(build, types, "cumsum"), arrays), arrays, cases):
        wide = x if dtype in INTS else x.astype(np.float64)
        ordered = np.flip(wide, axis) if reverse else wide
        with np.errstate(all="ignore"):
            exact = np.cumsum(ordered, axis, dtype=wide.dtype)
        if exclusive:
            exact = np.roll(exact, 1, axis)
            exact[tuple([slice(None)] * (axis % x.ndim) + [slice(0, 1)])] = 0
        exact = np.flip(exact, axis) if reverse else exact
        if dtype in INTS:
            assert_equal(got, exact.astype(x.dtype))
        else:
            slack = 1e-12 if dtype == "float64" else np.abs(exact) * unit(dtype)
            assert_ulp(got, exact, 1, slack)


def test_cumsum_of_float32_is_summed_in_float64():
    x = np.full(1_000_001, 0.1, np.float32)
    assert_equal(run(ops.cumsum, x)[0], np.cumsum(x.astype(np.float64)).astype(np.float32))


def test_cumsum_keeps_nan_and_infinity():
    x = np.array([1, np.inf, 2, -np.inf, 3], np.float32)
    assert_equal(run(ops.cumsum, x)[0], np.array([1, np.inf, np.inf, np.nan, np.nan], np.float32))


@pytest.mark.parametrize("dtype", BOOL + NUMBERS + ["float8_e5m2", "float8_e4m3fn"])
@pytest.mark.parametrize("shape", [(17,), (5, 4), (3, 2, 5), (2, 0, 3), (0,), (4, 1)])
def test_nonzero(dtype, shape):
    rng = generator("nonzero", dtype, shape)
    x = values(rng, dtype, shape)
    x = np.where(rng.random(shape) < 0.5, np.zeros((), x.dtype), x)
    expected = np.argwhere(x.astype(np.float32) if dtype.startswith("float8") else x)
    for shapes in (None, [[f"n{i}" for i in range(len(shape))]]):
        got = run(lambda x: ops.nonzero(x, "found"), x, shapes=shapes)[0]
        assert_equal(got, expected)
    assert_equal(run(lambda x: ops.nonzero(x, len(expected)), x)[0], expected)


def test_what_nonzero_found_has_a_size():
    def build(x):
        where = ops.nonzero(x, "k")
        return [ops.gather_nd(x, where), ops.shape_to_tensor(where.shape), ops.sum(ops.gather_nd(x, where) * 2, 0)]

    model = compiled(build, [tensor_type("float32", ["a", "b"])])
    for x in (np.eye(3), np.zeros((2, 4)), np.ones((5, 1)), np.array([[np.nan, -0.0]])):
        x = x.astype(np.float32)
        found, shape, total = execute(model, [x])
        assert_equal(found, x[np.nonzero(x)])
        assert shape.tolist() == [np.count_nonzero(x), 2]
        assert_equal(total, 2 * np.sum(found, keepdims=True))


def test_nonzero_checks_its_size():
    x = np.array([1, 0, 2], np.float32)
    with pytest.raises(ValueError, match="nonzero: out_dim is 3 but 2 elements are not zero"):
        run(lambda x: ops.nonzero(x, 3), x)
    with pytest.raises(ValueError, match="nonzero: out_dim is 3 but 2 elements are not zero"):
        run(lambda x: (ops.nonzero(x, "n"), x)[1], x, shapes=[["n"]])
    with Graph("g"):
        with pytest.raises(ValueError, match="Scalar inputs not supported"):
            ops.nonzero(ops.constant(1.0, DType.float32, CPU()), "n")


@pytest.mark.parametrize("dtype", BOOL + NUMBERS + SMALL_FLOATS)
def test_masked_scatter(dtype):
    rng = generator("masked_scatter", dtype)
    for shape, mask_shape in [((4, 5), (4, 5)), ((4, 5), (5,)), ((2, 3, 4), (3, 1)), ((), ()), ((0, 3), (3,))]:
        x, mask = values(rng, dtype, shape), np.asarray(rng.integers(0, 2, mask_shape).astype(bool))
        where = np.broadcast_to(mask, shape)
        updates = values(rng, dtype, (int(where.sum()),))
        expected = x.copy()
        expected[where] = updates
        shapes = [shape, mask_shape, ["k"]]
        got = run(lambda x, m, u: ops.masked_scatter(x, m, u, "k"), x, mask, updates, shapes=shapes)[0]
        assert_equal(bits(got), bits(expected))


def test_constants_are_checked_in_each_call():
    """What is known when the model is made is refused by the call, and nothing is written before."""
    mask, counts = np.ones(1000, bool), np.full(1000, 3)
    boxes, scores = np.zeros((1, 1000, 4), np.float32), np.ones((1, 1, 1000), np.float32)

    def constant(array):
        return ops.constant(array, device=CPU())

    for build, text in [
        (lambda x: ops.nonzero(constant(mask), 1) + ops.cast(x, DType.int64), "out_dim is 1 but 1000 elements"),
        (lambda x: ops.repeat_interleave(x, constant(counts), 0, 1), "out_dim is 1 but the repeats add up to 3000"),
        (lambda x: ops.masked_scatter(x, constant(mask), x[:1], 1), "out_dim is 1 but the mask has 1000 true"),
        (lambda x: ops.non_maximum_suppression(constant(boxes), constant(scores), 1000, 0.5, 0.0, 1)[:, 0:1]
         + ops.cast(x, DType.int64), "out_dim is 1 but 1000 boxes"),
    ]:
        model = compiled(build, [tensor_type("float32", [1000])])
        for _ in range(2):
            with pytest.raises(ValueError, match=text):
                execute(model, [np.zeros(1000, np.float32)])


def test_masked_scatter_of_any_size():
    def build(x, m, u):
        return ops.masked_scatter(x, m, u, "k")

    types = [("float32", ["a", "b"]), ("bool", ["b"]), ("float32", ["u"])]
    model = compiled(build, [tensor_type(*t) for t in types])
    for a, b in ((3, 4), (0, 2), (5, 1)):
        x, mask = np.zeros((a, b), np.float32), np.arange(b) % 2 == 0
        expected, updates = x.copy(), np.arange(a * mask.sum(), dtype=np.float32) + 1
        expected[np.broadcast_to(mask, (a, b))] = updates
        assert_equal(execute(model, [x, mask, updates])[0], expected)


def test_masked_scatter_checks():
    x, updates = np.arange(4, dtype=np.float32), np.array([[7], [8]], np.float32)
    mask = np.array([True, False, False, True])
    got = run(lambda x, u: ops.masked_scatter(x, mask, u, 2), x, updates)[0]
    assert got.tolist() == [7, 1, 2, 8]
    with pytest.raises(ValueError, match="masked_scatter: out_dim is 3 but the mask has 2 true elements"):
        run(lambda x, m, u: ops.masked_scatter(x, m, u, "k"), x, mask, np.ones(3, np.float32), shapes=[[4], [4], ["k"]])
    with pytest.raises(ValueError, match="masked_scatter: out_dim is 2 but there are 3 updates"):
        run(lambda x, m, u: ops.masked_scatter(x, m, u, 2), x, mask, np.ones(3, np.float32), shapes=[[4], [4], ["k"]])
    for bad, text in [(lambda x, m: ops.masked_scatter(x, x, x, 4), "must be a bool tensor"),
                      (lambda x, m: ops.masked_scatter(x, m, m, 4), "must match"),
                      (lambda x, m: ops.masked_scatter(x, m, x, 3), "out_dim is 3 but there are 4 updates")]:
        with pytest.raises(ValueError, match=text):
            run(bad, x, mask)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("kind", ["int64", "uint8", "int32"])
def test_repeat_interleave_by_a_tensor(axis, kind):
    rng = generator("repeats", axis, kind)
    x = sample(rng, "float32", (3, 4))
    n = x.size if axis is None else x.shape[axis]
    for repeats in (rng.integers(0, 4, n), np.array([2]), np.array(3), np.zeros(n, int), np.array(0)):
        repeats = repeats.astype(kind)
        expected = np.repeat(x, repeats, axis)
        shape = [n] if repeats.size > 1 else list(repeats.shape)
        got = run(lambda x, r: ops.repeat_interleave(x, r, axis, "k") + 0, x, repeats, shapes=[(3, 4), shape])[0]
        assert_equal(got, expected)


def test_repeats_of_a_symbolic_axis():
    def build(x, r):
        return ops.repeat_interleave(x, r, 0, "k")

    model = compiled(build, [tensor_type("float32", ["n", 2]), tensor_type("int64", ["n"])])
    for n in (0, 1, 5):
        x, repeats = np.arange(2 * n, dtype=np.float32).reshape(n, 2), np.arange(n)
        assert_equal(execute(model, [x, repeats])[0], np.repeat(x, repeats, 0))


def test_repeat_interleave_checks():
    x = np.arange(3, dtype=np.float32)
    cases = [([1, 2, 1], 5, "repeat_interleave: out_dim is 5 but the repeats add up to 4"),
             ([1, -2, 6], 5, "repeat_interleave: the repeats must not be negative, but one is -2"),
             ([2**62, 2**62, 1], "k", "more than a dim can count"),
             ([2**63 - 1, 2**63 - 1, 7], 5, "more than a dim can count"),
             ([-1], "k", "the repeats must not be negative, but one is -1"),
             ([2**62], "k", "more than a dim can count"), ([2], 5, "out_dim is 5 but the repeats add up to 6")]
    for repeats, out_dim, text in cases:
        for build in (lambda x, r: ops.repeat_interleave(x, r, 0, out_dim),
                      lambda x, r: (ops.repeat_interleave(x, r, 0, out_dim), x)[1]):
            with pytest.raises(ValueError, match=text):
                run(build, x, np.array(repeats))
    with Graph("g", input_types=[TensorType(DType.float32, [2, 3], CPU()), TensorType(DType.int64, [3], CPU())]) as g:
        a, r = (v.tensor for v in g.inputs)
        with pytest.raises(ValueError, match="out_dim must be provided for TensorValue repeats"):
            ops.repeat_interleave(a, r, 1)
        with pytest.raises(ValueError, match="repeat_interleave: axis=2 out of bounds for x.rank=2"):
            ops.repeat_interleave(a, r, 2, out_dim="k")
        with pytest.raises(ValueError, match="one for each of the 2 elements of axis 0"):
            ops.repeat_interleave(a, r, 0, out_dim="k")
        with pytest.raises(ValueError, match="must be integers"):
            ops.repeat_interleave(a, a[0], 1, out_dim="k")
        with pytest.raises(ValueError, match="Can't promote python float"):
            ops.repeat_interleave(a, 1.5, 1)


def test_texts():
    f, i = DType.float32, DType.int64
    types = [(f, [4, 3]), (i, [2, 2]), (i, [2, "k"]), (f, [2]), (DType.int8, [2, 2])]
    with Graph("g", input_types=[TensorType(dtype, shape, CPU()) for dtype, shape in types]) as g:
        x, index, open_index, updates, narrow = (v.tensor for v in g.inputs)
        for call, text in [
            (lambda: ops.scatter_nd(x, index[:, 0], index),
             r"The input dtype \(DType.float32\) and updates dtype \(DType.int64\) must match"),
            (lambda: ops.scatter_nd(x, updates, narrow),
             "Invalid indices dtype: 'DType.int8'. Indices must be of type int32 or int64."),
            (lambda: ops.scatter_nd(x, updates, open_index), "index last dimension must be static"),
            (lambda: ops.scatter_nd(x, x, index), "takes updates of shape"),
            (lambda: ops.scatter_nd(x[0], updates, index), "exceed the rank 1 of the input"),
            (lambda: ops.scatter_add(x, x, x, 2), r"Invalid axis value 2. Axis must be in range \[-2, 1\]"),
            (lambda: ops.scatter_add(x, ops.cast(x, i), x, 1),
             "The input dtype 'DType.float32' and updates dtype 'DType.int64' must match."),
            (lambda: ops.cumsum(x, 2), "Invalid axis=2 for input x.rank=2"),
            (lambda: ops.cumsum(ops.cast(x, DType.bool)), "op 'cumsum' does not support dtype DType.bool"),
            (lambda: ops.argsort(ops.cast(x[0], DType.bool)), "^op 'argsort' does not support dtype DType.bool"),
            (lambda: ops.outer(*[ops.cast(x[0], DType.bool)] * 2), "^op 'outer' does not support dtype DType.bool"),
        ]:
            with pytest.raises(ValueError, match=text):
                call()
        with pytest.raises(TypeError):
            ops.scatter_nd(x, 1.0, index)


def test_text_round_trip(tmp_path):
    types = [TensorType(DType.float32, ["n", 3], CPU()), TensorType(DType.int64, ["k", 1], CPU())]

    def build(x, i):
        where = ops.nonzero(x, "found")
        y = ops.scatter_nd_add(ops.cumsum(x, 0, True, True), ops.gather_nd(x, i), i)
        y = ops.masked_scatter(y, x > 0, x[0], 3)
        return [y, where, ops.scatter_max(x, x, ops.cast(x, DType.int64), 0),
                ops.repeat_interleave(x, where[:, 0][0:1], 0, "r")]

    path = tmp_path / "graph.kiln"
    path.write_text(str(Graph("g", build, types)))
    assert str(Graph("ignored", path=path)) == path.read_text()


@pytest.mark.parametrize("kind", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int16", "uint64"])
def test_scatters_without_updates_and_without_indices(kind, dtype):
    """Sizes that are known and small: nothing to put anywhere, and everything into one element."""
    combine = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[kind]
    kinds = numpy_type(dtype)

    def check(op, x, updates, indices, expected):
        types = [tensor_type(dtype, x.shape), tensor_type(dtype, updates.shape), tensor_type("int64", indices.shape)]
        model = compiled(lambda a, b, c: op(a, b, c), types)
        assert_equal(execute(model, [x, updates, indices])[0], expected)

    x = np.arange(1, 17).reshape(4, 4).astype(kinds)
    none = np.zeros((4, 0), np.int64)
    for axis in (0, 1):
        check(lambda a, b, c, axis=axis: getattr(ops, f"scatter_{kind}")(a, b, c, axis), x, none.astype(kinds), none, x)
    nd = getattr(ops, f"scatter_nd_{kind}")
    check(nd, x, np.zeros((0, 4), kinds), np.zeros((0, 1), np.int64), x)
    check(nd, x, np.zeros((2, 0), kinds), np.zeros((2, 0, 2), np.int64), x)
    for shape in ((1,), (), (1, 1)):
        one = np.full(shape, 2, kinds)
        for count in (0, 1, 6):
            updates = np.arange(1, count + 1).astype(kinds).reshape(count, *shape)
            expected = one.copy()
            for update in updates:
                expected = combine(expected, update)
            check(nd, one, updates, np.zeros((count, 0), np.int64), expected.astype(kinds))
