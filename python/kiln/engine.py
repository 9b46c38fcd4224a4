"""Compiling graphs and running models.

>>> import numpy as np
>>> from kiln.driver import CPU
>>> from kiln.dtype import DType
>>> from kiln.engine import InferenceSession
>>> from kiln.graph import Graph, TensorType
>>> with Graph("axpy", input_types=[TensorType(DType.float32, ["n"], CPU())] * 2) as graph:
...     x, y = graph.inputs
...     graph.output(2 * x + y)
>>> model = InferenceSession().load(graph)
>>> model(np.ones(3, np.float32), np.ones(3, np.float32))[0].to_numpy()
array([3., 3., 3.], dtype=float32)
"""

from kiln._async_value import AsyncValue
from kiln._core.engine import (
    AcceleratorTarget,
    AssertLevel,
    CompiledModel,
    CpuTarget,
    DebugConfig,
    InferenceSession,
    LogLevel,
    MefInfo,
    MefWeight,
    Model,
    ModelMetadata,
    PrintStyle,
    SplitKReductionPrecision,
    TensorSpec,
    query_mef,
    read,
)

__all__ = [
    "AcceleratorTarget",
    "AssertLevel",
    "AsyncValue",
    "CompiledModel",
    "CpuTarget",
    "DebugConfig",
    "InferenceSession",
    "LogLevel",
    "MefInfo",
    "MefWeight",
    "Model",
    "ModelMetadata",
    "PrintStyle",
    "SplitKReductionPrecision",
    "TensorSpec",
    "query_mef",
    "read",
]
