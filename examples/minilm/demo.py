"""The demonstration behind `make demo`: sentence embeddings from graph to one file that ships.

Compiles the encoder once for any batch and length, embeds a built-in set of sentences and those of
`--sentences FILE` (one a line), prints the nearest neighbours of each, and writes the artifact with
its weights inside.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time

import numpy as np

if __package__ in (None, ""):  # run as a program: find `examples`, and kiln unless it is installed
    _root = pathlib.Path(__file__).resolve().parents[2]
    sys.path.insert(0, str(_root))
    sys.path.append(str(_root / "python"))

from examples.minilm.embed import Embedder, default_folder
from examples.minilm.files import count, describe, read_sentences
from examples.minilm.minilm import Config, encoder_graph, read_weights
from examples.minilm.progress import Step
from kiln.engine import InferenceSession

SENTENCES = [
    "The weather is lovely today.",
    "It's so sunny outside!",
    "A storm is coming in from the sea tonight.",
    "He drove to the stadium.",
    "Thousands of people watched the match.",
    "The goalkeeper saved a penalty in the last minute.",
    "She bakes bread with rye and sourdough.",
    "Knead the dough and let it rest for an hour.",
    "The compiler turns loops into vector instructions.",
    "Programs run faster when data fits into the cache.",
    "A kiln fires clay at more than a thousand degrees.",
    "The potter glazed the bowl before the second firing.",
]


def print_neighbours(sentences: list[str], vectors: np.ndarray, count: int) -> None:
    """The `count` most similar other sentences of each, with the cosine of the angle."""
    scores = vectors @ vectors.T
    np.fill_diagonal(scores, -np.inf)
    for row, sentence in enumerate(sentences):
        print(sentence)
        for other in np.argsort(-scores[row], kind="stable")[:count]:
            if other != row:
                print(f"    {scores[row, other]:6.3f}  {sentences[other]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="folder of the model")
    parser.add_argument("--sentences", help="text file with one sentence a line")
    parser.add_argument("--output", default="build/demo/minilm.mef", help="the artifact to write")
    parser.add_argument("--neighbours", type=count, default=2, help="how many to print for each")
    parser.add_argument("--threads", type=count, default=None)
    arguments = parser.parse_args()

    try:
        folder = pathlib.Path(arguments.model) if arguments.model else default_folder()
        sentences = SENTENCES + (read_sentences(arguments.sentences) if arguments.sentences else [])
        with Step("Reading the weights"):
            weights, prefix = read_weights(folder)
        session = InferenceSession(num_threads=arguments.threads)
        with Step("Compiling the encoder for any batch and length") as compiling:
            compiled = session.compile(encoder_graph(Config.read(folder), prefix))
        with Step("Preparing the weights") as preparing:
            model = session.init(compiled, weights_registry=weights)
        embedder = Embedder(model, folder)
        with Step("Embedding") as embedding:
            vectors = embedder(
                sentences, progress=lambda done: embedding.update(f"{done} of {len(sentences)}")
            )
        # One sentence at a time, as a program that answers requests would; the first call warms up.
        embedder(sentences[:1])
        start = time.perf_counter()
        timed = sentences[:50]
        for sentence in timed:
            embedder([sentence])
        alone = (time.perf_counter() - start) / len(timed)
        output = pathlib.Path(arguments.output)
        output.parent.mkdir(parents=True, exist_ok=True)
        with Step(f"Writing {output}"):
            compiled.export_mef(output, weights_registry=weights)
    except (OSError, RuntimeError, ValueError) as error:
        print(describe(error), file=sys.stderr)
        return 1

    print_neighbours(sentences, vectors, arguments.neighbours)
    print()
    together = embedding.seconds / len(sentences)
    print(
        f"Compiled in {compiling.seconds * 1e3:.0f} ms for every shape; "
        f"weights prepared in {preparing.seconds * 1e3:.0f} ms."
    )
    print(
        f"A sentence takes {alone * 1e3:.2f} ms alone and {together * 1e3:.2f} ms in a batch, "
        "tokenizer included."
    )
    print(f"{output}: {output.stat().st_size / 1e6:.1f} MB, code and weights in one file.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
