"""Exchange with the array libraries that people bring; a library that is not installed is left out."""

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

from kiln.driver import CPU, Buffer, DeviceQueue
from kiln.dtype import DType

pytestmark = pytest.mark.driver

NAMES = ["bool", "int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64"]


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def jax(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    return jax


def values(name, shape):
    count = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    return np.array(count % 2, ml_dtypes.bfloat16 if name == "bfloat16" else name)


def numbers(buffer):
    """The elements in float64, by way of the bytes where NumPy has no such type."""
    if buffer.dtype is DType.bfloat16:
        return buffer.view(DType.uint16).to_numpy().view(ml_dtypes.bfloat16).astype(np.float64)
    return buffer.to_numpy().astype(np.float64)


# PyTorch


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (1, 4, 1)])
@pytest.mark.parametrize("name", NAMES)
def test_torch_tensors_and_buffers_share_memory(torch, name, shape):
    tensor = torch.ones(shape, dtype=getattr(torch, name))
    buffer = Buffer.from_dlpack(tensor)
    assert buffer.dtype is getattr(DType, name) and buffer.shape == shape
    assert buffer._data_ptr() == tensor.data_ptr()
    assert (numbers(buffer) == 1).all()
    tensor.zero_()
    assert (numbers(buffer) == 0).all()
    back = torch.from_dlpack(buffer)
    assert back.dtype == tensor.dtype and tuple(back.shape) == shape
    assert back.data_ptr() == tensor.data_ptr()
    assert DType.from_torch(tensor.dtype) is buffer.dtype and buffer.dtype.to_torch() == tensor.dtype


def test_torch_views_must_be_contiguous(torch):
    tensor = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    with pytest.raises(ValueError, match=r"only accepts contiguous tensors\. First call \.contiguous\(\)"):
        Buffer.from_dlpack(tensor.T)
    np.testing.assert_array_equal(Buffer.from_dlpack(tensor.T.contiguous()).to_numpy(), tensor.numpy().T)
    row = Buffer.from_dlpack(tensor[1])
    tensor[1, 2] = 50
    assert row[2].item() == 50


def test_torch_takes_slices_of_buffers(torch):
    buffer = Buffer.from_numpy(np.arange(12, dtype=np.int32).reshape(3, 4))
    tensor = torch.from_dlpack(buffer[:, ::2])
    assert tensor.tolist() == [[0, 2], [4, 6], [8, 10]]
    tensor[0, 1] = -1
    assert buffer[0, 2].item() == -1


def test_torch_sees_finished_work(torch):
    buffer = Buffer(DType.int32, [1 << 16], stream=DeviceQueue(CPU()))
    buffer.memset(1)
    assert (torch.from_dlpack(buffer) == 0x01010101).all()


@pytest.mark.parametrize("copy", [None, True, False])
def test_torch_copies_as_asked(torch, copy):
    tensor = torch.zeros(3)
    buffer = Buffer.from_dlpack(tensor, copy=copy)
    tensor[0] = 1
    assert buffer[0].item() == (0 if copy else 1)


def test_torch_memory_lives_as_long_as_either_side(torch):
    tensor = torch.full((1000,), 7.0)
    buffer = Buffer.from_dlpack(tensor)
    del tensor
    gc.collect()
    assert (buffer.to_numpy() == 7).all()
    tensor = torch.from_dlpack(buffer)
    del buffer
    gc.collect()
    assert (tensor == 7).all()


def test_torch_tensors_that_need_gradients_are_refused(torch):
    tensor = torch.ones(3, requires_grad=True)
    with pytest.raises((BufferError, RuntimeError), match="grad"):
        Buffer.from_dlpack(tensor)
    assert (Buffer.from_dlpack(tensor.detach()).to_numpy() == 1).all()


def test_torch_dtypes_without_a_twin_are_refused(torch):
    with pytest.raises(ValueError, match="complex64"):
        DType.from_torch(torch.complex64)
    with pytest.raises(BufferError, match="64"):
        Buffer.from_dlpack(torch.ones(2, dtype=torch.complex64))


# JAX


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (1, 4, 1), (2, 0)])
@pytest.mark.parametrize("name", NAMES)
def test_jax_arrays_become_buffers(jax, name, shape):
    array = jax.numpy.asarray(values(name, shape))
    buffer = Buffer.from_dlpack(array)
    assert buffer.dtype is getattr(DType, name) and buffer.shape == shape
    np.testing.assert_array_equal(numbers(buffer), values(name, shape).astype(np.float64))
    copy = Buffer.from_dlpack(array, copy=True)
    copy.memset(1)
    np.testing.assert_array_equal(np.asarray(array), values(name, shape))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (1, 4, 1), (2, 0)])
@pytest.mark.parametrize("name", NAMES)
def test_buffers_become_jax_arrays(jax, name, shape):
    buffer = Buffer.from_numpy(values(name, shape))
    array = jax.dlpack.from_dlpack(buffer)
    assert array.dtype == values(name, shape).dtype and array.shape == shape
    np.testing.assert_array_equal(np.asarray(array), values(name, shape))


def test_jax_sees_finished_work(jax):
    buffer = Buffer(DType.int32, [1 << 16], stream=DeviceQueue(CPU()))
    buffer.memset(1)
    assert (np.asarray(jax.dlpack.from_dlpack(buffer)) == 0x01010101).all()


def test_jax_keeps_the_memory_of_a_buffer(jax):
    source = np.full(1000, 7.0)
    watched = weakref.ref(source)
    array = jax.dlpack.from_dlpack(Buffer.from_numpy(source))
    shared = array.unsafe_buffer_pointer() == source.ctypes.data
    del source
    gc.collect()
    assert (np.asarray(array) == 7).all()
    assert not shared or watched() is not None
    del array
    gc.collect()
    assert watched() is None
