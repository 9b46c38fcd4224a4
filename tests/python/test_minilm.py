"""The sentence encoder of examples/minilm against references that kiln did not make."""

from __future__ import annotations

import json
import math
import pathlib

import numpy as np
import pytest
from safetensors.numpy import load_file

from examples.minilm.embed import Embedder, default_folder
from examples.minilm.minilm import Config, encoder_graph, load_model, read_weights
from kiln.engine import InferenceSession

pytestmark = pytest.mark.engine

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
REFERENCE = json.loads((DATA / "minilm_reference.json").read_text())["sentences"]
# The reference is rounded to 7 digits after the point.
TOLERANCE = 1e-6


def padded(rows: list[list[int]], length: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The ids of several sentences in one batch, and the mask of what counts."""
    length = length or max(map(len, rows))
    ids, mask = np.zeros((len(rows), length), np.int64), np.zeros((len(rows), length), np.int64)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return ids, mask


def erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x)


def reference_encoder(config: Config, weights: dict, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The network in NumPy and float64, written from the BERT paper, not from the example."""
    w = {name: np.asarray(value, np.float64) for name, value in weights.items()}

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        scaled = (x - mean) / np.sqrt(variance + config.layer_norm_eps)
        return scaled * w[name + ".weight"] + w[name + ".bias"]

    def dense(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    batch, length = ids.shape
    count, width = config.num_attention_heads, config.hidden_size // config.num_attention_heads
    x = (
        w["embeddings.word_embeddings.weight"][ids]
        + w["embeddings.position_embeddings.weight"][:length]
        + w["embeddings.token_type_embeddings.weight"][0]
    )
    x = norm(x, "embeddings.LayerNorm")
    for index in range(config.num_hidden_layers):
        name = f"encoder.layer.{index}"

        def split(part: str) -> np.ndarray:
            heads = dense(x, f"{name}.attention.self.{part}").reshape(batch, length, count, width)
            return heads.transpose(0, 2, 1, 3)

        query, key, value = split("query"), split("key"), split("value")
        scores = np.einsum("bhqd,bhkd->bhqk", query, key) / math.sqrt(width)
        scores = np.where(mask[:, None, None, :] == 1, scores, -1e9)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        mixed = np.einsum("bhqk,bhkd->bqhd", scores, value).reshape(batch, length, -1)
        x = norm(
            x + dense(mixed, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm"
        )
        wide = dense(x, f"{name}.intermediate.dense")
        wide = 0.5 * wide * (1 + erf(wide / math.sqrt(2)))
        x = norm(x + dense(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")
    kept = mask[..., None].astype(np.float64)
    mean = (x * kept).sum(1) / kept.sum(1)
    return mean / np.linalg.norm(mean, axis=-1, keepdims=True)


def random_weights(config: Config, seed: int) -> dict[str, np.ndarray]:
    """Weights of an encoder of any size; norms near 1, biases near 0."""
    random = np.random.default_rng(seed)
    size, inner = config.hidden_size, config.intermediate_size

    def matrix(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) * 0.05).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": matrix(config.vocab_size, size),
        "embeddings.position_embeddings.weight": matrix(config.max_position_embeddings, size),
        "embeddings.token_type_embeddings.weight": matrix(config.type_vocab_size, size),
    }

    def add_norm(name: str) -> None:
        weights[name + ".weight"] = 1 + matrix(size)
        weights[name + ".bias"] = matrix(size)

    def add_dense(name: str, outputs: int, inputs: int) -> None:
        weights[name + ".weight"] = matrix(outputs, inputs)
        weights[name + ".bias"] = matrix(outputs)

    add_norm("embeddings.LayerNorm")
    for index in range(config.num_hidden_layers):
        name = f"encoder.layer.{index}"
        for part in ("query", "key", "value"):
            add_dense(f"{name}.attention.self.{part}", size, size)
        add_dense(f"{name}.attention.output.dense", size, size)
        add_norm(f"{name}.attention.output.LayerNorm")
        add_dense(f"{name}.intermediate.dense", inner, size)
        add_dense(f"{name}.output.dense", size, inner)
        add_norm(f"{name}.output.LayerNorm")
    return weights


@pytest.fixture(scope="module")
def model():
    return load_model(default_folder())


def test_each_sentence_alone(model):
    worst = 0.0
    for sentence in REFERENCE:
        ids, mask = padded([sentence["token_ids"]])
        found = model.execute(ids, mask)[0].to_numpy()
        assert found.shape == (1, 384) and found.dtype == np.float32
        worst = max(worst, np.abs(found[0] - np.array(sentence["embedding"])).max())
    print(f"largest absolute difference, each alone: {worst:.2e}")
    assert worst <= TOLERANCE


def test_all_in_one_padded_batch(model):
    ids, mask = padded([sentence["token_ids"] for sentence in REFERENCE])
    found = model.execute(ids, mask)[0].to_numpy()
    expected = np.array([sentence["embedding"] for sentence in REFERENCE])
    worst = np.abs(found - expected).max()
    print(f"largest absolute difference, one padded batch: {worst:.2e}")
    assert worst <= TOLERANCE


def test_tokenizer_gives_the_reference_ids(model):
    embedder = Embedder(model, default_folder())
    texts = [sentence["text"] for sentence in REFERENCE]
    assert embedder.tokens(texts) == [sentence["token_ids"] for sentence in REFERENCE]
    vectors = embedder(texts, batch_size=5)
    expected = np.array([sentence["embedding"] for sentence in REFERENCE])
    assert np.abs(vectors - expected).max() <= TOLERANCE


def test_padding_does_not_show(model):
    tokens = REFERENCE[0]["token_ids"]
    alone = model.execute(*padded([tokens]))[0].to_numpy()
    wide = model.execute(*padded([tokens], length=97))[0].to_numpy()
    assert np.abs(alone - wide).max() <= TOLERANCE


def test_thirty_shapes_through_one_model(model):
    """One compile serves every batch and length; each against the network in float64."""
    config = Config.read(default_folder())
    weights = load_file(default_folder() / "model.safetensors")
    random = np.random.default_rng(3)
    shapes = [(int(random.integers(1, 5)), int(random.integers(1, 24))) for _ in range(28)]
    for batch, length in [*shapes, (1, 1), (2, 130)]:
        ids = random.integers(1000, 30000, (batch, length))
        mask = np.ones((batch, length), np.int64)
        found = model.execute(ids, mask)[0].to_numpy()
        expected = reference_encoder(config, weights, ids, mask)
        assert np.abs(found - expected).max() <= TOLERANCE, (batch, length)


@pytest.mark.parametrize("length", [1, 7, 13])
def test_an_encoder_of_other_sizes(length):
    config = Config(
        hidden_size=320,
        intermediate_size=416,
        num_attention_heads=5,
        num_hidden_layers=2,
        vocab_size=101,
        max_position_embeddings=16,
    )
    weights = random_weights(config, seed=11)
    model = InferenceSession().load(encoder_graph(config), weights_registry=weights)
    random = np.random.default_rng(length)
    ids = random.integers(0, config.vocab_size, (3, length))
    _, mask = padded([[1] * length, [1] * max(1, length // 2), [1] * max(1, length - 1)], length)
    found = model.execute(ids, mask)[0].to_numpy()
    assert np.abs(found - reference_encoder(config, weights, ids, mask)).max() <= TOLERANCE


def test_bad_input_is_refused_and_the_model_stays_usable(model):
    tokens = REFERENCE[0]["token_ids"]
    ids, mask = padded([tokens])
    with pytest.raises(ValueError, match="out of bounds for axis 0 with size 30522"):
        model.execute(ids + 40000, mask)
    with pytest.raises(ValueError):
        model.execute(np.ones((1, 513), np.int64), np.ones((1, 513), np.int64))
    with pytest.raises(ValueError, match="symbolic dimension 'sequence'"):
        model.execute(ids, mask[:, :-1].copy())
    with pytest.raises(ValueError, match="does not match expected type"):
        model.execute(ids.astype(np.int32), mask)
    found = model.execute(ids, mask)[0].to_numpy()
    assert np.abs(found[0] - np.array(REFERENCE[0]["embedding"])).max() <= TOLERANCE


def test_wrong_weights_are_refused():
    folder = default_folder()
    weights, prefix = read_weights(folder)
    session = InferenceSession()
    compiled = session.compile(encoder_graph(Config.read(folder), prefix))
    name = "encoder.layer.0.output.dense.bias"
    with pytest.raises(ValueError, match=f"Weight '{name}' is not in the weights registry."):
        session.init(compiled, weights_registry={k: weights[k] for k in weights if k != name})
    short = dict(weights.items())
    short[name] = np.zeros(383, np.float32)
    with pytest.raises(ValueError, match=f"Weight '{name}' has type"):
        session.init(compiled, weights_registry=short)


def test_one_file_runs_alone(model, tmp_path):
    """An artifact with its weights inside gives the very same numbers."""
    folder = default_folder()
    weights, prefix = read_weights(folder)
    session = InferenceSession()
    compiled = session.compile(encoder_graph(Config.read(folder), prefix))
    path = tmp_path / "minilm.mef"
    compiled.export_mef(path, weights_registry=weights)
    ids, mask = padded([sentence["token_ids"] for sentence in REFERENCE])
    again = InferenceSession().load(path)
    np.testing.assert_array_equal(
        again.execute(ids, mask)[0].to_numpy(), model.execute(ids, mask)[0].to_numpy()
    )


def test_threads_do_not_change_a_bit():
    ids, mask = padded([sentence["token_ids"] for sentence in REFERENCE])
    results = [
        load_model(default_folder(), num_threads=threads).execute(ids, mask)[0].to_numpy()
        for threads in (1, 2, 4)
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
