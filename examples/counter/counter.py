"""State that lives between executions: a counter in a buffer.

The graph gets memory of the caller, returns what it held and leaves it incremented. A key-value
cache works the same way.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np

if __package__ in (None, ""):  # run as a program: find kiln unless it is installed
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python"))

from kiln.driver import Buffer
from kiln.dtype import DType
from kiln.engine import InferenceSession, Model
from kiln.graph import BufferType, DeviceRef, Graph, ops


def counter_graph(size: int = 4) -> Graph:
    """A graph with one buffer of `size` numbers: returns its contents and adds 1 to each."""
    state_type = BufferType(DType.float32, [size], device=DeviceRef.CPU())
    with Graph("counter", input_types=[state_type]) as graph:
        state = graph.inputs[0].buffer
        current = ops.buffer_load(state)
        ops.buffer_store(state, current + 1)
        graph.output(current)
    return graph


def load_counter(size: int = 4) -> Model:
    """The compiled counter."""
    return InferenceSession().load(counter_graph(size))


def main() -> None:
    model = load_counter()
    state = Buffer.from_numpy(np.zeros(4, np.float32))
    for _ in range(3):
        before = model.execute(state)[0].to_numpy()
        print(f"returned {before}, now the buffer holds {state.to_numpy()}")


if __name__ == "__main__":
    main()
