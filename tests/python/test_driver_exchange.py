import gc
import weakref

import ml_dtypes
import numpy as np
import pytest

from kiln.driver import CPU, Buffer, DeviceQueue, DLPackArray
from kiln.dtype import DType

pytestmark = pytest.mark.driver

NATIVE = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "float32", "float64"]
ML = ["bfloat16", "float8_e8m0fnu", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
      "float8_e5m2fnuz"]


def readonly(array):
    array = array.copy()
    array.flags.writeable = False
    return array


class Producer:
    """A DLPack producer of the oldest kind around a NumPy array."""

    def __init__(self, array, is_contiguous=None):
        self.array = array
        if is_contiguous is not None:
            self.is_contiguous = lambda: is_contiguous

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


class ModernProducer(Producer):
    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked = {"stream": stream, "max_version": max_version, "copy": copy}
        return self.array.__dlpack__(max_version=max_version, copy=copy)


# NumPy


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_from_and_to_numpy(name, shape):
    array = np.ones(shape, name)
    b = Buffer.from_numpy(array)
    assert b.dtype is getattr(DType, name) and b.shape == shape
    back = b.to_numpy()
    assert back.dtype == array.dtype and back.shape == shape
    assert back.flags.writeable
    if array.size:
        assert not back.flags.owndata
        assert back.ctypes.data == array.ctypes.data


@pytest.mark.parametrize("name", ML)
def test_from_ml_dtypes(name):
    array = np.array([0.5, 1, 2]).astype(getattr(ml_dtypes, name))
    b = Buffer.from_numpy(array)
    assert b.dtype is getattr(DType, name)
    assert [b[i].item() for i in range(3)] == [0.5, 1, 2]
    if name == "bfloat16":
        with pytest.raises(ValueError, match="unsupported DType to convert to NumPy: DType.bfloat16"):
            b.to_numpy()
        assert b.view(DType.uint16).to_numpy().tolist() == array.view(np.uint16).tolist()
    else:
        assert b.to_numpy().dtype == np.uint8
        assert b.to_numpy().tolist() == array.view(np.uint8).tolist()


def test_from_numpy_aliases_or_copies():
    array = np.arange(6).reshape(2, 3)
    b = Buffer.from_numpy(array)
    b[0, 0] = 7
    assert array[0, 0] == 7
    for other in (array.T, array[:, ::2], readonly(array), array[::-1]):
        copied = Buffer.from_numpy(other)
        assert copied.is_contiguous and copied.to_numpy().tolist() == other.tolist()
        copied[0, 0] = -1
        assert other[0, 0] != -1


@pytest.mark.parametrize("array", [
    np.array([None]), np.zeros(1, complex), np.zeros(1, ">f4"), np.zeros(2, ml_dtypes.float4_e2m1fn),
    np.array(["a"]), np.zeros(1, "M8[s]"), np.zeros(1, ml_dtypes.int4)])
def test_from_numpy_refuses(array):
    with pytest.raises(ValueError, match="unsupported NumPy dtype: "):
        Buffer.from_numpy(array)


def test_from_numpy_wants_an_array():
    for other in ([1], 3.0, np.float32(1)):
        with pytest.raises(TypeError):
            Buffer.from_numpy(other)


def test_lifetimes():
    array = np.arange(3)
    gone = weakref.ref(array)
    b = Buffer.from_numpy(array)
    del array
    gc.collect()
    view = b[1:].to_numpy()
    del b
    gc.collect()
    assert gone() is not None and view.tolist() == [1, 2]
    del view
    gc.collect()
    assert gone() is None


def test_to_numpy_of_slices_and_slices_of_memmaps(tmp_path):
    b = Buffer.from_numpy(np.arange(12).reshape(3, 4))
    assert b[::-1, ::2].to_numpy().tolist() == np.arange(12).reshape(3, 4)[::-1, ::2].tolist()
    np.arange(4, dtype=np.float32).tofile(tmp_path / "x")
    mapped = np.memmap(tmp_path / "x", np.float32, mode="r")
    assert Buffer.from_dlpack(mapped).to_numpy().tolist() == [0, 1, 2, 3]
    with pytest.raises(BufferError):
        Buffer.from_dlpack(mapped, copy=False)


def test_to_numpy_waits_for_the_writer():
    queue = DeviceQueue(CPU())
    b = Buffer(DType.int32, (4,), queue)
    source = Buffer.from_numpy(np.arange(4, dtype=np.int32))
    queue.enqueue_cpu_function(lambda: __import__("time").sleep(0.05))
    b.inplace_copy_from(source)
    assert b.to_numpy().tolist() == [0, 1, 2, 3]


# Import


def test_protocol():
    assert isinstance(Buffer.zeros((1,), DType.int8), DLPackArray)
    assert isinstance(np.zeros(1), DLPackArray) and not isinstance(3, DLPackArray)


def test_import_of_a_buffer():
    b = Buffer.zeros((2,), DType.int8)
    assert Buffer.from_dlpack(b) is b and Buffer.from_dlpack(b, copy=False) is b
    c = Buffer.from_dlpack(b, copy=True)
    c[0] = 1
    assert b[0].item() == 0


@pytest.mark.parametrize("copy", [None, False])
def test_import_aliases_writable_arrays(copy):
    array = np.zeros(3, bool)
    b = Buffer.from_dlpack(array, copy=copy)
    b[1] = True
    assert b.dtype is DType.bool and array.tolist() == [False, True, False]


def test_import_copies():
    array = np.zeros(2)
    Buffer.from_dlpack(array, copy=True)[0] = 1
    assert array[0] == 0
    for copy in (None, True):
        b = Buffer.from_dlpack(readonly(array), copy=copy)
        b[0] = 5
        assert b[0].item() == 5
    with pytest.raises(BufferError, match=r"Consider passing `copy = True` to `Buffer.from_dlpack`.$"):
        Buffer.from_dlpack(readonly(array), copy=False)


def test_import_wants_contiguous_arrays():
    with pytest.raises(ValueError, match="driver buffer's from_dlpack only accepts contiguous arrays. "
                                         r"First call np.ascontiguousarray\(array\)"):
        Buffer.from_dlpack(np.zeros((3, 4)).T)
    text = r"only accepts contiguous tensors. First call .contiguous\(\) on the tensor"
    with pytest.raises(ValueError, match=text):
        Buffer.from_dlpack(Producer(np.zeros((3, 4)).T))
    with pytest.raises(ValueError, match=text):
        Buffer.from_dlpack(Producer(np.zeros(3), is_contiguous=False))
    assert Buffer.from_dlpack(Producer(np.zeros((1, 3)).T.copy().T, is_contiguous=True)).shape == (1, 3)
    assert Buffer.from_dlpack(Producer(np.zeros((0, 4))[:, ::2])).shape == (0, 2)


@pytest.mark.parametrize("kind", [Producer, ModernProducer])
@pytest.mark.parametrize("copy", [None, False, True])
def test_import_of_other_producers(kind, copy):
    array = np.arange(4.0)
    b = Buffer.from_dlpack(kind(array), copy=copy)
    assert b.to_numpy().tolist() == [0, 1, 2, 3]
    b[0] = 9
    assert array[0] == (0 if copy else 9)


def test_handshake():
    producer = ModernProducer(np.zeros(1))
    Buffer.from_dlpack(producer)
    assert producer.asked == {"stream": None, "max_version": (1, 1), "copy": None}
    Buffer.from_dlpack(producer, copy=True)
    assert producer.asked["copy"] is True


@pytest.mark.parametrize("copy", [None, True])
def test_import_of_readonly_capsules_copies(copy):
    array = readonly(np.arange(3))
    b = Buffer.from_dlpack(ModernProducer(array), copy=copy)
    b[0] = 5
    assert array[0] == 0
    if copy is None:
        with pytest.raises(BufferError):
            Buffer.from_dlpack(ModernProducer(array), copy=False)


def test_a_capsule_is_used_once():
    capsule = np.zeros(2).__dlpack__()

    class Again(Producer):
        def __dlpack__(self, stream=None):
            return capsule

    Buffer.from_dlpack(Again(None))
    with pytest.raises(BufferError):
        Buffer.from_dlpack(Again(None))


def test_import_errors():
    for other in (3, "text", [1.0], None, object()):
        with pytest.raises(TypeError):
            Buffer.from_dlpack(other)
    with pytest.raises(BufferError):
        Buffer.from_dlpack(Producer(np.zeros(2, complex)))

    class Failing(Producer):
        def __dlpack__(self, stream=None):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Buffer.from_dlpack(Failing(None))


def test_producer_memory_is_released_once():
    array = np.arange(3)
    gone = weakref.ref(array)
    b = Buffer.from_dlpack(Producer(array))
    s = b[1:]
    del array, b
    gc.collect()
    assert gone() is not None
    del s
    gc.collect()
    assert gone() is None


# Export


@pytest.mark.parametrize("name", NATIVE)
def test_numpy_aliases_exports(name):
    b = Buffer.zeros((2, 3), getattr(DType, name))
    array = np.from_dlpack(b)
    b[1, 2] = 1
    assert array[1, 2] == 1 and array.dtype == np.dtype(name)
    assert Buffer.from_dlpack(np.from_dlpack(b))._data_ptr() == b._data_ptr()


def test_export_of_strided_and_empty_buffers():
    b = Buffer.from_numpy(np.arange(12).reshape(3, 4))
    assert np.from_dlpack(b[:, 1:3]).tolist() == [[1, 2], [5, 6], [9, 10]]
    assert np.from_dlpack(Buffer.zeros((0, 3), DType.int8)).shape == (0, 3)
    assert np.from_dlpack(b[1:2, :].copy()[:, :]).flags.c_contiguous


def test_device():
    assert Buffer.zeros((1,), DType.int8).__dlpack_device__() == (1, 0)


def capsule_name(capsule):
    return repr(capsule).split('"')[1]


def test_versions():
    b = Buffer.zeros((1,), DType.int8)
    assert capsule_name(b.__dlpack__()) == "dltensor"
    assert capsule_name(b.__dlpack__(max_version=(0, 8))) == "dltensor"
    for version in ((1, 0), (1, 1), (2, 0)):
        assert capsule_name(b.__dlpack__(max_version=version)) == "dltensor_versioned"
    for bad in (1, (1,), ("1", "0"), [1, 0, 0]):
        with pytest.raises(TypeError):
            b.__dlpack__(max_version=bad)


def test_streams_of_the_cpu():
    b = Buffer.zeros((1,), DType.int8)
    b.__dlpack__(stream=None)
    b.__dlpack__(stream=-1)
    for bad in (0, 1, 2, -2):
        with pytest.raises(ValueError):
            b.__dlpack__(stream=bad)


def test_devices_and_copies():
    b = Buffer.zeros((2,), DType.int32)
    np.from_dlpack(b, copy=True)[0] = 1
    assert b[0].item() == 0
    array = np.from_dlpack(b, device="cpu", copy=False)
    array[0] = 2
    assert b[0].item() == 2
    b.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError):
        b.__dlpack__(dl_device=(99, 0))
    with pytest.raises(TypeError):
        b.__dlpack__(dl_device=3)


def test_small_floats_need_a_new_consumer():
    b = Buffer.zeros((4,), DType.float8_e4m3fn)
    for version in (None, (1, 0)):
        with pytest.raises(BufferError):
            b.__dlpack__(max_version=version)
    b.__dlpack__(max_version=(1, 1))
    Buffer.zeros((4,), DType.float4_e2m1fn).__dlpack__(max_version=(1, 1))
    with pytest.raises(BufferError):
        Buffer.zeros((4,), DType.float4_e2m1fn)[1:].__dlpack__(max_version=(1, 1))
    assert Buffer.from_dlpack(ModernExport(b)).dtype is DType.float8_e4m3fn


class ModernExport:
    """Hides that the producer is a Buffer, so that the import goes through the capsule."""

    def __init__(self, buffer):
        self.buffer = buffer

    def __dlpack__(self, **arguments):
        return self.buffer.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.buffer.__dlpack_device__()


@pytest.mark.parametrize("name", [*NATIVE, *ML, "float4_e2m1fn"])
def test_round_trip_through_capsules(name):
    b = Buffer.zeros((2, 4), getattr(DType, name))
    b[1, 3] = 1
    back = Buffer.from_dlpack(ModernExport(b))
    assert back.dtype is b.dtype and back.shape == b.shape
    assert back._data_ptr() == b._data_ptr() and back[1, 3].item() == 1
    copied = Buffer.from_dlpack(ModernExport(b), copy=True)
    assert copied._data_ptr() != b._data_ptr() and copied[1, 3].item() == 1


def test_unused_capsules_release_the_memory():
    array = np.arange(3)
    gone = weakref.ref(array)
    capsule = Buffer.from_numpy(array).__dlpack__()
    del array
    gc.collect()
    assert gone() is not None
    del capsule
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("dtype, named", [("complex64", "code 5 with 64 bits and 1 lanes"),
                                          ("complex128", "code 5 with 128 bits and 1 lanes"),
                                          ("O", "DLPack only supports"), (">f4", "DLPack only supports"),
                                          ("M8[s]", "DLPack only supports"), ("U1", "DLPack only supports")])
@pytest.mark.parametrize("copy", [None, True, False])
def test_element_types_that_dlpack_cannot_carry_here(dtype, named, copy):
    with pytest.raises(BufferError, match=named):
        Buffer.from_dlpack(np.zeros(2, dtype), copy=copy)


def test_half_bytes_are_exported_packed():
    rows = Buffer.zeros((4, 4), DType.float4_e2m1fn)
    rows[2, 1] = 3.0
    rows[2:, :].__dlpack__(max_version=(1, 1))
    for strided in (rows[:, :2], rows[::2, :], rows[::-1, :]):
        with pytest.raises(BufferError, match="is not contiguous; take a copy"):
            strided.__dlpack__(max_version=(1, 1))
        strided.__dlpack__(max_version=(1, 1), copy=True)
    with pytest.raises(BufferError, match="starts in the middle of a byte; take a copy"):
        rows[0, 1:].__dlpack__(max_version=(1, 1))

    class Copy:
        def __dlpack__(self, **options):
            return rows[::2, :].__dlpack__(**{**options, "copy": True})

        def __dlpack_device__(self):
            return (1, 0)

    assert Buffer.from_dlpack(Copy())[1, 1].item() == 3.0


@pytest.mark.parametrize("device", [("a", "b"), (1.5, 0), (2**40, 0), (1, 2**40)])
def test_a_dlpack_device_that_is_none(device):
    producer = Producer(np.zeros(2))
    producer.__class__ = type("Odd", (Producer,), {"__dlpack_device__": lambda self: device})
    with pytest.raises(BufferError, match="but a device type and an id are ints of 32 bits"):
        Buffer.from_dlpack(producer)


def test_a_device_beyond_every_device_is_named_as_given():
    with pytest.raises(BufferError, match=rf"dl_device is \({2**40}, 0\), a device that kiln does not have"):
        Buffer(DType.float32, (2,)).__dlpack__(dl_device=(2**40, 0))
