"""The bits of a result depend neither on the number of threads nor on who else calls models."""

import threading

import numpy as np
import pytest
from running import dtype_name, generator, numpy_type, sample, tensor_type, to_array, to_buffer

from kiln.engine import InferenceSession
from kiln.graph import Graph, ops

pytestmark = pytest.mark.compiler

ROWS = [("n", 517), (331, 517)]
TALL = [("n", 97), (1499, 97)]
# Builds of one tensor; sizes that are worth several threads and that no tile or vector divides.
CASES = {
    "elementwise": (lambda x: ops.gelu(x * 1.5 + 0.25) - ops.tanh(x), ROWS),
    "softmax": (ops.softmax, ROWS),
    "rows": (lambda x: ops.sum(x * x, axis=1), ROWS),
    "columns": (lambda x: ops.mean(x, axis=0), TALL),
    "whole": (lambda x: ops.sum(ops.reshape(x, (-1,)), axis=0), ROWS),
    "largest": (lambda x: ops.max(x, axis=0), TALL),
    "best": (lambda x: ops.argmax(x, axis=0), TALL),
    "gram": (lambda x: x @ ops.transpose(x, 0, 1), TALL),
    "scores": (lambda x: ops.softmax(x @ ops.transpose(x, 0, 1)) @ x, [("n", 97), (301, 97)]),
    "normed": (lambda x: x / ops.sqrt(ops.mean(x * x, axis=-1) + 1e-6), ROWS),
    "turned": (lambda x: ops.transpose(x, 0, 1) + 1, ROWS),
}
DTYPES = ["float32", "float64", "bfloat16", "float16"]


def inputs(name: str, dtype: str, seed=0) -> np.ndarray:
    shape = CASES[name][1][1]
    return sample(generator(name, dtype, seed), dtype, shape, special=False)


def compiled(session: InferenceSession, name: str, dtype: str):
    build, (symbolic, _) = CASES[name]
    return session.compile(Graph(name, build, [tensor_type(dtype, symbolic)]))


def call(model, array: np.ndarray) -> bytes:
    return to_array(model.execute(to_buffer(array))[0]).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_their_number_changes_no_bit(name, dtype):
    array = inputs(name, dtype)
    assert dtype_name(array) == dtype and array.dtype == numpy_type(dtype)
    artifact = compiled(InferenceSession(), name, dtype)
    alone = call(InferenceSession(num_threads=1).init(artifact), array)
    assert len(alone) > 0
    for threads in (2, 4):
        model = InferenceSession(num_threads=threads).init(artifact)
        assert all(call(model, array) == alone for _ in range(2)), f"{threads} threads"


def test_many_call_many_models():
    sessions = [InferenceSession(num_threads=n) for n in (4, 2)]
    alone, jobs = InferenceSession(num_threads=1), []
    for name in CASES:
        artifact = compiled(alone, name, "float32")
        for seed in (1, 2):
            array = inputs(name, "float32", seed)
            expected = call(alone.init(artifact), array)
            jobs += [(name, session.init(artifact), array, expected) for session in sessions]
    wrong = []

    def work(first):
        for k in range(40):
            name, model, array, expected = jobs[(first * 13 + k * 7) % len(jobs)]
            if call(model, array) != expected:
                wrong.append(name)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert wrong == []
