import pickle

import pytest

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.graph import BufferType, DeviceKind, DeviceRef, Dim, FilterLayout, Shape, TensorType, Type
from kiln.graph import _ChainType, _OpaqueType

pytestmark = pytest.mark.graph


def test_device_refs():
    assert DeviceRef.CPU() == DeviceRef("cpu") == DeviceRef(DeviceKind.CPU, 0) == DeviceRef.CPU(-3)
    assert DeviceRef.GPU(1) != DeviceRef.GPU() and str(DeviceRef.GPU(1)) == repr(DeviceRef.GPU(1)) == "gpu:1"
    assert DeviceRef.CPU().device_type is DeviceKind.CPU and DeviceRef.GPU(1).id == 1
    assert DeviceRef.CPU().is_cpu() and DeviceRef.GPU().is_gpu()
    assert DeviceRef.CPU().to_device() is CPU()
    assert DeviceRef.from_device(CPU()) == DeviceRef.CPU() == DeviceRef.from_device(DeviceRef.CPU())
    assert len({DeviceRef.CPU(), DeviceRef.CPU(0), DeviceRef.CPU(1)}) == 2
    assert DeviceKind.from_string("gpu") is DeviceKind.GPU and DeviceKind.CPU == "cpu"
    assert pickle.loads(pickle.dumps(DeviceRef.GPU(2))) == DeviceRef.GPU(2)
    with pytest.raises(ValueError, match="Unknown device kind tpu"):
        DeviceKind.from_string("tpu")
    with pytest.raises(ValueError):
        DeviceRef("tpu")


@pytest.mark.parametrize("kind", [TensorType, BufferType])
def test_types(kind):
    t = kind(DType.float32, ["batch", 4], CPU())
    assert isinstance(t, Type) and t.dtype is DType.float32 and t.shape == ["batch", 4]
    assert isinstance(t.shape, Shape) and t.rank == 2 and t.device == DeviceRef.CPU()
    assert t == kind(DType.float32, Shape(["batch", 4]), DeviceRef.CPU())
    assert t != kind(DType.float32, ["batch", 5], CPU())
    assert hash(t) == hash(kind(DType.float32, ["batch", 4], CPU()))
    assert t.cast(DType.int8) == kind(DType.int8, ["batch", 4], CPU())
    assert t.parameters == ["batch"]
    assert repr(t) == f"{kind.__name__}(dtype=float32, shape=[Dim('batch'), Dim(4)], device=cpu:0)"
    assert pickle.loads(pickle.dumps(t)) == t
    with pytest.raises(RuntimeError, match="can't find num elements since tensor has symbolic dims"):
        t.num_elements()
    assert kind(DType.int8, [2, 3], CPU()).num_elements() == 6
    with pytest.raises(TypeError, match="Static tensor dimensions must be non-negative; got shape="):
        kind(DType.int8, [-1], CPU())
    with pytest.raises(ValueError):
        kind(DType.int8, [1] * 9, CPU())
    with pytest.raises(TypeError):
        kind(DType.int8, [1], "cpu")
    with pytest.raises(AttributeError):
        t.dtype = DType.int8


def test_conversions():
    t = TensorType(DType.float32, [Dim("n") + 1], DeviceRef.GPU(1))
    assert t.as_buffer() == BufferType(DType.float32, [Dim("n") + 1], DeviceRef.GPU(1)) != t
    assert t.as_buffer().as_tensor() == t


def test_other_types():
    assert _OpaqueType("x", {"a": 1, "b": True}) == _OpaqueType("x", {"b": True, "a": 1})
    assert _OpaqueType("x").name == "x" and _ChainType() == _ChainType()
    with pytest.raises(TypeError, match="unsupported parameter type <class 'float'> for custom op"):
        _OpaqueType("x", {"a": 1.5})
    assert FilterLayout.RSCF.name == "RSCF"
