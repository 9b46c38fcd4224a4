"""Checks tracked text files: line ends, trailing blanks, the last newline, tabs and large files.

    python3 scripts/check_text.py FILE…
"""

from __future__ import annotations

import os
import sys

CODE = (".cpp", ".h", ".py", ".sh", ".cmake", ".md", ".txt", ".toml", ".json", ".yml", ".pyi")
MAX_BYTES = 512 * 1024


def problems(path: str) -> list[str]:
    """One line for each problem of the file at `path`."""
    if os.path.islink(path) or not os.path.isfile(path):
        return []
    size = os.path.getsize(path)
    found = []
    if size > MAX_BYTES:
        found.append(f"{path}: {size} bytes; tracked files stay below {MAX_BYTES}")
    # Test data stands as other programs wrote it.
    if not path.endswith(CODE) or path.startswith("tests/data/"):
        return found
    with open(path, "rb") as file:
        data = file.read()
    # Test data is kept byte for byte.
    if data and not data.endswith(b"\n") and not path.startswith("tests/data/"):
        found.append(f"{path}: the last line has no newline")
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.endswith(b"\r"):
            found.append(f"{path}:{number}: the line ends with a carriage return")
        elif line.endswith((b" ", b"\t")):
            found.append(f"{path}:{number}: the line ends with a blank")
        elif b"\t" in line and path.endswith((".cpp", ".h", ".py")):
            found.append(f"{path}:{number}: the line holds a tab")
    return found


def main() -> int:
    found = [line for path in sys.argv[1:] for line in problems(path)]
    if found:
        print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
