"""What ops take as tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, Union, runtime_checkable

from kiln._core.graph import Dim, TensorValue
from kiln.graph.shape import Shape

if TYPE_CHECKING:
    from kiln.driver import DLPackArray


@runtime_checkable
class HasTensorValue(Protocol):
    """An object that stands for a tensor."""

    def __tensorvalue__(self) -> TensorValue: ...


# A strong value brings its dtype; a weak one, a number or an array, adopts that of a strong one.
StrongTensorValueLike: TypeAlias = Union[TensorValue, Dim, Shape, HasTensorValue]
TensorValueLike: TypeAlias = Union[StrongTensorValueLike, bool, int, float, "DLPackArray"]
