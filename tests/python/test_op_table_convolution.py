"""Convolutions and pooling against NumPy."""

import numpy as np
import pytest
from convolving import convolved, pooled, transposed
from running import BOOL, FLOATS, INTS, NUMBERS, SMALL_FLOATS, assert_equal, assert_ulp, compiled, execute, generator
from running import numpy_type, run, sample, tensor_type, ulp_of, unit

from kiln.dtype import DType
from kiln.graph import ConvInputLayout, FilterLayout, Graph, ops

pytestmark = pytest.mark.compiler
NCHW = ConvInputLayout.NCHW


def values(rng, dtype, shape):
    if dtype in INTS:
        return sample(rng, dtype, shape)
    return rng.standard_normal(shape).astype(numpy_type(dtype))


def assert_close(got, exact, size, dtype, terms):
    """`size`: what the absolute values of the operands give."""
    if dtype in INTS:
        return assert_equal(got, exact)
    computing = "float32" if dtype in ("float16", "bfloat16") else dtype
    assert_ulp(got, exact, ulp_of(dtype), (terms + 8) * unit(computing) * size)


def check(x, w, stride, dilation, padding, groups=1, shapes=None, **more):
    op = ops.conv2d if x.ndim == 4 else ops.conv3d
    got = run(lambda x, w: op(x, w, stride, dilation, padding, groups, **more), x, w, shapes=shapes)[0]
    dtype, places = str(x.dtype), (stride, dilation, padding, groups)
    size = None if dtype in INTS else convolved(np.abs(x), np.abs(w), *places)
    with np.errstate(all="ignore"):
        assert_close(got, convolved(x, w, *places), size, dtype, np.prod(w.shape[:-1]))


ONE, NONE = (1, 1), (0, 0, 0, 0)
# input, filter, stride, dilation, padding, groups
CASES = {
    "3x3": ((1, 9, 30, 16), (3, 3, 16, 40), ONE, ONE, (1, 1, 1, 1), 1),
    "1x1": ((2, 5, 7, 8), (1, 1, 8, 33), ONE, ONE, NONE, 1),
    "1x1, one column": ((2, 5, 7, 8), (1, 1, 8, 1), ONE, ONE, NONE, 1),
    "1x1, every second": ((2, 5, 8, 8), (1, 1, 8, 33), (2, 3), ONE, NONE, 1),
    "1x1, padded": ((1, 3, 3, 4), (1, 1, 4, 5), ONE, ONE, (1, 0, 2, 3), 1),
    "patches": ((2, 8, 12, 3), (4, 4, 3, 32), (4, 4), ONE, NONE, 1),
    "first layer": ((1, 17, 23, 3), (7, 7, 3, 20), (2, 2), ONE, (3, 3, 3, 3), 1),
    "dilated": ((1, 9, 14, 5), (3, 2, 5, 9), ONE, (2, 3), (2, 2, 3, 3), 1),
    "padding beyond the filter": ((1, 2, 3, 4), (2, 2, 4, 4), ONE, ONE, (5, 4, 3, 7), 1),
    "stride beyond the filter": ((1, 11, 40, 6), (2, 1, 6, 8), (4, 5), ONE, (1, 0, 0, 2), 1),
    "uneven padding": ((1, 6, 7, 3), (3, 2, 3, 3), (2, 1), ONE, (0, 2, 1, 0), 1),
    "windows far apart": ((2, 4, 60, 3), (2, 3, 3, 5), (1, 19), (1, 17), (1, 0, 20, 30), 1),
    "groups": ((1, 6, 15, 12), (3, 3, 4, 21), ONE, ONE, (1, 1, 1, 1), 3),
    "groups, dilated": ((2, 7, 7, 6), (2, 3, 3, 4), (1, 2), (2, 2), (1, 2, 2, 1), 2),
    "one channel a group": ((2, 6, 40, 19), (3, 3, 1, 19), ONE, ONE, (1, 1, 1, 1), 19),
    "one channel a group, wide": ((1, 12, 9, 5), (5, 9, 1, 5), (2, 1), ONE, (2, 2, 4, 4), 5),
    "one channel a group, apart": ((1, 9, 33, 32), (3, 2, 1, 32), (1, 2), (2, 3), (3, 0, 2, 5), 32),
    "several columns a channel": ((1, 5, 9, 4), (3, 3, 1, 12), ONE, ONE, (1, 1, 1, 1), 4),
    "small groups": ((2, 6, 21, 32), (3, 3, 4, 32), ONE, ONE, (1, 1, 1, 1), 8),
    "small groups, dilated": ((1, 7, 19, 24), (3, 2, 3, 64), (1, 2), (2, 3), (2, 0, 3, 3), 8),
    "columns of one channel fill a register": ((1, 5, 12, 2), (3, 3, 1, 32), ONE, ONE, (1, 1, 1, 1), 2),
    "one channel": ((2, 9, 9, 1), (3, 3, 1, 1), ONE, ONE, (1, 1, 1, 1), 1),
    "one place": ((3, 3, 3, 8), (3, 3, 8, 5), ONE, ONE, NONE, 1),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("symbols", ["", "batch", "space", "all"])
def test_conv2d(name, symbols):
    xs, ws, *places, groups = CASES[name]
    rng = generator("conv2d", name)
    x, w = values(rng, "float32", xs), values(rng, "float32", ws)
    shapes = {"": [xs, ws], "batch": [("n", *xs[1:]), ws], "space": [("n", "h", "w", xs[3]), ws],
              "all": [("n", "h", "w", "c" if groups == 1 else xs[3]), ("r", "s", "c" if groups == 1 else ws[2], ws[3])]}
    check(x, w, *places, groups, shapes=shapes[symbols])


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", ["3x3", "1x1", "dilated", "groups", "one channel a group", "small groups"])
def test_conv2d_dtypes(dtype, name):
    xs, ws, *places = CASES[name]
    rng = generator("conv2d", dtype, name)
    check(values(rng, dtype, xs), values(rng, dtype, ws), *places)


@pytest.mark.parametrize("dtype", BOOL + SMALL_FLOATS)
@pytest.mark.parametrize("op", [ops.conv2d, ops.conv2d_transpose, ops.conv3d])
def test_conv_refuses(op, dtype):
    rank = 5 if op is ops.conv3d else 4
    types = [tensor_type(dtype, [2] * rank)] * 2
    with pytest.raises(ValueError, match=f"op '{op.__name__}' does not support dtype DType.{dtype}"):
        Graph("g", lambda x, w: op(x, w), types)


@pytest.mark.parametrize("dtype", ["float32", "int16", "bfloat16"])
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv3d(dtype, symbolic, groups):
    rng = generator("conv3d", dtype, symbolic, groups)
    x = values(rng, dtype, (2, 4, 5, 14, 4))
    w = values(rng, dtype, (2, 3, 3, 4 // groups, 8 if groups < 4 else 4))
    for places in ((ONE + (1,), ONE + (1,), (1, 1, 1, 1, 1, 1)), ((1, 2, 2), (2, 1, 1), (0, 2, 1, 0, 3, 0))):
        check(x, w, *places, groups, shapes=[("n", "d", "h", "w", 4), w.shape] if symbolic else None)


def test_empty():
    x, w = np.zeros((1, 4, 5, 0), np.float32), np.zeros((3, 3, 0, 2), np.float32)
    for shapes in (None, [("n", "h", "w", "c"), ("r", "s", "c", "f")]):
        assert_equal(run(lambda x, w: ops.conv2d(x, w), x, w, shapes=shapes)[0], np.zeros((1, 2, 3, 2), np.float32))
    x, w = np.zeros((0, 4, 5, 3), np.float32), np.zeros((3, 3, 3, 2), np.float32)
    for shapes in (None, [("n", "h", "w", "c"), ("r", "s", "c", "f")]):
        assert run(lambda x, w: ops.conv2d(x, w), x, w, shapes=shapes)[0].shape == (0, 2, 3, 2)
    # Nothing but padding.
    x = np.zeros((1, 0, 5, 3), np.float32)
    for shapes in (None, [("n", "h", "w", 3), w.shape]):
        got = run(lambda x, w: ops.conv2d(x, w + 1, padding=(2, 2, 0, 0)), x, w, shapes=shapes)[0]
        assert_equal(got, np.zeros((1, 2, 3, 2), np.float32))
        got = run(lambda x, w: ops.conv2d_transpose(x, w + 1), x, np.moveaxis(w, 2, 3), shapes=shapes and [
            shapes[0], (3, 3, 2, 3)])[0]
        assert_equal(got, np.zeros((1, 2, 7, 2), np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize("symbolic", [False, True])
def test_layouts_and_bias(dtype, symbolic):
    rng = generator("layouts", dtype)
    x, w, b = values(rng, dtype, (2, 4, 6, 8)), values(rng, dtype, (5, 4, 3, 3)), values(rng, dtype, (5,))
    nhwc, rscf = np.moveaxis(x, 1, -1), np.transpose(w, (2, 3, 1, 0))
    places = ((1, 2), ONE, (1, 1, 2, 0))
    shapes = [("n", 4, "h", "w"), w.shape, b.shape] if symbolic else None
    got = run(lambda x, w, b: ops.conv2d(x, w, *places, bias=b, input_layout=NCHW, filter_layout=FilterLayout.FCRS),
              x, w, b, shapes=shapes)[0]
    size = convolved(np.abs(nhwc), np.abs(rscf), *places)
    with np.errstate(all="ignore"):
        exact = convolved(nhwc, rscf, *places) + (b if dtype in INTS else b.astype(np.float64))
    assert_close(np.moveaxis(got, 1, -1), exact, size, dtype, 36)

    w = values(rng, dtype, (4, 5, 3, 3))
    got = run(lambda x, w, b: ops.conv2d_transpose(x, w, *places, (0, 1), b, NCHW, FilterLayout.CFRS), x, w, b,
              shapes=shapes and [shapes[0], w.shape, b.shape])[0]
    rsfc = np.transpose(w, (2, 3, 1, 0))
    size = transposed(np.abs(nhwc), np.abs(rsfc), *places, (0, 1))
    with np.errstate(all="ignore"):
        exact = transposed(nhwc, rsfc, *places, (0, 1)) + (b if dtype in INTS else b.astype(np.float64))
    assert_close(np.moveaxis(got, 1, -1), exact, size, dtype, 36)

    x, w = values(rng, "float32", (1, 3, 4, 4, 5)), values(rng, "float32", (6, 3, 2, 2, 2))
    got = run(lambda x, w: ops.conv3d(x, w, input_layout=NCHW, filter_layout=FilterLayout.FCQRS), x, w)[0]
    operands = np.moveaxis(x, 1, -1), np.transpose(w, (2, 3, 4, 1, 0))
    places = ((1, 1, 1), (1, 1, 1), (0,) * 6)
    assert_close(np.moveaxis(got, 1, -1), convolved(*operands, *places), 1e2, "float32", 24)


def test_operands_promote():
    x, w, b = np.ones((1, 3, 3, 1), np.int8), np.ones((2, 2, 1, 2), np.float32), np.array([1, 2], np.float64)
    got = run(lambda x, w: ops.conv2d(x, w), x, w)[0]
    assert_equal(got, np.full((1, 2, 2, 2), 4, np.float32))
    got = run(lambda x, w, b: ops.conv2d(x, w, bias=b), x, w, b)[0]
    assert_equal(got, 4 + np.zeros((1, 2, 2, 2)) + b)
    # A sum in float32 that is rounded once: 2048 + 1 + 1 is no float16 but 2050.
    half = np.full((1, 1, 1, 2), 1, np.float16)
    w = np.array([[2048], [1]], np.float16).reshape(1, 1, 2, 1)
    got = run(lambda x, w, b: ops.conv2d(x, w, bias=b), half, w, np.ones(1, np.float16))[0]
    assert got.item() == 2050 and got.dtype == np.float16


TRANSPOSED = {
    "2x2 apart": ((1, 5, 6, 3), (2, 2, 7, 3), (2, 2), ONE, NONE, (0, 0)),
    "3x3 over": ((2, 4, 15, 8), (3, 3, 33, 8), (2, 2), ONE, (1, 1, 1, 1), (1, 1)),
    "every place": ((1, 4, 5, 2), (3, 3, 4, 2), ONE, ONE, (1, 0, 0, 1), (0, 0)),
    "cut deeper than it reaches": ((1, 5, 9, 2), (2, 3, 4, 2), (1, 2), (2, 1), (3, 1, 4, 5), (0, 1)),
    "gaps": ((1, 3, 4, 2), (2, 1, 3, 2), (3, 4), ONE, NONE, (2, 1)),
    "dilated": ((2, 4, 3, 3), (3, 2, 5, 3), (2, 3), (2, 2), (1, 1, 0, 2), (0, 1)),
    "many phases": ((1, 3, 2, 2), (12, 9, 3, 2), (12, 9), ONE, (2, 3, 1, 0), (3, 2)),
    "many phases, cut": ((1, 3, 4, 2), (9, 9, 1, 2), (9, 9), ONE, (10, 0, 0, 10), (0, 0)),
    "far apart": ((1, 2, 2, 2), (2, 2, 3, 2), (100, 90), ONE, NONE, (0, 7)),
}


@pytest.mark.parametrize("name", TRANSPOSED)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_conv2d_transpose(name, symbolic, dtype):
    xs, ws, *places = TRANSPOSED[name]
    rng = generator("transposed", name)
    x, w = values(rng, dtype, xs), values(rng, dtype, ws)
    got = run(lambda x, w: ops.conv2d_transpose(x, w, *places), x, w,
              shapes=[("n", "h", "w", xs[3]), ws] if symbolic else None)[0]
    size = None if dtype in INTS else transposed(np.abs(x), np.abs(w), *places)
    with np.errstate(all="ignore"):
        assert_close(got, transposed(x, w, *places), size, dtype, np.prod(ws))


@pytest.mark.parametrize("dtype", FLOATS)
def test_conv2d_transpose_dtypes(dtype):
    xs, ws, *places = TRANSPOSED["3x3 over"]
    rng = generator("transposed", dtype)
    x, w = values(rng, dtype, xs), values(rng, dtype, ws)
    got = run(lambda x, w: ops.conv2d_transpose(x, w, *places), x, w, shapes=[xs, ("r", "s", "f", 8)])[0]
    assert_close(got, transposed(x, w, *places), transposed(np.abs(x), np.abs(w), *places), dtype, 80)


def test_conv2d_transpose_needs_a_static_filter_for_many_phases():
    types = [tensor_type("float32", [1, 2, 2, 1]), tensor_type("float32", ["r", "s", 1, 1])]
    with pytest.raises(Exception, match="takes a filter of static height and width"):
        compiled(lambda x, w: ops.conv2d_transpose(x, w, (16, 16)), types)


POOLS = {
    "2x2": ((2, 6, 8, 5), 2, 2, 1, 0),
    "3x3 over": ((1, 7, 30, 32), (3, 3), 1, 1, 1),
    "3x3 every second": ((1, 9, 12, 19), 3, (2, 2), 1, (1, 1)),
    "dilated": ((1, 9, 9, 3), (2, 3), (1, 2), (3, 2), (2, 0)),
    "beyond": ((1, 3, 4, 4), (2, 1), (1, 1), (1, 1), (5, 3)),
    "all": ((2, 5, 6, 17), (5, 6), 1, 1, 0),
    "wide": ((1, 4, 30, 2), (1, 11), (1, 1), (1, 1), (0, 6)),
    "one place": ((1, 1, 1, 1), 1, 1, 1, 0),
    "apart": ((1, 10, 11, 3), (2, 2), (5, 4), (1, 1), (1, 0)),
    "none": ((1, 1, 4, 3), 2, 1, 1, 0),
}


def pair(number):
    return (number, number) if isinstance(number, int) else number


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("symbolic", [False, True])
def test_pools(name, ceil_mode, symbolic):
    shape, *places = POOLS[name]
    x = values(generator("pools", name), "float32", shape)
    pairs, shapes = [pair(p) for p in places], [["n", "h", "w", "c"]] if symbolic else None

    def build(x):
        return (ops.max_pool2d(x, *places, ceil_mode), ops.avg_pool2d(x, *places, ceil_mode),
                ops.avg_pool2d(x, *places, ceil_mode, count_boundary=False))

    largest, mean, mean_inside = run(build, x, shapes=shapes)
    assert_equal(largest, pooled(x, *pairs, ceil_mode, lowest=-np.inf).astype(np.float32))
    slack = 1e-6 * np.abs(x).max(initial=0)
    assert_ulp(mean, pooled(x, *pairs, ceil_mode), 4, slack)
    assert_ulp(mean_inside, pooled(x, *pairs, ceil_mode, count_boundary=False), 4, slack)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_max_pool2d_dtypes(dtype):
    lowest = np.iinfo(dtype).min if dtype in INTS else -np.inf
    for shape in ((2, 4, 5, 3), (1, 5, 24, 70)):
        x = sample(generator("max_pool2d", dtype), dtype, shape)
        got = run(lambda x: ops.max_pool2d(x, 2, 1, 1, 2), x)[0]
        assert_equal(got, pooled(x, (2, 2), ONE, ONE, (2, 2), lowest=lowest).astype(x.dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_avg_pool2d_dtypes(dtype):
    for shape in ((2, 4, 5, 3), (1, 5, 24, 70)):
        x = values(generator("avg_pool2d", dtype), dtype, shape)
        for inside in (False, True):
            got = run(lambda x: ops.avg_pool2d(x, (3, 2), 1, 1, 1, count_boundary=not inside), x)[0]
            exact = pooled(x, (3, 2), ONE, ONE, (1, 1), count_boundary=not inside)
            computing = "float32" if dtype in ("float16", "bfloat16") else dtype
            assert_ulp(got, exact, ulp_of(dtype), 16 * unit(computing) * np.abs(x.astype(np.float64)).max())


def test_pools_refuse():
    types = {d: [tensor_type(d, [1, 4, 4, 2])] for d in ["float32", *BOOL, *INTS, *SMALL_FLOATS]}
    for dtype in BOOL + SMALL_FLOATS:
        with pytest.raises(ValueError, match=f"op 'max_pool2d' does not support dtype DType.{dtype}"):
            Graph("g", lambda x: ops.max_pool2d(x, 2), types[dtype])
    for dtype in BOOL + INTS + SMALL_FLOATS:
        with pytest.raises(ValueError, match=f"op 'avg_pool2d' does not support dtype DType.{dtype}"):
            Graph("g", lambda x: ops.avg_pool2d(x, 2), types[dtype])
    for op in (ops.max_pool2d, ops.avg_pool2d):
        for wrong in ((0,), (2, 0), (2, 1, 0), (2, 1, 1, -1), (9,)):
            with pytest.raises(ValueError, match=op.__name__):
                Graph("g", lambda x: op(x, *wrong), types["float32"])
        with pytest.raises(ValueError, match=r"rank 4 \(NHWC\)"):
            Graph("g", lambda x: op(x, 2), [tensor_type("float32", [4, 4, 2])])
        model = compiled(lambda x: op(x, 3), [tensor_type("float32", ["n", "h", "w", 1])])
        with pytest.raises(ValueError, match="axis 1 of the result would have"):
            execute(model, [np.zeros((1, 1, 5, 1), np.float32)])


def test_sizes_are_checked_when_it_runs():
    w = tensor_type("float32", [3, 3, 1, 1])
    for op, more, text in ((ops.conv2d, {}, "[convolution] output spatial dim must be positive"),
                           (ops.conv2d_transpose, {"padding": (3, 3, 3, 3)},
                            "[conv_transpose] output spatial dim must be positive")):
        def build(x, w):
            y = op(x, w, **more)
            return y, ops.shape_to_tensor(y.shape)

        model = compiled(build, [tensor_type("float32", ["n", "h", "w", 1]), w])
        ones = np.ones((3, 3, 1, 1), np.float32)
        with pytest.raises(ValueError) as error:
            execute(model, [np.ones((1, 2, 4, 1), np.float32), ones])
        assert text in str(error.value)
        assert execute(model, [np.ones((2, 6, 7, 1), np.float32), ones])[0].shape[0] == 2


def test_what_follows_is_fused():
    """Bias, activation and residual belong to the kernel, whatever is around them."""
    rng = generator("fused")
    x, b = values(rng, "float32", (2, 7, 13, 20)), values(rng, "float32", (20,))
    for groups, size in ((1, 3), (20, 3), (1, 1), (2, 3)):
        w = values(rng, "float32", (size, size, 20 // groups, 20))
        padding = (size // 2,) * 4
        for shapes in (None, [("n", "h", "w", 20), w.shape, b.shape]):
            model = compiled(lambda x, w, b: ops.relu(ops.conv2d(x, w, padding=padding, groups=groups, bias=b)) + x,
                             [tensor_type("float32", s) for s in shapes or (x.shape, w.shape, b.shape)])
            kernels = [k for k in model.kernel_summaries if "Pack" not in k]
            assert len(kernels) == (2 if groups == 2 else 1), kernels  # groups are an axis of their own
            got = execute(model, [x, w, b])[0]
            exact = np.maximum(convolved(x, w, ONE, ONE, padding, groups) + b.astype(np.float64), 0) + x
            assert_ulp(got, exact, 4, 1e-4)


def test_nan_and_infinity_stay_where_they_are_read():
    x = np.zeros((1, 5, 20, 16), np.float32)
    x[0, 2, 9] = np.nan
    w = np.ones((3, 3, 16, 4), np.float32)
    bad = np.zeros((5, 20), bool)
    bad[1:4, 8:11] = True
    got = run(lambda x, w: ops.conv2d(x, w, padding=(1, 1, 1, 1)), x, w)[0]
    assert (np.isnan(got[0]).all(-1) == bad).all() and (np.isnan(got[0]).any(-1) == bad).all()
    for op in (ops.max_pool2d, ops.avg_pool2d):
        got = run(lambda x: op(x, 3, 1, 1, 1), x)[0]
        assert (np.isnan(got[0]).all(-1) == bad).all() and (np.isnan(got[0]).any(-1) == bad).all()


@pytest.mark.parametrize("view", ["permuted", "sliced", "reversed", "broadcast", "constant", "flipped channels"])
@pytest.mark.parametrize("groups", [1, 6])
def test_inputs_that_are_views(view, groups):
    rng = generator("views", view)
    x, w = values(rng, "float32", (2, 5, 16, 6)), values(rng, "float32", (3, 3, 6 // groups, 6))
    views = {
        "permuted": (lambda x: ops.permute(x, [0, 2, 1, 3]), lambda x: np.transpose(x, (0, 2, 1, 3))),
        "sliced": (lambda x: x[:, 1:, ::2], lambda x: x[:, 1:, ::2]),
        "reversed": (lambda x: x[:, :, ::-1], lambda x: x[:, :, ::-1]),
        "flipped channels": (lambda x: x[..., ::-1], lambda x: x[..., ::-1]),
        "broadcast": (lambda x: ops.broadcast_to(x[:, :, 0:1], x.shape),
                      lambda x: np.broadcast_to(x[:, :, :1], x.shape)),
        "constant": (lambda x: ops.constant(2.0, DType.float32, x.device) + ops.broadcast_to(
            ops.constant(0.0, DType.float32, x.device), x.shape), lambda x: np.full(x.shape, 2, np.float32)),
    }
    build, oracle = views[view]
    padding = (1, 1, 1, 1)

    def both(x, w):
        y = build(x)
        return ops.conv2d(y, w, padding=padding, groups=groups), ops.max_pool2d(y, 3, 1, 1, 1)

    got, largest = run(both, x, w)
    assert_close(got, convolved(oracle(x), w, ONE, ONE, padding, groups), 1e2, "float32", 54)
    assert_equal(largest, pooled(oracle(x), (3, 3), ONE, ONE, ONE, lowest=-np.inf).astype(np.float32))


def test_prepared_filters_and_constant_inputs():
    rng = generator("prepared")
    x, w = values(rng, "float32", (1, 5, 14, 4)), values(rng, "float32", (3, 3, 4, 6))
    turned = np.ascontiguousarray(np.swapaxes(w, 2, 3))

    def build(y):
        constant = lambda a: ops.constant(a, DType.float32, y.device)
        return (ops.conv2d(y, constant(w)), ops.conv2d(constant(x), constant(w)) + y[0, 0, 0, 0],
                ops.conv2d_transpose(constant(x), constant(turned), (2, 2)) + y[0, 0, 0, 0],
                ops.conv2d(y, ops.permute(constant(turned), [0, 1, 3, 2]), padding=(1, 1, 1, 1)))

    a, b, c, d = run(build, x)
    exact = convolved(x, w, ONE, ONE, NONE)
    assert_close(a, exact, 1e2, "float32", 36)
    assert_close(b, exact + x[0, 0, 0, 0], 1e2, "float32", 36)
    assert_close(c, transposed(x, turned, (2, 2), ONE, NONE) + x[0, 0, 0, 0], 1e2, "float32", 36)
    assert_close(d, convolved(x, w, ONE, ONE, (1, 1, 1, 1)), 1e2, "float32", 36)


def channels_first(x, w, size):
    return ops.conv2d(x, w, padding=(size // 2,) * 4, input_layout=NCHW, filter_layout=FilterLayout.FCRS)


def test_channels_first_stay_away_between_convolutions():
    """Permutes meet behind what lies between two convolutions, and cancel."""
    def build(x, w, b, v):
        y = ops.relu(channels_first(x, w, 3) + ops.reshape(b, [8, 1, 1]))
        z = channels_first(y, w, 3) * ops.reshape(b, [1, 8, 1, 1]) + y
        joined = ops.concat([z, ops.where(ops.greater(z, 0), z, y * 2), y], 1)
        return channels_first(joined, v, 1), ops.max(y, axis=1)

    rng = generator("channels first")
    x, w, b, v = (values(rng, "float32", s) for s in ((2, 8, 6, 13), (8, 8, 3, 3), (8,), (5, 24, 1, 1)))
    types = [tensor_type("float32", s) for s in (("n", 8, "h", "w"), w.shape, b.shape, v.shape)]
    model = compiled(build, types)
    convolutions = [k for k in model.kernel_summaries if "conv2d" in k and "Pack" not in k]
    assert any("relu" in k for k in convolutions) and any("mul" in k for k in convolutions), model.kernel_summaries

    nhwc, rscf = np.moveaxis(x, 1, -1), np.transpose(w, (2, 3, 1, 0))
    around = (1, 1, 1, 1)
    y = np.maximum(convolved(nhwc, rscf, ONE, ONE, around) + b, 0)
    z = convolved(y, rscf, ONE, ONE, around) * b + y
    joined = np.concatenate([z, np.where(z > 0, z, y * 2), y], -1)
    got, largest = execute(model, [x, w, b, v])
    exact = np.moveaxis(joined @ v[:, :, 0, 0].T.astype(np.float64), -1, 1)
    size = np.abs(joined).max() * np.abs(v).sum()
    assert_ulp(got, exact, 4, 1e-5 * size)
    assert_ulp(largest, np.moveaxis(y, -1, 1).max(1, keepdims=True), 4, 1e-4)


def test_joined_permutes_of_one_image():
    x = values(generator("joined"), "float32", (1, 4, 5, 3))
    orders = ([0, 3, 1, 2], [2, 0, 3, 1], [0, 2, 3, 1])

    def build(x):
        y = ops.max_pool2d(x, 2)
        turned = [ops.permute(ops.permute(y, orders[0]), order) for order in orders]
        return [*turned, ops.exp(ops.permute(y, orders[1])) + ops.permute(ops.sqrt(ops.abs(y)), orders[1])]

    y = pooled(x, (2, 2), ONE, ONE, (0, 0), lowest=-np.inf).astype(np.float32)
    *turned, last = run(build, x)
    for got, order in zip(turned, orders):
        assert_equal(got, np.transpose(np.transpose(y, orders[0]), order))
    wide = y.astype(np.float64)
    assert_ulp(last, np.transpose(np.exp(wide) + np.sqrt(np.abs(wide)), orders[1]), 8)
