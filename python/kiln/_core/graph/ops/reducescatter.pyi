"""Reductions over devices whose results stay apart."""

from collections.abc import Iterable


def sum(inputs: Iterable, signal_buffers: Iterable, axis: int = 0) -> list:
    """Part i of the sum of all inputs along an axis, on device i."""
