"""Writes the reference from the C++ headers and the Python docstrings, and checks links.

    python3 scripts/make_docs.py --output build/docs     the reference, and the links of all pages
    python3 scripts/make_docs.py --check-links           only the links of all tracked pages

The reference of the Python package needs `kiln` to be importable.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pathlib
import pkgutil
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
CLASS = re.compile(r"^(?:template <.*> )?(?:class|struct|enum class) (?:\[\[\w+\]\] )?(\w+)\b(?!.*;)")
INTERNAL = re.compile(r"/(internal|detail)/|_internal\.h$|/precompiled\.h$|/support/format\.h$")


def slug(heading: str) -> str:
    """The anchor of a heading: lower case, words joined by hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def broken_links(pages: list[pathlib.Path], root: pathlib.Path) -> list[str]:
    """Links of `pages` to files or headings that are not there."""
    found = []
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in LINK.findall(text):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            other = (page.parent / name).resolve() if name else page
            if not other.exists():
                found.append(f"{page.relative_to(root)}: the link to '{target}' leads nowhere")
            elif anchor and other.suffix == ".md":
                headings = map(slug, HEADING.findall(other.read_text(encoding="utf-8")))
                if anchor not in headings:
                    found.append(f"{page.relative_to(root)}: '{target}' names no heading")
    return found


def declaration(lines: list[str], start: int) -> str:
    """The declaration that begins at `start`: up to its semicolon or body."""
    parts = []
    for line in lines[start : start + 12]:
        text = line.strip()
        if text.startswith("//"):
            continue
        parts.append(text.split("//")[0].rstrip())
        if text.startswith("template") and text.endswith(">"):
            continue
        if ";" in text or "{" in text or text.endswith(","):
            if not text.endswith(",") or "(" not in " ".join(parts):
                break
    joined = " ".join(parts)
    depth = 0
    for index, character in enumerate(joined):
        depth += character in "(<"
        depth -= character in ")>"
        if character in "{;" and depth <= 0:
            joined = joined[:index]
            break
        if character == ":" and joined[index - 1] == ")" and joined[index + 1 : index + 2] == " ":
            joined = joined[:index]
            break
    return joined.strip().rstrip(",")


def header_entries(path: pathlib.Path) -> list[tuple[str, str, str]]:
    """(class or "", declaration, comment) of every documented declaration of a header."""
    lines = path.read_text(encoding="utf-8").splitlines()
    entries, comment, current = [], [], ""
    for number, line in enumerate(lines):
        text = line.strip()
        if text.startswith("///"):
            comment.append(text[3:].strip())
            continue
        match = CLASS.match(line)
        if comment and text and not text.startswith("//"):
            inner = current if line.startswith(" ") else ""
            entries.append((inner, declaration(lines, number), " ".join(comment)))
        if text:
            comment = []
        if match:
            current = match[1]
        elif line.startswith("};"):
            current = ""
    return entries


def write_cpp_reference(output: pathlib.Path) -> list[str]:
    """One page a layer; the names of the pages."""
    layers: dict[str, list[pathlib.Path]] = {}
    for path in sorted((ROOT / "kiln").rglob("*.h")):
        relative = path.relative_to(ROOT).as_posix()
        if not INTERNAL.search(relative):
            layers.setdefault(relative.split("/")[1].removesuffix(".h"), []).append(path)
    pages = []
    for layer, paths in sorted(layers.items()):
        text = [f"# {layer}, C++", ""]
        for path in paths:
            entries = header_entries(path)
            if not entries:
                continue
            text += [f"## {path.relative_to(ROOT).as_posix()}", ""]
            for owner, code, comment in entries:
                shown = code if not owner else f"{owner}: {code}"
                text += [f"`{shown}`", "", comment, ""]
        page = output / "cpp" / f"{layer}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("\n".join(text), encoding="utf-8")
        pages.append(f"cpp/{layer}.md")
    return pages


def describe(name: str, value: object, shown: str) -> list[str]:
    """The signature and the docstring of a function, method or property; empty without one."""
    doc = inspect.getdoc(value) or ""
    if not doc:
        return []
    # Functions of the extension carry their signatures, one an overload, as the first lines.
    signatures = []
    lines = doc.splitlines()
    while lines and lines[0].startswith(name + "("):
        signatures.append(shown + lines.pop(0).removeprefix(name))
    if not signatures:
        try:
            signatures = [shown + str(inspect.signature(value))]
        except (TypeError, ValueError):
            signatures = [shown]
    shown_lines = [f"`{text.replace('kiln._core.', 'kiln.')}`  " for text in signatures]
    return [*shown_lines, "", "\n".join(lines).strip(), ""]


def python_entries(module: object, prefix: str) -> list[str]:
    """Lines for the public functions and classes of a module, with the members of classes."""
    text = []
    names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    for name in sorted(names):
        value = getattr(module, name)
        if inspect.ismodule(value):
            continue
        if inspect.isclass(value):
            text += [f"## class {name}", "", inspect.getdoc(value) or "", ""]
            for member, inner in sorted(vars(value).items()):
                if not member.startswith("_"):
                    text += describe(member, inner, f"{name}.{member}")
        elif callable(value):
            body = describe(name, value, f"{prefix}.{name}")
            text += [f"## {name}", "", *body] if body else []
    return text


def write_python_reference(output: pathlib.Path) -> list[str]:
    """One page a module; the names of the pages."""
    package = importlib.import_module("kiln")
    names = ["kiln"] + sorted(
        found.name
        for found in pkgutil.walk_packages(package.__path__, "kiln.")
        if not any(part.startswith("_") for part in found.name.split("."))
    )
    pages = []
    for name in names:
        module = importlib.import_module(name)
        text = [f"# {name}", "", inspect.getdoc(module) or "", "", *python_entries(module, name)]
        page = output / "python" / f"{name}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("\n".join(text), encoding="utf-8")
        pages.append(f"python/{name}.md")
    return pages


def tracked_pages() -> list[pathlib.Path]:
    names = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    return [ROOT / name for name in names]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, help="folder of the written pages")
    parser.add_argument("--check-links", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    found = broken_links(tracked_pages(), ROOT)
    if not arguments.check_links:
        output = (arguments.output or ROOT / "build/docs").resolve()
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        pages = [*write_cpp_reference(output), *write_python_reference(output)]
        index = ["# Reference", "", *(f"* [{name[:-3]}]({name})" for name in pages), ""]
        (output / "index.md").write_text("\n".join(index), encoding="utf-8")
        found += broken_links([output / "index.md"], output)
        print(f"{len(pages)} pages in {output}")
    if found:
        print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
