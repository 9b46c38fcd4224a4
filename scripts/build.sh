#!/usr/bin/env bash
# Configures, builds and tests one CMake preset; the Makefile calls it.
#
#   scripts/build.sh configure PRESET [cmake option…]
#   scripts/build.sh build PRESET [target…]
#   scripts/build.sh test PRESET [ctest option…]
#
# On a terminal the tools show their own progress; elsewhere each step is one line, with the output
# of a failed step below it.
set -euo pipefail
cd "$(dirname "$0")/.."
action="$1"
preset="$2"
shift 2
KILN_LOG_DIR="build/logs"
. scripts/lib.sh
folder="build/$preset"

case "$action" in
  configure)
    # The options are part of the stamp: a changed one configures again.
    stamp="$folder/.configured"
    wanted="$* $(cksum <CMakePresets.json)"
    if [ ! -e "$folder/build.ninja" ] || [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
      step "Configuring ($preset)" cmake --preset "$preset" "$@"
      echo "$wanted" >"$stamp"
    fi
    ;;
  build)
    targets=()
    [ "$#" -eq 0 ] || targets=(--target "$@")
    if [ -t 1 ]; then
      cmake --build --preset "$preset" "${targets[@]}"
    else
      KILN_LOG_LINES=200 step "Building ($preset)" cmake --build --preset "$preset" "${targets[@]}"
    fi
    ;;
  test)
    # -j2 and no more: tests of threads and of time-outs share the cores.
    exec ctest --test-dir "$folder" --output-on-failure -j2 "$@"
    ;;
  *) fail "scripts/build.sh knows configure, build and test, not '$action'." ;;
esac
