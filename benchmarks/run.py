"""Runs the benchmarks and prints their figures.

    python benchmarks/run.py --build build/release [minilm overhead driver tensors ops compile_time import_time memory
                                                    convolution]
"""

from __future__ import annotations

import argparse
import importlib
import pathlib
import sys
import time

if __package__ in (None, ""):  # run as a program: make `benchmarks` importable
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks.common import machine

NAMES = [
    "import_time", "overhead", "driver", "tensors", "ops", "compile_time", "memory", "convolution", "minilm"
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of: " + ", ".join(NAMES))
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in NAMES]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]}; there are {', '.join(NAMES)}")
    print(f"{time.strftime('%Y-%m-%d')}  {machine()}")
    for name in arguments.names or NAMES:
        print(f"\n{name}")
        importlib.import_module(f"benchmarks.{name}").main(arguments.build.resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
