#!/usr/bin/env bash
# What `make torture` does within the time that it is given: rounds of faults on real processes
# and servers, planted bugs that they must find, simulated histories, fuzz targets and, if there
# is time for all of them, the mutants. Prints the seed of everything that it chooses.
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
step() { # name command…
  local name=$1
  shift
  printf '\n== %s, after %d of %d s\n' "$name" $((SECONDS - begin)) "$limit"
  "$@" || failed+=("$name")
}

rounds() { (cd tests/torture && go test -count=1 -timeout=0 -args -planted -time "$@"); }
step "rounds and planted bugs" rounds "$((limit * 55 / 100))s" "$@"

simulation() { # until $1 seconds have passed
  local binary end=$((SECONDS + $1)) first=$((RANDOM * 32768 + RANDOM))
  binary=$(mktemp) || return
  go test -c -o "$binary" ./tests/simulation || return
  while ((SECONDS < end)); do
    echo "seeds from $first"
    (cd tests/simulation && "$binary" -test.timeout=0 -test.run '^TestSimulation$' -first "$first" -seeds 100) || return
    first=$((first + 100))
  done
}
step "simulated histories" simulation $((limit * 15 / 100))

targets=$(go run ./scripts/fuzz -list ./... | wc -l)
each=$((limit * 10 / 100 / (targets > 0 ? targets : 1)))
step "fuzz targets" make --no-print-directory fuzz FUZZTIME="$((each > 60 ? 60 : each > 1 ? each : 1))s"

left=$((limit - (SECONDS - begin)))
if ((left >= 240)); then
  step "mutants" make --no-print-directory mutants
else
  printf '\n== mutants: not enough time; make mutants makes them\n'
fi

printf '\n== %d s\n' $((SECONDS - begin))
if ((${#failed[@]})); then
  printf 'failed: %s\n' "${failed[@]}"
  exit 1
fi
echo "nothing was broken"
