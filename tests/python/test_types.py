"""What a type checker makes of programs that use kiln."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

PROGRAM = """
from typing import assert_type

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.experimental import functional as F
from kiln.experimental.compilation import CompiledCallable, as_subgraph, compile, stage
from kiln.experimental.sharding import TensorLayout
from kiln.experimental.tensor import Tensor

layout = TensorLayout(DType.float32, [2, 2], CPU())


def step(x: Tensor, n: int, *, flip: bool = False) -> tuple[Tensor, int]:
    return F.relu(x @ x + n), n


@as_subgraph
def layer(x: Tensor) -> Tensor:
    return F.softmax(x, 1) + F.sum(x, 0)


@F.functional
def both(x: Tensor) -> tuple[Tensor, Tensor]:
    return x, layer(x)


x = Tensor([[1, 2], [3, 4]])
run = compile(step)(layout, 2, flip=True)
y, n = run(x, 2, flip=True)
assert_type(y, Tensor)
assert_type(n, int)
assert_type(layer(x), Tensor)
assert_type(both(x), tuple[Tensor, Tensor])
assert_type(x + 1, Tensor)
assert_type(F.where(x > 1, x, 0), Tensor)
assert_type(F.split(x, 1), list[Tensor])
assert_type(CompiledCallable(stage(layer)(layout))(x), Tensor)
run(x, "two")  # error
run(x)  # error
layer(1)  # error
F.softmax(x, axis="last")  # error
F.relu()  # error
"""


def check(tmp_path, *files):
    """The lines of the files that a type checker complains about, with what it says."""
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--config-file=", "--no-error-summary",
               f"--cache-dir={tmp_path}", *map(str, files)]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "python")}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert result.stderr == ""
    names = {os.path.relpath(file, ROOT) for file in files} | {str(file) for file in files}
    found = [re.match(r"([^:]+):(\d+): (error: .*)", line) for line in result.stdout.splitlines()]
    return [(match[1], int(match[2]), match[3]) for match in found if match and match[1] in names]


def test_a_callable_keeps_the_types_of_its_function(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    wrong = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# error")}
    found = check(tmp_path, file)
    assert {line for _, line, _ in found} == wrong, found


@pytest.mark.parametrize("name", ["counter/counter", "regression/regression", "gpt2_block/gpt2_block",
                                  "sharded_mlp/sharded_mlp"])
def test_examples_are_well_typed(tmp_path, name):
    assert check(tmp_path, ROOT / "examples" / f"{name}.py") == []
