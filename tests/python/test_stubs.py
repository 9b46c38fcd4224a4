"""The checked-in stubs say what the extension offers; python/generate_stubs.sh writes them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "python"


def test_stubs_are_those_of_the_extension(tmp_path):
    pytest.importorskip("nanobind")
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "kiln._core", "-r", "-P", "-p",
               str(ROOT / "stub_patterns.txt"), "-O", str(tmp_path)]
    subprocess.run(command, check=True)
    subprocess.run([sys.executable, ROOT / "type_functional.py", tmp_path / "_core"], check=True)
    fresh = {p.relative_to(tmp_path): p.read_text() for p in tmp_path.rglob("*.pyi")}
    kept = {p.relative_to(ROOT / "kiln"): p.read_text() for p in (ROOT / "kiln" / "_core").rglob("*.pyi")}
    assert fresh.keys() == kept.keys()
    for name, text in fresh.items():
        assert text == kept[name], f"{name} is out of date; run python/generate_stubs.sh"
