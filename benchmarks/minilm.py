"""The sentence encoder on kiln and on every other runtime that is installed.

Each runtime has a process of its own; the rounds are interleaved, so noise of the machine meets all
alike. The peak of fused multiply-adds is measured in every round, too.
"""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

from benchmarks import peers
from benchmarks.common import fma_peak
from examples.minilm.embed import default_folder
from examples.minilm.minilm import Config

SHAPES = [(1, 16), (1, 128), (8, 128), (32, 64)]
# Time of kiln over that of the fastest other runtime, at most.
TARGETS = {(1, 16): 0.70, (1, 128): 0.90, (8, 128): 0.96, (32, 64): 0.96}
ROUNDS = int(os.environ.get("KILN_BENCH_ROUNDS", "7"))


def flops(config: Config, batch: int, length: int) -> float:
    """Floating-point operations of the products of one call."""
    size, inner = config.hidden_size, config.intermediate_size
    token = 2 * (4 * size * size + 2 * size * inner) + 4 * length * size
    return float(batch * length * config.num_hidden_layers * token)


def inputs(batch: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(batch * 1000 + length)
    return random.integers(1000, 30000, (batch, length)), np.ones((batch, length), np.int64)


class Worker:
    """A process that answers "batch length" with the least time of five calls."""

    def __init__(self, name: str, threads: int) -> None:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.minilm", name, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)},
        )

    def time(self, batch: int, length: int) -> dict | None:
        """The answer, None when the process has died."""
        try:
            self.process.stdin.write(f"{batch} {length}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            return None
        return json.loads(line) if line else None

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def serve(name: str, threads: int) -> None:
    """The worker's loop."""
    call = peers.CALLS[name](default_folder(), threads)
    for line in sys.stdin:
        ids, mask = inputs(*map(int, line.split()))
        start = time.perf_counter()
        first_vectors = call(ids, mask)
        first = time.perf_counter() - start
        call(ids, mask)
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            call(ids, mask)
            best = min(best, time.perf_counter() - start)
        answer = {"ms": best * 1e3, "first": first * 1e3, "head": np.asarray(first_vectors)[0, :3].tolist()}
        print(json.dumps(answer), flush=True)


def compare(build: pathlib.Path, threads: int, versions: dict[str, str]) -> None:
    """Prints one table for a number of threads."""
    config = Config.read(default_folder())
    workers = {name: Worker(name, threads) for name in ["kiln", *versions]}
    times = {(name, shape): [] for name in workers for shape in SHAPES}
    first, heads, peaks = {}, {}, []
    for _ in range(ROUNDS):
        peaks.append(fma_peak(build, threads))
        for shape in SHAPES:
            for name, worker in list(workers.items()):
                answer = worker.time(*shape)
                if answer is None:
                    print(f"  {name} died at batch {shape[0]}, length {shape[1]}; left out")
                    del workers[name]
                    continue
                times[name, shape].append(answer["ms"])
                first.setdefault((name, shape), answer["first"])
                heads[name, shape] = answer["head"]
    peak = statistics.median(peaks)
    print(f"  {threads} thread{'s' if threads > 1 else ''}, FMA peak {peak:.1f} GFLOP/s, {ROUNDS} rounds")
    for shape in SHAPES:
        least = {name: min(times[name, shape]) for name in workers}
        others = {name: value for name, value in least.items() if name != "kiln"}
        for name, value in least.items():
            share = flops(config, *shape) / (value * 1e-3) / (peak * 1e9)
            median = statistics.median(times[name, shape])
            line = (
                f"    {f'B{shape[0]} S{shape[1]}':8s} {name:12s} min {value:8.3f} ms  median {median:8.3f}"
                f"  {share:6.1%} of peak  first call {first[name, shape]:8.1f} ms"
            )
            if name == "kiln" and others:
                best = min(others, key=others.get)
                ratio = value / others[best]
                line += f"  {ratio:.2f} of {best} (at most {TARGETS[shape]:.2f})"
            print(line)
        spread = max(np.abs(np.subtract(heads[name, shape], heads["kiln", shape])).max() for name in workers)
        if spread > 1e-4:
            print(f"    the runtimes disagree by {spread:.1e}")
    for worker in workers.values():
        worker.close()


def main(build: pathlib.Path) -> None:
    versions = peers.available()
    print("  beside " + (", ".join(f"{name} {found}" for name, found in versions.items()) or "nothing"))
    for threads in (1, 2):
        if threads <= len(os.sched_getaffinity(0)):
            compare(build, threads, versions)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
