"""Element types."""

from typing import Any, overload


class DType:
    """
    The type of one tensor element.

    >>> from kiln.dtype import DType
    >>> DType.float32.size_in_bytes, DType("bf16") is DType.bfloat16, DType(81)
    (4, True, float32)
    """

    @overload
    def __init__(self, dtype: DType) -> None: ...

    @overload
    def __init__(self, code: int) -> None: ...

    @overload
    def __init__(self, name: str) -> None: ...

    bool: DType = ...

    int8: DType = ...

    int16: DType = ...

    int32: DType = ...

    int64: DType = ...

    uint8: DType = ...

    uint16: DType = ...

    uint32: DType = ...

    uint64: DType = ...

    float16: DType = ...

    bfloat16: DType = ...

    float32: DType = ...

    float64: DType = ...

    float8_e8m0fnu: DType = ...

    float8_e4m3fn: DType = ...

    float8_e4m3fnuz: DType = ...

    float8_e5m2: DType = ...

    float8_e5m2fnuz: DType = ...

    float4_e2m1fn: DType = ...

    @property
    def name(self) -> str:
        """The member's name, such as 'float32'."""

    @property
    def text_name(self) -> str:
        """The name in IR text and files, such as 'f32'."""

    @property
    def code(self) -> int:
        """The number stored in files."""

    @property
    def size_in_bits(self) -> int:
        """Bits of one element."""

    @property
    def size_in_bytes(self) -> int:
        """Bits rounded up to whole bytes."""

    @property
    def align(self) -> int:
        """Alignment of one element in bytes."""

    def is_integral(self) -> bool:
        """Whether this is one of the eight integer members; bool is not."""

    def is_signed_integral(self) -> bool:
        """Whether this is a signed integer."""

    def is_unsigned_integral(self) -> bool:
        """Whether this is an unsigned integer."""

    def is_float(self) -> bool:
        """Whether this is one of the ten floating members."""

    def is_float8(self) -> bool:
        """Whether this is a float8 type."""

    def is_half(self) -> bool:
        """Whether this is float16 or bfloat16."""

    def to_numpy(self) -> Any:
        """
        The NumPy dtype of the same elements; float8 types give uint8. ValueError where there is none.

        >>> from kiln.dtype import DType
        >>> DType.float32.to_numpy()
        dtype('float32')
        """

    def to_ml_dtypes(self) -> Any:
        """
        The dtype of package ml_dtypes for bfloat16, float8 and float4, else as to_numpy.
        """

    def finfo(self) -> finfo:
        """The limits of a float type; TypeError for others."""

    def to_torch(self) -> Any:
        """The torch dtype of the same name."""

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    def __hash__(self) -> int: ...

    def __reduce__(self) -> tuple: ...

    @staticmethod
    def from_numpy(dtype: object | None) -> DType:
        """
        The member for a NumPy dtype or scalar type, those of ml_dtypes included.

        >>> import numpy as np
        >>> from kiln.dtype import DType
        >>> DType.from_numpy(np.dtype("int16")), DType.from_numpy(np.float64)
        (int16, float64)
        """

    @staticmethod
    def from_torch(dtype: object) -> DType:
        """The member for a torch dtype."""

class finfo:
    """
    The numeric limits of a floating-point type.

    >>> from kiln.dtype import DType, finfo
    >>> finfo(DType.float32).bits, finfo(DType.float8_e4m3fn).max
    (32, 448.0)
    """

    def __init__(self, dtype: DType) -> None: ...

    @property
    def dtype(self) -> DType:
        """The type."""

    @property
    def bits(self) -> int:
        """Its bits."""

    @property
    def eps(self) -> float:
        """The gap between 1 and the next value."""

    @property
    def max(self) -> float:
        """The largest finite value."""

    @property
    def min(self) -> float:
        """The smallest finite value."""

    @property
    def tiny(self) -> float:
        """The smallest positive normal value."""

    @property
    def smallest_normal(self) -> float:
        """As `tiny`."""

    def __repr__(self) -> str: ...
