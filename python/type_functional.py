"""Writes the types of the functions over tensors into their stub, from those of the ops that they are made of.

    python type_functional.py FOLDER    a folder with the stubs of kiln._core
"""

import ast
import importlib.util
import pathlib
import re
import sys
from collections.abc import Callable
from typing import Any

# Read by its path: the package needs a build.
_PATH = pathlib.Path(__file__).parent / "kiln/experimental/_signatures.py"
_SPEC: Any = importlib.util.spec_from_file_location("_signatures", _PATH)
_SIGNATURES: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_SIGNATURES)
typed: Callable[[str], str] = _SIGNATURES.typed


def definition(op: ast.FunctionDef) -> str:
    """The op's definition with types of tensors, and its doc text."""
    for node in ast.walk(op):
        if isinstance(node, ast.arg) and node.annotation:
            node.annotation = ast.parse(typed(ast.unparse(node.annotation)), mode="eval").body
    if op.returns:
        op.returns = ast.parse(typed(ast.unparse(op.returns)), mode="eval").body
    return ast.unparse(op)


def main(folder: pathlib.Path) -> None:
    ops = ast.parse((folder / "graph/ops/__init__.pyi").read_text(encoding="utf-8"))
    overloads: dict[str, list[ast.FunctionDef]] = {}
    for node in ops.body:
        if isinstance(node, ast.FunctionDef):
            overloads.setdefault(node.name, []).append(node)
    stub = folder / "experimental/functional.pyi"
    # What the Python module defines in the place of a function here; a name has one type.
    module = pathlib.Path(__file__).parent / "kiln/experimental/functional.py"
    replaced = {
        name
        for node in ast.parse(module.read_text(encoding="utf-8")).body
        for name in (
            [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef)
            else [leaf.id for target in node.targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)]
            if isinstance(node, ast.Assign) else []
        )
    }
    lines = []
    for line in stub.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"(\w+): Function = \.\.\.", line)
        if match and match[1] in replaced:
            continue
        if match and match[1] in overloads:
            lines += "\n\n".join(definition(op) for op in overloads[match[1]]).splitlines()
        else:
            lines.append(line)
    imports = [
        ast.unparse(node)
        for node in ops.body
        if isinstance(node, ast.Import | ast.ImportFrom) and "complex" not in ast.unparse(node)
    ]
    at = next(i for i, line in enumerate(lines) if line.startswith(("import ", "from ")))
    lines[at:at] = imports
    known: set[str] = set()
    unique = []
    for line in lines:
        if line.startswith(("import ", "from ")):
            if line in known:
                continue
            known.add(line)
        unique.append(line)
    stub.write_text("\n".join(unique) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
