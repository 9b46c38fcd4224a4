from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.graph import Graph, TensorType, Weight
from kiln.weights import Safetensors, load_safetensors

pytestmark = pytest.mark.engine


@pytest.fixture
def tensors():
    return {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.array([1, 2], np.int64),
            "empty": np.zeros((0, 3), np.float16), "half": np.ones(2, ml_dtypes.bfloat16)}


def test_mapping(tensors, tmp_path):
    save_file(tensors, tmp_path / "x.safetensors", {"format": "np"})
    for paths in (tmp_path / "x.safetensors", str(tmp_path / "x.safetensors"), [tmp_path / "x.safetensors"], tmp_path):
        loaded = load_safetensors(paths)
        assert isinstance(loaded, Safetensors) and isinstance(loaded, Mapping) and len(loaded) == 4
        assert set(loaded) == set(loaded.keys()) == set(tensors) and "a" in loaded and "z" not in loaded
        assert loaded["b"].to_numpy().tolist() == tensors["b"].tolist() and loaded["half"].dtype is DType.bfloat16
        assert loaded["empty"].shape == (0, 3) and loaded.get("z") is None and loaded.get("z", 3) == 3
        assert loaded.metadata == {"format": "np"}
        assert {k: v.shape for k, v in loaded.items()} == {k: v.shape for k, v in tensors.items()}
        assert [v.shape for v in loaded.values()] == [loaded[k].shape for k in loaded]
        with pytest.raises(KeyError):
            loaded["z"]


def test_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_safetensors(tmp_path / "missing")
    with pytest.raises(ValueError):
        load_safetensors(tmp_path)
    (tmp_path / "bad.safetensors").write_bytes(b"\x05\0\0\0\0\0\0\0abcde")
    with pytest.raises(ValueError, match="is not a valid safetensors file"):
        load_safetensors(tmp_path / "bad.safetensors")
    with pytest.raises(TypeError):
        load_safetensors(3)


def test_as_registry(tensors, tmp_path):
    save_file(tensors, tmp_path / "x.safetensors")
    w = Weight("b", DType.float32, [2, 3], CPU())
    graph = Graph("g", lambda x: x @ w, [TensorType(DType.float32, ["n", 2], CPU())])
    model = InferenceSession().load(graph, weights_registry=load_safetensors(tmp_path))
    assert model(np.ones((1, 2), np.float32))[0].to_numpy().tolist() == [[3, 5, 7]]


@pytest.mark.parametrize("wrong", [5, None, b"model.safetensors"])
def test_what_is_no_path_is_refused(wrong):
    with pytest.raises(TypeError, match="load_safetensors expects a path or paths, got "):
        load_safetensors(wrong)
