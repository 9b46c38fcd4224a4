"""The compile cache with the real compiler: every program below is a process of its own, and whether it compiled shows
in its map of libraries."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from processes import run, start

from kiln.engine import query_mef

PROGRAM = """
    import sys
    import numpy as np
    from kiln.driver import CPU, set_virtual_cpu_target
    from kiln.dtype import DType
    from kiln.engine import InferenceSession
    from kiln.graph import Graph, TensorType, ops

    scale, target, options = float(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if target:
        set_virtual_cpu_target(target)
    if "nan-check" in options:
        InferenceSession.debug.nan_check = True
    rows = TensorType(DType.float32, ["n", 2], CPU())
    graph = Graph("cached", lambda x: ops.exp(x) * scale + np.array([1, 2], np.float32), [rows])
    model = InferenceSession(num_threads=2 if "threads" in options else None).load(graph)
    print(model(np.ones((1, 2), np.float32))[0].to_numpy().tolist())
    maps = open("/proc/self/maps").read()
    print("compiled" if "libkiln_compiler" in maps else "cached", "LLVM" if "libLLVM" in maps else "no LLVM")
"""



def check(lines, how, scale=3.0):
    values = np.array(json.loads(lines[0]))
    np.testing.assert_allclose(values, np.e * scale + np.array([[1.0, 2.0]]), rtol=1e-6)
    assert lines[1] == how


COMPILED, CACHED = "compiled LLVM", "cached no LLVM"


def entries(folder):
    return sorted(p.name for p in Path(folder).iterdir())


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def test_a_second_process_compiles_nothing(cache):
    check(run(PROGRAM, 3, "", KILN_CACHE_DIR=cache), COMPILED)
    (name,) = entries(cache)
    before = (cache / name).stat()
    check(run(PROGRAM, 3, "", KILN_CACHE_DIR=cache), CACHED)
    check(run(PROGRAM, 3, "", "threads", KILN_CACHE_DIR=cache), CACHED)  # threads change no code
    assert entries(cache) == [name] and (cache / name).stat().st_ino == before.st_ino
    assert query_mef(cache / name).compatible


def test_whatever_changes_the_code_misses(cache):
    for number, arguments in enumerate([(3, ""), (4, ""), (3, "", "nan-check"), (3, "x86-64-v3"), (3, "generic")], 1):
        check(run(PROGRAM, *arguments, KILN_CACHE_DIR=cache), COMPILED, arguments[0])
        assert len(entries(cache)) == number
        check(run(PROGRAM, *arguments, KILN_CACHE_DIR=cache), CACHED, arguments[0])


def test_settings_that_leave_sections_out_miss(cache):
    check(run(PROGRAM, 3, "", KILN_CACHE_DIR=cache), COMPILED)
    check(run(PROGRAM, 3, "", KILN_CACHE_DIR=cache, KILN_MEF_IR="0"), COMPILED)


def damage_nothing(path):
    path.write_bytes(b"")


def damage_end(path):
    path.write_bytes(path.read_bytes()[:-100])


def damage_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def damage_header(path):
    content = bytearray(path.read_bytes())
    content[40] ^= 0x20
    path.write_bytes(bytes(content))


def damage_all(path):
    path.write_bytes(os.urandom(5000))


@pytest.mark.parametrize("damage", [damage_nothing, damage_end, damage_byte, damage_header, damage_all])
def test_a_damaged_entry_is_compiled_anew_and_replaced(cache, damage):
    run(PROGRAM, 3, "", KILN_CACHE_DIR=cache)
    (name,) = entries(cache)
    damage(cache / name)
    check(run(PROGRAM, 3, "", KILN_CACHE_DIR=cache), COMPILED)
    assert entries(cache) == [name] and query_mef(cache / name).readable
    check(run(PROGRAM, 3, "", KILN_CACHE_DIR=cache), CACHED)


def test_an_entry_that_is_a_folder_is_lived_with(cache):
    run(PROGRAM, 3, "", KILN_CACHE_DIR=cache)
    (name,) = entries(cache)
    (cache / name).unlink()
    (cache / name).mkdir()
    for _ in range(2):
        check(run(PROGRAM, 3, "", KILN_CACHE_DIR=cache), COMPILED)
    assert entries(cache) == [name]  # and nothing half written beside it


def a_file(cache):
    cache.write_text("no folder")


def below_a_file(cache):
    cache.write_text("no folder")
    return cache / "below"


def read_only(cache):
    cache.mkdir(mode=0o555)


def writable_by_others(cache):
    cache.mkdir()
    cache.chmod(0o777)


def not_there(cache):
    return Path("/proc/none/cache")


@pytest.mark.parametrize("make", [a_file, below_a_file, read_only, writable_by_others, not_there])
def test_a_folder_that_cannot_be_used_is_done_without(cache, make):
    folder = make(cache) or cache
    for _ in range(2):
        lines = run(PROGRAM, 3, "", KILN_CACHE_DIR=folder)
        # The rights of a folder do not bind root.
        check(lines, lines[1] if make is read_only and os.geteuid() == 0 else COMPILED)
    if make is writable_by_others:
        assert entries(cache) == []


def test_it_can_be_switched_off(cache):
    for _ in range(2):
        check(run(PROGRAM, 3, "", KILN_CACHE_DIR=cache, KILN_CACHE="0"), COMPILED)
    assert not cache.exists()


def test_the_folder_comes_from_the_environment(tmp_path):
    run(PROGRAM, 3, "", XDG_CACHE_HOME=tmp_path / "xdg")
    assert len(entries(tmp_path / "xdg" / "kiln")) == 1
    run(PROGRAM, 3, "", XDG_CACHE_HOME=None, HOME=tmp_path / "home")
    assert len(entries(tmp_path / "home" / ".cache" / "kiln")) == 1


def test_processes_may_compile_the_same_at_once(cache):
    processes = [start(PROGRAM, 3, "", KILN_CACHE_DIR=cache) for _ in range(4)]
    for process in processes:
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        lines = output.splitlines()
        check(lines, lines[1])
    (name,) = entries(cache)
    assert query_mef(cache / name).compatible
    check(run(PROGRAM, 3, "", KILN_CACHE_DIR=cache), CACHED)


def test_lines_of_the_program_are_not_part_of_the_key(cache):
    """Code from the cache quotes the lines of the graph it is loaded for."""
    program = """
        import sys
        import numpy as np
        from kiln.driver import CPU
        from kiln.dtype import DType
        from kiln.engine import InferenceSession
        from kiln.graph import Graph, TensorType, ops
        {blank}
        x, i = TensorType(DType.float32, ["n"], CPU()), TensorType(DType.int64, ["m"], CPU())
        model = InferenceSession().load(Graph("g", lambda x, i: ops.gather(x, i, 0), [x, i]))
        try:
            model(np.zeros(3, np.float32), np.array([5]))
        except ValueError as error:
            print(error)
    """
    first = run(program.format(blank=""), KILN_CACHE_DIR=cache)
    second = run(program.format(blank="\n\n"), KILN_CACHE_DIR=cache)
    assert len(entries(cache)) == 1
    assert any("<string>:10" in line for line in first), first
    assert any("<string>:12" in line for line in second), second


def test_a_mef_needs_no_compiler(tmp_path):
    path = tmp_path / "m.mef"
    lines = run("""
        import sys
        import numpy as np
        from kiln.driver import CPU
        from kiln.dtype import DType
        from kiln.engine import InferenceSession
        from kiln.graph import Graph, TensorType, Weight, ops

        w = Weight("w", DType.float32, [3, 2], CPU())
        graph = Graph("linear", lambda x: ops.relu(x @ w), [TensorType(DType.float32, ["n", 3], CPU())])
        session = InferenceSession()
        compiled = session.compile(graph)
        weights = {"w": np.arange(6, dtype=np.float32).reshape(3, 2) / 7}
        compiled.export_mef(sys.argv[1], weights_registry=weights)
        x = np.linspace(-1, 2, 12, dtype=np.float32).reshape(4, 3)
        print(session.init(compiled, weights_registry=weights)(x)[0].to_numpy().tobytes().hex())
    """, path, KILN_CACHE="0")
    fresh = run("""
        import sys
        import numpy as np
        from kiln.engine import InferenceSession

        x = np.linspace(-1, 2, 12, dtype=np.float32).reshape(4, 3)
        print(InferenceSession().load(sys.argv[1])(x)[0].to_numpy().tobytes().hex())
        maps = open("/proc/self/maps").read()
        print("libkiln" in maps, "libkiln_compiler" in maps, "LLVM" in maps)
    """, path, KILN_CACHE="0", KILN_COMPILER_LIBRARY=tmp_path / "there-is-none.so")
    assert fresh == [lines[0], "True False False"]
    x = np.linspace(-1, 2, 12, dtype=np.float32).reshape(4, 3).astype(np.float64)
    expected = np.maximum(x @ (np.arange(6).reshape(3, 2) / 7), 0)
    values = np.frombuffer(bytes.fromhex(lines[0]), np.float32).reshape(4, 2)
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6)


def test_a_missing_compiler_is_named(tmp_path):
    process = start(PROGRAM, 3, "", KILN_CACHE="0", KILN_COMPILER_LIBRARY=tmp_path / "there-is-none.so")
    _, errors = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "RuntimeError: Failed to compile the model." in errors
    assert "The compiler of kiln cannot be opened" in errors and "there-is-none.so" in errors
