"""Resizing, folding, spectra and boxes against loops over the formulas of the specification."""

import itertools
import math

import numpy as np
import pytest
from running import FLOATS, assert_equal, compiled, execute, generator, numpy_type, run, sample, tensor_type

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.graph import Dim, Graph, TensorType, ops

pytestmark = pytest.mark.compiler
F = np.float32


def coordinate(o, size, out, mode):
    scale = F(out) / F(size)
    if mode == 1:
        return F(0) if out == 1 else F(o) * F(size - 1) / F(out - 1)
    if mode == 2:
        return F(o) / scale
    if mode == 3 and out == 1:
        return F(0)
    return (F(o) + F(0.5)) / scale - F(0.5)


ROUNDING = {0: lambda x: np.ceil(x - F(0.5)), 1: lambda x: np.floor(x + F(0.5)), 2: np.floor, 3: np.ceil}


def nearest(x, size, mode, rounding):
    for axis, (n, out) in enumerate(zip(x.shape, size)):
        where = [int(np.clip(ROUNDING[rounding](coordinate(o, n, out, mode)), 0, n - 1)) for o in range(out)]
        x = x.take(where, axis)
    return x


def weighted(x, axis, taps):
    """For each output a list of (index, weight)."""
    parts = []
    for line in taps:
        total = sum(x.take(k, axis) * x.dtype.type(w) for k, w in line)
        parts.append(np.broadcast_to(total, x.shape[:axis] + x.shape[axis + 1 :]))
    return np.stack(parts, axis)


def linear(x, size, mode, antialias):
    for axis, (n, out) in enumerate(zip(x.shape, size)):
        if n == out:
            continue
        scale, taps = F(out) / F(n), []
        f = F(1) / scale if antialias and scale < 1 else F(1)
        for o in range(out):
            c = coordinate(o, n, out, mode) + F(0.5)
            ks = range(max(int(np.floor(c - f + F(0.5))), 0), min(int(np.floor(c + f + F(0.5))), n))
            weights = [max(F(0), F(1) - abs(F(k) + F(0.5) - c) / f) for k in ks]
            taps.append([(k, F(w) / F(sum(weights))) for k, w in zip(ks, weights)])
        x = weighted(x, axis, taps)
    return x


def cubic_weight(t):
    a, t = -0.75, abs(float(t))
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def bicubic(x, size):
    for axis in (2, 3):
        n, out, taps = x.shape[axis], size[axis], []
        if n == out:
            continue
        for o in range(out):
            at = (F(o) + F(0.5)) * F(n) / F(out) - F(0.5)
            first = int(np.floor(at)) - 1
            taps.append([(min(max(k, 0), n - 1), cubic_weight(at - F(k))) for k in range(first, first + 4)])
        x = weighted(x, axis, taps)
    return x


def wide(x):
    return x if x.dtype == np.float64 else x.astype(F)


def close(got, exact, dtype, scale=1.0):
    """Sums of a few weighted values in float32, rounded once."""
    eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-20, "float64": 2.0**-20}[dtype]
    assert got.dtype == numpy_type(dtype)
    np.testing.assert_allclose(got.astype(np.float64), exact.astype(np.float64), rtol=eps, atol=eps * scale)


SIZES = [((1, 2, 5, 7), (1, 2, 10, 3)), ((2, 1, 4, 4), (2, 1, 1, 9)), ((1, 1, 6, 1), (1, 1, 4, 5)),
         ((1, 1, 8, 20), (1, 1, 3, 20))]


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("rounding", range(4))
def test_resize_nearest(mode, rounding):
    rng = generator("nearest", mode, rounding)
    for shape, size in [*SIZES, ((5,), (13,)), ((3, 4), (4, 3)), ((), ()), ((2, 0, 3), (2, 0, 7))]:
        x = sample(rng, "float32", shape)
        expected = nearest(x, size, mode, rounding)
        build = lambda x: ops.resize_nearest(x, size, mode, rounding)  # noqa: E731
        assert_equal(run(build, x)[0], expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("antialias", [False, True])
def test_resize_linear(dtype, mode, antialias):
    rng = generator("linear", dtype, mode)
    for shape, size in [*SIZES, ((9,), (4,)), ((3, 8), (7, 2)), ((2, 3), (2, 3))]:
        x = sample(rng, dtype, shape, False)
        got = run(lambda x: ops.resize_linear(x, size, mode, antialias), x)[0]
        close(got, linear(wide(x), size, mode, antialias), dtype, 8)


@pytest.mark.parametrize("dtype", FLOATS)
def test_resize_bicubic(dtype):
    rng = generator("cubic", dtype)
    for shape, size in SIZES:
        x = sample(rng, dtype, shape, False)
        close(run(lambda x: ops.resize_bicubic(x, size), x)[0], bicubic(wide(x), size), dtype, 16)


def test_resize_to_sizes_of_the_call():
    x = sample(generator("symbolic"), "float32", (1, 2, 6, 9), False)

    def build(x, like):
        h, w = like.shape
        size = [*x.shape[:2], h, w]
        return [ops.resize_nearest(x, size), ops.resize_linear(x, size), ops.resize_linear(x, size, antialias=True),
                ops.resize_bicubic(x, size), ops.resize(x, size, ops.InterpolationMode.NEAREST)]

    model = compiled(build, [tensor_type("float32", [1, 2, "a", "b"]), tensor_type("bool", ["h", "w"])])
    for h, w in ((12, 4), (1, 1), (6, 9), (3, 30)):
        size = (1, 2, h, w)
        results = execute(model, [x, np.zeros((h, w), bool)])
        assert_equal(results[0], nearest(x, size, 0, 0))
        assert_equal(results[4], results[0])
        for got, exact in zip(results[1:4], (linear(x, size, 0, False), linear(x, size, 0, True), bicubic(x, size))):
            close(got, exact, "float32", 8)


def test_resize_modes_and_checks():
    x = sample(generator("resize"), "float32", (1, 1, 4, 5), False)
    size = (1, 1, 7, 3)
    assert_equal(run(lambda x: ops.resize(x, size), x)[0], run(lambda x: ops.resize_linear(x, size), x)[0])
    assert_equal(run(lambda x: ops.resize(x, size, ops.InterpolationMode.BICUBIC), x)[0],
                 run(lambda x: ops.resize_bicubic(x, size), x)[0])
    with Graph("g", input_types=[TensorType(DType.float32, [1, 1, 4, 5], CPU())]) as g:
        x = g.inputs[0].tensor
        for call, text in [
            (lambda: ops.resize_nearest(x, size, 4), "coordinate_transform_mode must be 0-3, got 4"),
            (lambda: ops.resize_linear(x, size, -1), "coordinate_transform_mode must be 0-3, got -1"),
            (lambda: ops.resize_nearest(x, size, 0, 5), "round_mode must be 0-3, got 5"),
            (lambda: ops.resize_nearest(x, [3]), r"size must have the same rank as input \(4\), got 1"),
            (lambda: ops.resize_linear(x, [3]), r"size must have the same rank as input \(4\), got 1"),
            (lambda: ops.resize_bicubic(x[0], size), r"resize_bicubic requires rank-4 \(NCHW\) input, got rank 3"),
            (lambda: ops.resize_bicubic(x, [1, 2]), "size must have 4 elements for NCHW format, got 2"),
            (lambda: ops.resize_bicubic(x, [2, 1, 4, 4]), "must not change"),
            (lambda: ops.resize(x[0], size),
             r"Input tensor must have rank 4 \(NCHW format\) for resize operation, but got rank 3"),
            (lambda: ops.resize(x, [1, 2]), r"shape must have 4 elements for NCHW format \(batch, channels, height, "
                                            r"width\), but got 2 elements"),
            (lambda: ops.resize_linear(x, [1, 1, 0, 5]), "cannot become 0"),
            (lambda: ops.resize_linear(ops.cast(x, DType.int32), size), "does not support dtype DType.int32"),
        ]:
            with pytest.raises(ValueError, match=text):
                call()


FOLDS = [((4, 5), (2, 2), {}), ((4, 4), (3, 3), {"padding": 1}), ((6, 5), (2, 3), {"stride": (2, 1)}),
         ((7, 7), (2, 2), {"dilation": 2, "stride": 3}), ((3, 3), 1, {}),
         ((5, 6), (3, 1), {"padding": (2, 0), "dilation": (2, 1)})]


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "uint8"])
@pytest.mark.parametrize("case", range(len(FOLDS)))
def test_fold(dtype, case):
    (height, width), kernel, options = FOLDS[case]
    pair = lambda v: v if isinstance(v, tuple) else (v, v)  # noqa: E731
    (kh, kw), (sh, sw) = pair(kernel), pair(options.get("stride", 1))
    (dh, dw), (ph, pw) = pair(options.get("dilation", 1)), pair(options.get("padding", 0))
    rows, columns = (height + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (width + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    x = generator("fold", dtype, case).integers(0, 9, (2, 3 * kh * kw, rows * columns)).astype(numpy_type(dtype))
    expected = np.zeros((2, 3, height, width), np.float64)
    for n, c, r, s, i, j in itertools.product(range(2), range(3), range(kh), range(kw), range(rows), range(columns)):
        y, z = i * sh - ph + r * dh, j * sw - pw + s * dw
        if 0 <= y < height and 0 <= z < width:
            expected[n, c, y, z] += float(x[n, (c * kh + r) * kw + s, i * columns + j])
    shape = x.shape
    for shapes in (None, [["n", shape[1], shape[2]]]):
        got = run(lambda x: ops.fold(x, (height, width), kernel, **options), x, shapes=shapes)[0]
        assert_equal(got, expected.astype(numpy_type(dtype)))


def test_fold_checks():
    with Graph("g", input_types=[TensorType(DType.float32, [1, 8, 9], CPU())]) as g:
        x = g.inputs[0].tensor
        with pytest.raises(ValueError) as error:
            ops.fold(x, (5, 5), 3)
        assert str(error.value) == ("Dim 1 of the input tensor (8) must be a multiple of the product of the total "
                                    "kernel size (9).")
        with pytest.raises(ValueError) as error:
            ops.fold(x, (5, 5), 2)
        assert str(error.value) == "Last dimension of input tensor (9) must match the calculated number of blocks (16)."
        with pytest.raises(ValueError):
            ops.fold(x, (5, 5), 2, stride=0)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 12, 15, 30, 37, 64, 74, 97, 100, 101, 251, 486, 1024])
@pytest.mark.parametrize("normalization", ["backward", "ortho", "forward"])
def test_irfft(n, normalization):
    rng = generator("irfft", n)
    for size in {n // 2 + 1, 3, n // 2 + 4}:
        spectra = rng.standard_normal((2, 3, size)) + 1j * rng.standard_normal((2, 3, size))
        pairs = np.stack([spectra.real, spectra.imag], -1).astype(F)
        exact = np.fft.irfft(pairs[..., 0] + 1j * pairs[..., 1].astype(np.float64), n, norm=normalization)
        slack = 3e-7 * np.abs(exact).max() + 1e-30
        got = run(lambda x: ops.irfft(x, n, -1, normalization, input_is_complex=True), pairs,
                  shapes=[["b", 3, size, 2]])[0]
        np.testing.assert_allclose(got, exact, rtol=0, atol=slack)
        # Along another axis, and of real numbers.
        turned = np.ascontiguousarray(np.moveaxis(pairs, 2, 0))
        got = run(lambda x: ops.irfft(x, n, 0, normalization, True), turned)[0]
        np.testing.assert_allclose(np.moveaxis(got, 0, 2), exact, rtol=0, atol=slack)
        turned = np.ascontiguousarray(np.swapaxes(pairs[..., 0], 1, 2))
        got = run(lambda x: ops.irfft(x, n, -2, normalization), turned)[0]
        exact = np.fft.irfft(pairs[..., 0].astype(np.float64), n, norm=normalization)
        np.testing.assert_allclose(np.swapaxes(got, 1, 2), exact, rtol=0, atol=3e-7 * np.abs(exact).max() + 1e-30)


def test_irfft_defaults_and_checks():
    x = sample(generator("irfft"), "float32", (4, 9), False)
    np.testing.assert_allclose(run(ops.irfft, x)[0], np.fft.irfft(x.astype(np.float64)), atol=1e-6)
    assert run(ops.irfft, x[:0])[0].shape == (0, 16)
    assert run(lambda x: ops.irfft(x, n=4), x[:, :0])[0].tolist() == [[0] * 4] * 4
    types = [TensorType(DType.float64, [4, 9], CPU()), TensorType(DType.float32, [4, "n"], CPU())]
    with Graph("g", input_types=types) as g:
        double, open_ended = (v.tensor for v in g.inputs)
        narrow = ops.cast(double, DType.float32)
        for call, text in [(lambda: ops.irfft(double), "Input tensor must be of type float32, got DType.float64"),
                           (lambda: ops.irfft(open_ended), "Axis dimension must be static, got n"),
                           (lambda: ops.irfft(narrow, normalization="x"), "Invalid normalization: x"),
                           (lambda: ops.irfft(narrow, axis=2), "Invalid axis=2 for input x.rank=2"),
                           (lambda: ops.irfft(narrow, input_is_complex=True), "must be 2"),
                           (lambda: ops.irfft(narrow[:, 0:1]), "n must be positive, got 0")]:
            with pytest.raises(ValueError, match=text):
                call()


def aligned_regions(x, rois, oh, ow, spatial_scale, ratio, aligned, mode):
    _, height, width, channels = x.shape
    out = np.zeros((len(rois), oh, ow, channels), F)
    shift = F(0.5) if aligned else F(0)
    for m, (batch, *corners) in enumerate(rois.astype(F)):
        x1, y1, x2, y2 = (c * F(spatial_scale) - shift for c in corners)
        roi_w, roi_h = (x2 - x1, y2 - y1) if aligned else (max(x2 - x1, F(1)), max(y2 - y1, F(1)))
        bin_h, bin_w = roi_h / F(oh), roi_w / F(ow)
        grid_h, grid_w = (int(ratio) if ratio > 0 else max(math.ceil(b), 0) for b in (bin_h, bin_w))
        for ph, pw in itertools.product(range(oh), range(ow)):
            values = []
            for iy, ix in itertools.product(range(grid_h), range(grid_w)):
                y = y1 + F(ph) * bin_h + (F(iy) + F(0.5)) * (bin_h / F(grid_h))
                z = x1 + F(pw) * bin_w + (F(ix) + F(0.5)) * (bin_w / F(grid_w))
                if not (-1 <= y <= height and -1 <= z <= width):
                    values.append(np.zeros((4, channels), F))
                    continue
                y, z = max(y, F(0)), max(z, F(0))
                y0, z0 = min(int(y), height - 1), min(int(z), width - 1)
                dy, dz = y - F(y0), z - F(z0)
                ys, zs = (y0, min(y0 + 1, height - 1)), (z0, min(z0 + 1, width - 1))
                values.append(np.stack([wy * wz * x[int(batch), a, b]
                                        for a, wy in zip(ys, (1 - dy, dy)) for b, wz in zip(zs, (1 - dz, dz))]))
            stacked = np.array(values).reshape(-1, channels)
            if mode == "AVG":
                out[m, ph, pw] = stacked.sum(0) / max(grid_h * grid_w, 1)
            elif len(stacked):
                out[m, ph, pw] = stacked.max(0)
    return out


ROIS = np.array([[0, 0, 0, 7, 5], [1, 1.2, 2.3, 4.1, 4.9], [1, -3, -2, 3, 9.5], [0, 5, 4, 4, 2], [0, 30, 30, 40, 40],
                 [1, 2, 2, 2, 2]], F)


@pytest.mark.parametrize("mode", ["AVG", "MAX"])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("dtype", FLOATS)
def test_roi_align(mode, aligned, ratio, dtype):
    x = sample(generator("roi", dtype), dtype, (2, 6, 8, 5), False)
    rois = ROIS.astype(numpy_type(dtype))
    got = run(lambda x, r: ops.roi_align(x, r, 2, 3, 0.75, ratio, aligned, mode), x, rois,
              shapes=[["n", "h", "w", 5], ["m", 5]])[0]
    expected = aligned_regions(x.astype(F), rois, 2, 3, 0.75, ratio, aligned, mode)
    close(got, expected, dtype, 4)


def test_roi_align_refuses_and_survives():
    x = np.ones((2, 3, 3, 1), F)
    for bad in (2, -1, np.nan, np.inf, 1e30):
        with pytest.raises(ValueError, match=r"roi_align: batch index -?\d+ is outside of \[0, 2\)"):
            run(lambda x, r: ops.roi_align(x, r, 1, 1), x, np.array([[0, 0, 0, 1, 1], [bad, 0, 0, 1, 1]], F))
    # Regions without end, and of no size at all.
    for corner in (1e30, np.inf, -np.inf, np.nan, 3e38):
        for aligned in (False, True):
            got = run(lambda x, r: ops.roi_align(x, r, 2, 2, aligned=aligned), x,
                      np.array([[0, -corner, 0, corner, 1], [0, corner, corner, corner, corner]], F))[0]
            assert got.shape == (2, 2, 2, 1)
    assert run(lambda x, r: ops.roi_align(x, r, 1, 1), x, np.zeros((0, 5), F))[0].shape == (0, 1, 1, 1)
    # An input without pixels has no samples.
    for shape in ((2, 0, 3, 1), (2, 3, 0, 1)):
        got = run(lambda x, r: ops.roi_align(x, r, 1, 1), np.ones(shape, F), np.array([[1, -1, -1, 1, 1]], F))[0]
        assert got.tolist() == [[[[0]]]]
    with Graph("g", input_types=[TensorType(DType.float32, shape, CPU()) for shape in ([1, 4, 5, 2], [3, 5])]) as g:
        a, r = (v.tensor for v in g.inputs)
        for call, text in [(lambda: ops.roi_align(a[0], r, 1, 1), "roi_align expects rank-4 NHWC input, got rank 3"),
                           (lambda: ops.roi_align(a, r[0], 1, 1),
                            r"roi_align expects rank-2 rois \[M, 5\], got rank 1"),
                           (lambda: ops.roi_align(a, r, 1, 1, mode="SUM"),
                            "roi_align mode must be 'AVG' or 'MAX', got 'SUM'"),
                           (lambda: ops.roi_align(a, r, 1, 1, sampling_ratio=np.inf), "sampling_ratio must be at most"),
                           (lambda: ops.roi_align(a, r, 0, 1), "must be positive")]:
            with pytest.raises(ValueError, match=text):
                call()


def suppressed(boxes, scores, most, iou, least):
    rows = []
    for b, k in itertools.product(range(scores.shape[0]), range(scores.shape[1])):
        line, kept = scores[b, k], []
        for i in np.lexsort((np.arange(len(line)), -line)):
            if len(kept) >= most or not line[i] > least:
                continue
            if all(overlap(boxes[b, i], boxes[b, j]) <= iou for j in kept):
                kept.append(i)
        rows += [(b, k, i) for i in kept]
    return np.array(rows, np.int64).reshape(-1, 3)


def overlap(p, q):
    low = [max(min(p[a], p[a + 2]), min(q[a], q[a + 2])) for a in (0, 1)]
    high = [min(max(p[a], p[a + 2]), max(q[a], q[a + 2])) for a in (0, 1)]
    common = max(high[0] - low[0], p.dtype.type(0)) * max(high[1] - low[1], p.dtype.type(0))
    area = sum(abs((v[2] - v[0]) * (v[3] - v[1])) for v in (p, q))
    return common / (area - common) if area - common else p.dtype.type(0)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("most, iou, least", [(3, 0.5, 0.2), (100, 0.0, -1.0), (1, 0.9, 0.0), (0, 0.5, 0.0),
                                              (-2, 0.5, 0.0)])
def test_non_maximum_suppression(dtype, most, iou, least):
    rng = generator("nms", dtype, most)
    boxes = rng.integers(0, 12, (2, 20, 4)).astype(numpy_type(dtype))
    scores = np.round(rng.random((2, 3, 20)), 1).astype(numpy_type(dtype))
    scores[0, 0, 3] = np.nan
    exact = np.dtype("float64") if dtype == "float64" else np.dtype("float32")
    expected = suppressed(boxes.astype(exact), scores.astype(exact), most, exact.type(iou), exact.type(least))

    def build(b, s, m):
        return ops.non_maximum_suppression(b, s, m, iou, least)

    types = [tensor_type(dtype, ["b", "n", 4]), tensor_type(dtype, ["b", "k", "n"]), tensor_type("int32", [])]
    assert_equal(execute(compiled(build, types), [boxes, scores, np.int32(most)])[0], expected)


def test_non_maximum_suppression_checks():
    boxes, scores = np.zeros((1, 2, 4), F), np.array([[[0.5, 0.4]]], F)
    # Boxes without an area do not overlap.
    got = run(lambda b, s: ops.non_maximum_suppression(b, s, 5, 0.5, 0.0, 2), boxes, scores)[0]
    assert got.tolist() == [[0, 0, 0], [0, 0, 1]]
    with pytest.raises(ValueError, match="non_maximum_suppression: out_dim is 1 but 2 boxes were selected"):
        run(lambda b, s: ops.non_maximum_suppression(b, s, 5, 0.5, 0.0, 1), boxes, scores)
    got = run(lambda b, s: ops.non_maximum_suppression(b, s, 5, 0.5, 0.0), boxes[:, :0], scores[..., :0])[0]
    assert got.shape == (0, 3)
    for bad in (lambda b, s: ops.non_maximum_suppression(b, s[..., :1], 5, 0.5, 0.0),
                lambda b, s: ops.non_maximum_suppression(b[:0], s, 5, 0.5, 0.0),
                lambda b, s: ops.non_maximum_suppression(b, s, s, 0.5, 0.0),
                lambda b, s: ops.non_maximum_suppression(b[..., :3], s, 5, 0.5, 0.0)):
        with pytest.raises(ValueError):
            run(bad, boxes, scores)


def test_text_round_trip(tmp_path):
    types = [TensorType(DType.float32, [1, 4, 5, 2], CPU()), TensorType(DType.float32, ["m", 5], CPU()),
             TensorType(DType.float32, ["m", 3, 4], CPU()), TensorType(DType.float32, ["m", 2, 3], CPU())]

    def build(x, rois, boxes, scores):
        return [ops.roi_align(x, rois, 2, 3, mode="MAX"), ops.irfft(x, n=5, axis=1, normalization="ortho"),
                ops.non_maximum_suppression(boxes, scores, 4, 0.5, 0.1, Dim("k")), ops.resize(x, [1, 4, 9, 9])]

    path = tmp_path / "graph.kiln"
    path.write_text(str(Graph("g", build, types)))
    assert str(Graph("ignored", path=path)) == path.read_text()
