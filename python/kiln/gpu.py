"""Device contexts: streams, buffers and kernels on one device.

>>> import numpy as np
>>> from kiln.dtype import DType
>>> from kiln.gpu import DeviceContext
>>> ctx = DeviceContext(api="cpu")
>>> x = ctx.enqueue_create_buffer(DType.int32, 3)
>>> ctx.enqueue_copy(x, np.array([1, 2, 3], dtype=np.int32))
>>> ctx.synchronize()
>>> x.to_numpy().tolist()
[1, 2, 3]
"""

from __future__ import annotations

from kiln._core.gpu import (
    Attribute,
    DeviceAttribute,
    DeviceContext,
    DeviceFunction,
    DeviceStream,
    FuncAttribute,
    LaunchAttribute,
)
from kiln.driver import DeviceEvent

__all__ = [
    "Attribute",
    "DeviceAttribute",
    "DeviceContext",
    "DeviceEvent",
    "DeviceFunction",
    "DeviceStream",
    "FuncAttribute",
    "LaunchAttribute",
]
