"""What users do with an installed kiln. CTest runs this with the build folder in KILN_BUILD_DIR."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from examples.minilm.embed import default_folder
from examples.minilm.minilm import Config, encoder_graph, read_weights
from kiln.engine import InferenceSession

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["KILN_BUILD_DIR"])
CXX = os.environ.get("CXX", "clang++-22")
LLVM = pathlib.Path(os.environ.get("KILN_LLVM_DIR", "/usr/lib/llvm-22"))
REFERENCE = json.loads((ROOT / "tests/data/minilm_reference.json").read_text())["sentences"]


def run(*command: object, **options: object) -> str:
    """The standard output; a failure shows all that the program printed."""
    result = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, **options
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def build_consumer(source: pathlib.Path, folder: pathlib.Path, prefix: pathlib.Path) -> pathlib.Path:
    """Configures and builds a project that finds kiln below `prefix`; the folder of its program."""
    run(
        "cmake",
        "-G",
        "Ninja",
        "-S",
        source,
        "-B",
        folder,
        f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_CXX_COMPILER={CXX}",
        "-DCMAKE_BUILD_TYPE=Release",
    )
    run("cmake", "--build", folder)
    return folder


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> pathlib.Path:
    """An install tree of everything."""
    folder = tmp_path_factory.mktemp("install")
    run("cmake", "--install", BUILD, "--prefix", folder)
    return folder


@pytest.fixture(scope="module")
def artifact(tmp_path_factory) -> pathlib.Path:
    """The sentence encoder with its weights, in one file."""
    folder = default_folder()
    weights, name_prefix = read_weights(folder)
    path = tmp_path_factory.mktemp("artifact") / "minilm.mef"
    compiled = InferenceSession().compile(encoder_graph(Config.read(folder), name_prefix))
    compiled.export_mef(path, weights_registry=weights)
    return path


@pytest.fixture(scope="module")
def cpp_embed(prefix, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("cpp_embed")
    return build_consumer(ROOT / "examples/cpp_embed", folder, prefix) / "cpp_embed"


def test_install_tree_holds_no_sources_and_no_internal_headers(prefix):
    names = {path.relative_to(prefix).as_posix() for path in prefix.rglob("*") if path.is_file()}
    assert "include/kiln/driver/buffer.h" in names
    assert any(name.endswith("/cmake/kiln/kilnConfig.cmake") for name in names)
    assert not [name for name in names if name.endswith(("_internal.h", "precompiled.h", ".cpp"))]
    assert "include/kiln/support/format.h" not in names


def test_public_headers_compile_without_kilns_own_dependencies(prefix, tmp_path):
    headers = sorted((prefix / "include").rglob("*.h"))
    lines = [f'#include "{path.relative_to(prefix / "include").as_posix()}"' for path in headers]
    # What a public header may not reach: kiln's own dependencies.
    for name in ("FMT_VERSION", "NLOHMANN_JSON_VERSION_MAJOR", "Py_PYTHON_H", "LLVM_VERSION_MAJOR"):
        lines += [f"#ifdef {name}", f'#error "a public header defines {name}"', "#endif"]
    source = tmp_path / "all_headers.cpp"
    source.write_text("\n".join(lines) + "\n")
    run(CXX, "-std=c++20", "-fsyntax-only", "-Wall", f"-I{prefix}/include", source)


def test_cpp_example_gives_the_reference_embeddings(cpp_embed, artifact, tmp_path):
    tokens = tmp_path / "tokens.txt"
    tokens.write_text("".join(" ".join(map(str, s["token_ids"])) + "\n" for s in REFERENCE))
    found = np.array([line.split() for line in run(cpp_embed, artifact, tokens).splitlines()], float)
    assert np.abs(found - [sentence["embedding"] for sentence in REFERENCE]).max() <= 1e-6


def test_cpp_example_maps_neither_compiler_nor_llvm(cpp_embed, artifact):
    command = [str(cpp_embed), str(artifact), "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdin.write("101 7592 102\n")
        process.stdin.flush()
        assert len(process.stdout.readline().split()) == 384
        maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
        process.stdin.close()
        assert process.wait() == 0
    libraries = {line.split()[-1].rsplit("/", 1)[-1] for line in maps.splitlines() if ".so" in line}
    assert any(name.startswith("libkiln.so") for name in libraries)
    foreign = ("libkiln_compiler", "libLLVM", "liblld", "libclang", "libpython")
    assert not [name for name in libraries if name.startswith(foreign)]


def test_cpp_example_runs_with_the_runtime_component_alone(cpp_embed, artifact, tmp_path):
    run("cmake", "--install", BUILD, "--prefix", tmp_path, "--component", "runtime")
    libraries = [path for path in tmp_path.rglob("*.so*")]
    assert libraries and all("compiler" not in path.name for path in libraries)
    program = tmp_path / "cpp_embed"
    program.write_bytes(cpp_embed.read_bytes())
    program.chmod(0o755)
    tokens = tmp_path / "tokens.txt"
    tokens.write_text("101 7592 102\n")
    # The program's own search path names the full install tree, so the loader is told otherwise.
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries[0].parent)}
    assert len(run(program, artifact, tokens, env=environment).split()) == 384


@pytest.mark.parametrize(
    ("artifact_bytes", "tokens", "expected"),
    [
        (None, "101 102\n", "cannot read"),
        (b"not an artifact", "101 102\n", "is not a MEF file"),
        ("whole", "101 102\n101 word 102\n", "line 2: 'word' is not a token id"),
        ("whole", "101 1.5\n", "line 1: '1.5' is not a token id"),
        ("whole", "101 99999999 102\n", "line 1: "),
        ("whole", "101 99999999 102\n", "out of bounds"),
        ("whole", f"101 1996 {10**20}\n", f"line 1: '{10**20}' does not fit"),
        ("whole", f"\n{-(10**20)}\n", f"line 2: '{-(10**20)}' does not fit"),
        ("whole", f"{2**63}\n", f"line 1: '{2**63}' does not fit"),
        ("half", "101 102\n", "is truncated"),
    ],
)
def test_cpp_example_says_what_is_wrong(cpp_embed, artifact, tmp_path, artifact_bytes, tokens, expected):
    path = tmp_path / "given.mef"
    if artifact_bytes == "whole":
        path = artifact
    elif artifact_bytes == "half":
        path.write_bytes(artifact.read_bytes()[: artifact.stat().st_size // 2])
    elif artifact_bytes is not None:
        path.write_bytes(artifact_bytes)
    ids = tmp_path / "tokens.txt"
    ids.write_text(tokens)
    result = subprocess.run([cpp_embed, path, ids], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert expected in result.stderr


def test_cpp_example_refuses_a_folder_of_tokens(cpp_embed, artifact, tmp_path):
    command = [cpp_embed, artifact, tmp_path]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert f"Cannot read '{tmp_path}'" in result.stderr


def test_cpp_counter_compiles_its_graph(prefix, tmp_path):
    program = build_consumer(ROOT / "examples/counter", tmp_path, prefix) / "counter"
    lines = run(program).splitlines()
    assert lines == [f"returned {n}, now the buffer holds {n + 1}" for n in range(3)]


def test_cpp_regression_compiles_its_step(prefix, tmp_path):
    program = build_consumer(ROOT / "examples/regression", tmp_path, prefix) / "regression"
    assert run(program).splitlines()[-1].startswith("weights Tensor([  2  -1 0.5]")


def test_cpp_gpt2_is_compiled_for_any_size(prefix, tmp_path):
    program = build_consumer(ROOT / "examples/gpt2_block", tmp_path, prefix) / "gpt2_block"
    assert run(program).splitlines() == [
        "1 x 8: [1, 8, 64], compiled and eager differ by next to nothing",
        "2 x 5: [2, 5, 64], compiled and eager differ by next to nothing",
    ]


def test_cpp_mlp_runs_on_a_mesh(prefix, tmp_path):
    program = build_consumer(ROOT / "examples/sharded_mlp", tmp_path, prefix) / "sharded_mlp"
    assert run(program).splitlines()[-1] == "largest difference to one device: none"


def test_cpp_kernels_run_on_the_cpu(prefix, tmp_path):
    folder = build_consumer(ROOT / "examples/kernels", tmp_path, prefix)
    for name in ("vector_add", "tiled_matmul", "softmax", "histogram", "multicast_allreduce"):
        assert "right" in run(folder / name)


def test_libkiln_is_small_and_needs_no_llvm(tmp_path):
    library = BUILD / "lib" / "libkiln.so"
    stripped = tmp_path / "libkiln.so"
    run(LLVM / "bin/llvm-strip", "-o", stripped, library)
    assert stripped.stat().st_size <= 10e6
    needed = run(LLVM / "bin/llvm-readelf", "-d", library)
    assert "LLVM" not in needed and "python" not in needed and "cuda" not in needed


PROGRAM = """
import pathlib, sys
import numpy as np
import kiln
from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.graph import DeviceRef, Graph, TensorType, ops

assert pathlib.Path(kiln.__file__).is_relative_to(sys.argv[1]), kiln.__file__
with Graph("twice", input_types=[TensorType(DType.float32, ["n"], DeviceRef.CPU())]) as graph:
    graph.output(graph.inputs[0].tensor * 2.0)
print(InferenceSession().load(graph).execute(np.arange(3, dtype=np.float32))[0].to_numpy())
"""


def test_pip_install_gives_a_package_that_compiles_and_runs(tmp_path):
    site = tmp_path / "site"
    environment = {**os.environ, "PYTHONPATH": ""}
    run(
        *(sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps"),
        *("--no-build-isolation", "--target", site, ROOT),
        env=environment,
    )
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    environment.update(PYTHONPATH=str(site), KILN_CACHE="0")
    assert run(sys.executable, script, site, env=environment, cwd=tmp_path).strip() == "[0. 2. 4.]"
    # The package is typed, and carries what it needs beside it.
    assert (site / "kiln" / "py.typed").exists()
    assert list((site / "kiln" / "lib").glob("libkiln.so*"))
    # The command is installed, finds its library and tells failure from success.
    assert "inspect" in run(site / "bin" / "kiln", "--help", env=environment, cwd=tmp_path)
    wrong = [site / "bin" / "kiln", "inspect", tmp_path / "nothing.mef"]
    result = subprocess.run(wrong, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode != 0 and "nothing.mef" in result.stderr
