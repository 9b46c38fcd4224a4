"""Random graphs against op-by-op evaluation in float64.

KILN_FUZZ_GRAPHS is the number of graphs, KILN_FUZZ_SEED the seed of the first one."""

import os

import numpy as np
import pytest
from fuzzing import Fuzzer
from running import compiled, execute, numpy_type, tensor_type, to_array, to_buffer

from kiln.dtype import DType
from kiln.graph import BufferType, DeviceRef

pytestmark = pytest.mark.compiler
GRAPHS = int(os.environ.get("KILN_FUZZ_GRAPHS", "760"))
SEED = int(os.environ.get("KILN_FUZZ_SEED", "0"))
GROUP = 20


def compare(what: str, got: np.ndarray, fact) -> None:
    assert got.dtype == numpy_type(fact.dtype), f"{what} has dtype {got.dtype}"
    assert got.shape == fact.exact.shape, f"{what} has shape {got.shape}, expected {fact.exact.shape}"
    if fact.is_float:
        wrong = ~(np.abs(got.astype(np.float64) - fact.exact) <= fact.error)
    else:
        wrong = got != fact.exact
    if wrong.any():
        where = tuple(int(k) for k in np.argwhere(wrong)[0])
        bound = f" within {fact.error[where]:.3g}" if fact.is_float else ""
        raise AssertionError(f"{what}{list(where)} is {got[where]!r}, expected {fact.exact[where]!r}{bound}; "
                             f"{int(wrong.sum())} of {wrong.size} elements are wrong")


def check(seed: int) -> None:
    fuzzer = Fuzzer(seed)
    program = fuzzer.program
    types = [tensor_type(dtype, dims) for dtype, dims in program.inputs]
    types += [BufferType(getattr(DType, dtype), dims, DeviceRef.CPU()) for dtype, dims in program.buffers]
    buffers = [to_buffer(a) for a in fuzzer.memory]
    results = execute(compiled(program.build, types, f"fuzz{seed}", program.weights or None), fuzzer.arrays, buffers)
    for index, got in zip(program.outputs, results):
        compare(f"v{index}", got, fuzzer.facts[index])
    for index, (buffer, fact) in enumerate(zip(buffers, fuzzer.state)):
        compare(f"b{index}", to_array(buffer), fact)


@pytest.mark.parametrize("first", range(SEED, SEED + GRAPHS, GROUP))
def test_graphs(first):
    failures = []
    for seed in range(first, min(first + GROUP, SEED + GRAPHS)):
        try:
            check(seed)
        except Exception as error:  # noqa: BLE001: every failure of the group is reported
            text = Fuzzer(seed).program.text()
            failures.append(f"seed {seed}: {type(error).__name__}: {error}\n{text}")
    assert not failures, "\n\n".join(failures)
