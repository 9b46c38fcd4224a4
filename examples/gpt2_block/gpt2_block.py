"""A small GPT-2: blocks as modules, recorded once and called for each layer.

The parameters are random; the point is how a model is written, compiled for any batch and length, and
shipped with its weights in one file.
"""

from __future__ import annotations

import math
import pathlib
import sys

import numpy as np

if __package__ in (None, ""):  # run as a program: find kiln unless it is installed
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.experimental import functional as F
from kiln.experimental.compilation import CompiledCallable
from kiln.experimental.nn import Module, subgraphable
from kiln.experimental.sharding import TensorLayout
from kiln.experimental.tensor import Tensor


class Linear(Module):
    def __init__(self, random: np.random.Generator, size_in: int, size_out: int) -> None:
        self.weight = Tensor((0.02 * random.standard_normal((size_in, size_out))).astype(np.float32))
        self.bias = Tensor.zeros([size_out])

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class LayerNorm(Module):
    def __init__(self, size: int) -> None:
        self.gamma, self.beta = Tensor.ones([size]), Tensor.zeros([size])

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.gamma, self.beta, 1e-5)


@subgraphable
class Block(Module):
    """Attention to what came before, and two dense layers, each behind a norm and beside a shortcut."""

    def __init__(self, random: np.random.Generator, size: int, heads: int) -> None:
        self.size, self.heads = size, heads
        self.norm_1, self.norm_2 = LayerNorm(size), LayerNorm(size)
        self.qkv, self.out = Linear(random, size, 3 * size), Linear(random, size, size)
        self.up, self.down = Linear(random, size, 4 * size), Linear(random, 4 * size, size)

    def attention(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, _ = x.shape
        head = self.size // self.heads
        q, k, v = (
            part.reshape([batch, length, self.heads, head]).permute([0, 2, 1, 3])
            for part in self.qkv(x).split(self.size, axis=-1)
        )
        weights = F.softmax(q @ k.transpose(-2, -1) / math.sqrt(head) + mask)
        return self.out((weights @ v).permute([0, 2, 1, 3]).reshape([batch, length, self.size]))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x), mask)
        return x + self.down(F.gelu(self.up(self.norm_2(x)), "tanh"))


class GPT2(Module):
    def __init__(self, layers: int, size: int = 64, heads: int = 4, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.size = size
        self.blocks = [Block(random, size, heads) for _ in range(layers)]
        self.norm = LayerNorm(size)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


def compile_model(model: GPT2) -> CompiledCallable[..., Tensor]:
    """The model for any batch and length: hidden states and a mask that is added to the scores."""
    return model.compile(
        TensorLayout(DType.float32, ["batch", "length", model.size], CPU()),
        TensorLayout(DType.float32, ["length", "length"], CPU()),
    )


def causal_mask(length: int) -> Tensor:
    """0 where a position sees another one, and a number that softmax turns to 0 elsewhere."""
    return Tensor(np.triu(np.full((length, length), -1e9, np.float32), 1))


def main() -> None:
    model = GPT2(layers=4)
    run = compile_model(model)
    random = np.random.default_rng(1)
    for batch, length in ((1, 8), (2, 5)):
        x = Tensor(random.standard_normal((batch, length, model.size)).astype(np.float32))
        y = run(x, causal_mask(length))
        difference = np.abs(y.to_numpy() - model(x, causal_mask(length)).to_numpy()).max()
        print(f"{batch} x {length}: {y.shape}, compiled and eager differ by {difference:.1e}")


if __name__ == "__main__":
    main()
