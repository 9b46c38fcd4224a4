"""What print ops show and write in each style."""

import numpy as np
import pytest
from running import numpy_type, tensor_type, to_array, to_buffer

from kiln.driver import CPU, load_max_buffer
from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.graph import Graph, ops

pytestmark = pytest.mark.compiler


def printed(capfd, style, array, dtype="float32", label="x", text=None, **options):
    """The standard output of a model that prints an array, and a text when there is one."""

    def build(x):
        ops.print(x, label)
        if text:
            ops.print(text, "note")
        return x

    session = InferenceSession()
    session.set_debug_print_options(style, **options)
    model = session.load(Graph("case", build, [tensor_type(dtype, array.shape)]))
    capfd.readouterr()
    model.execute(to_buffer(array))
    return capfd.readouterr().out


def test_compact(capfd):
    long = np.full(20, 1.123456789, np.float32)
    assert printed(capfd, "COMPACT", long) == (
        "x = tensor([[1.1235, 1.1235, 1.1235, ..., 1.1235, 1.1235, 1.1235]], dtype=f32, shape=[20])\n")
    table = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert printed(capfd, "COMPACT", table, "int32", text="hello") == (
        "x = tensor([[0, 1, 2],\n [3, 4, 5]], dtype=si32, shape=[2,3])\nnote = hello\n")


@pytest.mark.parametrize("precision, number", [(6, "1.123457e+00"), (2, "1.12e+00")])
def test_full(capfd, precision, number):
    long = np.full(20, 1.123456789, np.float32)
    expected = f"x = tensor<20xf32> [{', '.join([number] * 20)}]\nnote = hello\n"
    assert printed(capfd, "FULL", long, text="hello", precision=precision) == expected
    table = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert printed(capfd, "FULL", table, "int32") == "x = tensor<2x3xsi32> [0, 1, 2, 3, 4, 5]\n"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "uint64"])
def test_binary(capfd, tmp_path, dtype):
    array = np.arange(12).reshape(3, 4).astype(numpy_type(dtype))
    assert printed(capfd, "BINARY", array, dtype, text="hello", output_directory=tmp_path) == ""
    assert (tmp_path / "x").read_bytes() == array.tobytes()
    assert (tmp_path / "note").read_bytes() == b"hello"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "uint64"])
@pytest.mark.parametrize("shape", [(3, 4), (), (0, 2)])
def test_checkpoint(capfd, tmp_path, dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(numpy_type(dtype))
    assert printed(capfd, "BINARY_MAX_CHECKPOINT", array, dtype, "layer", output_directory=tmp_path) == ""
    buffer = load_max_buffer(tmp_path / "layer.max")
    assert tuple(buffer.shape) == shape and buffer.dtype == getattr(DType, dtype)
    assert to_array(buffer).tobytes() == array.tobytes()


def test_none_prints_nothing(capfd):
    assert printed(capfd, "NONE", np.ones(3, np.float32), text="hello") == ""


def test_a_file_that_cannot_be_written(capfd, tmp_path):
    missing = tmp_path / "missing"
    with pytest.raises(RuntimeError, match="missing/x.*No such file"):
        printed(capfd, "BINARY", np.ones(3, np.float32), output_directory=missing)


def test_labels_with_separators():
    with Graph("g"):
        x = ops.constant([1.0], DType.float32, CPU())
        with pytest.raises(ValueError, match="path separator"):
            ops.print(x, "a/b")
        with pytest.raises(ValueError, match="path separator"):
            ops.print("text", "a/b")
