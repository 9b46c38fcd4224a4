# Shared by the shell scripts: one line a long step, with what, how far and how long.
# Source it; it needs KILN_LOG_DIR for the logs of the steps.

kiln_log_dir="${KILN_LOG_DIR:-build/logs}"

# step "What is done" command…: runs the command with its output in a log. On a terminal a line
# shows the elapsed time and the last line of the log; elsewhere one line is printed at the end.
# On failure the end of the log is shown and the command's status returned.
step() {
  local what="$1" start status log
  shift
  mkdir -p "$kiln_log_dir"
  log="$kiln_log_dir/$(printf '%s' "$what" | tr -cs 'A-Za-z0-9' '-' | tr 'A-Z' 'a-z').log"
  start=$(date +%s)
  if [ -t 1 ]; then
    "$@" >"$log" 2>&1 </dev/null &
    local pid=$! columns last
    columns=$(tput cols 2>/dev/null || echo 100)
    while kill -0 "$pid" 2>/dev/null; do
      last=$(tail -n 1 "$log" 2>/dev/null | tr -d '\r' | cut -c1-$((columns > 60 ? columns - 50 : 10)))
      printf '\r\033[K%s … %d s  %s' "$what" $(($(date +%s) - start)) "$last"
      sleep 0.3
    done
    wait "$pid" && status=0 || status=$?
    printf '\r\033[K'
  else
    "$@" >"$log" 2>&1 </dev/null && status=0 || status=$?
  fi
  if [ "$status" -eq 0 ]; then
    printf '%s: done in %d s\n' "$what" $(($(date +%s) - start))
  else
    printf '%s: failed after %d s. The end of %s:\n' "$what" $(($(date +%s) - start)) "$log" >&2
    tail -n "${KILN_LOG_LINES:-60}" "$log" >&2
  fi
  return "$status"
}

# fail "Sentence.": prints it and ends the script.
fail() {
  printf '%s\n' "$1" >&2
  exit 1
}
