import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import nearest

from kiln.driver import CPU, Buffer, DeviceEvent, DeviceQueue, Usage
from kiln.driver import batch_inplace_copy, copy_pinned_to_destinations
from kiln.dtype import DType

pytestmark = pytest.mark.driver

NATIVE = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "float32", "float64"]
ML = ["bfloat16", "float8_e8m0fnu", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
      "float8_e5m2fnuz"]


def arange(shape, dtype="int32"):
    return np.arange(math.prod(shape)).reshape(shape).astype(dtype)


# Creating


@pytest.mark.parametrize("name", [*NATIVE, *ML, "float4_e2m1fn"])
def test_every_dtype_can_be_allocated(name):
    dtype = getattr(DType, name)
    b = Buffer(dtype, (2, 4))
    assert (b.dtype, b.shape, b.rank, b.num_elements) == (dtype, (2, 4), 2, 8)
    assert b.element_size == dtype.size_in_bytes and b.strides == (4, 1)
    assert b.is_contiguous and b.is_host and not b.pinned and b.usage == Usage.DEFAULT
    assert b._data_ptr() % 64 == 0 and b._aligned() and b._aligned(64)
    assert b.stream == CPU().default_queue


def test_all_arguments_by_keyword():
    assert Buffer(dtype=DType.int8, shape=[3], device=CPU(), usage=Usage.STAGING).shape == (3,)
    queue = DeviceQueue(CPU())
    b = Buffer(dtype=DType.int8, shape=(3,), stream=queue)
    assert b.stream == queue and b.device is CPU()
    assert Buffer(shape=np.ones(2), device=CPU()).to_numpy().tolist() == [1, 1]
    assert Buffer.zeros(shape=(), dtype=DType.int8, device=None).shape == ()


def test_usage_is_kept():
    b = Buffer(DType.int8, (3, 3), CPU(), Usage.STAGING | Usage.UNTRACKED)
    assert Usage.STAGING in b.usage and Usage.UNTRACKED in b[0, :].usage
    assert not b.pinned


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3)])
def test_zeros(shape):
    b = Buffer.zeros(shape, DType.float32)
    assert b.shape == shape and b.to_numpy().shape == shape
    assert not b.to_numpy().any()


@pytest.mark.parametrize("shape", [(-1,), (2**62, 4), (2**70,)])
def test_bad_sizes(shape):
    with pytest.raises(ValueError):
        Buffer(DType.int8, shape)


@pytest.mark.parametrize("arguments", [(), (DType.int8,), (DType.int8, 3), (DType.int8, "ab"),
                                       (DType.int8, (1.5,)), ((2, 3),), ([1, 2], CPU())])
def test_bad_constructor_arguments(arguments):
    with pytest.raises(TypeError):
        Buffer(*arguments)


def test_huge_allocation_is_a_value_error():
    with pytest.raises(ValueError):
        Buffer(DType.float64, (2**58,))


def test_construct_from_array_copies():
    array = arange((2, 3))
    array.flags.writeable = False
    b = Buffer(array, CPU())
    assert b.to_numpy().tolist() == array.tolist()
    b[0, 0] = 9
    assert array[0, 0] == 0
    assert Buffer(arange((2, 3)).T, CPU()).to_numpy().tolist() == arange((2, 3)).T.tolist()
    assert Buffer(np.array(3.0), CPU()).shape == ()


@pytest.mark.parametrize("name", NATIVE)
def test_scalar(name):
    b = Buffer.scalar(1, getattr(DType, name))
    assert b.shape == () and b.item() == 1
    assert type(b.item()) is (bool if name == "bool" else float if "float" in name else int)


# Element access


@pytest.mark.parametrize("dtype, value, stored", [
    ("bool", 0.5, True), ("bool", math.nan, True), ("int8", -3.9, -3), ("uint64", 2**64 - 1, 2**64 - 1),
    ("int64", -(2**63), -(2**63)), ("float32", 2**70, 2.0**70), ("float16", 65520, math.inf),
    ("float32", 16777217, 16777216.0), ("bfloat16", 1.0078124, 1.0), ("float8_e4m3fn", 500, math.nan),
    ("float8_e5m2", 1e9, math.inf), ("float4_e2m1fn", 100, 6.0), ("float8_e4m3fn", 17, 16.0),
    ("int32", np.int64(7), 7), ("float32", np.float32(0.5), 0.5), ("int32", np.bool_(True), 1),
    ("float32", ml_dtypes.bfloat16(1.5), 1.5), ("int8", True, 1),
])
def test_store(dtype, value, stored):
    b = Buffer(getattr(DType, dtype), (3,))
    b[1] = value
    got = b[1].item()
    assert got == stored or (math.isnan(got) and math.isnan(stored))


@pytest.mark.parametrize("dtype, value", [("int8", 128), ("int8", -129.5), ("uint8", -1), ("int32", math.nan),
                                          ("int64", math.inf), ("uint64", 2**64), ("int64", 10**30)])
def test_store_refuses_values(dtype, value):
    b = Buffer.zeros((1,), getattr(DType, dtype))
    with pytest.raises(ValueError):
        b[0] = value
    assert b.item() == 0


@given(st.integers(65, 120), st.integers(0, 2**20), st.sampled_from([-1, 0, 1]), st.sampled_from([-1, 1]),
       st.sampled_from([1, 24, 53]))
def test_wide_integers_are_rounded_once(width, low, off, sign, digits):
    # Beside the middle of two neighbours, where a double in between would fall on the tie.
    half = 1 << (width - digits - 1)
    middle = (1 << (width - 1)) + (low % (1 << (digits - 1))) * 2 * half + half
    value = sign * (middle + off)
    for dtype, kept in ((DType.float64, 53), (DType.float32, 24), (DType.float8_e8m0fnu, 1)):
        if dtype is not DType.float8_e8m0fnu or (sign > 0 and (off or digits > 1)):
            assert Buffer.scalar(value, dtype).item() == float(nearest(value, kept))


@pytest.mark.parametrize("value", [2**24 + 1, 3 * 2**60 + 1, 2**62 + 2**38 + 1, -(2**62 + 2**38 + 1),
                                   2**63 + 2**39 + 1])
def test_integers_of_64_bits_are_rounded_once(value):
    assert Buffer.scalar(value, DType.float32).item() == float(nearest(value, 24))
    assert Buffer.scalar(value, DType.float64).item() == float(nearest(value, 53))
    if value > 0:
        assert Buffer.scalar(value, DType.float8_e8m0fnu).item() == float(nearest(value, 1))


@pytest.mark.parametrize("dtype, value", [("int64", -(2**63) - 1), ("int64", 2**64 + 1), ("uint64", 2**64 + 1)])
def test_wide_integers_are_no_integer_element(dtype, value):
    with pytest.raises(ValueError, match="out of range"):
        Buffer.scalar(value, getattr(DType, dtype))


@pytest.mark.parametrize("value", ["1", None, [1], 1j, np.ones(1)])
def test_store_refuses_kinds(value):
    with pytest.raises(TypeError):
        Buffer.zeros((1,), DType.float32)[0] = value


def test_store_needs_integers():
    b = Buffer.zeros((2, 2), DType.int8)
    with pytest.raises(NotImplementedError, match="cannot assign across multiple indices"):
        b[0, :] = 1
    with pytest.raises(ValueError, match="expected 2 indices but got 1"):
        b[0] = 1


def test_item_needs_one_element():
    assert Buffer.from_numpy(np.full((1, 1), 4)).item() == 4
    with pytest.raises(ValueError, match="calling `item` on a tensor with 2 items but expected only 1"):
        Buffer.zeros((2,), DType.int8).item()


def test_index_errors():
    b = Buffer.zeros((3, 4, 5), DType.int8)
    with pytest.raises(ValueError, match="expected 3 indices but got 2"):
        b[0, 0]
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 3"):
        b[5, 0, 0]
    with pytest.raises(IndexError):
        b[0, -5, 0]
    with pytest.raises(ValueError):
        b[::0, 0, 0]
    for index in (2**70, -(2**70)):
        for key, axis, size in (((index, 0, 0), 0, 3), ((0, 0, index), 2, 5)):
            text = f"index {index} is out of bounds for axis {axis} with size {size}"
            for use in (lambda: b[key], lambda: b.__setitem__(key, 1)):
                with pytest.raises(IndexError, match=text):
                    use()
        with pytest.raises(IndexError, match=f"index {index} is out of bounds for axis 0 with size 1"):
            Buffer.scalar(1, DType.int8)[index]
    for bad in (..., None, True, 1.0, [0], np.array(0), np.bool_(True), "a", slice(0.5, None), slice("a")):
        with pytest.raises(TypeError):
            b[bad, 0, 0]


def test_rank_0():
    b = Buffer.scalar(5, DType.int32)
    assert b[()].item() == b[0].item() == b[-1].item() == 5
    b[()] = 6
    b[0] = 7
    assert b.item() == 7
    with pytest.raises(IndexError):
        b[1]
    with pytest.raises(ValueError):
        b[0, 0]


@pytest.mark.parametrize("integer", [np.int64, np.uint8, int])
def test_integer_kinds(integer):
    assert Buffer.from_numpy(arange((4,)))[integer(2)].item() == 2


def indices(size):
    bound = st.one_of(st.none(), st.integers(-size - 3, size + 3))
    step = st.one_of(st.none(), st.integers(-4, 4).filter(bool))
    slices = st.builds(slice, bound, bound, step)
    return st.one_of(slices, st.integers(-size, size - 1)) if size else slices


@st.composite
def sliced(draw):
    shape = tuple(draw(st.lists(st.integers(0, 5), min_size=1, max_size=4)))
    first = tuple(draw(indices(n)) for n in shape)
    view = np.empty(shape, np.int8)[first]
    second = tuple(draw(indices(n)) for n in view.shape) or None
    return shape, first, second


@given(sliced(), st.sampled_from(["int32", "uint8", "float64"]))
def test_slices_agree_with_numpy(case, dtype):
    shape, first, second = case
    array = arange(shape, dtype)
    buffer = Buffer.from_numpy(array)
    for key in (first, second):
        if key is None:
            break
        array, buffer = array[key], buffer[key]
        assert buffer.shape == array.shape
        assert buffer.to_numpy().tolist() == array.tolist()
        assert buffer.copy().to_numpy().tolist() == array.tolist()
        assert buffer.copy().is_contiguous
        forward = all(n <= 1 or s > 0 for n, s in zip(array.shape, array.strides))
        assert buffer.is_contiguous == (array.size == 0 or (array.flags.c_contiguous and forward))
        assert [buffer[i].item() for i in buffer._iterate_indices()] == array.ravel().tolist()


@given(sliced())
def test_packed_slices_agree_with_numpy(case):
    shape, first, second = case
    array = (arange(shape) % 7).astype("float32")
    array = np.array([0, 0.5, 1, 1.5, 2, 3, 4])[array.astype(int)]
    buffer = Buffer.zeros(shape, DType.float4_e2m1fn)
    for i in np.ndindex(shape):
        buffer[i] = array[i]
    for key in (first, second):
        if key is None:
            break
        array, buffer = array[key], buffer[key]
        dense = buffer.copy()
        assert [dense[i].item() for i in np.ndindex(array.shape)] == np.ravel(array).tolist()


def test_slices_share_memory_and_keep_it_alive():
    b = Buffer.zeros((8, 10), DType.int32)
    s = b[:, :6]
    assert s.strides == (10, 1) and not s.is_contiguous
    s[7, 5] = 3
    assert b[7, 5].item() == 3
    pointer = b._data_ptr()
    del b
    assert s._data_ptr() == pointer and s[7, 5].item() == 3


# Views and copies


def test_views():
    b = Buffer.zeros((2, 2), DType.int8)
    b[0, 0], b[0, 1] = 1, 1
    assert b.view(DType.int16)[0, 0].item() == 257
    assert b.view(DType.uint8).shape == (2, 2)
    assert b.view(DType.int32, (1,)).shape == (1,)
    assert Buffer.zeros((3,), DType.uint8).view(DType.float4_e2m1fn).shape == (6,)
    assert Buffer.zeros((4, 6), DType.int32)[:, ::2].view(DType.float32).strides == (6, 2)
    assert Buffer.scalar(1.0, DType.float32).view(DType.int32).item() == 0x3F800000
    with pytest.raises(ValueError):
        Buffer.scalar(1.0, DType.float32).view(DType.int16)
    with pytest.raises(ValueError):
        Buffer.zeros((3,), DType.int8).view(DType.int16)
    with pytest.raises(ValueError):
        Buffer.zeros((4, 4), DType.int8)[:, ::2].view(DType.int16)
    with pytest.raises(ValueError):
        Buffer.zeros((4, 4), DType.int8).view(DType.int16, (9,))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=3), st.sampled_from(["int8", "int16", "int64"]),
       st.sampled_from(["int8", "int16", "int32", "int64"]))
def test_views_agree_with_numpy(shape, source, target):
    array = (arange(shape, source) * 37).astype(source)
    buffer = Buffer.from_numpy(array)
    try:
        expected = array.view(target)
    except ValueError:
        with pytest.raises(ValueError):
            buffer.view(getattr(DType, target))
        return
    got = buffer.view(getattr(DType, target))
    assert got.shape == expected.shape and got.to_numpy().tolist() == expected.tolist()


def test_views_at_any_byte():
    raw = Buffer.from_numpy(np.arange(9, dtype=np.uint8))
    b = raw[1:].view(DType.float32)
    assert not b._aligned() and b._aligned(1)
    b[0] = 1.5
    assert b[0].item() == 1.5 and b.copy().to_numpy()[0] == 1.5 and b.copy()._aligned()


def test_copy_and_to():
    b = Buffer.from_numpy(arange((2, 3)))
    c = b.copy()
    c[0, 0] = 9
    assert b[0, 0].item() == 0
    assert b.to(CPU()) is b and b.contiguous() is not b
    assert b.to([CPU(), CPU()])[1] is b
    assert b.copy(CPU()).stream == CPU().default_queue
    with pytest.raises(TypeError):
        b.to("cpu")
    with pytest.raises(TypeError):
        b.to(3)


def test_to_another_queue():
    queue = DeviceQueue(CPU())
    b = Buffer.from_numpy(arange((3,))).copy()
    mine = Buffer(DType.int32, (3,), queue)
    mine.inplace_copy_from(b)
    with pytest.raises(ValueError):
        mine.to(CPU())
    view = mine.to(CPU(), after=queue.record_event())
    assert view is not mine and view.stream == CPU().default_queue
    assert view._data_ptr() == mine._data_ptr() and view.to_numpy().tolist() == [0, 1, 2]
    assert b.to(CPU(), after=DeviceEvent(CPU())) is b


def test_inplace_copy():
    a, b = Buffer.zeros((2, 3), DType.int32), Buffer.from_numpy(arange((6,)))
    a.inplace_copy_from(b)
    assert a.to_numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    c = b[1:]
    b[:5].inplace_copy_from(c)
    assert b.to_numpy().tolist() == [1, 2, 3, 4, 5, 5]
    strided = a[:, ::2]
    strided.inplace_copy_from(strided)
    for destination, source, text in [
        (a[:, ::2], a[:, ::2], "Cannot copy to non-contiguous buffer"),
        (Buffer.zeros((4,), DType.int32), a[:, ::2], "Cannot copy from non-contiguous buffer"),
        (a, Buffer.zeros((5,), DType.int32), "Cannot copy buffers of different sizes"),
        (a, Buffer.zeros((6,), DType.float32), "Cannot copy buffers of different dtypes"),
    ]:
        with pytest.raises(ValueError, match=text):
            destination.inplace_copy_from(source)


def test_memset():
    b = Buffer.zeros((2, 4), DType.int16)
    b[1, :].memset(0x12)
    assert b.to_numpy().tolist() == [[0] * 4, [0x1212] * 4]
    Buffer.zeros((0,), DType.int8).memset(3)
    for bad in (-1, 256):
        with pytest.raises(ValueError):
            b.memset(bad)
    with pytest.raises(ValueError):
        b[:, ::2].memset(1)
    with pytest.raises(ValueError):
        Buffer.zeros((4,), DType.float4_e2m1fn)[1:].memset(1)


def half_bytes(*values):
    b = Buffer(DType.float4_e2m1fn, (len(values),))
    for i, value in enumerate(values):
        b[i] = value
    return b


def test_memset_of_half_bytes():
    # An odd tail leaves the last half byte to nobody, whatever window ends there.
    five = half_bytes(0.5, 1, 1.5, 2, 3)
    five[2:].memset(0)
    assert [five[i].item() for i in range(5)] == [0.5, 1, 0, 0, 0]
    mine = Buffer(DType.float4_e2m1fn, (3,), DeviceQueue(CPU()))
    view = mine.to(CPU(), after=mine.stream.record_event())
    view.memset(0x22)  # 1.0 twice
    assert [view[i].item() for i in range(3)] == [1, 1, 1]
    view.view(DType.float4_e2m1fn, (1, 3)).memset(0)
    six = half_bytes(0.5, 1, 1.5, 2, 3, 4)
    for shared in (six[2:5], six[1:], six[:1], six[3:4], five[1:], six.view(DType.uint8).view(DType.float4_e2m1fn)[:5]):
        with pytest.raises(ValueError, match="shares its byte with an element"):
            shared.memset(0)
    six[2:].memset(0)
    assert [six[i].item() for i in range(6)] == [0.5, 1, 0, 0, 0, 0]


def test_batches():
    sources = [Buffer.from_numpy(arange((n,))) for n in (1, 4, 0)]
    targets = [Buffer.zeros((n,), DType.int32) for n in (1, 4, 0)]
    batch_inplace_copy(targets, sources)
    assert [t.to_numpy().tolist() for t in targets] == [[0], [0, 1, 2, 3], []]
    with pytest.raises(ValueError, match=r"batch_inplace_copy: dsts and srcs must have the same length "
                                         r"\(got 2 dsts, 1 srcs\)"):
        batch_inplace_copy(targets[:2], sources[:1])
    copies = [Buffer.zeros((4,), DType.int32) for _ in range(3)]
    copy_pinned_to_destinations(sources[1], copies)
    assert all(c.to_numpy().tolist() == [0, 1, 2, 3] for c in copies)


# Identity and text


def test_identity():
    a = Buffer.zeros((1,), DType.int8)
    b = Buffer.zeros((1,), DType.int8)
    assert a == a and a != b and len({a, b, a}) == 2


def test_text():
    b = Buffer.from_numpy(arange((2, 3), "float32"))
    assert repr(b).startswith("kiln.driver.Buffer(DType.float32, (2, 3), cpu[0]:queue@0x")
    values = np.array2string(arange((2, 3), "float32"), prefix="Buffer(")
    assert str(b) == f"Buffer({values}, dtype=DType.float32, shape=(2, 3), device=Device(type=cpu,id=0))"
    assert "..." in str(Buffer.zeros((100, 100), DType.int8))
    half = Buffer.zeros((1,), DType.bfloat16)
    half[0] = 1.5
    assert str(half).startswith("Buffer([1.5]")


@given(st.lists(st.integers(0, 4), min_size=1, max_size=3), st.sampled_from(["int32", "bool", "float64", "uint8"]))
def test_text_is_laid_out_as_numpy_does(shape, dtype):
    array = arange(shape, dtype)
    values = np.array2string(array, prefix="Buffer(")
    assert str(Buffer.from_numpy(array)).startswith(f"Buffer({values}, dtype=")


@given(st.lists(st.one_of(st.floats(width=16), st.sampled_from([999.5, 1000.0, 65504.0, 1e-4, 1.0003e-4, 6e-8])),
                min_size=1, max_size=6), st.booleans())
def test_text_of_float16_is_numpys(values, rank_0):
    array = np.array(values[0] if rank_0 else values, np.float16)
    text = str(array) if rank_0 else np.array2string(array, prefix="Buffer(")
    assert str(Buffer.from_numpy(array)).startswith(f"Buffer({text}, dtype=")


@given(st.lists(st.one_of(st.floats(width=32), st.sampled_from([999999.0, 1e6, 1e8, 1e16, 1e-4, 9.9e-5])),
                min_size=1, max_size=6), st.sampled_from(["float32", "float64"]), st.booleans())
def test_text_of_floats_is_numpys(values, dtype, rank_0):
    array = np.array(values[0] if rank_0 else values, dtype)
    text = str(array) if rank_0 else np.array2string(array, prefix="Buffer(")
    assert str(Buffer.from_numpy(array)).startswith(f"Buffer({text}, dtype=")


def test_native_methods_have_no_wrappers():
    for name in ("__dlpack__", "__getitem__", "__setitem__", "copy", "item", "to", "zeros"):
        assert "nanobind" in type(vars(Buffer)[name]).__module__ or "nb_" in type(vars(Buffer)[name]).__name__


# Files


def test_mmap(tmp_path):
    path = tmp_path / "data.bin"
    np.arange(8, dtype=np.int32).tofile(path)
    private = Buffer.mmap(path, DType.int32, (2, 4))
    private[0, 0] = 100
    assert np.fromfile(path, np.int32)[0] == 0
    assert Buffer.mmap(str(path), DType.int32, 2, offset=4).to_numpy().tolist() == [1, 2]
    assert Buffer.mmap(path, DType.uint8, [3], mode="r", offset=1).to_numpy().tolist() == [0, 0, 0]
    shared = Buffer.mmap(path, DType.int32, (8,), "r+")
    shared[7] = -1
    assert np.fromfile(path, np.int32)[7] == -1
    Buffer.mmap(path, DType.int16, (3,), "w+")
    assert path.stat().st_size == 6
    assert Buffer.mmap(path, DType.int8, (0,)).num_elements == 0
    with pytest.raises(ValueError):
        Buffer.mmap(path, DType.int8, (3,), "q")
    with pytest.raises(ValueError):
        Buffer.mmap(path, DType.int8, (3,), offset=-1)
    with pytest.raises(ValueError):
        Buffer.mmap(path, DType.int8, (30,))
    with pytest.raises(ValueError, match=f"the offset is {2**70}, but must be between 0 and {2**63 - 1}"):
        Buffer.mmap(path, DType.int8, (3,), offset=2**70)
    with pytest.raises(ValueError, match=str(2**70)):
        Buffer.mmap(path, DType.int8, 2**70)
    with pytest.raises(FileNotFoundError):
        Buffer.mmap(tmp_path / "missing", DType.int8, (3,))
    with pytest.raises(TypeError):
        Buffer.mmap(3.5, DType.int8, (3,))


@pytest.mark.parametrize("kind", [complex, np.complex64, np.complex128, np.clongdouble])
def test_a_complex_number_is_no_element(kind):
    with pytest.raises(TypeError, match="Expected a number, got"):
        Buffer.scalar(kind(1), DType.float32)


def test_an_integer_beyond_every_float():
    for value, nearest_float in ((2**2000, math.inf), (-(2**2000), -math.inf)):
        assert Buffer.scalar(value, DType.bool).item() is True
        for dtype in (DType.float16, DType.float32, DType.float64, DType.bfloat16):
            assert Buffer.scalar(value, dtype).item() == nearest_float
        with pytest.raises(ValueError, match="beyond every float cannot be stored as int64"):
            Buffer.scalar(value, DType.int64)
    b = Buffer.zeros((1,), DType.float32)
    b[0] = 2**2000
    assert b.item() == math.inf == Buffer.scalar(2**200, DType.float32).item()


def test_views_of_buffers_without_elements():
    empty = Buffer.zeros((4, 6), DType.int32)[0:0, ::2]
    assert empty.view(DType.int8).shape == (0, 12)


def test_an_index_that_raises_passes_its_exception_on():
    class Index:
        def __index__(self):
            raise ZeroDivisionError("of its own")

    b = Buffer.zeros((4,), DType.int32)
    for key in (Index(), (Index(),), slice(Index(), None), slice(None, None, Index())):
        with pytest.raises(ZeroDivisionError, match="of its own"):
            b[key]


def test_a_file_that_cannot_be_made_long_enough_keeps_what_it_holds(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"kept")
    with pytest.raises(RuntimeError, match="could not be lengthened"):
        Buffer.mmap(path, DType.uint8, (2**62,), mode="w+")
    assert path.read_bytes() == b"kept"
    Buffer.mmap(path, DType.uint8, (6,), mode="w+")
    assert path.read_bytes() == bytes(6)


def test_an_array_of_rank_0_is_no_shape():
    with pytest.raises(TypeError, match=r"^A shape is a sequence of ints, not array\(2\) of <class 'numpy.ndarray'>"):
        Buffer(DType.int8, np.array(2))
