#!/bin/sh
# Writes the checked-in stubs python/kiln/_core/*.pyi from a built extension.
#   python/generate_stubs.sh [BUILD_FOLDER [OUTPUT_FOLDER]]
# PYTHON names an interpreter with nanobind; by default that of .venv.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build/release}
output=${2:-$root/python/kiln}
python=${PYTHON:-$root/.venv/bin/python}
fresh=$(mktemp -d)
PYTHONPATH=$build/python "$python" -m nanobind.stubgen -q -m kiln._core -r -P \
  -p "$root/python/stub_patterns.txt" -O "$fresh"
"$python" "$root/python/type_functional.py" "$fresh/_core"
rm -rf "$output/_core"
mv "$fresh/_core" "$output/_core"
rmdir "$fresh"
