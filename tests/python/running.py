"""Runs graphs on arrays and compares results with what NumPy says in float64."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
from targets import load, session  # noqa: F401: tests take the session from here

from kiln.driver import CPU, Buffer
from kiln.dtype import DType
from kiln.graph import DeviceRef, Graph, TensorType

BOOL = ["bool"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
SMALL_FLOATS = ["float8_e8m0fnu", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]
NUMBERS = INTS + FLOATS


def numpy_type(name: str) -> np.dtype:
    """The NumPy dtype, of ml_dtypes where NumPy has none, of a dtype name."""
    return np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)


def dtype_name(array: np.ndarray) -> str:
    return str(DType.from_numpy(array.dtype)).removeprefix("DType.")


def to_buffer(array: np.ndarray) -> Buffer:
    return Buffer.from_numpy(np.array(array))


def to_array(buffer: Buffer) -> np.ndarray:
    """The elements, with the type of ml_dtypes where NumPy has none."""
    dtype = numpy_type(str(buffer.dtype).removeprefix("DType."))
    if buffer.dtype.size_in_bits == dtype.itemsize * 8 and dtype.kind in "biuf" and hasattr(np, dtype.name):
        return buffer.to_numpy()
    return buffer.view(DType.uint16 if dtype.itemsize == 2 else DType.uint8).to_numpy().view(dtype)


def tensor_type(dtype: str, shape) -> TensorType:
    return TensorType(getattr(DType, dtype), shape, DeviceRef.CPU())


def compiled(build, types, name="case", weights=None):
    """A model of `build(*inputs)`, whose result is one value or several."""
    return load(Graph(name, build, types), weights)


def run(build, *arrays, shapes=None) -> list[np.ndarray]:
    """The results of `build` on the arrays; `shapes` gives symbolic shapes for their types."""
    shapes = shapes or [a.shape for a in arrays]
    types = [tensor_type(dtype_name(a), s) for a, s in zip(arrays, shapes)]
    return execute(compiled(build, types), arrays)


def execute(model, arrays, buffers=()) -> list[np.ndarray]:
    """The results for the arrays and, behind them, buffers that the graph may write."""
    return [to_array(r) for r in model.execute(*[to_buffer(a) for a in arrays], *buffers)]


# Comparing


def ordered(array: np.ndarray) -> np.ndarray:
    """Floats as integers that count the representable values; both zeros are 0."""
    bits = {2: np.int16, 4: np.int32, 8: np.int64}[array.dtype.itemsize]
    raw = array.view(bits).astype(object)
    top = 1 << (array.dtype.itemsize * 8 - 1)
    return np.where(raw < 0, -(raw + top), raw)


def assert_equal(got: np.ndarray, expected: np.ndarray, signed_zero=False) -> None:
    """Bit for bit, but any NaN equals any other and, unless asked for, the zeros each other."""
    assert got.shape == expected.shape, f"shape {got.shape}, expected {expected.shape}"
    assert got.dtype == expected.dtype, f"dtype {got.dtype}, expected {expected.dtype}"
    wide = np.float64 if got.dtype.kind not in "biu" else got.dtype
    a, b = np.ravel(got).astype(wide), np.ravel(expected).astype(wide)
    same = a == b
    if wide is np.float64:
        same |= np.isnan(a) & np.isnan(b)
        if signed_zero:
            same &= np.isnan(a) | (np.signbit(a) == np.signbit(b))
    report(got, expected, same)


def assert_ulp(got: np.ndarray, exact: np.ndarray, ulp=4, slack=None) -> None:
    """Within `ulp` of the exact value rounded to the result type, or within `slack`."""
    with np.errstate(all="ignore"):
        expected = exact.astype(got.dtype)
    assert got.shape == expected.shape, f"shape {got.shape}, expected {expected.shape}"
    if got.size == 0:
        return
    distance = np.abs(ordered(np.ravel(got)) - ordered(np.ravel(expected)))
    a, b = np.ravel(got).astype(np.float64), np.ravel(expected).astype(np.float64)
    same = (np.isnan(a) & np.isnan(b)) | (~np.isnan(a) & ~np.isnan(b) & (distance <= ulp).astype(bool))
    if slack is not None:
        with np.errstate(all="ignore"):
            same |= np.abs(a - np.ravel(exact).astype(np.float64)) <= np.ravel(np.broadcast_to(slack, got.shape))
    report(got, expected, same)


def nearest(value, digits):
    """The integer with that many binary digits, and zeros behind, nearest to `value`; ties to even."""
    cut = max(abs(value).bit_length() - digits, 0)
    kept, rest = divmod(abs(value), 1 << cut)
    kept += 2 * rest > 1 << cut or (2 * rest == 1 << cut and kept % 2)
    return (kept << cut) * (1 if value > 0 else -1)


def report(got, expected, same) -> None:
    if same.all():
        return
    wrong = np.flatnonzero(~same)
    lines = [f"{len(wrong)} of {len(same)} elements differ ({got.dtype}, shape {got.shape}):"]
    for i in wrong[:8]:
        where = tuple(int(k) for k in np.unravel_index(i, got.shape)) if got.shape else ()
        lines.append(f"  {where}: got {np.ravel(got)[i]!r}, expected {np.ravel(expected)[i]!r}")
    raise AssertionError("\n".join(lines))


def unit(dtype: str) -> float:
    """The distance from 1 to the next value."""
    return float(ml_dtypes.finfo(numpy_type(dtype)).eps)


def ulp_of(dtype: str) -> int:
    """Half types are computed in float32 and rounded once, which moves at most to a neighbour."""
    return 1 if dtype in ("float16", "bfloat16") else 4


# Values


def specials(dtype: str, extremes=True) -> np.ndarray:
    """Numbers at which implementations go wrong."""
    kind = numpy_type(dtype)
    if dtype == "bool":
        return np.array([False, True, True, False])
    if dtype in INTS:
        info = np.iinfo(kind)
        values = {0, 1, 2, 3, 7, 100, info.max, info.min, info.max - 1, info.min + 1, info.max // 2}
        values |= {-1, -2, -7, -100} if info.min < 0 else {200}
        return np.array(sorted(values), kind)
    info = ml_dtypes.finfo(kind)
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 10.0, -10.0, 0.001, math.pi, -math.e,
              0.9999, 1.0001, 88.0, -88.0, 1000.0, math.nan, math.inf, -math.inf]
    if extremes:
        values += [float(info.smallest_subnormal), -float(info.smallest_subnormal), float(info.tiny),
                   float(info.tiny) * 0.75, float(info.max), -float(info.max)]
    return np.array(values).astype(kind)


def sample(rng: np.random.Generator, dtype: str, shape, special=True) -> np.ndarray:
    """Random values of all magnitudes; with `special`, about a fifth of them special ones."""
    kind, count = numpy_type(dtype), math.prod(shape)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in INTS:
        info = np.iinfo(kind)
        small = rng.integers(max(info.min, -20), 21, shape).astype(kind)
        if not special:
            return small
        wide = rng.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
        return np.where(rng.random(shape) < 0.5, small, wide)
    values = rng.standard_normal(shape) * np.exp2(rng.integers(-3, 4, shape))
    if special and count:
        chosen = rng.choice(specials(dtype).astype(np.float64), shape)
        values = np.where(rng.random(shape) < 0.2, chosen, values)
    return np.asarray(values).astype(kind)


def generator(*key) -> np.random.Generator:
    """Random numbers that depend on nothing but the key, so that every run sees the same."""
    return np.random.default_rng([abs(hash_text(str(k))) for k in key] or [0])


def hash_text(text: str) -> int:
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 % 2**32
    return value


def host():
    return CPU()
