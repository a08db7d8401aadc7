#!/usr/bin/env bash
# What `make torture` does within the time that it is given: planted bugs that the rounds must find,
# rounds of faults on real processes and servers, queues whose waiters are killed, clients killed at
# each script, simulated histories, fuzz targets, and as many mutants as there is time for. The
# shares are below. It takes that time and at most three minutes more: those of what was begun just
# before its end, and of the compiler, in a fresh clone.
# Prints the seed of everything that it chooses, and at the end what was done.
#
#   tests/torture/run.sh 30m [arguments of the rounds]
set -uo pipefail
cd "$(dirname "$0")/../.."
seconds() { # 90s, 30m or 2h
  local n=${1%[smh]}
  case $1 in *h) echo $((n * 3600)) ;; *m) echo $((n * 60)) ;; *) echo "$n" ;; esac
}
limit=$(seconds "${1:-30m}") || exit 2
shift
begin=$SECONDS
failed=()
log=$(mktemp -d) || exit 1
trap 'rm -rf "$log"' EXIT
summary=()
step() { # name, pattern of the lines that sum it up, command…
  local name=$1 sums=$2 start=$SECONDS state=ok
  shift 2
  printf '\n== %s, after %d of %d s\n' "$name" $((SECONDS - begin)) "$limit"
  "$@" 2>&1 | tee "$log/step"
  if ((PIPESTATUS[0])) || grep -qE 'no tests to run|^ *--- SKIP' "$log/step"; then
    failed+=("$name")
    state=FAILED
  fi
  summary+=("$(printf '%-28s %-6s %5d s' "$name" $state $((SECONDS - start)))")
  local line
  while IFS= read -r line; do summary+=("    $line"); done < <(grep -E "$sums" "$log/step" | cut -c1-220)
}

rounds() { (cd tests/torture && go test -count=1 -timeout=0 -run '^TestTorture$' -args -planted "$planted" -time "$@"); }
planted=three
((limit >= 1200)) && planted=all
step "rounds and planted bugs" '^(torture:|in all:|ok   planted|FAIL|lost holds|holders whose)' rounds "$((limit * 50 / 100))s" "$@"

fair() { (cd tests/torture && go test -count=1 -timeout=0 -run '^TestKilledFairWaiters$' -args -time "$1"); }
step "killed fair waiters" '^(fair:|--- FAIL)' fair "$((limit * 6 / 100))s"

killed() { (cd tests/torture && go test -count=1 -timeout=0 -run '^TestKillsAtScripts$' -args -time "$1" -kills $((limit * 5 / 9))); } # 1000 in 30m
step "clients killed at scripts" '^(kills:|--- FAIL)' killed "$((limit * 10 / 100))s"

simulation() { # until $1 seconds have passed
  local binary=$log/simulation first=$((RANDOM * 32768 + RANDOM)) end
  go test -c -o "$binary" ./tests/simulation || return
  end=$((SECONDS + $1))
  local from=$first
  while ((SECONDS < end)); do
    (cd tests/simulation && GOGC=1000 "$binary" -test.timeout=0 -test.run '^TestSimulation$' -first "$from" -seeds 500) || return
    from=$((from + 500))
  done
  echo "$((from - first)) seeds, from $first"
}
step "simulated histories" 'seeds?, from|seed [0-9]+ fails' simulation $((limit * 10 / 100))

targets=$(make --no-print-directory fuzz ARGS=-list | grep -c ' Fuzz')
each=$((limit * 10 / 100 / (targets > 0 ? targets : 1)))
step "fuzz targets" '^[0-9]+ targets?,|FAILED' make --no-print-directory fuzz FUZZTIME="$((each > 60 ? 60 : each > 1 ? each : 1))s"

left=$((limit - (SECONDS - begin)))
if ((left >= 30)); then
  step "mutants" 'in the order of|mutants were|^FAIL|were not' go run ./scripts/mutants -time "${left}s"
else
  summary+=("mutants: no time; make mutants makes them")
fi

printf '\n== %d of %d s\n' $((SECONDS - begin)) "$limit"
printf '%s\n' "${summary[@]}"
if ((${#failed[@]})); then
  printf 'failed: %s\n' "${failed[@]}"
  exit 1
fi
echo "nothing was broken"
