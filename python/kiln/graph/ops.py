"""Every op that a graph offers; each adds a node to the current graph and returns its values.

>>> from kiln.driver import CPU
>>> from kiln.dtype import DType
>>> from kiln.graph import Graph, TensorType, ops
>>> with Graph("g", input_types=[TensorType(DType.float32, ["n", 4], CPU())]) as graph:
...     ops.softmax(graph.inputs[0])
TensorValue(dtype=float32, shape=[Dim('n'), Dim(4)], device=cpu:0)
"""

from kiln._core.graph import ops as _native
from kiln._core.graph.ops import *  # noqa: F403

__all__ = [name for name in vars(_native) if not name.startswith("_")]
