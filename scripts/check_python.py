"""Checks Python files without running them: syntax, unused imports, bare excepts, line length.

    python3 scripts/check_python.py FILE…
"""

from __future__ import annotations

import ast
import sys

MAX_LINE = 120


def used_names(tree: ast.AST) -> set[str]:
    """Names read anywhere in the file, with those quoted in annotations and in __all__."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.update(part for part in node.value.replace("[", " ").replace(".", " ").split())
    return names


def problems(path: str) -> list[str]:
    """One line for each problem of the file at `path`."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        tree = ast.parse(text, path)
    except SyntaxError as error:
        return [f"{path}:{error.lineno}: {error.msg}"]
    found = [
        f"{path}:{number}: the line has {len(line)} columns, more than {MAX_LINE}"
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > MAX_LINE
    ]
    names = used_names(tree)
    lines = text.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            found.append(f"{path}:{node.lineno}: a bare `except:` also catches KeyboardInterrupt")
        if isinstance(node, (ast.Import, ast.ImportFrom)) and not path.endswith("__init__.py"):
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                continue
            for alias in node.names:
                name = (alias.asname or alias.name).split(".")[0]
                kept = alias.asname == alias.name or alias.name == "*"
                if name not in names and not kept and "noqa" not in lines[node.lineno - 1]:
                    found.append(f"{path}:{node.lineno}: '{name}' is imported but not used")
    return found


def main() -> int:
    found = [line for path in sys.argv[1:] for line in problems(path)]
    if found:
        print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
