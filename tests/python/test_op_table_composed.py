"""Ops that are made of other ops, against NumPy."""

import numpy as np
import pytest
from running import assert_equal, assert_ulp, compiled, execute, generator, run, sample

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.graph import Graph, ops

pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("shape, groups", [((2, 6, 3, 4), 3), ((1, 4), 2), ((3, 5, 7), 5), ((2, 4, 2), 1)])
def test_group_norm(shape, groups):
    rng = generator("group_norm", shape)
    x, gamma, beta = (sample(rng, "float32", s, False) for s in (shape, shape[1:2], shape[1:2]))
    got = run(lambda x, g, b: ops.group_norm(x, g, b, groups, 1e-5), x, gamma, beta)[0]
    wide = x.astype(np.float64).reshape(shape[0], groups, -1)
    centred = wide - wide.mean(-1, keepdims=True)
    scaled = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)).reshape(shape)
    channel = (1, -1) + (1,) * (len(shape) - 2)
    exact = scaled * gamma.astype(np.float64).reshape(channel) + beta.astype(np.float64).reshape(channel)
    assert_ulp(got, exact, 4, 1e-5 * (np.abs(exact) + np.abs(gamma.reshape(channel)) + np.abs(beta.reshape(channel))))


def test_group_norm_checks():
    x, ones = np.ones((2, 6), np.float32), np.ones(6, np.float32)
    for bad in (lambda x, w: ops.group_norm(x, w, w, 4, 1e-5), lambda x, w: ops.group_norm(w, w, w, 1, 1e-5),
                lambda x, w: ops.group_norm(x, w[:5], w, 2, 1e-5)):
        with pytest.raises(ValueError):
            run(bad, x, ones)


@pytest.mark.parametrize("lower, upper", [(None, None), (0, 0), (1, None), (None, 2), (2, 1), (-1, 0)])
@pytest.mark.parametrize("exclude", [False, True])
def test_band_part(lower, upper, exclude):
    x = sample(generator("band"), "float32", (2, 4, 5))
    rows, columns = np.indices((4, 5))
    low, high = -1 if lower is None else lower, -1 if upper is None else upper
    band = ((low < 0) | (rows - columns <= low)) & ((high < 0) | (columns - rows <= high))
    got = run(lambda x: ops.band_part(x, lower, upper, exclude), x, shapes=[["n", 4, 5]])[0]
    assert_equal(got, np.where(band ^ exclude, x, np.float32(0)))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_repeat_interleave(axis, dtype):
    x = sample(generator("repeat", dtype), dtype, (3, 4))
    assert_equal(run(lambda x: ops.repeat_interleave(x, 3, axis), x)[0], np.repeat(x, 3, axis))
    with pytest.raises(ValueError):
        run(lambda x: ops.repeat_interleave(x, 0, axis), x)


@pytest.mark.parametrize("length", [0, 1, 2, 7, 16])
def test_hann_window(length):
    def build():
        return [ops.hann_window(length, CPU()), ops.hann_window(length, CPU(), periodic=False, dtype=DType.float64)]

    periodic, symmetric = execute(compiled(build, []), [])
    if length < 2:
        assert periodic.tolist() == symmetric.tolist() == [1.0] * length
        return
    np.testing.assert_allclose(periodic, np.hanning(length + 1)[:-1], atol=1e-6)
    np.testing.assert_allclose(symmetric, np.hanning(length), atol=1e-14)


def test_hann_window_checks():
    with Graph("g"):
        with pytest.raises(TypeError, match="window_length must be an integer, got "):
            ops.hann_window(1.5, CPU())
        with pytest.raises(ValueError, match="window_length must be non-negative"):
            ops.hann_window(-1, CPU())


def test_complex_numbers():
    rng = generator("complex")
    a, b = sample(rng, "float32", (3, 4, 2), False), sample(rng, "float32", (4, 2), False)
    wide = (a[..., 0] + 1j * a[..., 1].astype(np.complex128)) * (b[..., 0] + 1j * b[..., 1].astype(np.complex128))
    size = np.abs(a).max() * np.abs(b).max()
    for op in (ops.complex.mul, ops.complex_mul):
        got = run(op, a, b, shapes=[["n", 4, 2], [4, 2]])[0]
        np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], wide, atol=4e-7 * size)
    x = sample(rng, "float32", (3, 6))
    assert_equal(run(ops.as_interleaved_complex, x, shapes=[["n", 6]])[0], x.reshape(3, 3, 2))
    with pytest.raises(ValueError, match="The last dimension must be divisible by 2."):
        run(ops.as_interleaved_complex, x[:, :5].copy())
    with pytest.raises(TypeError, match="The last dimension must be static."):
        run(ops.as_interleaved_complex, x, shapes=[[3, "n"]])


def test_regions_use_what_lies_outside_of_them():
    # Ops that are written anew by the compiler, inside and outside, several levels deep.
    x = np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)

    def build(x, p):
        y = ops.softmax(x)

        def inner():
            z = ops.softmax(y * 2)
            return ops.cond(p, [y.type], lambda: y + z + ops.softmax(z), lambda: y)[0]

        return ops.cond(p, [y.type], inner, lambda: ops.sqrt(y))[0]

    def softmax(v):
        e = np.exp(v - v.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    y = softmax(x.astype(np.float64))
    z = softmax(y * 2)
    for p, expected in ((True, y + z + softmax(z)), (False, np.sqrt(y))):
        for shapes in (None, [["n", 4], []]):
            got = run(build, x, np.array(p), shapes=shapes)[0]
            np.testing.assert_allclose(got, expected, rtol=1e-5)
