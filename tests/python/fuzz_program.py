"""Programs of random graphs: what their values are, and how they are built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from running import unit

FLOATS = ("float32", "float64", "float16", "bfloat16")


@dataclass
class Fact:
    """A value of the graph: how to write it, and what it must be."""

    dtype: str
    dims: tuple  # ints and symbols
    exact: np.ndarray  # float64, int64 or bool
    error: np.ndarray  # absolute bound, zero for integers and bools

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    def like(self, other: Fact) -> bool:
        return self.dtype == other.dtype and self.dims == other.dims


class Step(NamedTuple):
    """An op, or several under one name, on earlier values; `count` values come out."""

    text: str
    op: Callable
    operands: tuple[int, ...]
    count: int = 1


@dataclass
class Program:
    """A straight-line program. Its inputs are tensors and, behind them, buffers; steps find buffers, those that they
    create too, in `handles` while the graph is built."""

    inputs: list[tuple[str, tuple]] = field(default_factory=list)
    buffers: list[tuple[str, tuple]] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    handles: list = field(default_factory=list)
    callees: list[str] = field(default_factory=list)  # names of the subgraphs built so far
    steps: list[Step] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def build(self, *arguments):
        count = len(self.inputs)
        self.handles, self.callees = list(arguments[count:]), []
        values = dict(enumerate(arguments[:count]))
        run(self.steps, values, count)
        return [values[i] for i in self.outputs]

    def text(self) -> str:
        lines = [f"v{i} = input({dtype}, {list(dims)})" for i, (dtype, dims) in enumerate(self.inputs)]
        lines += [f"b{i} = buffer({dtype}, {list(dims)})" for i, (dtype, dims) in enumerate(self.buffers)]
        lines += describe(self.steps, len(self.inputs))
        return "\n".join([*lines, f"output {names(self.outputs)}"])


def names(values) -> str:
    return ", ".join(f"v{i}" for i in values)


def run(steps: list[Step], values: dict, at: int) -> None:
    """Builds the steps; their results are the values from number `at` on."""
    for _, op, operands, count in steps:
        made = op(*[values[i] for i in operands])
        values.update(zip(range(at, at + count), made if isinstance(made, list) else [made]))
        at += count


def describe(steps: list[Step], at: int) -> list[str]:
    lines = []
    for text, _, operands, count in steps:
        lines.append(f"{names(range(at, at + count)) or '_'} = {text}({names(operands)})")
        at += count
    return lines


def rounding(dtype: str, value: np.ndarray) -> np.ndarray:
    """Half a unit in the last place of the dtype, subnormal numbers included."""
    if dtype not in FLOATS:
        return np.zeros(value.shape)
    smallest = {"float32": 2.0**-149, "float64": 0.0, "float16": 2.0**-24, "bfloat16": 2.0**-133}[dtype]
    return np.abs(value) * unit(dtype) + smallest
