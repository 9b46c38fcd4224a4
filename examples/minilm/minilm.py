"""The sentence encoder all-MiniLM-L6-v2 as a kiln graph.

    model = load_model(folder)
    vectors = model.execute(input_ids, attention_mask)[0].to_numpy()

`folder` holds `config.json` and `model.safetensors`. The sizes come from the configuration, so the
same code runs any encoder of the BERT family with absolute positions. Batch and sequence length are
symbolic: one compile serves every shape.
"""

from __future__ import annotations

import math
import os
import pathlib
from dataclasses import MISSING, dataclass, fields

from examples.minilm.files import read_json
from kiln.dtype import DType
from kiln.engine import InferenceSession, Model
from kiln.graph import DeviceRef, Dim, Graph, TensorType, TensorValue, Weight, ops
from kiln.weights import Safetensors, load_safetensors

CPU = DeviceRef.CPU()


@dataclass(frozen=True)
class Config:
    """The sizes of an encoder, named as in `config.json`."""

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_hidden_layers: int
    vocab_size: int
    max_position_embeddings: int
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    hidden_act: str = "gelu"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{field.name} is {value!r}, not a positive number.")
        if not isinstance(self.layer_norm_eps, int | float):
            raise ValueError(f"layer_norm_eps is {self.layer_norm_eps!r}, not a number.")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads "
                f"{self.num_attention_heads}."
            )
        if self.hidden_act not in ("gelu", "gelu_new", "relu"):
            raise ValueError(
                f"hidden_act '{self.hidden_act}' is unknown; this encoder knows gelu, gelu_new and relu."
            )

    @classmethod
    def read(cls, folder: str | os.PathLike) -> Config:
        """The configuration in `folder`/config.json."""
        path = pathlib.Path(folder) / "config.json"
        values = read_json(path)
        if values.get("position_embedding_type", "absolute") != "absolute":
            raise ValueError(
                f"'{path}' asks for positions of type {values['position_embedding_type']}; "
                "this encoder has absolute ones."
            )
        missing = [f.name for f in fields(cls) if f.default is MISSING and f.name not in values]
        if missing:
            raise ValueError(f"'{path}' lacks {', '.join(missing)}, so it describes no encoder.")
        try:
            return cls(**{f.name: values[f.name] for f in fields(cls) if f.name in values})
        except ValueError as error:
            raise ValueError(f"'{path}': {error}") from None


class Encoder:
    """Adds the ops of the network to the current graph. Weights keep the names of the file."""

    def __init__(self, config: Config, prefix: str = "") -> None:
        self.config = config
        self.prefix = prefix

    def weight(self, name: str, *shape: int) -> Weight:
        return Weight(self.prefix + name, DType.float32, shape, CPU)

    def linear(self, x: TensorValue, name: str, inputs: int, outputs: int) -> TensorValue:
        """x · Wᵀ + b: the file stores the matrix as [outputs, inputs]."""
        matrix = self.weight(f"{name}.weight", outputs, inputs)
        return x @ ops.transpose(matrix, 0, 1) + self.weight(f"{name}.bias", outputs)

    def layer_norm(self, x: TensorValue, name: str) -> TensorValue:
        size = self.config.hidden_size
        gamma, beta = self.weight(f"{name}.weight", size), self.weight(f"{name}.bias", size)
        return ops.layer_norm(x, gamma, beta, self.config.layer_norm_eps)

    def embeddings(self, ids: TensorValue) -> TensorValue:
        config, sequence = self.config, ids.shape[1]
        words = self.weight("embeddings.word_embeddings.weight", config.vocab_size, config.hidden_size)
        positions = self.weight(
            "embeddings.position_embeddings.weight", config.max_position_embeddings, config.hidden_size
        )
        types = self.weight(
            "embeddings.token_type_embeddings.weight", config.type_vocab_size, config.hidden_size
        )
        # A length beyond the table of positions is found here when the model runs.
        places = ops.slice_tensor(positions, [(slice(0, sequence), sequence)])
        x = ops.gather(words, ids, axis=0) + (places + ops.slice_tensor(types, [0]))
        return self.layer_norm(x, "embeddings.LayerNorm")

    def heads(self, x: TensorValue) -> TensorValue:
        """[batch, sequence, hidden] to [batch, heads, sequence, hidden / heads]."""
        batch, sequence, hidden = x.shape
        count = self.config.num_attention_heads
        return x.reshape([batch, sequence, count, int(hidden) // count]).permute([0, 2, 1, 3])

    def attention(self, x: TensorValue, mask_bias: TensorValue, name: str) -> TensorValue:
        size = self.config.hidden_size
        query, key, value = (
            self.heads(self.linear(x, f"{name}.self.{part}", size, size))
            for part in ("query", "key", "value")
        )
        scale = 1.0 / math.sqrt(size // self.config.num_attention_heads)
        scores = query @ ops.transpose(key, -2, -1) * scale + mask_bias
        mixed = ops.softmax(scores) @ value
        joined = mixed.permute([0, 2, 1, 3]).reshape(x.shape)
        return self.linear(joined, f"{name}.output.dense", size, size)

    def activation(self, x: TensorValue) -> TensorValue:
        if self.config.hidden_act == "relu":
            return ops.relu(x)
        return ops.gelu(x, "none" if self.config.hidden_act == "gelu" else "tanh")

    def layer(self, x: TensorValue, mask_bias: TensorValue, name: str) -> TensorValue:
        size, inner = self.config.hidden_size, self.config.intermediate_size
        x = self.layer_norm(
            x + self.attention(x, mask_bias, f"{name}.attention"), f"{name}.attention.output.LayerNorm"
        )
        wide = self.activation(self.linear(x, f"{name}.intermediate.dense", size, inner))
        return self.layer_norm(
            x + self.linear(wide, f"{name}.output.dense", inner, size), f"{name}.output.LayerNorm"
        )

    def __call__(self, ids: TensorValue, mask: TensorValue) -> TensorValue:
        """The embedding of each row: the mean over the mask, divided by its length."""
        kept = ops.cast(mask, DType.float32)
        # 0 where a token counts and -1e9 where it does not, for every head and query.
        mask_bias = ops.unsqueeze(ops.unsqueeze((1.0 - kept) * -1e9, 1), 1)
        x = self.embeddings(ids)
        for index in range(self.config.num_hidden_layers):
            x = self.layer(x, mask_bias, f"encoder.layer.{index}")
        total = ops.squeeze(ops.sum(x * ops.unsqueeze(kept, 2), axis=1), 1)
        mean = total / ops.max(ops.sum(kept, axis=1), 1e-9)
        length = ops.sqrt(ops.sum(mean * mean, axis=-1))
        return mean / ops.max(length, 1e-12)


def encoder_graph(config: Config, prefix: str = "", name: str = "minilm") -> Graph:
    """The graph: `input_ids` and `attention_mask`, int64 [batch, sequence], to float32 [batch, hidden]."""
    tokens = TensorType(DType.int64, [Dim("batch"), Dim("sequence")], CPU)
    with Graph(name, input_types=[tokens, tokens]) as graph:
        ids, mask = graph.inputs
        graph.output(Encoder(config, prefix)(ids.tensor, mask.tensor))
    return graph


def read_weights(folder: str | os.PathLike) -> tuple[Safetensors, str]:
    """The mapped weights of `folder` and what precedes their names: "" or "bert."."""
    weights = load_safetensors(pathlib.Path(folder) / "model.safetensors")
    marker = "embeddings.word_embeddings.weight"
    for prefix in ("", "bert."):
        if prefix + marker in weights:
            return weights, prefix
    raise ValueError(f"'{folder}/model.safetensors' holds no '{marker}', so it is no BERT encoder.")


def load_model(folder: str | os.PathLike, num_threads: int | None = None) -> Model:
    """Compiles the encoder in `folder` and binds its weights.

    `num_threads` is that of `InferenceSession`: None takes as many as the machine offers.
    """
    weights, prefix = read_weights(folder)
    session = InferenceSession(num_threads=num_threads)
    return session.load(encoder_graph(Config.read(folder), prefix), weights_registry=weights)
