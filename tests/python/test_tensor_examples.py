"""The examples over tensors against NumPy in float64."""

import numpy as np
import pytest

from examples.gpt2_block.gpt2_block import GPT2, causal_mask, compile_model
from examples.regression.regression import compile_step
from kiln.experimental.tensor import Tensor

pytestmark = pytest.mark.experimental


def test_a_step_of_regression():
    random = np.random.default_rng(3)
    run = compile_step(4, 0.05)
    weights = Tensor.zeros([4])
    expected = np.zeros(4)
    for samples in (32, 7, 1):
        x, y = random.standard_normal((samples, 4)), random.standard_normal(samples)
        loss = run(weights, Tensor(x.astype(np.float32)), Tensor(y.astype(np.float32)), 0.05)
        error = x @ expected - y
        np.testing.assert_allclose(loss.to_numpy(), [(error**2).mean()], rtol=1e-5)
        expected -= 0.05 * 2 * x.T @ error / samples
        np.testing.assert_allclose(weights.to_numpy(), expected, rtol=1e-5, atol=1e-6)


def norm(x, gamma, beta):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def block(p, x, mask, heads):
    batch, length, size = x.shape
    qkv = norm(x, p["norm_1.gamma"], p["norm_1.beta"]) @ p["qkv.weight"] + p["qkv.bias"]
    q, k, v = (part.reshape(batch, length, heads, -1).swapaxes(1, 2) for part in np.split(qkv, 3, -1))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(size / heads) + mask
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = (scores / scores.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(batch, length, size)
    x = x + mixed @ p["out.weight"] + p["out.bias"]
    up = norm(x, p["norm_2.gamma"], p["norm_2.beta"]) @ p["up.weight"] + p["up.bias"]
    gelu = 0.5 * up * (1 + np.tanh(np.sqrt(2 / np.pi) * (up + 0.044715 * up**3)))
    return x + gelu @ p["down.weight"] + p["down.bias"]


def test_gpt2():
    model = GPT2(layers=3, size=24, heads=3, seed=5)
    random = np.random.default_rng(6)
    model.apply_to_parameters(
        lambda name, old: Tensor(random.standard_normal([int(d) for d in old.shape]).astype(np.float32) / 4)
    )
    run = compile_model(model)
    for batch, length in ((1, 1), (2, 5)):
        x = random.standard_normal((batch, length, 24)).astype(np.float32)
        expected = x.astype(np.float64)
        for layer in model.blocks:
            p = {name: t.to_numpy().astype(np.float64) for name, t in layer.parameters}
            expected = block(p, expected, np.triu(np.full((length, length), -1e9), 1), 3)
        expected = norm(expected, model.norm.gamma.to_numpy(), model.norm.beta.to_numpy())
        for way in (run, model):
            np.testing.assert_allclose(way(Tensor(x), causal_mask(length)).to_numpy(), expected, rtol=2e-4, atol=2e-5)
