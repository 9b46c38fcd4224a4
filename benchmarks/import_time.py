"""`import kiln` against `import numpy`: median of 10 fresh processes each, interleaved."""

from __future__ import annotations

import pathlib
import statistics

from benchmarks.common import run_python

CODE = """
import time
start = time.perf_counter()
import {name}
print(time.perf_counter() - start)
"""
MAPS = "import kiln; print(open('/proc/self/maps').read())"


def main(build: pathlib.Path) -> None:
    times: dict[str, list[float]] = {"numpy": [], "kiln": []}
    for name in times:
        run_python(CODE.format(name=name))  # warms the file cache
    for _ in range(10):
        for name, found in times.items():
            found.append(float(run_python(CODE.format(name=name))))
    numpy, kiln = (statistics.median(times[name]) * 1e3 for name in ("numpy", "kiln"))
    print(f"  import numpy {numpy:.1f} ms, import kiln {kiln:.1f} ms: {kiln - numpy:+.1f} ms (at most +30)")
    mapped = [name for name in ("libLLVM", "libkiln_compiler") if name in run_python(MAPS)]
    print(f"  mapped after the import: {', '.join(mapped) or 'neither LLVM nor the compiler'}")
