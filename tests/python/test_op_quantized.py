"""Quantised blocks against the byte formulas of the specification."""

import numpy as np
import pytest
from running import assert_equal, compiled, execute, generator, run, tensor_type

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.graph import Graph, QuantizationConfig, QuantizationEncoding, TensorType, Weight, ops

pytestmark = pytest.mark.compiler
E = QuantizationEncoding
F = np.float32
ENCODINGS = [E.Q4_0, E.Q8_0, E.Q4_K, E.Q6_K]


def half(block, at):
    return F(block[at : at + 2].view(np.float16)[0])


def q4_0(b):
    d, q = half(b, 0), b[2:18].astype(int)
    return [d * F((v & 15) - 8) for v in q] + [d * F((v >> 4) - 8) for v in q]


def q8_0(b):
    return [half(b, 0) * F(v) for v in b[2:34].view(np.int8)]


def q4_k(b):
    d, lowest, s, q = half(b, 0), half(b, 2), b[4:16].astype(int), b[16:].astype(int)

    def pair(j):
        if j < 4:
            return s[j] & 63, s[j + 4] & 63
        return (s[j + 4] & 15) | ((s[j - 4] >> 6) << 4), (s[j + 4] >> 4) | ((s[j] >> 6) << 4)

    y = []
    for c in range(4):
        for i, nibble in enumerate((lambda v: v & 15, lambda v: v >> 4)):
            sc, m = pair(2 * c + i)
            y += [d * F(sc) * F(nibble(v)) - lowest * F(m) for v in q[32 * c : 32 * c + 32]]
    return y


def q6_k(b):
    d, y = half(b, 208), np.zeros(256, F)
    for h in range(2):
        low, high = b[64 * h :].astype(int), b[128 + 32 * h :].astype(int)
        scales = b[192 + 8 * h : 200 + 8 * h].view(np.int8)
        for j in range(32):
            parts = [low[j] & 15 | (high[j] & 3) << 4, low[j + 32] & 15 | (high[j] >> 2 & 3) << 4,
                     low[j] >> 4 | (high[j] >> 4 & 3) << 4, low[j + 32] >> 4 | (high[j] >> 6 & 3) << 4]
            for t, q in enumerate(parts):
                y[128 * h + j + 32 * t] = d * F(scales[j // 16 + 2 * t]) * F(q - 32)
    return y


DECODERS = {E.Q4_0: q4_0, E.Q8_0: q8_0, E.Q4_K: q4_k, E.Q6_K: q6_k}
SCALES = {E.Q4_0: [0], E.Q8_0: [0], E.Q4_K: [0, 2], E.Q6_K: [208]}


def blocks(rng, encoding, shape, scale=0.01):
    """Random bytes with scales that are ordinary numbers."""
    raw = rng.integers(0, 256, (*shape, encoding.block_size)).astype(np.uint8)
    for at in SCALES[encoding]:
        d = (rng.standard_normal(shape) * scale).astype(np.float16)
        raw[..., at : at + 2] = d[..., None].view(np.uint8)
    return raw.reshape(*shape[:-1], shape[-1] * encoding.block_size)


def decoded(encoding, raw):
    parts = raw.reshape(raw.size // encoding.block_size, encoding.block_size)
    values = np.array([DECODERS[encoding](np.ascontiguousarray(p)) for p in parts], F).reshape(-1)
    return values.reshape(*raw.shape[:-1], raw.shape[-1] // encoding.block_size * encoding.elements_per_block)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.name)
def test_dequantize(encoding):
    rng = generator("dequantize", encoding.name)
    for shape in ((3,), (2, 5), (2, 3, 1), (0, 2)):
        raw = blocks(rng, encoding, shape)
        expected = decoded(encoding, raw)
        symbolic = [*[f"d{i}" for i in range(raw.ndim - 1)], raw.shape[-1]]
        for shapes in (None, [symbolic]):
            assert_equal(run(lambda x: ops.dequantize(encoding, x), raw, shapes=shapes)[0], expected)


@pytest.mark.parametrize("scale", [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0x7C00, 0xFC00, 0x7E00])
def test_scales_at_the_ends_of_float16(scale):
    raw = np.zeros((1, 34), np.uint8)
    raw[0, :2] = np.array([scale], np.uint16).view(np.uint8)
    raw[0, 2:] = np.arange(-16, 16).astype(np.int8).view(np.uint8)
    with np.errstate(all="ignore"):
        assert_equal(run(lambda x: ops.dequantize(E.Q8_0, x), raw)[0], decoded(E.Q8_0, raw), signed_zero=True)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.name)
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 5, 9])
def test_qmatmul(encoding, rows):
    rng = generator("qmatmul", encoding.name, rows)
    # Fewer columns than a panel, some more, and a depth of more than one step.
    for columns, count in ((1, 1), (5, 2), (16, 1), (37, 3), (18, 2304 // encoding.elements_per_block), (0, 1)):
        raw = blocks(rng, encoding, (columns, count))
        x = rng.standard_normal((rows, count * encoding.elements_per_block)).astype(F)
        w = decoded(encoding, raw).astype(np.float64)
        exact = x.astype(np.float64) @ w.T
        bound = x.shape[1] * 2.0**-23 * (np.abs(x).astype(np.float64) @ np.abs(w).T) + 1e-30
        got = run(lambda x, w: ops.qmatmul(encoding, None, x, w), x, raw, shapes=[["m", x.shape[1]], raw.shape])[0]
        assert got.shape == exact.shape and got.dtype == F
        assert (np.abs(got - exact) <= bound).all()


def test_qmatmul_of_weights_and_any_rank():
    rng = generator("qmatmul weights")
    raw = blocks(rng, E.Q4_K, (24, 1))
    w = decoded(E.Q4_K, raw)
    x = rng.standard_normal((2, 3, 256)).astype(F)

    def build(x):
        weight = Weight("w", DType.uint8, raw.shape, CPU())
        return [ops.qmatmul(E.Q4_K, None, x, weight), ops.qmatmul(E.Q4_K, None, x[0, 0], weight),
                x @ ops.transpose(ops.dequantize(E.Q4_K, weight), 0, 1),
                ops.qmatmul(E.Q4_K, None, x, ops.quantized.repack_gguf_quantized_weights(weight, E.Q4_K))]

    results = execute(compiled(build, [tensor_type("float32", x.shape)], weights={"w": raw}), [x])
    exact = x.astype(np.float64) @ w.T.astype(np.float64)
    for got, expected in zip(results, (exact, exact[0, 0], exact, exact), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_dequantize_is_fused_around():
    raw = blocks(generator("fused"), E.Q8_0, (2, 3))
    got = run(lambda x: ops.cast(ops.dequantize(E.Q8_0, x) * 2, DType.bfloat16), raw)[0]
    np.testing.assert_allclose(got.astype(F), 2 * decoded(E.Q8_0, raw), rtol=2.0**-8)


def test_texts(tmp_path):
    types = [TensorType(DType.uint8, [2, 18], CPU()), TensorType(DType.uint8, [2, "n"], CPU()),
             TensorType(DType.float32, [3, 32], CPU()), TensorType(DType.float64, [3, 32], CPU())]
    config = QuantizationConfig("gptq", 4, 128)
    with Graph("g", input_types=types) as g:
        w, open_ended, x, double = (v.tensor for v in g.inputs)
        for error, call, text in [
            (TypeError, lambda: ops.dequantize(E.Q4_0, open_ended),
             "dequantize only supported with static last dimension"),
            (ValueError, lambda: ops.dequantize(E.Q8_0, w),
             r"last dimension \(18\) not divisible by block size \(34\)"),
            (ValueError, lambda: ops.dequantize(E.Q5_K, w), "unsupported quantization encoding Q5_K"),
            (ValueError, lambda: ops.dequantize(E.GPTQ, w), "unsupported quantization encoding GPTQ"),
            (ValueError, lambda: ops.dequantize(E.Q4_0, x), "uint8"),
            (TypeError, lambda: ops.qmatmul(E.Q4_0, None, x, x),
             "Right-hand side must be uint8, but got DType.float32"),
            (TypeError, lambda: ops.qmatmul(E.Q4_0, None, double, w),
             "Left-hand side must be DType.float32, but got DType.float64"),
            (TypeError, lambda: ops.qmatmul(E.Q4_0, None, x, w[0]), "Right-hand side must be a matrix, but got"),
            (ValueError, lambda: ops.qmatmul(E.Q5_K, None, x, w), "unsupported quantization encoding Q5_K"),
            (ValueError, lambda: ops.qmatmul(E.GPTQ, None, x, w), "GPTQ needs a config"),
            (ValueError, lambda: ops.qmatmul(E.GPTQ, config, x, w), "accelerators only"),
            (ValueError, lambda: ops.qmatmul(E.Q4_0, None, x[:, :16], w), "16"),
            (ValueError, lambda: ops.qmatmul(E.Q4_0, None, x, w, w), "takes one right-hand side, got 2"),
        ]:
            with pytest.raises(error, match=text):
                call()
        g.output(ops.dequantize(E.Q4_0, w), ops.qmatmul(E.Q4_0, None, x, w))
    path = tmp_path / "graph.kiln"
    path.write_text(str(g))
    assert str(Graph("ignored", path=path)) == path.read_text()
