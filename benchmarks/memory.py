"""Peak resident memory of the C++ example, and the size of libkiln."""

from __future__ import annotations

import pathlib
import subprocess
import tempfile

from benchmarks.common import program, run, run_python

EXPORT = """
import sys
from examples.minilm.embed import default_folder
from examples.minilm.minilm import Config, encoder_graph, read_weights
from kiln.engine import InferenceSession
folder = default_folder()
weights, prefix = read_weights(folder)
compiled = InferenceSession().compile(encoder_graph(Config.read(folder), prefix))
compiled.export_mef({path!r}, weights_registry=weights)
print(sum(weights[name].num_elements * weights[name].element_size for name in weights))
"""
TOKENS = "101 1996 4633 2003 8403 2651 1012 102\n"


def peak_of(command: list[str], lines: int) -> float:
    """VmHWM in MB after `lines` answers of a program that reads sentences from standard input."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(lines):
            process.stdin.write(TOKENS)
            process.stdin.flush()
            if not process.stdout.readline():
                raise RuntimeError(f"'{command[0]}' ended early")
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        process.stdin.close()
        process.wait()
    return next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) / 1e3


def main(build: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "minilm.mef")
        weights = int(run_python(EXPORT.format(path=path))) / 1e6
        peak = peak_of([program(build, "cpp_embed"), path, "-"], lines=20)
        stripped = pathlib.Path(folder) / "libkiln.so"
        run(["llvm-strip-22", "-o", str(stripped), str(build / "lib" / "libkiln.so")])
        size = stripped.stat().st_size / 1e6
    limit = 1.5 * weights + 25
    print(f"  peak of the C++ example {peak:.1f} MB (at most {limit:.1f}: 1.5 x {weights:.1f} MB + 25)")
    print(f"  libkiln, stripped {size:.2f} MB (at most 10)")
