"""Weights and constants of which an index that is a constant, too, picks a part."""

import numpy as np
import pytest
from running import compiled, execute, generator, tensor_type

from kiln.dtype import DType
from kiln.graph import DeviceRef, Weight, ops

pytestmark = pytest.mark.compiler
CPU = DeviceRef.CPU()
W = generator("weights by index").uniform(-1, 1, (5, 4)).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def looped(row):
    return ops.while_loop([row, ops.constant(0, DType.int64, CPU)], lambda v, i: i < 3, lambda v, i: [v * v, i + 1])[0]


# What is done with w, the index c = 2 and an input x of [3, 4].
CASES = {
    "softmax": (lambda w, c, x: ops.softmax(w[c]), lambda w, x: softmax(w[2])),
    "sum": (lambda w, c, x: ops.sum(w[c]), lambda w, x: w[2].sum(-1, keepdims=True)),
    "product": (lambda w, c, x: x @ ops.unsqueeze(w[c], 1), lambda w, x: x @ w[2][:, None]),
    "product_of_rows": (lambda w, c, x: x @ ops.transpose(w[(slice(c, None), "k"),], 0, 1), lambda w, x: x @ w[2:].T),
    "sum_of_rows": (lambda w, c, x: ops.sum(w[(slice(c, None), "k"),], axis=0),
                    lambda w, x: w[2:].sum(0, keepdims=True)),
    "norm": (lambda w, c, x: ops.rms_norm(x, w[c], 1e-3),
             lambda w, x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-3) * w[2]),
    "loop": (lambda w, c, x: looped(w[c]), lambda w, x: w[2] ** 8),
    "branch": (lambda w, c, x: ops.cond(x[0, 0] > 2.0, [w[c].type], lambda: w[c], lambda: w[c] + 1.0)[0],
               lambda w, x: w[2] + 1),
    "elementwise": (lambda w, c, x: w[c] * 2.0 + x, lambda w, x: w[2] * 2 + x),
    "pad": (lambda w, c, x: ops.pad(w[c], [1, 2]), lambda w, x: np.pad(w[2], (1, 2))),
    "concat": (lambda w, c, x: ops.concat([w[c], w[0]], 0), lambda w, x: np.concatenate([w[2], w[0]])),
}


@pytest.mark.parametrize("index_is", ["constant", "weight", "input"])
@pytest.mark.parametrize("data_is", ["weight", "constant"])
@pytest.mark.parametrize("name", CASES)
def test_a_part_of_a_weight(name, data_is, index_is):
    def build(x, i):
        w = Weight("w", DType.float32, W.shape, CPU) if data_is == "weight" else ops.constant(W, device=CPU)
        c = i
        if index_is != "input":
            c = Weight("c", DType.int64, [], CPU) + 0 if index_is == "weight" else ops.constant(2, DType.int64, CPU)
        return CASES[name][0](w + 0.0, c, x)

    x = generator("weights by index", name).uniform(-1, 1, (3, 4)).astype(np.float32)
    registry = {"w": W, "c": np.array(2)}
    used = {key: value for key, value in registry.items() if {"w": data_is, "c": index_is}[key] == "weight"}
    model = compiled(build, [tensor_type("float32", [3, 4]), tensor_type("int64", [])], weights=used or None)
    for _ in range(2):
        got = execute(model, [x, np.array(2)])[0]
        expected = CASES[name][1](W.astype(np.float64), x.astype(np.float64))
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)
