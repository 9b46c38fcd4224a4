"""Devices, queues and the buffers that hold all data.

>>> import numpy as np
>>> from kiln.driver import CPU, Buffer
>>> buffer = Buffer.from_numpy(np.arange(6.0).reshape(2, 3))
>>> buffer[1, ::-1].to_numpy()
array([5., 4., 3.])
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from kiln._core import __version__
from kiln._core.driver import (
    CPU,
    Accelerator,
    Buffer,
    CompletionFlag,
    Device,
    DeviceEvent,
    DeviceQueue,
    DeviceSpec,
    LaunchTraceEntry,
    MemcpyKind,
    OperationKind,
    SymmetricPool,
    Usage,
    accelerator_api,
    accelerator_architecture_name,
    accelerator_count,
    batch_inplace_copy,
    begin_launch_trace,
    calculate_virtual_device_count,
    calculate_virtual_device_count_from_cli,
    copy_pinned_to_destinations,
    devices_exist,
    enable_all_peer_access,
    get_virtual_cpu_target,
    get_virtual_device_api,
    get_virtual_device_count,
    get_virtual_device_target_arch,
    is_virtual_device_mode,
    load_devices,
    load_max_buffer,
    scan_available_devices,
    set_virtual_cpu_target,
    set_virtual_device_api,
    set_virtual_device_count,
    set_virtual_device_target_arch,
    start_trace,
    stop_trace,
    take_launch_trace,
)
from kiln._trace import launch_trace, trace

__all__ = [
    "CPU",
    "Accelerator",
    "Buffer",
    "CompletionFlag",
    "DLPackArray",
    "Device",
    "DeviceEvent",
    "DeviceQueue",
    "DeviceSpec",
    "LaunchTraceEntry",
    "MemcpyKind",
    "OperationKind",
    "SymmetricPool",
    "Usage",
    "__version__",
    "accelerator_api",
    "accelerator_architecture_name",
    "accelerator_count",
    "batch_inplace_copy",
    "begin_launch_trace",
    "calculate_virtual_device_count",
    "calculate_virtual_device_count_from_cli",
    "copy_pinned_to_destinations",
    "devices_exist",
    "enable_all_peer_access",
    "get_virtual_cpu_target",
    "get_virtual_device_api",
    "get_virtual_device_count",
    "get_virtual_device_target_arch",
    "is_virtual_device_mode",
    "launch_trace",
    "load_devices",
    "load_max_buffer",
    "scan_available_devices",
    "set_virtual_cpu_target",
    "set_virtual_device_api",
    "set_virtual_device_count",
    "set_virtual_device_target_arch",
    "start_trace",
    "stop_trace",
    "take_launch_trace",
    "trace",
]


@runtime_checkable
class DLPackArray(Protocol):
    """An array of any library that can hand out its memory by DLPack.

    >>> import numpy as np
    >>> isinstance(np.zeros(1), DLPackArray), isinstance([], DLPackArray)
    (True, False)
    """

    def __dlpack__(self, *, stream: Any = None) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...
