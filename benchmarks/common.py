"""What the benchmarks share: programs of the build, fresh processes, a line about the machine."""

from __future__ import annotations

import os
import pathlib
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

ROOT = pathlib.Path(__file__).resolve().parents[1]


def program(build: pathlib.Path, name: str) -> str:
    """The path of a program of the build."""
    path = build / "bin" / name
    if not path.exists():
        raise FileNotFoundError(f"'{path}' is not built; run `make build` first.")
    return str(path)


def run(command: list[str], **environment: str) -> str:
    """The standard output of a program; its errors pass through."""
    result = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **environment}
    )
    return result.stdout


def run_python(code: str, **environment: str) -> str:
    """The standard output of `code` in a fresh process with this process's module path."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return run([sys.executable, "-c", code], PYTHONPATH=path, **environment)


def fma_peak(build: pathlib.Path, threads: int, milliseconds: int = 150) -> float:
    """GFLOP/s of fused multiply-adds on registers, now."""
    return float(run([program(build, "fma_peak"), str(threads), str(milliseconds)]))


def package_version(name: str) -> str:
    """The installed version of a package, or "" when there is none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def machine() -> str:
    """One line about this machine: processor, vector instructions, cores, system."""
    model, flags = platform.machine(), set()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
        if line.startswith("flags"):
            flags = set(line.split(":", 1)[1].split())
    best = next((isa for isa in ("avx512f", "avx2", "avx") if isa in flags), "sse2")
    return f"{model}, {best}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"
