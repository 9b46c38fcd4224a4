"""Checks that the parts of kiln depend on each other in one direction only.

The rule is the table in docs/design/layers.md: a layer includes only layers of lower floors. This
script reads that table and reports, with file and line:

* an include of a layer on the same or a higher floor, or of a header the compiler may not see,
* a circle of includes,
* a public header that includes LLVM, CUDA, Python, fmt or a JSON library,
* with --headers-alone: a header that does not compile when it is the only include.

    python3 scripts/check_layers.py [--headers-alone] [--compiler clang++-22] [--root DIR]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TABLE_ROW = re.compile(r"^\|\s*(\d+)\s*\|([^|]*)\|")
# What no public header may pull into the code of a user.
FOREIGN = re.compile(
    r"^(llvm|llvm-c|mlir|clang|lld|nanobind|fmt|nlohmann|gtest|gmock|benchmark|CLI)/"
    r"|^(Python|cuda|cuda_runtime|nvrtc|cublasLt|nccl)\.h$"
)
# Headers for the parts of one library: their names or folders say so.
INTERNAL = re.compile(r"/(internal|detail)/|_internal\.h$|/precompiled\.h$|/support/format\.h$")
# The compiler is reached through these, so it may see them although it stands beside the engine.
COMPILER_MAY_INCLUDE = {"graph", "dtype", "support"}
COMPILER_MAY_INCLUDE_OF_RUNTIME = {
    "kiln/runtime/abi.h",
    "kiln/runtime/artifact.h",
    "kiln/runtime/compiler_interface.h",
    "kiln/runtime/kernel_abi.h",
}


def read_floors(page: pathlib.Path) -> dict[str, int]:
    """The floor of each layer named in backquotes in the table of docs/design/layers.md."""
    floors = {}
    for line in page.read_text(encoding="utf-8").splitlines():
        row = TABLE_ROW.match(line)
        if row:
            for layer in re.findall(r"`([a-z_]+)/?`", row[2]):
                floors[layer] = int(row[1])
    if not floors:
        raise SystemExit(f"{page} holds no table of floors; its rows look like `| 3 | `driver` |`.")
    return floors


def layer_of(path: str) -> str | None:
    """The layer of a file or an include path, None for what is not kiln's."""
    parts = path.split("/")
    if parts[0] == "kiln" and len(parts) > 1:
        return parts[1].removesuffix(".h").removesuffix(".cpp")
    if parts[0] == "python" and len(parts) > 1 and parts[1] == "bindings":
        return "python"
    return parts[0] if parts[0] in ("compiler", "emulator", "tools") else None


def is_public(path: str) -> bool:
    """Whether users include this header: all of kiln/ but headers marked as internal by name."""
    return path.startswith("kiln/") and path.endswith(".h") and not INTERNAL.search(path)


def sources(root: pathlib.Path) -> list[str]:
    """The C and C++ files that have a layer, relative to `root`, sorted."""
    found = []
    for top in ("kiln", "compiler", "emulator", "tools", "python/bindings"):
        for path in (root / top).rglob("*"):
            if path.suffix in (".h", ".cpp", ".c") and path.is_file():
                found.append(path.relative_to(root).as_posix())
    return sorted(found)


def includes_of(root: pathlib.Path, path: str) -> list[tuple[int, str]]:
    """(line, target) of each include; a path relative to the file becomes relative to the root."""
    found = []
    text = (root / path).read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match[2]
        beside = (pathlib.PurePosixPath(path).parent / target).as_posix()
        if match[1] == '"' and not (root / target).exists() and (root / beside).exists():
            target = os.path.normpath(beside)
        found.append((number, target))
    return found


def check_direction(
    floors: dict[str, int], includes: dict[str, list[tuple[int, str]]]
) -> list[str]:
    """Arrows that do not run down, unknown layers, foreign headers in public ones."""
    found = []
    for path, targets in includes.items():
        layer = layer_of(path)
        if layer not in floors:
            found.append(f"{path}: layer '{layer}' is not in the table of docs/design/layers.md")
            continue
        for line, target in targets:
            if is_public(path) and FOREIGN.search(target):
                found.append(
                    f"{path}:{line}: a public header includes <{target}>; only sources and "
                    "internal headers may"
                )
            ours = target.startswith(("kiln/", "compiler/", "emulator/"))
            other = layer_of(target) if ours else None
            if other is None or other == layer:
                continue
            if other not in floors:
                found.append(f"{path}:{line}: includes {target}, whose layer '{other}' is unknown")
            elif layer == "compiler":
                allowed = other in COMPILER_MAY_INCLUDE or target in COMPILER_MAY_INCLUDE_OF_RUNTIME
                if not allowed:
                    found.append(
                        f"{path}:{line}: the compiler includes {target}; it may include graph, "
                        "dtype, support and of the runtime abi.h, artifact.h, "
                        "kernel_abi.h and compiler_interface.h"
                    )
            elif other == "compiler":
                found.append(
                    f"{path}:{line}: includes {target}; the compiler is reached only through "
                    "kiln/runtime/compiler_interface.h"
                )
            elif layer == "emulator" and other != "support":
                found.append(
                    f"{path}:{line}: the emulator includes {target}; it may include support only"
                )
            elif floors[other] >= floors[layer]:
                found.append(
                    f"{path}:{line}: '{layer}' (floor {floors[layer]}) includes {target} of "
                    f"'{other}' (floor {floors[other]}); a layer includes only lower floors"
                )
    return found


def check_circles(includes: dict[str, list[tuple[int, str]]]) -> list[str]:
    """Circles of includes, each reported once from its first file."""
    found, state, stack = [], {}, []

    def visit(path: str) -> None:
        state[path] = "open"
        stack.append(path)
        for _, target in includes[path]:
            if target not in includes:
                continue
            if state.get(target) == "open":
                circle = [*stack[stack.index(target) :], target]
                found.append("circle of includes: " + " -> ".join(circle))
            elif target not in state:
                visit(target)
        stack.pop()
        state[path] = "done"

    for path in includes:
        if path not in state:
            visit(path)
    return found


def closure_digest(
    root: pathlib.Path, path: str, includes: dict[str, list[tuple[int, str]]], extra: str
) -> str:
    """A digest of a header and everything of the repository that it includes."""
    seen, pending = set(), [path]
    while pending:
        current = pending.pop()
        if current in seen or current not in includes:
            continue
        seen.add(current)
        pending += [target for _, target in includes[current]]
    digest = hashlib.sha256(extra.encode())
    for name in sorted(seen):
        digest.update(name.encode() + b"\0" + (root / name).read_bytes() + b"\0")
    return digest.hexdigest()


def check_headers_alone(
    root: pathlib.Path, compiler: str, includes: dict[str, list[tuple[int, str]]]
) -> list[str]:
    """Compiles each header of kiln/ and compiler/ as the only include of a file.

    Results are remembered by content in the user's cache folder, so a second run, also in another
    checkout, costs only the headers that changed.
    """
    if not shutil.which(compiler):
        raise SystemExit(f"The compiler '{compiler}' is not installed; run scripts/bootstrap.sh.")
    llvm = os.environ.get("KILN_LLVM_DIR", "/usr/lib/llvm-22")
    flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
    if compiler.startswith("clang"):
        # Unused static functions and constants are what headers are for.
        flags += ["-Wno-unused-function", "-Wno-unused-const-variable"]
    flags += [f"-isystem{llvm}/include", "-DFMT_HEADER_ONLY", "-x", "c++"]
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    memory_path = cache / "kiln-checks" / f"headers-alone-{pathlib.Path(compiler).name}.json"
    try:
        known = set(json.loads(memory_path.read_text()))
    except (OSError, ValueError):
        known = set()
    good, found, jobs = set(), [], {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path in includes:
            if not path.endswith(".h") or not path.startswith(("kiln/", "compiler/")):
                continue
            digest = closure_digest(root, path, includes, version + " ".join(flags))
            if digest in known:
                good.add(digest)
                continue
            command = [compiler, *flags, f"-I{root}", "-include", str(root / path), os.devnull]
            job = pool.submit(subprocess.run, command, capture_output=True, text=True, check=False)
            jobs[job] = (path, digest)
        for number, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            path, digest = jobs[job]
            if job.result().returncode == 0:
                good.add(digest)
            else:
                errors = job.result().stderr.strip().splitlines()
                found.append(f"{path}: does not compile alone:\n    " + "\n    ".join(errors[:6]))
            print(f"{number} of {len(jobs)} headers", file=sys.stderr)
    try:
        memory_path.parent.mkdir(parents=True, exist_ok=True)
        memory_path.write_text(json.dumps(sorted(good | known)[-50000:]))
    except OSError:
        pass  # only the next run is slower
    return sorted(found)


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the direction of includes.")
    parser.add_argument("--headers-alone", action="store_true", help="compile each header alone")
    parser.add_argument("--compiler", default="clang++-22", help="the compiler for --headers-alone")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    includes = {path: includes_of(root, path) for path in sources(root)}
    if arguments.headers_alone:
        found = check_headers_alone(root, arguments.compiler, includes)
    else:
        floors = read_floors(root / "docs/design/layers.md")
        found = check_direction(floors, includes) + check_circles(includes)
    if found:
        print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
