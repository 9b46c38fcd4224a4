"""Tensors beside the eager arrays of other libraries, and a compiled callable beside its model."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np

from benchmarks.common import package_version, run_python
from benchmarks.overhead import nanoseconds
from kiln.driver import CPU, Buffer
from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.experimental.compilation import compile
from kiln.experimental.sharding import TensorLayout
from kiln.experimental.tensor import Tensor
from kiln.graph import Graph, TensorType, Value

# The time of a first use of an op and types, in a process whose compiler is loaded, or that finds the program on disk.
FIRST = """
import time
from kiln.experimental.tensor import Tensor
from kiln.experimental import functional as F
x = Tensor.ones([8])
x + x
times = []
for op in (F.exp, F.tanh, F.sqrt, F.sigmoid, F.relu):
    start = time.perf_counter()
    op(x)
    times.append(time.perf_counter() - start)
print(sorted(times)[2] * 1e3)
"""


# Stage and compile of GPT-2 blocks: the time of twelve in that of one.
LAYERS = """
import time
from examples.gpt2_block.gpt2_block import GPT2
from kiln.driver import CPU
from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.experimental.compilation import stage
from kiln.experimental.sharding import TensorLayout
session = InferenceSession()
layouts = [TensorLayout(DType.float32, shape, CPU()) for shape in (["batch", "length", 768], ["length", "length"])]
def seconds(layers):
    model = GPT2(layers=layers, size=768, heads=12)
    start = time.perf_counter()
    session.compile(stage(model._function())(*layouts).graph)
    return time.perf_counter() - start
seconds(1)
print(min(seconds(12) for _ in range(4)) / min(seconds(1) for _ in range(4)))
"""


def jax_add(shape: tuple[int, ...]) -> Callable[[], object] | None:
    if not package_version("jax"):
        return None
    import jax

    x = jax.numpy.ones(shape)
    return lambda: (x + x).block_until_ready()


def torch_add(shape: tuple[int, ...]) -> Callable[[], object] | None:
    if not package_version("torch"):
        return None
    import torch

    torch.set_num_threads(1)
    x = torch.ones(shape)
    return lambda: x + x


def twenty_results(x: Value) -> list[Value]:
    return [x * i for i in range(20)]


def chain_of_products(x: Value) -> list[Value]:
    y = x
    for _ in range(20):
        y = y @ x
    return [y]


def replay_ratio(build: Callable[[Value], list[Value]]) -> float:
    """The time of a replay in that of an execution of a graph of small kernels."""
    with Graph("kernels", input_types=[TensorType(DType.float32, [8, 8], CPU())]) as graph:
        graph.output(*build(graph.inputs[0]))
    model = InferenceSession().load(graph)
    x = Buffer.zeros([8, 8], DType.float32)
    model.capture(0, x)
    return nanoseconds(lambda: model.replay(0, x)) / nanoseconds(lambda: model.execute(x))


def first_use(**variables: str) -> float:
    """Milliseconds, the median of five ops."""
    return float(run_python(FIRST, **variables))


def main(build: pathlib.Path) -> None:
    for shape, limit in (((8,), "at most 2000"), ((512, 512), "at most torch, 1 thread")):
        x, array = Tensor.ones(shape), np.ones(shape, np.float32)
        number = 2000 if len(shape) == 1 else 200
        rows = [(f"kiln a + b ({limit})", nanoseconds(lambda x=x: x + x, number))]
        for name, make in (("jax", jax_add), ("torch", torch_add)):
            if call := make(shape):
                rows.append((f"{name} {package_version(name)}", nanoseconds(call, number)))
        rows.append(("numpy", nanoseconds(lambda array=array: array + array, number)))
        print(f"  {list(shape)}")
        for name, ns in rows:
            print(f"    {name:42s} {ns:8.0f} ns")
    run_compiled = compile(lambda x: x * 2)(TensorLayout(DType.float32, [8], CPU()))
    tensor = Tensor.ones([8])
    buffer, model = tensor.driver_tensor, run_compiled.engine_model
    beyond = nanoseconds(lambda: run_compiled(tensor)) - nanoseconds(lambda: model.execute(buffer))
    print(f"  {'callable beyond Model.execute (at most 1000)':44s} {beyond:8.0f} ns")
    print(f"  {'replay / execute, 20 kernels (at most 0.5)':44s} {replay_ratio(twenty_results):8.2f}")
    print(f"  {'  of a chain of products':44s} {replay_ratio(chain_of_products):8.2f}")
    layers = float(run_python(LAYERS, KILN_CACHE="0"))
    print(f"  {'12 GPT-2 blocks / 1, stage and compile (at most 1.3)':52s} {layers:.2f}")
    print(f"  {'first use of an op, cold (at most 25)':44s} {first_use(KILN_CACHE='0'):8.2f} ms")
    first_use()
    print(f"  {'first use of an op, from disk (at most 1.5)':44s} {first_use():8.2f} ms")
