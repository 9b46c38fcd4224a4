"""Texts of mistakes that lie between the layers: paths, names, devices, indices; and NumPy's hooks."""

import os
import socket
import sys

import numpy as np
import pytest

from kiln.driver import CPU, Buffer, Device, load_max_buffer, start_trace
from kiln.dtype import DType
from kiln.engine import CompiledModel, InferenceSession, MefInfo, Model, TensorSpec, query_mef, read
from kiln.graph import BufferType, DeviceRef, Graph, QuantizationEncoding, TensorType, Type, Weight, ops
from kiln.weights import Safetensors, load_safetensors

pytestmark = pytest.mark.engine
F32 = DType.float32


@pytest.fixture
def x():
    with Graph("g", input_types=[TensorType(F32, [4, "n"], CPU())]) as graph:
        yield graph.inputs[0].tensor


@pytest.mark.parametrize(
    "call",
    [
        read,
        query_mef,
        load_safetensors,
        load_max_buffer,
        lambda path: Buffer.mmap(path, DType.uint8, (1,)),
        lambda path: Buffer.mmap(path, DType.uint8, (1,), mode="w+"),
        lambda path: Graph("g", path=path),
        lambda path: InferenceSession().load(path),
    ],
)
@pytest.mark.parametrize("path", ["a\0b", b"a\0b"])
def test_a_path_with_nul_is_shown_whole(call, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_bytes(b"what a cut path would open")
    if isinstance(path, bytes):
        try:
            call(path)
        except (TypeError, RuntimeError):
            return  # takes no bytes
        except ValueError as error:
            assert "NUL" in str(error)
            return
    with pytest.raises(ValueError, match=r"The path 'a\\0b' holds a NUL character"):
        call(path)


def test_exporting_to_a_path_with_nul(tmp_path):
    with Graph("g") as graph:
        graph.output(ops.constant(1.0, F32, CPU()))
    with pytest.raises(ValueError, match="holds a NUL character"):
        InferenceSession().compile(graph).export_mef(str(tmp_path / "a\0b"))
    assert list(tmp_path.iterdir()) == []


def test_names_with_nul():
    with pytest.raises(ValueError, match="The name of a weight cannot hold a NUL character"):
        Weight("w\0x", F32, [1], CPU())
    with pytest.raises(ValueError, match="The name of a graph cannot hold a NUL character"):
        Graph("g\0x")


def test_a_folder_is_no_graph_file(tmp_path):
    with pytest.raises(RuntimeError, match="could not be read: Is a directory"):
        Graph("g", path=tmp_path)
    with pytest.raises(FileNotFoundError, match="nothing"):
        Graph("g", path=tmp_path / "nothing")


def test_torch_that_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match="DType.float32 .*the package torch is not installed"):
        F32.to_torch()


def test_what_from_numpy_takes():
    with pytest.raises(ValueError, match="unsupported NumPy dtype: 'float32' of <class 'str'>; expected a numpy.dtype"):
        DType.from_numpy("float32")
    assert DType.from_numpy(np.float32) is F32 and DType.from_numpy(np.dtype("float32")) is F32


def test_exporting_to_a_device_that_is_not_there():
    with pytest.raises(BufferError, match=r"Buffer.__dlpack__: dl_device is \(type 99, id 0\)"):
        Buffer(F32, (2,)).__dlpack__(dl_device=(99, 0))


@pytest.mark.parametrize("big", [2**70, -(2**70), 2**63])
def test_indices_beyond_64_bits(big, x):
    for key, size in ((big, "4"), ((0, big), "n"), ((..., big), "n"), ((None, big), "4")):
        with pytest.raises(IndexError, match=f"^Index {big} out of range of dim {size}$"):
            x[key]
    with pytest.raises(IndexError, match=f"Index {big} out of range of dim 4"):
        ops.slice_tensor(x, [big])
    with pytest.raises(ValueError, match=f"slice start index {big} out of range for dimension size 4"):
        x[big:]
    with pytest.raises(ValueError, match=f"slice stop index {big} out of range for dimension size 4"):
        x[:big]


def test_a_wrong_axis_names_the_op(x):
    for op in (ops.softmax, ops.logsoftmax, ops.mean, ops.argmax):
        with pytest.raises(ValueError, match="Failed to create op '(.|\n)*Invalid axis=5 for input x.rank=2$"):
            op(x, 5)


def test_numpy_makes_arrays_of_buffers():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    buffer = Buffer.from_numpy(values.copy())
    alias = np.asarray(buffer)
    assert alias.dtype == np.float32
    np.testing.assert_array_equal(alias, values)
    alias[0, 0] = 9
    assert buffer[0, 0].item() == 9
    np.testing.assert_array_equal(np.asarray(buffer[:, ::-1]), alias[:, ::-1])
    copy = np.array(buffer)
    copy[0, 0] = 1
    assert buffer[0, 0].item() == 9
    assert np.asarray(buffer, dtype=np.float64).dtype == np.float64
    assert buffer.__array__(copy=False).ctypes.data == buffer._data_ptr()
    with pytest.raises(ValueError, match="needs a copy"):
        buffer.__array__(np.float64, copy=False)
    with pytest.raises(ValueError, match="bfloat16"):
        np.asarray(Buffer(DType.bfloat16, (2,)))
    assert np.asarray(Buffer.scalar(3, DType.int32)) == 3


def test_mef_weight_has_a_text(tmp_path):
    with Graph("g") as graph:
        graph.output(Weight("w", F32, [2, 3], CPU()) * 2.0)
    path = tmp_path / "g.mef"
    InferenceSession().compile(graph).export_mef(path)
    (weight,) = query_mef(path).weights
    assert repr(weight) == (
        "MefWeight(name='w', dtype=DType.float32, shape=(2, 3), device=cpu:0, carried=False)"
    )


@pytest.mark.parametrize("number", [10**9, 2**31, 2**40])
def test_too_many_threads(number):
    with pytest.raises(ValueError, match=f"num_threads is {number}, but kiln runs at most 256 threads"):
        InferenceSession(num_threads=number)


def test_a_class_in_the_place_of_an_object(x):
    for function in (CPU, DeviceRef.CPU):
        with pytest.raises(TypeError, match=r"got CPU itself; call it, as in CPU\(\)\."):
            TensorType(F32, [1], function)
    with pytest.raises(TypeError, match=r"Types are given as a sequence, such as \[TensorType\(.*\]"):
        Graph("g", input_types=TensorType(F32, [1], CPU()))
    model = InferenceSession().load(Graph("g", lambda a: a + 1, [TensorType(F32, [1], CPU())]))
    with pytest.raises(ValueError, match="inputs of the type <class 'type'>"):
        model(np.float32)
    with pytest.raises(TypeError):
        ops.add(x, np.float32)


@pytest.mark.parametrize("cls", [Device, Model, CompiledModel, TensorSpec, MefInfo, Safetensors, Type])
def test_classes_that_are_not_called(cls):
    for arguments, named in (((), {}), ((1, "two"), {"three": 3})):
        with pytest.raises(TypeError, match="This class is not called; .*(give|list|make|open)s? "):
            cls(*arguments, **named)


def test_a_weight_of_a_foreign_dtype_is_named():
    with Graph("g", input_types=[]) as graph:
        graph.output(graph.add_weight(Weight("W", F32, [1], CPU())) + 1)
    with pytest.raises(ValueError, match="Weight 'W': unsupported NumPy dtype: >f4"):
        InferenceSession().load(graph, weights_registry={"W": np.ones(1, ">f4")})


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("bounds", [(1, 0, -0.3), (0, 1, 0.1), (0.1, 50, 0.7), (-3.3, 3, 0.2)])
def test_a_range_is_rounded_once(dtype, bounds):
    start, stop, step = bounds
    with Graph("g") as graph:
        graph.output(ops.range(start, stop, step, dtype=getattr(DType, dtype), device=CPU()))
    n = max(0, int(np.ceil((stop - start) / step)))
    expected = (start + np.arange(n) * step).astype(dtype)
    found = InferenceSession().load(graph).execute()[0].to_numpy()
    if dtype == "float64":  # a product and a sum may be one operation
        np.testing.assert_allclose(found, expected, rtol=1e-15, atol=1e-15)
    else:
        np.testing.assert_array_equal(found, expected)


def test_values_in_the_place_of_operands_are_named(x):
    for call, what in ((lambda: ops.gather(x, np.array([0, 1]), 0), "The tensor of indices"),
                       (lambda: ops.gather(1.0, x, 0), "The input"),
                       (lambda: ops.where(True, x, x), "The condition of ops.where"),
                       (lambda: ops.cond(True, [], lambda: None, lambda: None), "The predicate of ops.cond"),
                       (lambda: ops.stack([x, 1.0]), "An input of ops.stack")):
        with pytest.raises(TypeError, match=f"{what} must be a value of the graph. Got .*use ops.constant to"):
            call()


def test_encodings_have_names_in_lower_case():
    names = {encoding.name for encoding in QuantizationEncoding}
    assert names == {"q4_0", "q4_k", "q5_k", "q6_k", "q8_0", "gptq"}
    assert QuantizationEncoding["Q4_K"] is QuantizationEncoding("Q4_K") is QuantizationEncoding.Q4_K


def test_a_shape_that_is_none_is_named(x):
    for call in (lambda: TensorType(F32, None, CPU()), lambda: x.reshape(None), lambda: ops.reshape(x, None)):
        with pytest.raises(TypeError, match=r"argument 'shape' must be Iterable\[Dim \| int \| str\], not None"):
            call()


def test_what_is_no_sequence_of_tensors_is_named(x):
    for call in (lambda: ops.concat(x), lambda: ops.stack(x)):
        with pytest.raises(TypeError, match=r"Expected a sequence of tensors, such as \[x, y\], but got the tensor T"):
            call()
    with pytest.raises(TypeError, match="The initial values of ops.while_loop are a sequence of tensors, not "):
        ops.while_loop(x, lambda v: v < 1, lambda v: v)


def test_buffers_of_graphs_are_not_iterated():
    with Graph("g", input_types=[BufferType(F32, ["n", 2], CPU())]) as graph:
        buffer = graph.inputs[0]
        for use in (iter, list, lambda b: 1.0 in b):
            with pytest.raises(TypeError, match="^BufferValue.* is not (iterable|a container)$"):
                use(buffer)


def test_reshape_names_what_was_asked(x):
    with pytest.raises(ValueError, match=r"the input shape \[Dim\(2\), Dim\(3\)\] has 6 elements, which the other dims "
                                         r"of the output shape \[Dim\(-1\), Dim\(4\)\] do not divide"):
        ops.constant(np.ones((2, 3), np.float32)).reshape([-1, 4])


def test_rms_norm_wants_a_size_that_is_not_negative(x):
    with pytest.raises(ValueError, match="epsilon must not be negative, but is -1"):
        ops.rms_norm(ops.constant(np.ones((2, 3), np.float32)), np.ones(3, np.float32), -1.0)


def test_a_path_of_a_graph_is_a_path():
    with pytest.raises(TypeError, match="A path is a str, bytes or an os.PathLike object, not 3 of <class .int.>"):
        Graph("g", path=3)


OPENINGS = [
    lambda path: Buffer.mmap(path, DType.uint8, (1,)),
    lambda path: Buffer.mmap(path, DType.uint8, (1,), mode="r+"),
    lambda path: Buffer.mmap(path, DType.uint8, (1,), mode="w+"),
    load_max_buffer,
    load_safetensors,
    query_mef,
    lambda path: InferenceSession().load(path),
]


@pytest.mark.parametrize(("opens", "kind"), [
    (opens, kind) for opens in OPENINGS for kind in ("pipe", "socket", "device", "directory")
    if opens is not load_safetensors or kind != "directory"  # it takes folders of files
])
def test_what_is_no_regular_file_is_refused_at_once(opens, kind, tmp_path):
    path = tmp_path / "x"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
    elif kind == "directory":
        path.mkdir()
    else:
        path = "/dev/zero"
    reason = "Is a directory" if kind == "directory" else f"is a {kind}, not a regular file"
    with pytest.raises(RuntimeError, match=f"'{path}'.*(?i:{reason})"):
        opens(path)


def test_none_where_a_path_or_a_dtype_is_expected():
    for opens in (start_trace, load_max_buffer, lambda path: Buffer.mmap(path, DType.uint8, (1,))):
        with pytest.raises(TypeError, match="A path is a str, bytes or an os.PathLike object, not None of"):
            opens(None)
    with pytest.raises(ValueError, match="unsupported NumPy dtype: None .*expected a numpy.dtype"):
        DType.from_numpy(None)
