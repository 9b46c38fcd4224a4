"""The encoder on other runtimes, from the same safetensors file. Each function gives a callable
(ids, mask) -> embeddings; `available` says which can run here."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Callable

import numpy as np

from benchmarks.common import package_version

Call = Callable[[np.ndarray, np.ndarray], np.ndarray]
LAYERS, HEADS, WIDTH, EPSILON = 6, 12, 32, 1e-12


def available() -> dict[str, str]:
    """Name and version of each runtime that is installed."""
    versions = {"onnxruntime": "", "openvino": "", "jax": ""}
    for name in versions:
        needs_onnx = name != "jax" and not package_version("onnx")
        versions[name] = "" if needs_onnx else package_version(name)
    return {name: found for name, found in versions.items() if found}


def read_weights(folder: pathlib.Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    found = load_file(str(folder / "model.safetensors"))
    return {name.removeprefix("bert."): value for name, value in found.items() if value.dtype == np.float32}


class OnnxBuilder:
    """Writes the encoder as ONNX, with LayerNormalization and Gelu as single ops (opset 20)."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.weights = weights
        self.nodes: list = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants[name] = np.asarray(value, order="C")
        return name

    def op(self, kind: str, *inputs: str, **attributes: object) -> str:
        from onnx import helper

        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def integers(self, *values: int) -> str:
        return self.constant("i_" + "_".join(map(str, values)), np.array(values, np.int64))

    def scalar(self, value: float) -> str:
        return self.constant(f"f_{value}", np.array(value, np.float32))

    def dense(self, x: str, name: str) -> str:
        matrix = self.constant(name + ".weight", self.weights[name + ".weight"].T)
        bias = self.constant(name + ".bias", self.weights[name + ".bias"])
        return self.op("Add", self.op("MatMul", x, matrix), bias)

    def norm(self, x: str, name: str) -> str:
        gamma = self.constant(name + ".weight", self.weights[name + ".weight"])
        beta = self.constant(name + ".bias", self.weights[name + ".bias"])
        return self.op("LayerNormalization", x, gamma, beta, axis=-1, epsilon=EPSILON)

    def heads(self, x: str, name: str, order: list[int]) -> str:
        split = self.op("Reshape", self.dense(x, name), self.integers(0, 0, HEADS, WIDTH))
        return self.op("Transpose", split, perm=order)

    def embeddings(self) -> str:
        words, places, types = (
            self.weights[f"embeddings.{kind}_embeddings.weight"]
            for kind in ("word", "position", "token_type")
        )
        length = self.op("Gather", self.op("Shape", "ids"), self.scalar_index(1))
        end = self.op("Unsqueeze", length, self.integers(0))
        position = self.op(
            "Slice", self.constant("positions", places), self.integers(0), end, self.integers(0)
        )
        fixed = self.op("Add", position, self.constant("type", types[0]))
        gathered = self.op("Gather", self.constant("words", words), "ids")
        return self.norm(self.op("Add", gathered, fixed), "embeddings.LayerNorm")

    def scalar_index(self, value: int) -> str:
        return self.constant(f"n_{value}", np.array(value, np.int64))

    def layer(self, x: str, bias: str, name: str) -> str:
        query = self.heads(x, f"{name}.attention.self.query", [0, 2, 1, 3])
        key = self.heads(x, f"{name}.attention.self.key", [0, 2, 3, 1])
        value = self.heads(x, f"{name}.attention.self.value", [0, 2, 1, 3])
        scores = self.op("Mul", self.op("MatMul", query, key), self.scalar(WIDTH**-0.5))
        shares = self.op("Softmax", self.op("Add", scores, bias), axis=-1)
        mixed = self.op("Transpose", self.op("MatMul", shares, value), perm=[0, 2, 1, 3])
        joined = self.op("Reshape", mixed, self.integers(0, 0, HEADS * WIDTH))
        attended = self.dense(joined, f"{name}.attention.output.dense")
        x = self.norm(self.op("Add", x, attended), f"{name}.attention.output.LayerNorm")
        wide = self.op("Gelu", self.dense(x, f"{name}.intermediate.dense"))
        narrow = self.dense(wide, f"{name}.output.dense")
        return self.norm(self.op("Add", x, narrow), f"{name}.output.LayerNorm")

    def model(self) -> bytes:
        from onnx import TensorProto, helper, numpy_helper

        x = self.embeddings()
        kept = self.op("Cast", "mask", to=TensorProto.FLOAT)
        wide = self.op("Unsqueeze", kept, self.integers(1, 2))
        bias = self.op("Mul", self.op("Sub", self.scalar(1.0), wide), self.scalar(-1e9))
        for index in range(LAYERS):
            x = self.layer(x, bias, f"encoder.layer.{index}")
        column = self.op("Unsqueeze", kept, self.integers(2))
        total = self.op("ReduceSum", self.op("Mul", x, column), self.integers(1), keepdims=0)
        count = self.op("ReduceSum", column, self.integers(1), keepdims=0)
        mean = self.op("Div", total, count)
        length = self.op("ReduceL2", mean, self.integers(-1), keepdims=1)
        self.nodes.append(helper.make_node("Div", [mean, length], ["vectors"]))
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
            for name in ("ids", "mask")
        ]
        outputs = [
            helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", HEADS * WIDTH])
        ]
        constants = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, "minilm", inputs, outputs, constants)
        opset = [helper.make_opsetid("", 20)]
        return helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()


def onnxruntime(folder: pathlib.Path, threads: int) -> Call:
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    model = OnnxBuilder(read_weights(folder)).model()
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda ids, mask: session.run(None, {"ids": ids, "mask": mask})[0]


def openvino(folder: pathlib.Path, threads: int) -> Call:
    import openvino as runtime

    core = runtime.Core()
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "minilm.onnx"
        path.write_bytes(OnnxBuilder(read_weights(folder)).model())
        model = core.read_model(path)
        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        }
        request = core.compile_model(model, "CPU", settings).create_infer_request()
    return lambda ids, mask: request.infer([ids, mask])[0]


def jax(folder: pathlib.Path, threads: int) -> Call:
    # JAX has no setting for the number of threads; it takes as many as the process may use.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    import jax as runtime
    import jax.numpy as jnp

    w = {name: jnp.asarray(value) for name, value in read_weights(folder).items()}

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        scale = runtime.lax.rsqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        return centred * scale * w[name + ".weight"] + w[name + ".bias"]

    def dense(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def network(ids, mask):
        batch, length = ids.shape
        x = w["embeddings.word_embeddings.weight"][ids]
        x = x + w["embeddings.position_embeddings.weight"][:length]
        x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        bias = jnp.where(mask[:, None, None, :] == 1, 0.0, -1e9)
        for index in range(LAYERS):
            name = f"encoder.layer.{index}"

            def heads(part, x=x, name=name):
                split = dense(x, f"{name}.attention.self.{part}")
                return split.reshape(batch, length, HEADS, WIDTH).transpose(0, 2, 1, 3)

            scores = heads("query") @ heads("key").swapaxes(-1, -2) / np.sqrt(WIDTH) + bias
            mixed = runtime.nn.softmax(scores, -1) @ heads("value")
            mixed = mixed.transpose(0, 2, 1, 3).reshape(batch, length, HEADS * WIDTH)
            attended = dense(mixed, f"{name}.attention.output.dense")
            x = norm(x + attended, f"{name}.attention.output.LayerNorm")
            wide = runtime.nn.gelu(dense(x, f"{name}.intermediate.dense"), approximate=False)
            x = norm(x + dense(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        kept = mask[..., None].astype(x.dtype)
        mean = (x * kept).sum(1) / kept.sum(1)
        return mean / jnp.linalg.norm(mean, axis=-1, keepdims=True)

    compiled = runtime.jit(network)
    return lambda ids, mask: np.asarray(compiled(ids.astype(np.int32), mask.astype(np.int32)))


def kiln(folder: pathlib.Path, threads: int) -> Call:
    from examples.minilm.minilm import load_model

    model = load_model(folder, num_threads=threads)
    return lambda ids, mask: model.execute(ids, mask)[0].to_numpy()


CALLS = {"kiln": kiln, "onnxruntime": onnxruntime, "openvino": openvino, "jax": jax}
