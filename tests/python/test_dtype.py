import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from kiln.dtype import DType, finfo

# member: code, bits, text name, NumPy name; from the table of the specification.
TABLE = {
    "bool": (1, 8, "i1", "bool"),
    "int8": (135, 8, "si8", "int8"),
    "int16": (137, 16, "si16", "int16"),
    "int32": (139, 32, "si32", "int32"),
    "int64": (141, 64, "si64", "int64"),
    "uint8": (134, 8, "ui8", "uint8"),
    "uint16": (136, 16, "ui16", "uint16"),
    "uint32": (138, 32, "ui32", "uint32"),
    "uint64": (140, 64, "ui64", "uint64"),
    "float16": (79, 16, "f16", "float16"),
    "bfloat16": (80, 16, "bf16", None),
    "float32": (81, 32, "f32", "float32"),
    "float64": (82, 64, "f64", "float64"),
    "float8_e8m0fnu": (73, 8, "f8e8m0fnu", "uint8"),
    "float8_e4m3fn": (75, 8, "f8e4m3fn", "uint8"),
    "float8_e4m3fnuz": (76, 8, "f8e4m3fnuz", "uint8"),
    "float8_e5m2": (77, 8, "f8e5m2", "uint8"),
    "float8_e5m2fnuz": (78, 8, "f8e5m2fnuz", "uint8"),
    "float4_e2m1fn": (64, 4, "f4e2m1fn", None),
}
ML_DTYPES = [n for n in TABLE if n == "bfloat16" or n.startswith(("float8", "float4"))]


@pytest.mark.parametrize("name", TABLE)
def test_members(name):
    code, bits, text_name, numpy_name = TABLE[name]
    d = getattr(DType, name)
    assert d.size_in_bits == bits
    assert d.size_in_bytes == max(1, bits // 8)
    assert DType(code) is d and DType(text_name) is d and DType(d) is d
    assert str(d) == f"DType.{name}" and repr(d) == name
    assert d.is_integral() == ("int" in name)
    assert d.is_signed_integral() == name.startswith("int")
    assert d.is_unsigned_integral() == name.startswith("uint")
    assert d.is_float() == ("float" in name)
    assert d.is_float8() == name.startswith("float8")
    assert d.is_half() == (name in ("float16", "bfloat16"))
    if numpy_name is None:
        with pytest.raises(ValueError, match=f"unsupported DType to convert to NumPy: DType.{name}"):
            d.to_numpy()
    else:
        assert d.to_numpy() == np.dtype(numpy_name)


def test_members_are_distinct_values():
    members = [getattr(DType, name) for name in TABLE]
    assert len(set(members)) == 19
    assert {m: str(m) for m in members}[DType.int8] == "DType.int8"
    assert DType.int8 != DType.uint8 and DType.int8 != 135


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])
def test_copies_are_the_same_member(make):
    assert make(DType.bfloat16) is DType.bfloat16


def test_unknown_members():
    with pytest.raises(ValueError):
        DType(3)
    with pytest.raises(KeyError):
        DType("float32")
    with pytest.raises(TypeError):
        DType(None)


@pytest.mark.parametrize("name", [n for n, row in TABLE.items() if row[3] == n])
def test_from_numpy(name):
    assert DType.from_numpy(np.dtype(name)) is getattr(DType, name)
    assert DType.from_numpy(np.dtype(name).type) is getattr(DType, name)


@pytest.mark.parametrize("name", ML_DTYPES)
def test_ml_dtypes(name):
    d, scalar = getattr(DType, name), getattr(ml_dtypes, name)
    assert d.to_ml_dtypes() == np.dtype(scalar)
    assert DType.from_numpy(np.dtype(scalar)) is d
    assert DType.from_numpy(scalar) is d
    assert DType.int32.to_ml_dtypes() == np.dtype("int32")


@pytest.mark.parametrize("bad", [np.dtype("O"), np.dtype("c8"), np.dtype(">f4"), np.dtype("U3"),
                                 np.dtype("M8[ns]"), np.dtype("i4,i4"), ml_dtypes.int4, 3,
                                 np.floating, np.generic])
def test_from_numpy_refuses(bad):
    with pytest.raises(ValueError, match="unsupported NumPy dtype: "):
        DType.from_numpy(bad)


@pytest.mark.parametrize("name", [n for n in TABLE if "float" in n])
def test_finfo(name):
    got, expected = finfo(getattr(DType, name)), ml_dtypes.finfo(getattr(ml_dtypes, name, name))
    assert got.bits == TABLE[name][1] and got.dtype is getattr(DType, name)
    assert (got.eps, got.max, got.min) == (float(expected.eps), float(expected.max), float(expected.min))
    assert got.tiny == got.smallest_normal == float(expected.smallest_normal)
    assert getattr(DType, name).finfo().max == got.max


def test_finfo_of_others():
    assert repr(finfo(DType.float32)).startswith("finfo(dtype=float32, bits=32, eps=")
    with pytest.raises(TypeError, match="finfo only supports floating-point types, got int32"):
        finfo(DType.int32)
