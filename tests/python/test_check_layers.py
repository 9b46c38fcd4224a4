"""scripts/check_layers.py finds each kind of broken rule in a small tree, and nothing in a good one."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOOD = {
    "kiln/support/error.h": "#pragma once\n#include <string>\n",
    "kiln/graph/graph.h": '#pragma once\n#include "kiln/support/error.h"\n',
    "kiln/graph/graph.cpp": '#include "kiln/graph/graph.h"\n#include <fmt/format.h>\n',
    "kiln/runtime/artifact.h": "#pragma once\n",
    "kiln/runtime/arena.h": "#pragma once\n",
    "kiln/engine/model.h": '#pragma once\n#include "kiln/graph/graph.h"\n',
    "compiler/compiler.cpp": '#include "kiln/runtime/artifact.h"\n#include "llvm/IR/Module.h"\n',
}
BAD = [
    ("kiln/support/up.h", '#include "kiln/graph/graph.h"', "'support' (floor 1) includes"),
    ("kiln/engine/peek.cpp", '#include "compiler/pass.h"', "reached only through"),
    ("compiler/pass.cpp", '#include "kiln/runtime/arena.h"', "the compiler includes"),
    ("kiln/graph/text.h", "#include <fmt/format.h>", "a public header includes <fmt/format.h>"),
    ("kiln/graph/llvm.h", '#include "llvm/IR/Module.h"', "a public header includes"),
    ("kiln/attic/old.h", "#include <string>", "layer 'attic' is not in the table"),
    ("kiln/support/error.h", '#include "kiln/support/error.h"', "circle of includes"),
]


def write_tree(root: pathlib.Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    page = root / "docs/design/layers.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "docs/design/layers.md", page)


def check(root: pathlib.Path) -> tuple[int, str]:
    command = [sys.executable, str(ROOT / "scripts/check_layers.py"), "--root", str(root)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout


def test_a_good_tree_passes(tmp_path):
    write_tree(tmp_path, GOOD)
    assert check(tmp_path) == (0, "")


@pytest.mark.parametrize(("name", "line", "expected"), BAD)
def test_a_broken_rule_is_named(tmp_path, name, line, expected):
    write_tree(tmp_path, {**GOOD, name: f"#pragma once\n{line}\n"})
    status, text = check(tmp_path)
    assert status == 1
    assert expected in text and name in text
