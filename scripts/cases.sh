# Counting of cases, for test scripts that source this file.
passed=0
failed=0
skipped=0
pass() { echo "ok $1"; passed=$((passed + 1)); }
fail() { echo "FAILED $1"; failed=$((failed + 1)); }

check() {  # name, the command that must succeed
  local name=$1
  shift
  if "$@"; then pass "$name"; else fail "$name"; fi
}

# The last line, and the script's exit code.
finish() {
  echo "$passed passed, $failed failed$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
  [ "$failed" = 0 ]
}
