"""Ops that move, draw, resize and read quantised weights, beside NumPy where it has them."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable, Mapping

import numpy as np

from kiln.driver import CPU, Buffer
from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.graph import Graph, QuantizationEncoding, TensorType, Weight, ops

ROUNDS = 15


def best(function: Callable[[], object]) -> float:
    """Milliseconds of the fastest round."""
    function()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def model(
    build: Callable, *arrays: np.ndarray, weights: Mapping[str, np.ndarray] | None = None
) -> Callable[[], object]:
    types = [TensorType(DType.from_numpy(a.dtype), a.shape, CPU()) for a in arrays]
    loaded = InferenceSession().load(Graph("op", build, types), weights_registry=weights or {})
    buffers = [Buffer.from_numpy(a) for a in arrays]
    return lambda: loaded.execute(*buffers)


def line(what: str, ours: Callable[[], object], other: Callable[[], object] | None = None) -> None:
    text = f"  {what:58} {best(ours):8.2f} ms"
    print(text + (f"   NumPy {best(other):8.2f} ms" if other else ""))


def moving(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2048, 1024), np.float32)
    index = rng.integers(0, 2048, (4096, 1))
    updates = rng.standard_normal((4096, 1024), np.float32)
    line("cumsum of [2048, 1024] along the rows", model(lambda x: ops.cumsum(x, 1), x), lambda: np.cumsum(x, 1))
    line("cumsum down the columns", model(lambda x: ops.cumsum(x, 0), x), lambda: np.cumsum(x, 0))
    line("scatter_nd_add of 4096 rows to it", model(ops.scatter_nd_add, x, updates, index),
         lambda: np.add.at(x.copy(), index[:, 0], updates))
    line("nonzero of its signs", model(lambda m: ops.nonzero(m, "k"), x > 1), lambda: np.argwhere(x > 1))


def drawing() -> None:
    like = TensorType(DType.float32, [1 << 22], CPU())
    generator = np.random.default_rng(0)

    def draw(op: Callable) -> Callable:
        def build(seed):
            ops.random.set_seed(seed)
            return op(like)

        return build

    seed = np.array([3], np.uint64)
    line("random.uniform, 4 Mi numbers", model(draw(ops.random.uniform), seed),
         lambda: generator.random(1 << 22, np.float32))
    line("random.normal, 4 Mi numbers", model(draw(ops.random.normal), seed),
         lambda: generator.standard_normal(1 << 22, np.float32))


def images(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1, 64, 112, 112), np.float32)
    size = (1, 64, 224, 224)
    line("resize_nearest of [1, 64, 112, 112] to twice its size", model(lambda x: ops.resize_nearest(x, size), x))
    line("resize_linear to twice its size", model(lambda x: ops.resize_linear(x, size), x))
    line("resize_linear to [50, 50], antialias",
         model(lambda x: ops.resize_linear(x, (1, 64, 50, 50), antialias=True), x))
    line("resize_bicubic to twice its size", model(lambda x: ops.resize_bicubic(x, size), x))
    blocks = rng.standard_normal((1, 64 * 9, 112 * 112), np.float32)
    line("fold of 3 x 3 to it", model(lambda b: ops.fold(b, (112, 112), 3, padding=1), blocks))
    for n in (512, 400):
        spectra = rng.standard_normal((256, n // 2 + 1, 2), np.float32)
        pairs = spectra[..., 0] + 1j * spectra[..., 1]
        line(f"irfft, 256 times {n}", model(lambda x: ops.irfft(x, input_is_complex=True), spectra),
             lambda pairs=pairs: np.fft.irfft(pairs))


def quantised(rng: np.random.Generator) -> None:
    encoding = QuantizationEncoding.Q4_K
    raw = rng.integers(0, 256, (4096, 16, encoding.block_size)).astype(np.uint8)
    raw[..., :4] = np.array([0.01, 0.01], np.float16).view(np.uint8)
    raw = raw.reshape(4096, -1)
    for rows in (1, 8, 128):
        x = rng.standard_normal((rows, 4096), np.float32)

        def build(x):
            return ops.qmatmul(encoding, None, x, Weight("w", DType.uint8, raw.shape, CPU()))

        line(f"qmatmul Q4_K, [{rows}, 4096] times 4096 x 4096", model(build, x, weights={"w": raw}))


def main(build: pathlib.Path) -> None:
    rng = np.random.default_rng(0)
    moving(rng)
    drawing()
    images(rng)
    quantised(rng)
