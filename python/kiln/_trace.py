"""Recordings as context managers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kiln._core.driver import LaunchTraceEntry, begin_launch_trace, start_trace, stop_trace, take_launch_trace


@contextmanager
def trace(path: str | os.PathLike[str]) -> Iterator[None]:
    """Records what runs on every device while the block runs, as trace-event JSON in `path`."""
    start_trace(path)
    try:
        yield
    finally:
        stop_trace()


@contextmanager
def launch_trace() -> Iterator[list[LaunchTraceEntry]]:
    """A list that holds, when the block ends, what CUDA and HIP queues were given in it.

    >>> from kiln.driver import Buffer, launch_trace
    >>> from kiln.dtype import DType
    >>> with launch_trace() as entries:
    ...     buffer = Buffer.zeros((4,), DType.int8)
    >>> entries  # the host records nothing
    []
    """
    entries: list[LaunchTraceEntry] = []
    begin_launch_trace()
    try:
        yield entries
    finally:
        entries += take_launch_trace()
