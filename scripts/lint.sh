#!/usr/bin/env bash
# The quick checks: formatting, layers, headers that compile alone, scripts, Python sources.
# Needs no build. Ends with status 1 after all checks when one of them fails.
set -uo pipefail
cd "$(dirname "$0")/.."
KILN_LOG_DIR="build/logs"
. scripts/lib.sh
status=0
check() { step "$@" || status=1; }

format_files() {
  git ls-files -z '*.cpp' '*.h' | xargs -0 -r -P 2 -n 16 clang-format-22 --dry-run -Werror
}
shell_syntax() {
  local file failed=0
  for file in $(git ls-files 'scripts/*.sh' '.ci/*'); do bash -n "$file" || failed=1; done
  return "$failed"
}
python_syntax() { git ls-files -z '*.py' | xargs -0 -r python3 scripts/check_python.py; }
text_files() { git ls-files -z | xargs -0 -r python3 scripts/check_text.py; }

check "Checking the format of the C++ sources" format_files
check "Checking the layers" python3 scripts/check_layers.py
check "Compiling each header alone" python3 scripts/check_layers.py --headers-alone
check "Checking the shell scripts" shell_syntax
check "Checking the Python sources" python_syntax
check "Checking line ends and long files" text_files
check "Checking the links of the pages" python3 scripts/make_docs.py --check-links
exit "$status"
