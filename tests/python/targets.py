"""Runs graphs as compiled for the processor that KILN_TEST_TARGET names; without it, for this one.

Where this machine cannot run that code, it is compiled and looked at, and the code for this machine runs."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import struct
import tempfile
from pathlib import Path

from kiln.driver import set_virtual_cpu_target
from kiln.engine import CompiledModel, InferenceSession, Model
from kiln.graph import Graph

TARGET = os.environ.get("KILN_TEST_TARGET", "")

# What generated code may take from the C library. Functions of floats have expansions of kiln's own.
LIBRARY = {"memcpy", "memmove", "memset", "memcmp", "bcmp"}


@functools.cache
def session() -> InferenceSession:
    return InferenceSession()


@contextlib.contextmanager
def compiling_for(target: str):
    set_virtual_cpu_target(target)
    try:
        yield
    finally:
        set_virtual_cpu_target("")


def undefined_symbols(elf: bytes) -> set[str]:
    """Names that a shared object for x86-64 looks for elsewhere."""
    (offset,) = struct.unpack_from("<Q", elf, 40)
    size, count = struct.unpack_from("<HH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, offset + i * size) for i in range(count)]
    names = set()
    for _, kind, _, _, begin, length, link, _, _, entry in sections:
        if kind != 11:  # SHT_DYNSYM
            continue
        strings = sections[link][4]
        for at in range(begin, begin + length, entry):
            name, _, _, section = struct.unpack_from("<IBBH", elf, at)
            if name and section == 0:
                names.add(elf[strings + name : elf.index(0, strings + name)].decode())
    return names


def check_code(compiled: CompiledModel) -> None:
    """The artifact is for TARGET alone, and its code asks for nothing but a few functions."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.mef"
        compiled.export_mef(path)
        data = path.read_bytes()
    (length,) = struct.unpack_from("<I", data, 12)
    header = json.loads(data[32 : 32 + length])
    (target,) = header["targets"]["cpu"]
    assert target["level"] == TARGET
    (code,) = [s for s in header["sections"] if s["kind"] == "code.cpu"]
    missing = undefined_symbols(data[code["offset"] : code["offset"] + code["length"]])
    assert missing <= LIBRARY, f"the code needs {', '.join(sorted(missing - LIBRARY))}"


def load(graph: Graph, weights=None) -> Model:
    if not TARGET:
        return session().load(graph, weights_registry=weights)
    with compiling_for(TARGET):
        compiled = session().compile(graph)
    check_code(compiled)
    try:
        return session().init(compiled, weights_registry=weights)
    except RuntimeError as error:
        if "needs a CPU with" not in str(error):
            raise
        return session().load(graph, weights_registry=weights)
