#!/usr/bin/env bash
# Runs go test with the given arguments. It shows a line for each package and
# all that a failing package printed. A test that skips itself has tested
# nothing: it is a failure.
set -uo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT

go test -v "$@" 2>&1 | tee "$log" | awk '
  { block = block $0 "\n" }
  /^(ok|\?)[ \t]/ { print; block = "" }
  /^FAIL([ \t]|$)/ { printf "%s", block; block = "" }
  END { if (block ~ /[^\n]/ && block !~ /^(PASS|FAIL)?\n*$/) printf "%s", block }'
status=${PIPESTATUS[0]}

if skipped=$(grep -E '^[ \t]*--- SKIP' "$log"); then
  printf 'skipped tests are failures:\n%s\n' "$skipped" >&2
  status=1
fi
echo "$(grep -cE '^[ \t]*--- PASS' "$log") passed, $(grep -cE '^[ \t]*--- FAIL' "$log") failed"
exit "$status"
