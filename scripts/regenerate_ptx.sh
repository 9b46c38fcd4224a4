#!/usr/bin/env bash
# Writes the PTX of the kernels in tests/emulator/kernels anew and lets ptxas read each file.
#
#   scripts/regenerate_ptx.sh [--check] [FOLDER]
#
# --check    writes nothing into the tree; ends with status 1 when a committed file differs
# FOLDER     where the toolkit is installed from PyPI when this machine has none of the release
#            that the committed files come from; default build/cuda_toolkit
# KILN_NVCC  an nvcc to use in place of the one on the PATH
set -euo pipefail
cd "$(dirname "$0")/.."
KILN_LOG_DIR="build/logs"
. scripts/lib.sh

release=13.0
check=0
folder=build/cuda_toolkit
for argument in "$@"; do
  case "$argument" in
    --check) check=1 ;;
    -*) fail "scripts/regenerate_ptx.sh knows only --check, not '$argument'." ;;
    *) folder="$argument" ;;
  esac
done
kernels=tests/emulator/kernels

# Other releases of nvcc write other registers and labels, so one is fixed.
has_release() {
  local answer
  answer=$("$1" --version 2>/dev/null || true)
  [[ "$answer" == *"release $release,"* ]]
}

install_toolkit() {
  [ -x "$folder/bin/python" ] || python3 -m venv "$folder"
  "$folder/bin/pip" install -q "nvidia-cuda-nvcc==$release.*" "nvidia-cuda-crt==$release.*" \
    "nvidia-nvvm==$release.*" "nvidia-cuda-runtime==$release.*" "nvidia-cuda-cccl==$release.*" \
    "nvidia-curand==10.4.0.*"
}

nvcc="${KILN_NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}"
if ! has_release "$nvcc"; then
  step "Installing the CUDA compiler of release $release from PyPI" install_toolkit
  nvcc=$(echo "$folder"/lib/python*/site-packages/nvidia/cu13/bin/nvcc)
  has_release "$nvcc" || fail "$nvcc is no nvcc of release $release."
fi
toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
ptxas="$toolkit/bin/ptxas"

# Debug information holds the folder of the sources, so they are compiled in one that is the same
# everywhere.
sources=/tmp/kiln_kernels
mkdir "$sources" || fail "$sources exists: another run uses it, or left it behind. Remove it."
output=$(mktemp -d)
trap 'rm -rf "$output" "$sources"' EXIT
cp "$kernels"/*.cu "$kernels"/*.h "$sources"

# compile_… NAME SOURCE OPTION…
compile_nvcc() {
  local name=$1 source=$2
  shift 2
  "$nvcc" -ptx -arch=compute_90 -std=c++17 -I "$toolkit/include" "$@" "$source" \
    -o "$output/$name.ptx"
}
compile_clang() {
  local name=$1 source=$2
  shift 2
  clang++-22 -x cuda --cuda-device-only -S -nocudalib -nocudainc --cuda-gpu-arch=sm_90 \
    -Xclang -target-feature -Xclang +ptx83 -Wno-unknown-cuda-version "$@" "$source" \
    -o "$output/$name.ptx"
}

# cuRAND's header defines tables of 0.8 MB as text. Those that no instruction names are cut.
cut_unused_tables() {
  local table
  for table in $(sed -n 's/^\.global .* \(precalc_[a-z_]*\)\[.*/\1/p' "$1"); do
    [ "$(grep -c "$table" "$1")" -eq 1 ] && sed -i "/^\.global .* $table\[/d" "$1"
  done
}

compile_all() {
  local source name
  cd "$sources"
  for source in *.cu; do
    [ "$source" = clang_kernels.cu ] || compile_nvcc "${source%.cu}" "$source"
  done
  compile_nvcc reduce_debug reduce.cu -G
  compile_nvcc language_debug language.cu -G
  compile_nvcc language_lineinfo language.cu -lineinfo
  compile_clang clang_kernels clang_kernels.cu -O2
  compile_clang clang_kernels_debug clang_kernels.cu -O0
  cd - >/dev/null
  cut_unused_tables "$output/curand.ptx"
  sed -i "s#\"$toolkit/#\"/toolkit/#" "$output"/*.ptx
}

assemble_all() {
  local file
  for file in "$output"/*.ptx; do
    [ -e "$file" ] || continue
    "$ptxas" -arch=sm_90 "$file" -o /dev/null || return 1
  done
}

nvcc=$(readlink -f "$nvcc")
step "Compiling the kernels" compile_all
step "Assembling them" assemble_all
if [ "$check" = 1 ]; then
  status=0
  # clang orders variables differently from run to run, so lines are compared in any order.
  for file in "$output"/*.ptx; do
    cmp -s <(sort "$file") <(sort "$kernels/$(basename "$file")") || {
      echo "$kernels/$(basename "$file") is not what its source gives. Run scripts/regenerate_ptx.sh."
      status=1
    }
  done
  exit "$status"
fi
cp "$output"/*.ptx "$kernels/"
