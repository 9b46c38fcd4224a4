"""Where tensors live: meshes of devices, placements, mappings and layouts.

>>> from kiln.driver import CPU
>>> from kiln.dtype import DType
>>> mesh = DeviceMesh([CPU()] * 4, (2, 2), ("dp", "tp"))
>>> layout = TensorLayout(DType.float32, ["batch", 10], NamedMapping(mesh, ("dp", "tp")))
>>> layout
TensorLayout(DType.float32, [batch, 10], DeviceMapping(DeviceMesh(dp=2, tp=2), [Sharded(axis=0), Sharded(axis=1)]))
>>> [type.shape for type in layout.local_types]
[[Dim('batch_dp_0'), Dim(5)], [Dim('batch_dp_0'), Dim(5)], [Dim('batch_dp_1'), Dim(5)], [Dim('batch_dp_1'), Dim(5)]]
"""

from kiln._core.experimental import (
    BufferLayout,
    ConversionError,
    DeviceMapping,
    DeviceMesh,
    NamedMapping,
    Partial,
    PlacementMapping,
    ReduceOp,
    Replicated,
    Sharded,
    ShardingError,
    TensorLayout,
    Unknown,
    as_layout,
    get_active_mesh,
    mesh_context,
)

__all__ = [
    "BufferLayout",
    "ConversionError",
    "DeviceMapping",
    "DeviceMesh",
    "NamedMapping",
    "Partial",
    "Placement",
    "PlacementMapping",
    "ReduceOp",
    "Replicated",
    "Sharded",
    "ShardingError",
    "TensorLayout",
    "Unknown",
    "as_layout",
    "get_active_mesh",
    "mesh_context",
]

# One for each axis of a mesh.
Placement = Replicated | Sharded | Partial | Unknown
