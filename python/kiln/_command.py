"""The `kiln` command of an installed package: starts the program that the package carries."""

import os
import pathlib
import sys


def main() -> None:
    """Becomes the native program; its exit status is that of the command."""
    program = pathlib.Path(__file__).with_name("bin") / "kiln"
    if not program.exists():
        sys.exit(f"'{program}' is not there: this package was built without the kiln command.")
    os.execv(program, ["kiln", *sys.argv[1:]])
