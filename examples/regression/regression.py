"""Linear regression: one compiled step of gradient descent, called in a loop.

The weights are a buffer that each step updates in place, so the loop allocates nothing but the error.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np

if __package__ in (None, ""):  # run as a program: find kiln unless it is installed
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.experimental.compilation import CompiledCallable, compile
from kiln.experimental.sharding import BufferLayout, TensorLayout
from kiln.experimental.tensor import Tensor


def step(weights: Tensor, x: Tensor, y: Tensor, rate: float) -> Tensor:
    """Moves the weights against the gradient of the mean squared error, which it returns."""
    error = x @ weights - y
    gradient = (x * error.unsqueeze(1)).mean(0).reshape([x.shape[1]]) * 2
    weights[...] = weights - rate * gradient
    return (error**2).mean(axis=None)


def compile_step(size: int, rate: float) -> CompiledCallable[..., Tensor]:
    """The step for `size` features and any number of samples."""
    return compile(step)(
        BufferLayout(DType.float32, [size], CPU()),
        TensorLayout(DType.float32, ["samples", size], CPU()),
        TensorLayout(DType.float32, ["samples"], CPU()),
        rate,
    )


def main() -> None:
    random = np.random.default_rng(0)
    truth = np.array([2, -1, 0.5], np.float32)
    x = random.standard_normal((256, 3)).astype(np.float32)
    y = x @ truth + 0.01 * random.standard_normal(256).astype(np.float32)
    run = compile_step(3, 0.1)
    weights = Tensor.zeros([3])
    for i in range(101):
        loss = run(weights, Tensor(x), Tensor(y), 0.1)
        if i % 20 == 0:
            print(f"step {i:3d}: mean squared error {loss.item():.6f}")
    print(f"weights {weights.to_numpy().round(2)}, true ones {truth}")


if __name__ == "__main__":
    main()
