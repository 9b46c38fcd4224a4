"""Typed values that flow through ops inside a graph.

>>> from kiln.driver import CPU
>>> from kiln.dtype import DType
>>> from kiln.graph import Graph, TensorType
>>> with Graph("double", input_types=[TensorType(DType.float32, ["n"], CPU())]) as graph:
...     graph.output(graph.inputs[0] * 2)
>>> graph.output_types
[TensorType(dtype=float32, shape=[Dim('n')], device=cpu:0)]
"""

import os as _os

from kiln._core import graph as _native
from kiln._core.graph import (
    AlgebraicDim,
    BlockParameters,
    BufferType,
    BufferValue,
    ConvInputLayout,
    DeviceKind,
    DevicePlacementPolicy,
    DeviceRef,
    Dim,
    FilterLayout,
    Graph,
    Module,
    QuantizationConfig,
    QuantizationEncoding,
    Segment,
    ShardingStrategy,
    StaticDim,
    SymbolicDim,
    TensorType,
    TensorValue,
    Type,
    Value,
    Weight,
    _ChainType,
    _OpaqueType,
    _OpaqueValue,
)
from kiln.graph import ops
from kiln.graph.shape import DimLike, Shape, ShapeLike
from kiln.graph.value import StrongTensorValueLike, TensorValueLike

# Ops remember the line that added them: the innermost one outside of this package.
_native._set_package_folder(_os.path.dirname(_os.path.dirname(__file__)) + _os.sep)

__all__ = [
    "AlgebraicDim",
    "BlockParameters",
    "BufferType",
    "BufferValue",
    "ConvInputLayout",
    "DeviceKind",
    "DevicePlacementPolicy",
    "DeviceRef",
    "Dim",
    "DimLike",
    "FilterLayout",
    "Graph",
    "Module",
    "QuantizationConfig",
    "QuantizationEncoding",
    "Segment",
    "Shape",
    "ShapeLike",
    "ShardingStrategy",
    "StaticDim",
    "StrongTensorValueLike",
    "SymbolicDim",
    "TensorType",
    "TensorValue",
    "TensorValueLike",
    "Type",
    "Value",
    "Weight",
    "_ChainType",
    "_OpaqueType",
    "_OpaqueValue",
    "ops",
]
