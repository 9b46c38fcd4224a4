"""What the driver's calls take, from Python and from C++, beside NumPy."""

from __future__ import annotations

import pathlib
import statistics
import time
from collections.abc import Callable

import numpy as np

from benchmarks.common import program, run
from benchmarks.overhead import nanoseconds
from kiln.driver import CPU, Buffer
from kiln.dtype import DType

F32 = DType.float32


def best_seconds(call: Callable[[], object], rounds: int = 3) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def copy_ratio(shape: tuple[int, ...], index: tuple[slice, ...]) -> float:
    """NumPy's time of copying a part of an array over that of copying the same part of a buffer."""
    array = np.ones(shape, np.float32)
    part, source = array[index], Buffer.from_numpy(array)[index]
    assert np.array_equal(source.contiguous().to_numpy(), part)
    numpy_time, own_time = [], []
    for _ in range(7):  # side by side, so that noise hits both
        numpy_time.append(best_seconds(lambda: np.ascontiguousarray(part)))
        own_time.append(best_seconds(lambda: source.contiguous()))
    return min(numpy_time) / min(own_time)


def synchronized_call() -> float:
    """The median of an empty function from its enqueueing to the end of synchronize, in ns."""
    queue, nothing, times = CPU().default_queue, lambda: None, []
    for _ in range(3000):
        start = time.perf_counter_ns()
        queue.enqueue_cpu_function(nothing)
        queue.synchronize()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times)


def main(build: pathlib.Path) -> None:
    array, buffer = np.ones(64, np.float32), Buffer.from_numpy(np.arange(64, dtype=np.float32))
    figures = dict(line.split() for line in run([program(build, "driver_overhead")]).splitlines())
    rows = []
    for shape, size in (((256,), "1 KiB"), ((1 << 18,), "1 MiB")):
        numpy_time, own_time = [], []
        for _ in range(7):  # side by side, so that noise hits both
            numpy_time.append(nanoseconds(lambda: np.empty(shape, np.float32), repeat=3))
            own_time.append(nanoseconds(lambda: Buffer(F32, shape), repeat=3))
        rows += [(f"numpy.empty, {size}", min(numpy_time)), (f"Buffer, {size} (at most 1.4 of it)", min(own_time))]
    rows += [
        ("Buffer from C++, 1 KiB (at most 40)", float(figures["allocate_1k"])),
        ("Buffer from C++, 1 MiB (at most 40)", float(figures["allocate_1m"])),
        ("numpy.from_dlpack(buffer) (at most 700)", nanoseconds(lambda: np.from_dlpack(buffer))),
        ("Buffer.from_dlpack(array) (at most 700)", nanoseconds(lambda: Buffer.from_dlpack(array))),
        ("buffer[5:6].item() (at most 350)", nanoseconds(lambda: buffer[5:6].item())),
        ("buffer[5].item()", nanoseconds(lambda: buffer[5].item())),
        ("empty function and synchronize, C++ (at most 5000)", float(figures["enqueue"])),
        ("empty function and synchronize, Python", synchronized_call()),
    ]
    for name, ns in rows:
        print(f"  {name:52s} {ns:8.1f} ns")
    every, halved = slice(None), slice(None, None, 2)
    ratios = [
        ("64 MiB, C++, against memcpy (at least 0.95)", float(figures["copy"])),
        ("every second row of 4096 × 4096, against NumPy (1)", copy_ratio((4096, 4096), (halved, every))),
        ("every second column of 4096 × 4096 (1)", copy_ratio((4096, 4096), (every, halved))),
        ("64 × 64 × 64, reversed (1)", copy_ratio((64, 64, 64), (slice(None, None, -1),) * 3)),
    ]
    for name, ratio in ratios:
        print(f"  copy of {name:52s} {ratio:6.2f}")
