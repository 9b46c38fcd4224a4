"""How graphs of tensors run: op by op, as one program, or first the one and then the other."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.experimental import functional as F
from kiln.experimental.compilation import compile
from kiln.experimental.sharding import TensorLayout
from kiln.experimental.tensor import Tensor
from kiln.graph import TensorType

EXECUTORS = ["composite", "interpreter", "compile", "jit"]


@F.functional
def normalised(x, scale):
    centred = x - x.mean(axis=1)
    kept = Tensor([1.0, 2.0, 3.0])
    return F.softmax(centred * scale, 1) * kept, centred.sum(axis=None)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_every_executor_gives_the_same(executor):
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    with F.set_default_executor(executor):
        for i in range(4):
            made, total = normalised(Tensor(x + i), 2 + i)
            centred = x - x.mean(1, keepdims=True)
            e = np.exp(centred * (2 + i))
            np.testing.assert_allclose(made.to_numpy(), e / e.sum(1, keepdims=True) * [1, 2, 3], rtol=2e-5)
            np.testing.assert_allclose(total.to_numpy(), [0], atol=1e-5)
        with F.lazy():
            y = Tensor(x) * 3 + 1
        np.testing.assert_allclose(y.to_numpy(), x * 3 + 1, rtol=1e-6)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_stores_keep_their_order(executor):
    @F.functional
    def steps(cache, x):
        before = cache + 0
        cache[0] = x
        between = cache * 2
        cache[1] = between[0]
        return before, cache + 0

    with F.set_default_executor(executor):
        for _ in range(3):
            cache = Tensor.zeros([2, 2])
            memory = cache.driver_tensor
            before, after = steps(cache, Tensor([1, 2]))
            np.testing.assert_array_equal(before.to_numpy(), np.zeros((2, 2)))
            np.testing.assert_array_equal(after.to_numpy(), [[1, 2], [2, 4]])
            np.testing.assert_array_equal(memory.to_numpy(), [[1, 2], [2, 4]])


def test_what_the_interpreter_cannot_run():
    @F.functional
    def chosen(x):
        return F.cond(x[0] > 0, [TensorType(DType.float32, [2], CPU())], lambda: x * 2, lambda: x - 1)[0]

    with F.set_default_executor("interpreter"), pytest.raises(F.UnsupportedGraphError) as error:
        chosen(Tensor([1, 2]))
    assert "its op 'cond' runs others" in str(error.value) and isinstance(error.value, RuntimeError)
    for executor in ("composite", "compile", "jit"):
        with F.set_default_executor(executor):
            np.testing.assert_array_equal(chosen(Tensor([1, 2])).to_numpy(), [2, 4])


def test_sizes_that_data_tells():
    @F.functional
    def positions(x):
        return F.nonzero(x * 2, "found") + 1

    for executor in EXECUTORS:
        with F.set_default_executor(executor):
            for _ in range(2):
                np.testing.assert_array_equal(positions(Tensor([0, 3, 0, 4])).to_numpy(), [[2], [4]])


def test_results_that_are_inputs_and_twice_the_same():
    @F.functional
    def same(x):
        y = x * 2
        return x, y, y

    for executor in EXECUTORS:
        with F.set_default_executor(executor):
            x = Tensor([1, 2])
            a, b, c = same(x)
            a[0] = Tensor(9.0)
            assert a.to_numpy().tolist() == [9, 2] and b.to_numpy().tolist() == c.to_numpy().tolist() == [2, 4]


def test_errors_of_ops_are_not_hidden():
    @F.functional
    def picked(x, i):
        return F.gather(x * 2, i, 0) + 1

    for executor in EXECUTORS:
        with F.set_default_executor(executor), pytest.raises(ValueError, match="index 7 is out of bounds"):
            picked(Tensor([1, 2]), Tensor([7], dtype=DType.int64))


def test_names_and_environment(monkeypatch):
    with pytest.raises(ValueError, match="There is no executor 'fast'; there are composite"):
        F.set_default_executor("fast")
    program = """
from kiln._core.experimental import _default_executor
from kiln.experimental import functional as F
from kiln.experimental.tensor import Tensor
f = F.functional(lambda x: (x * 2 + 1) * x)
try:
    f(Tensor([1, 2]))
except F.UnsupportedGraphError as error:
    print(error)
print(_default_executor())
"""

    def run(**variables):
        environment = {**os.environ, **variables}
        return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True,
                              check=True)

    assert run(KILN_EAGER_EXECUTOR="jit").stdout == "jit\n"
    result = run(KILN_EAGER_EXECUTOR="fast")
    assert result.stdout == "composite\n" and "KILN_EAGER_EXECUTOR: There is no executor 'fast'" in result.stderr
    result = run(KILN_EAGER_EXECUTOR="interpreter", KILN_INTERPRETER_MAX_OPS="1")
    assert "and at most 1 are (KILN_INTERPRETER_MAX_OPS)" in result.stdout


def test_jit_comes_to_run_one_program():
    @F.functional
    def wave(x):
        return F.sin(x) * F.cos(x) + F.tanh(x)

    x = np.linspace(-1, 1, 1000, dtype=np.float32)
    with F.set_default_executor("jit"):
        for _ in range(20):
            made = wave(Tensor(x)).to_numpy()
            np.testing.assert_allclose(made, np.sin(x) * np.cos(x) + np.tanh(x), atol=1e-6)
            time.sleep(0.01)


def test_threads():
    failures = []

    def work(i):
        try:
            for k in range(10):
                made, _ = normalised(Tensor(np.full((2 + i, 3), k, np.float32)), 1)
                np.testing.assert_allclose(made.to_numpy(), np.tile([1 / 3, 2 / 3, 1], (2 + i, 1)), rtol=1e-6)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@given(st.data())
def test_random_programs_in_every_mode(data):
    """At once, lazily, as one graph, op by op, staged and compiled: the same, and as NumPy."""
    shapes = [(3, 4), (4, 3), (3, 1)]
    inputs = [np.random.default_rng(i).integers(-3, 4, shape).astype(np.float32) for i, shape in enumerate(shapes)]
    names = st.sampled_from(["add", "mul", "matmul", "relu", "sum", "t", "tanh", "max", "cat"])
    steps = data.draw(st.lists(st.tuples(names, *[st.integers(0, 9)] * 2), min_size=1, max_size=6))

    def program(lib, values):
        values = list(values)
        for kind, i, j in steps:
            x, y = values[i % len(values)], values[j % len(values)]
            a, b = [int(d) for d in x.shape], [int(d) for d in y.shape]
            fits = all(m == n or 1 in (m, n) for m, n in zip(a, b, strict=True))
            if kind in ("add", "mul", "max") and fits:
                values.append({"add": lambda: x + y, "mul": lambda: x * y * 0.5, "max": lambda: lib.max(x, y)}[kind]())
            elif kind == "matmul" and a[1] == b[0]:
                values.append(x @ y)
            elif kind in ("relu", "tanh", "t"):
                values.append(getattr(lib, kind)(x))
            elif kind == "sum":
                values.append(lib.sum(x, j % 2))
            elif kind == "cat" and a[0] == b[0]:
                values.append(lib.cat(x, y))
        return tuple(values[len(shapes):]) or (values[0] + 0,)

    class OfTensors:
        relu, tanh, max, sum = F.relu, F.tanh, F.max, F.sum

        @staticmethod
        def t(x):
            return F.transpose(x, 0, 1)

        @staticmethod
        def cat(x, y):
            return F.concat([x, y], 1)

    class OfArrays:
        tanh, max = np.tanh, np.maximum

        @staticmethod
        def relu(x):
            return np.maximum(x, 0)

        @staticmethod
        def sum(x, axis):
            return x.sum(axis, keepdims=True)

        @staticmethod
        def t(x):
            return x.T

        @staticmethod
        def cat(x, y):
            return np.concatenate([x, y], 1)

    def run(*tensors):
        return program(OfTensors, tensors)

    expected = program(OfArrays, [x.astype(np.float64) for x in inputs])
    tensors = [Tensor(x) for x in inputs]
    ways = {"eager": run(*tensors)}
    with F.lazy():
        ways["lazy"] = run(*tensors)
    for executor in ("interpreter", "compile"):
        with F.set_default_executor(executor):
            ways[executor] = F.functional(run)(*tensors)
    layouts = [TensorLayout(DType.float32, shape, CPU()) for shape in shapes]
    ways["compiled"] = compile(run)(*layouts)(*tensors)
    for way, results in ways.items():
        assert len(results) == len(expected), way
        for result, value in zip(results, expected, strict=True):
            scale = max(1.0, np.abs(value).max())
            np.testing.assert_allclose(result.to_numpy() / scale, value / scale, atol=1e-5, err_msg=way)
