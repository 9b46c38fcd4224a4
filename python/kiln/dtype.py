"""Element types.

>>> from kiln.dtype import DType
>>> DType.bfloat16.size_in_bits, DType.uint8.is_integral()
(16, True)
"""

from kiln._core.dtype import DType, finfo

__all__ = ["DType", "finfo"]
