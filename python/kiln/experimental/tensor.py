"""Arrays that compute at once, and the defaults of new ones.

>>> from kiln.dtype import DType
>>> x = Tensor.arange(6).reshape([2, 3])
>>> x[:, 1:] * 10
Tensor([10 20
 40 50], dtype=DType.float32, device=Device(type=cpu,id=0))
>>> with default_dtype(DType.int32):
...     Tensor([1, 2]).dtype
int32
"""

from collections.abc import Generator
from contextlib import AbstractContextManager

from kiln._core.experimental import Tensor, _Defaults, defaults
from kiln.driver import Device
from kiln.dtype import DType
from kiln.graph import DeviceRef

__all__ = ["Tensor", "default_device", "default_dtype", "defaults", "defaults_like"]


class _Realized:
    """What `Tensor.realize` gives: it is over already."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __await__(self) -> Generator[None, None, Tensor]:
        return self._tensor
        yield  # makes it a generator


def default_dtype(dtype: DType) -> AbstractContextManager[None]:
    """Makes it the dtype of new tensors in a block, on this thread."""
    return _Defaults(dtype, None)


def default_device(device: Device | DeviceRef) -> AbstractContextManager[None]:
    """Makes it the device of new tensors in a block, on this thread."""
    return _Defaults(None, device)


def defaults_like(tensor: Tensor) -> AbstractContextManager[None]:
    """Makes the dtype and device of a tensor those of new ones in a block, on this thread."""
    return _Defaults(tensor.dtype, tensor.device)
