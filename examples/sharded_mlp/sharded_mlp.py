"""A multilayer perceptron over a mesh of devices, which one CPU stands for.

The batch is split over the mesh axis "dp". The first weight is split by columns over "tp" and the second one by rows,
so that each device computes its part of the hidden layer, and one all-reduce at the end adds the terms.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np

if __package__ in (None, ""):  # run as a program: find kiln unless it is installed
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.experimental import functional as F
from kiln.experimental.compilation import CompiledCallable
from kiln.experimental.nn import Module
from kiln.experimental.sharding import DeviceMesh, NamedMapping, TensorLayout
from kiln.experimental.tensor import Tensor


class MLP(Module):
    def __init__(self, size: int, hidden: int, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.up = Tensor(random.standard_normal((size, hidden)).astype(np.float32) / size**0.5)
        self.down = Tensor(random.standard_normal((hidden, size)).astype(np.float32) / hidden**0.5)

    def shard(self, mesh: DeviceMesh) -> MLP:
        """Spreads the weights over the mesh axis "tp"; returns the module."""
        self.up = self.up.to(NamedMapping(mesh, (None, "tp")))
        self.down = self.down.to(NamedMapping(mesh, ("tp", None)))
        return self

    def forward(self, x: Tensor) -> Tensor:
        terms = F.relu(x @ self.up) @ self.down
        return F.allreduce_sum(terms, "tp") if terms.is_distributed else terms


def compile_mlp(model: MLP, mesh: DeviceMesh) -> CompiledCallable[..., Tensor]:
    """The model for any number of rows, which are spread over the mesh axis "dp"."""
    size = model.up.shape[0]
    return model.compile(TensorLayout(DType.float32, ["rows", size], NamedMapping(mesh, ("dp",))))


def main() -> None:
    mesh = DeviceMesh([CPU()] * 4, (2, 2), ("dp", "tp"))
    x = Tensor(np.random.default_rng(1).standard_normal((6, 32)).astype(np.float32))
    whole = MLP(32, 64)(x)
    model = MLP(32, 64).shard(mesh)
    run = compile_mlp(model, mesh)
    result = run(x.to(NamedMapping(mesh, ("dp",))))
    for name, weight in model.parameters:
        print(f"{name}: {weight.shape} in parts of {weight.local_shards[0].shape}")
    print(f"result: {result.mapping}")
    print(f"largest difference to one device: {np.abs(result.to_numpy() - whole.to_numpy()).max():.1e}")


if __name__ == "__main__":
    main()
