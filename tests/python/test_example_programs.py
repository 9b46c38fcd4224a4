"""The example programs as a user starts them: from the sources, with what people get wrong."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

import kiln
from examples.minilm.embed import default_folder
from examples.minilm.files import read_sentences

pytestmark = pytest.mark.engine
ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("minilm/embed.py", "minilm/demo.py")


# What a program finds without a search path is the release build.
only_release = pytest.mark.skipif("build/release" not in str(kiln._core.__file__), reason="this is another build")


def run(program: str, *arguments: object, search_path: bool = True) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if search_path or k != "PYTHONPATH"}
    command = [sys.executable, ROOT / "examples" / program, *arguments]
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, env=environment, check=False
    )


def arguments_of(program: str, folder: pathlib.Path, tmp_path: pathlib.Path) -> list[object]:
    if program.endswith("embed.py"):
        return ["--model", folder, "one", "two"]
    return ["--model", folder, "--output", tmp_path / "out.mef"]


def model_folder(tmp_path: pathlib.Path, **changes: str | bytes | None) -> pathlib.Path:
    """The model's folder with some files replaced (`_` stands for `.`) or left out."""
    folder = tmp_path / "model"
    folder.mkdir()
    for file in default_folder().iterdir():
        change = changes.get(file.name.replace(".", "_"), "")
        if change is None:
            continue
        if change == "":
            (folder / file.name).symlink_to(file)
        elif isinstance(change, bytes):
            (folder / file.name).write_bytes(change)
        else:
            (folder / file.name).write_text(change)
    return folder


@only_release
def test_counter_needs_no_search_path():
    result = run("counter/counter.py", search_path=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("returned [0. 0. 0. 0.], now the buffer holds [1. 1. 1. 1.]")


@only_release
@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("regression/regression.py", "weights [ 2.  -1.   0.5]"),
        ("sharded_mlp/sharded_mlp.py", "up: [Dim(32), Dim(64)] in parts of [Dim(32), Dim(32)]"),
        ("gpt2_block/gpt2_block.py", "2 x 5: [Dim(2), Dim(5), Dim(64)]"),
    ],
)
def test_examples_over_tensors_need_no_search_path(program, expected):
    result = run(program, search_path=False)
    assert result.returncode == 0, result.stderr
    assert expected in result.stdout


@only_release
def test_embed_needs_no_search_path():
    result = run(
        "minilm/embed.py", "He drove to the stadium.", "He went to the stadium by car.", search_path=False
    )
    assert result.returncode == 0, result.stderr
    assert 0.7 < float(result.stdout.split()[0]) <= 1


def test_embed_needs_two_sentences():
    result = run("minilm/embed.py", "Alone.")
    assert result.returncode == 2 and "give two or more" in result.stderr


CONFIG = json.loads((default_folder() / "config.json").read_text())
HALF = (default_folder() / "model.safetensors").read_bytes()[:5000]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"config_json": "{}"}, "config.json' lacks hidden_size"),
        ({"config_json": "[1]"}, "config.json' holds a list, not a JSON object."),
        ({"config_json": "{"}, "config.json' is no JSON"),
        ({"config_json": b"\xff\xfe\x00"}, "config.json' is no UTF-8 text"),
        ({"config_json": json.dumps(CONFIG | {"hidden_size": "x"})}, "config.json': hidden_size is 'x'"),
        ({"config_json": json.dumps(CONFIG | {"num_attention_heads": 0})}, "num_attention_heads is 0"),
        ({"config_json": None}, "config.json': No such file or directory."),
        ({"tokenizer_json": "{}"}, "tokenizer.json' describes no tokenizer"),
        ({"tokenizer_json": "x"}, "tokenizer.json' is no JSON"),
        ({"tokenizer_json": None}, "tokenizer.json': No such file or directory."),
        ({"model_safetensors": HALF}, "model.safetensors"),
        ({"model_safetensors": None}, "model.safetensors"),
    ],
)
def test_a_broken_model_folder_gives_a_sentence(program, changes, expected, tmp_path):
    folder = model_folder(tmp_path, **changes)
    result = run(program, *arguments_of(program, folder, tmp_path))
    assert result.returncode == 1
    assert expected in result.stderr
    assert "Traceback" not in result.stderr and "[Errno" not in result.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_missing_folder_and_bad_numbers(program, tmp_path):
    result = run(program, *arguments_of(program, tmp_path / "nothing", tmp_path))
    assert result.returncode == 1
    assert "nothing" in result.stderr and "Traceback" not in result.stderr
    for option in ("--threads", "--neighbours"):
        if option == "--neighbours" and program.endswith("embed.py"):
            continue
        result = run(program, *arguments_of(program, default_folder(), tmp_path), f"{option}=-1")
        assert result.returncode == 2
        assert "'-1' is not 0 or a positive number" in result.stderr


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "sentences.txt': No such file or directory."),
        ("naïve".encode("latin-1"), "sentences.txt' is no UTF-8 text: see byte 2."),
        ("text".encode("utf-16"), "sentences.txt' is no UTF-8 text: see byte 0."),
        ("text".encode("utf-16-le"), "sentences.txt' is no UTF-8 text: see byte 1."),
    ],
)
def test_sentences_that_cannot_be_read(content, expected, tmp_path):
    path = tmp_path / "sentences.txt"
    if content is not None:
        path.write_bytes(content)
    result = run("minilm/demo.py", "--sentences", path, "--output", tmp_path / "out.mef")
    assert result.returncode == 1
    assert expected in result.stderr and "[Errno" not in result.stderr
    assert content is None or "Save the sentences as UTF-8, one a line." in result.stderr


def test_a_byte_order_mark_is_no_part_of_a_sentence(tmp_path):
    path = tmp_path / "sentences.txt"
    path.write_bytes("\ufeffone\r\n\n  two \n".encode())
    assert read_sentences(path) == ["one", "two"]
