"""Runs small programs and the kiln command in processes of their own."""

import os
import subprocess
import sys
import textwrap

import kiln

# What a program sees of kiln's settings is what its test says.
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith("KILN_") or k == "KILN_COMPILER_LIBRARY"}
CLEAN["PYTHONPATH"] = os.pathsep.join([os.path.dirname(os.path.dirname(kiln.__file__)), CLEAN.get("PYTHONPATH", "")])


def start(program, *arguments, **variables):
    """A running Python program; `variables` join its environment, None removes one."""
    environment = {**CLEAN, **variables}
    environment = {k: str(v) for k, v in environment.items() if v is not None}
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def run(program, *arguments, **variables):
    """What the program printed, line by line; it must end well."""
    process = start(program, *arguments, **variables)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output.splitlines()
