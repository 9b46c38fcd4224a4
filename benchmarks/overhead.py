"""A call of a one-kernel graph on 8 floats, from Python and from C++, beside other runtimes."""

from __future__ import annotations

import pathlib
import tempfile
import timeit
from collections.abc import Callable

import numpy as np

from benchmarks.common import package_version, program, run
from kiln.driver import Buffer
from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.graph import DeviceRef, Graph, TensorType, ops


def nanoseconds(call: Callable[[], object], number: int = 2000, repeat: int = 15) -> float:
    """The least time of one call."""
    call()
    return min(timeit.repeat(call, number=number, repeat=repeat)) / number * 1e9


def add_one_graph() -> Graph:
    with Graph("add_one", input_types=[TensorType(DType.float32, [8], DeviceRef.CPU())]) as graph:
        graph.output(ops.add(graph.inputs[0].tensor, 1.0))
    return graph


def jax_call() -> Callable[[], object] | None:
    if not package_version("jax"):
        return None
    import jax

    add, x = jax.jit(lambda value: value + 1), jax.numpy.ones(8)
    return lambda: add(x)


def onnxruntime_call() -> Callable[[], object] | None:
    if not (package_version("onnxruntime") and package_version("onnx")):
        return None
    import onnxruntime
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [8]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "add", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    feed = {"x": np.ones(8, np.float32)}
    return lambda: session.run(None, feed)


def main(build: pathlib.Path) -> None:
    session = InferenceSession()
    compiled = session.compile(add_one_graph())
    model = session.init(compiled)
    array = np.ones(8, np.float32)
    buffer = Buffer.from_numpy(array)
    rows = [
        ("kiln from Python, Buffer in (at most 700)", nanoseconds(lambda: model.execute(buffer))),
        ("kiln from Python, NumPy array in", nanoseconds(lambda: model.execute(array))),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "add_one.mef"
        compiled.export_mef(path)
        rows.append(
            ("kiln from C++ (at most 250)", float(run([program(build, "call_overhead"), str(path)])))
        )
    for name, make in (("jax.jit", jax_call), ("onnxruntime", onnxruntime_call)):
        call = make()
        if call:
            rows.append((f"{name} {package_version(name.split('.')[0])}", nanoseconds(call)))
    rows.append(("numpy x + 1", nanoseconds(lambda: array + 1)))
    for name, ns in rows:
        print(f"  {name:44s} {ns:8.0f} ns")
