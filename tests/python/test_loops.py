"""while_loop and cond when they run: values, memory, and calls that are ended."""

import signal
import time

import numpy as np
import pytest
from processes import run as run_program
from processes import start
from running import assert_equal, compiled, execute, generator, tensor_type

from kiln.dtype import DType
from kiln.graph import DeviceRef, ops

pytestmark = pytest.mark.compiler
CPU = DeviceRef.CPU()


def number(value, dtype=DType.int64):
    return ops.constant(value, dtype, device=CPU)


def test_values_that_change_places():
    def body(x, y, n):
        return ops.while_loop([x, y, number(0), n], lambda a, b, i, n: i < n,
                              lambda a, b, i, n: [b, a + b, i + 1, n])[:2]

    model = compiled(body, [tensor_type("int64", ["m"]), tensor_type("int64", ["m"]), tensor_type("int64", [])])
    for n in (0, 1, 2, 7, 50):
        a, b = np.array([0, 1, 2]), np.array([1, 1, 5])
        results = execute(model, [a, b, np.array(n)])
        for _ in range(n):
            a, b = b, a + b
        assert_equal(results[0], a)
        assert_equal(results[1], b)


def test_loops_in_loops_with_branches():
    """Collatz steps of each number up to n, summed: two loops, a branch in the inner one."""

    def body(n):
        def steps(i, total):
            k, count = ops.while_loop(
                [i, number(0)], lambda k, c: k != 1,
                lambda k, c: [ops.cond(k % 2 == 0, [k.type], lambda: ops.cast(k // 2, DType.int64),
                                         lambda: k * 3 + 1)[0], c + 1])
            return [i + 1, total + count]

        return ops.while_loop([number(1), number(0)], lambda i, total: i <= n, steps)[1]

    model = compiled(body, [tensor_type("int64", [])])

    def collatz(k):
        return 0 if k == 1 else 1 + collatz(k // 2 if k % 2 == 0 else 3 * k + 1)

    for n in (0, 1, 2, 30):
        assert execute(model, [np.array(n)])[0] == sum(collatz(k) for k in range(1, n + 1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_newton_iterations_of_a_matrix(dtype):
    """The inverse of a matrix: products of a loop's values with themselves and with outer ones."""

    def body(a, x):
        eye = ops.constant((2 * np.eye(5)).astype(dtype), device=CPU)
        return ops.while_loop([x, number(0)], lambda x, i: i < 30, lambda x, i: [x @ (eye - a @ x), i + 1])[0]

    rng = generator("newton", dtype)
    a = (np.eye(5) * 4 + rng.uniform(-1, 1, (5, 5))).astype(dtype)
    x = (a.T / (np.abs(a).sum(0).max() * np.abs(a).sum(1).max())).astype(dtype)
    types = [tensor_type(dtype, [5, 5]), tensor_type(dtype, [5, 5])]
    result = execute(compiled(body, types), [a, x])[0]
    np.testing.assert_allclose(result, np.linalg.inv(a.astype(np.float64)), rtol=1e-4 if dtype == "float32" else 1e-12)


def pieces(x, n):
    """Sums of pieces of x, whose sizes only running tells."""

    def step(i, total):
        piece = ops.exp(x[(slice(i % x.shape[0], None), "rest")])
        total = total + ops.sum(piece - ops.min(piece, axis=0), axis=0)[0]
        return [i + 1, total]

    return ops.while_loop([number(0), number(0.0, DType.float64)], lambda i, total: i < n, step)[1]


def test_sizes_that_differ_between_iterations():
    model = compiled(pieces, [tensor_type("float64", ["m"]), tensor_type("int64", [])])
    x = generator("pieces").uniform(-1, 1, 37)
    for n in (0, 1, 37, 80):
        parts = [np.exp(x[i % 37:]) for i in range(n)]
        expected = sum(float((p - p.min()).sum()) for p in parts)
        np.testing.assert_allclose(execute(model, [x, np.array(n)])[0], expected, rtol=1e-12)


def test_iterations_give_their_memory_back():
    program = """
        import resource, sys
        import numpy as np
        sys.path.insert(0, sys.argv[1])
        from test_loops import pieces
        from running import compiled, tensor_type

        model = compiled(pieces, [tensor_type("float64", ["m"]), tensor_type("int64", [])])
        x = np.zeros(20_000)
        def peak(n):
            model(x, np.array(n))
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(peak(10), peak(4000))
    """
    (line,) = run_program(program, __file__.rpartition("/")[0])
    before, after = map(float, line.split())
    assert after - before < 50  # MiB; what all iterations allocate is more than 1 GiB


ENDLESS = """
    import threading, time
    import numpy as np
    from kiln.dtype import DType
    from kiln.engine import InferenceSession
    from kiln.graph import DeviceRef, Graph, TensorType, ops

    def body(x, step):
        return ops.while_loop([x], lambda v: v < 10, lambda v: [v + step])[0]

    scalar = TensorType(DType.float32, [], DeviceRef.CPU())
    model = InferenceSession().load(Graph("endless", body, [scalar, scalar]))
    def call(x, step):
        return float(model(np.float32(x), np.float32(step))[0].to_numpy())
    assert call(0, 1) == 10  # from now on it counts as a short call
"""


def test_an_endless_loop_ends_with_control_c():
    process = start(ENDLESS + """
    for _ in range(2):
        try:
            print("started", flush=True)
            call(0, 0)
        except KeyboardInterrupt:
            print("interrupted", call(0, 3), flush=True)
    """)
    for _ in range(2):
        assert process.stdout.readline() == "started\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted 12.0\n"
    assert process.wait(timeout=60) == 0


def test_an_endless_loop_lets_other_threads_run():
    process = start(ENDLESS + """
    threading.Thread(target=lambda: call(0, 0), daemon=True).start()
    for _ in range(3):
        time.sleep(0.05)
        print(call(0, 1), flush=True)
    import os
    os._exit(0)
    """)
    output, errors = process.communicate(timeout=60)
    assert output.split() == ["10.0"] * 3, errors


@pytest.mark.parametrize("loop", [True, False])
def test_values_of_a_region_that_failed(loop):
    kept = []

    def fail(*values):
        kept.extend([*values, number(1) + 2])
        raise LookupError("enough")

    def body(x):
        with pytest.raises(LookupError, match="enough"):
            if loop:
                ops.while_loop([x], lambda v: v < 10, fail)
            else:
                ops.cond(x < 10, [x.type], fail, lambda: x)
        assert all("dtype=int64" in repr(value) for value in kept)
        with pytest.raises(ValueError, match="made inside a region of control flow that has ended"):
            x + kept[-1]
        return x + 1

    assert execute(compiled(body, [tensor_type("int64", [])]), [np.array(1)])[0] == 2
    assert len(kept) == 2 if loop else 1
