"""Shapes of graph values: lists of dims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex, overload

from kiln._core.graph import Dim, StaticDim, SymbolicDim

DimLike = int | str | Dim
ShapeLike = Iterable[DimLike]


class Shape(list[Dim]):
    """The dims of a tensor, outermost first.

    >>> Shape([2, "n"]), Shape([2, "n"]) == [2, "n"], Shape([2, 3]).static_dims
    ([Dim(2), Dim('n')], True, [2, 3])
    """

    def __init__(self, dims: ShapeLike = ()) -> None:
        super().__init__(Dim(dim) for dim in dims)

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self)

    @property
    def static_dims(self) -> list[int]:
        """The static sizes, in order."""
        return [int(dim) for dim in self if isinstance(dim, StaticDim)]

    @property
    def parameters(self) -> list[SymbolicDim]:
        """The symbols used, in order of first use."""
        return list(dict.fromkeys(symbol for dim in self for symbol in dim.parameters))

    @staticmethod
    def is_static(shape: ShapeLike) -> bool:
        """Whether every dim is static and not negative."""
        dims = [Dim(dim) for dim in shape]
        return all(isinstance(dim, StaticDim) and dim >= 0 for dim in dims)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Dim: ...
    @overload
    def __getitem__(self, index: slice) -> Shape: ...
    def __getitem__(self, index):
        item = super().__getitem__(index)
        return Shape(item) if isinstance(index, slice) else item

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (str, bytes)) or not isinstance(other, Iterable):
            return NotImplemented
        others = list(other)
        return len(self) == len(others) and all(a == b for a, b in zip(self, others))

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = None
