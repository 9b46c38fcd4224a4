"""softmax(query · keyᵀ · scale + bias) · value as one kernel, against NumPy in float64."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import compiled, execute, run, tensor_type

from kiln.graph import ops

pytestmark = pytest.mark.compiler
EPS = float(np.finfo(np.float32).eps)


def attention(query, key, value, bias=None, scale=None):
    """The graph; the key as [..., keys, depth]."""
    scores = ops.matmul(query, ops.transpose(key, -2, -1))
    if scale is not None:
        scores = scores * scale
    if bias is not None:
        scores = scores + bias
    return ops.matmul(ops.softmax(scores), value)


def check(got, query, key, value, bias=None, scale=None):
    """Compares with float64; the bound follows the error of a score through exponential and sum."""
    q, k, v = (a.astype(np.float64) for a in (query, key, value))
    factor = 1.0 if scale is None else scale
    with np.errstate(all="ignore"):
        scores = q @ k.swapaxes(-1, -2) * factor
        size = np.abs(q) @ np.abs(k).swapaxes(-1, -2) * abs(factor)
        if bias is not None:
            scores = scores + bias.astype(np.float64)
            size = size + np.where(np.isfinite(bias), np.abs(bias), 0)
        top = scores.max(-1, keepdims=True, initial=-math.inf)
        weights = np.exp(scores - top)
        weights /= weights.sum(-1, keepdims=True)
        exact = weights @ v
        score_error = (q.shape[-1] + 4) * EPS * size.max(-1, keepdims=True, initial=0)
        bound = (2 * score_error + (k.shape[-2] + 16) * EPS) * (weights @ np.abs(v))
        assert got.shape == exact.shape
        same = (np.abs(got - exact) <= bound) | (np.isnan(got) & np.isnan(exact))
    assert same.all(), f"{(~same).sum()} of {same.size} elements are wrong, the first at {np.argwhere(~same)[0]}"


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    "batch, rows, keys, depth, width",
    [
        ((), 1, 1, 1, 1),
        ((), 13, 13, 64, 64),
        ((2,), 7, 5, 3, 2),
        ((2, 3), 33, 47, 20, 36),
        ((1, 2), 1, 700, 64, 64),
        ((1, 1), 300, 1, 8, 8),
        ((2,), 65, 1025, 5, 33),
        ((), 600, 2100, 16, 24),
        ((), 5, 6, 1, 4),
        ((3,), 5, 6, 4, 1),
    ],
)
def test_sizes_known_and_symbolic(batch, rows, keys, depth, width):
    query, key, value = normal(1, *batch, rows, depth), normal(2, *batch, keys, depth), normal(3, *batch, keys, width)
    scale = depth**-0.5
    graph = lambda q, k, v: attention(q, k, v, scale=scale)  # noqa: E731
    check(run(graph, query, key, value)[0], query, key, value, scale=scale)
    if keys == 1:
        return
    names = ["b1", "b2"][: len(batch)]
    shapes = [[*names, "rows", depth], [*names, "keys", depth], [*names, "keys", width]]
    model = compiled(graph, [tensor_type("float32", s) for s in shapes])
    assert any("softmax" in k and k.count("matmul") == 2 for k in model.kernel_summaries), model.kernel_summaries
    check(execute(model, [query, key, value])[0], query, key, value, scale=scale)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(0, 70), st.integers(1, 600), st.integers(1, 40), st.integers(0, 40))
def test_any_size(seed, rows, keys, depth, width):
    model = any_size()
    query, key, value = normal(seed, rows, depth), normal(seed + 1, keys, depth), normal(seed + 2, keys, width)
    check(execute(model, [query, key, value])[0], query, key, value)


def any_size():
    if not hasattr(any_size, "model"):
        shapes = [["rows", "depth"], ["keys", "depth"], ["keys", "width"]]
        any_size.model = compiled(attention, [tensor_type("float32", s) for s in shapes])
    return any_size.model


@pytest.mark.parametrize("keys", [9, 520])
def test_masks(keys):
    query, key, value = normal(1, 2, 40, 16), normal(2, 2, keys, 16), normal(3, 2, keys, 16)
    causal = np.where(np.arange(keys) <= np.arange(40)[:, None], 0, -math.inf).astype(np.float32)
    hidden = np.zeros((2, 1, keys), np.float32)
    hidden[0, 0, ::2] = -1e9
    hidden[1, 0, 3:] = -math.inf
    everything = np.full((40, keys), -math.inf, np.float32)
    everything[5:] = 0  # rows that see no key at all have no mean: NaN
    for bias in (causal, hidden, everything):
        got = run(attention, query, key, value, bias)[0]
        check(got, query, key, value, bias)
    assert np.isnan(got[:, :5]).all() and not np.isnan(got[:, 5:]).any()


def test_scores_that_would_overflow_and_vanish():
    for size in (1e18, 3e3, 1e-30):
        query, key, value = normal(1, 17, 8) * np.float32(size), normal(2, 600, 8), normal(3, 600, 8)
        exact = query.astype(np.float64) @ key.T.astype(np.float64)
        if size > 1:  # one key wins: its value is the result
            ordered = np.sort(exact, -1)
            clear = ordered[:, -1] - ordered[:, -2] > 100
            got = run(attention, query, key, value)[0]
            assert np.isfinite(got).all()
            np.testing.assert_allclose(got[clear], value[exact.argmax(-1)][clear], rtol=1e-6)
            assert clear.any()
        else:
            check(run(attention, query, key, value)[0], query, key, value)


def test_nan_and_infinity_reach_the_rows_they_touch():
    query, key, value = normal(1, 10, 8), normal(2, 600, 8), normal(3, 600, 8)
    query[3, 2] = math.nan
    value[599, 4] = math.inf
    got = run(attention, query, key, value)[0]
    assert np.isnan(got[3]).all()
    others = np.delete(got, 3, 0)
    assert np.isposinf(others[:, 4]).all() and np.isfinite(np.delete(others, 4, 1)).all()


@pytest.mark.parametrize("shapes", [None, [["rows", 8], ["keys", 8], ["keys", 5]]])
def test_sizes_of_zero(shapes):
    query, key, value = normal(1, 3, 8), normal(2, 0, 8), normal(3, 0, 5)
    assert run(attention, query, key, value, shapes=shapes)[0].tolist() == [[0.0] * 5] * 3
    query, key, value = normal(1, 0, 8), normal(2, 4, 8), normal(3, 4, 5)
    assert run(attention, query, key, value, shapes=shapes)[0].shape == (0, 5)


def test_no_depth_and_no_width():
    value = normal(3, 4, 5)
    got = run(attention, normal(1, 3, 0), normal(2, 4, 0), value)[0]
    check(got, np.zeros((3, 1)), np.zeros((4, 1)), value)
    assert run(attention, normal(1, 3, 2), normal(2, 4, 2), normal(3, 4, 0))[0].shape == (3, 0)


def test_long_sequences_do_not_store_the_scores():
    # The scores of 20,000 × 20,000 are 1.6 GB; queries, keys, values and the result 1 MB together.
    code = f"""
import resource
import sys
sys.path[:0] = {sys.path!r}
from test_attention import attention, check, normal
from running import run
arrays = [normal(i, 20000, 4) for i in range(3)]
run(attention, *[a[:16] for a in arrays])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
got = run(attention, *arrays)[0]
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
check(got[:50], arrays[0][:50], *arrays[1:])
assert grown < 60, f"memory grew by {{grown:.0f}} MiB"
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_softmax_of_an_attention_is_no_attention_itself():
    x = normal(1, 6, 6)
    got = run(lambda x: ops.matmul(ops.softmax(attention(x, x, x)), x), x)[0]
    first = run(attention, x, x, x)[0]
    check(first, x, x, x)
    weights = np.exp(first - first.max(-1, keepdims=True)).astype(np.float64)
    np.testing.assert_allclose(got, weights / weights.sum(-1, keepdims=True) @ x, rtol=1e-4, atol=1e-6)
