"""Compiling the encoder: cold in a fresh process with the cache off, and loaded from the cache."""

from __future__ import annotations

import json
import pathlib
import tempfile

from benchmarks.common import run_python

ROUNDS = 7
CODE = """
import json, sys, time
from examples.minilm.embed import default_folder
from examples.minilm.minilm import Config, encoder_graph, read_weights
from kiln.engine import InferenceSession
folder = default_folder()
weights, prefix = read_weights(folder)
start = time.perf_counter()
graph = encoder_graph(Config.read(folder), prefix)
built = time.perf_counter()
session = InferenceSession()
compiled = session.compile(graph)
done = time.perf_counter()
session.init(compiled, weights_registry=weights)
ready = time.perf_counter()
llvm = "libLLVM" in open("/proc/self/maps").read()
print(json.dumps([built - start, done - built, ready - done, llvm]))
"""


def main(build: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as cache:
        run_python(CODE, KILN_CACHE_DIR=cache)
        cold = [json.loads(run_python(CODE, KILN_CACHE="0")) for _ in range(ROUNDS)]
        warm = [json.loads(run_python(CODE, KILN_CACHE_DIR=cache)) for _ in range(ROUNDS)]
    best = min(cold, key=lambda row: row[1])
    print(
        f"  cold, cache off: compile {best[1] * 1e3:.0f} ms (at most 1000), "
        f"graph {best[0] * 1e3:.0f} ms, init {best[2] * 1e3:.0f} ms"
    )
    best = min(warm, key=lambda row: row[1] + row[2])
    loaded = (best[1] + best[2]) * 1e3
    print(
        f"  from the cache:  load {loaded:.0f} ms (at most 80): compile {best[1] * 1e3:.1f} ms, "
        f"init {best[2] * 1e3:.1f} ms, graph {best[0] * 1e3:.0f} ms, "
        f"LLVM {'mapped' if best[3] else 'not mapped'}"
    )
