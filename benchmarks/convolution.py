"""Convolutions beside OpenVINO and ONNX Runtime: one layer each, one thread, float32.

    python benchmarks/run.py --build build/release convolution

Rounds of all runtimes take turns, so that a busy moment of the machine hits them alike; the best call counts.
kiln's tensors are NHWC. ONNX Runtime gets the same numbers as NCHW, OpenVINO in both ways: it lays them out as it
likes.
"""

from __future__ import annotations

import pathlib
import tempfile
import time
from collections.abc import Callable

import numpy as np

from benchmarks.common import fma_peak, package_version
from kiln.driver import Buffer
from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.graph import DeviceRef, Graph, TensorType, Weight, ops

ROUNDS, SECONDS = 12, 0.06
# name: input, filter, stride, padding of each side, groups
LAYERS = {
    "3x3, 64 to 64, 56x56": ((1, 56, 56, 64), (3, 3, 64, 64), 1, 1, 1),
    "1x1, 64 to 64, 56x56": ((1, 56, 56, 64), (1, 1, 64, 64), 1, 0, 1),
    "depthwise 3x3, 64, 56x56": ((1, 56, 56, 64), (3, 3, 1, 64), 1, 1, 64),
    "7x7 / 2, 3 to 64, 224x224": ((1, 224, 224, 3), (7, 7, 3, 64), 2, 3, 1),
    "3x3 / 2, 128 to 256, 28x28": ((1, 28, 28, 128), (3, 3, 128, 256), 2, 1, 1),
    "3x3, 512 to 512, 7x7": ((1, 7, 7, 512), (3, 3, 512, 512), 1, 1, 1),
    "depthwise 5x5 / 2, 240, 28x28": ((1, 28, 28, 240), (5, 5, 1, 240), 2, 2, 240),
    "3x3, 128 in 32 groups, 28x28": ((1, 28, 28, 128), (3, 3, 4, 128), 1, 1, 32),
}


def onnx_model(x_shape, w, stride, padding, groups) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[stride] * 2, pads=[padding] * 4, group=groups)
    n, h, w_, c = x_shape
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [n, c, h, w_])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    filters = numpy_helper.from_array(np.ascontiguousarray(w.transpose(3, 2, 0, 1)), "w")
    graph = helper.make_graph([node], "layer", [x], [y], [filters])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()


def onnxruntime(model: bytes, x: np.ndarray) -> Callable[[], np.ndarray]:
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    # The same memory for every call.
    binding.bind_ortvalue_output("y", binding.get_outputs()[0])

    def call() -> np.ndarray:
        session.run_with_iobinding(binding)
        return binding.get_outputs()[0]

    return call


def openvino(model: bytes, x: np.ndarray, channels_last: bool = False) -> Callable[[], np.ndarray]:
    import openvino as runtime
    from openvino.preprocess import PrePostProcessor

    core = runtime.Core()
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "layer.onnx"
        path.write_bytes(model)
        settings = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
                    "INFERENCE_PRECISION_HINT": "f32"}
        network = core.read_model(path)
        if channels_last:
            steps = PrePostProcessor(network)
            for end in (steps.input(), steps.output()):
                end.model().set_layout(runtime.Layout("NCHW"))
                end.tensor().set_layout(runtime.Layout("NHWC"))
            network = steps.build()
        request = core.compile_model(network, "CPU", settings).create_infer_request()
    request.set_input_tensor(runtime.Tensor(x, shared_memory=True))

    def call() -> np.ndarray:
        request.infer()
        return request.get_output_tensor().data

    return call


def kiln_call(x: np.ndarray, w: np.ndarray, stride: int, padding: int, groups: int) -> Callable[[], np.ndarray]:
    device = DeviceRef.CPU()

    def build(x):
        filters = Weight("w", DType.float32, w.shape, device)
        return ops.conv2d(x, filters, (stride, stride), padding=(padding,) * 4, groups=groups)

    graph = Graph("layer", build, [TensorType(DType.float32, x.shape, device)])
    model = InferenceSession(num_threads=1).load(graph, weights_registry={"w": w})
    buffer = Buffer.from_numpy(x)
    return lambda: model.execute(buffer)[0]


def measure(calls: dict[str, Callable]) -> dict[str, float]:
    """The least time of one call of each, in seconds."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            end = time.perf_counter() + SECONDS
            while (start := time.perf_counter()) < end:
                call()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def main(build: pathlib.Path) -> None:
    others = [name for name in ("openvino", "onnxruntime") if package_version(name) and package_version("onnx")]
    found = ", ".join(f"{name} {package_version(name)}" for name in others)
    print(f"  beside {found or 'nothing'}, 1 thread, FMA peak {fma_peak(build, 1):.1f} GFLOP/s")
    rng = np.random.default_rng(0)
    for name, (x_shape, w_shape, stride, padding, groups) in LAYERS.items():
        x = rng.standard_normal(x_shape).astype(np.float32)
        w = rng.standard_normal(w_shape).astype(np.float32)
        calls = {"kiln": kiln_call(x, w, stride, padding, groups)}
        expected = calls["kiln"]().to_numpy()
        turned = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
        network = onnx_model(x_shape, w, stride, padding, groups)
        if "openvino" in others:
            calls["openvino NCHW"] = openvino(network, turned)
            calls["openvino NHWC"] = openvino(network, x, channels_last=True)
        if "onnxruntime" in others:
            calls["onnxruntime"] = onnxruntime(network, turned)
        for other, call in calls.items():
            got = call()
            got = got if isinstance(got, np.ndarray) else got.to_numpy() if other == "kiln" else got.numpy()
            got = got if other in ("kiln", "openvino NHWC") else got.transpose(0, 2, 3, 1)
            np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)
        times = measure(calls)
        positions = expected.size // expected.shape[-1]
        flops = 2 * positions * w.size / 1e9
        line = f"  {name:32}" + "".join(f"{n} {t * 1e6:8.1f} us   " for n, t in times.items())
        line += f"{flops / times['kiln']:6.1f} GFLOP/s"
        if others:
            line += f"   {times['kiln'] / min(t for n, t in times.items() if n != 'kiln'):5.2f} of the best other"
        print(line)
