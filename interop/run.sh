#!/usr/bin/env bash
# Builds the Java side for the Redisson releases in redisson/versions and runs
# the interop tests. "make interop" calls it. Arguments are passed on to go test:
#
#     interop/run.sh -run 'TestLock$/4.7.0'
#
# With -core as the first one it builds only the newest release, and of the trials
# it proves only those that core_test.go lists; scripts/stages/gate.go has the tests.
# With -walk it takes the releases in redisson/walk, each of which has a script that the
# one before it does not have; that takes an hour.
set -euo pipefail
cd "$(dirname "$0")"
../scripts/need.sh redis cc java maven

# build VERSION leaves classes and jars in redisson/target/VERSION, unless they
# are there and made from the same sources.
build() {
  local target=target/$1 sources
  sources=$(find pom.xml src -type f -print0 | LC_ALL=C sort -z | xargs -0 cksum)
  if [ "$(cat "$target/built-from" 2>/dev/null)" = "$sources" ]; then return; fi
  echo "interop: building the Java side with Redisson $1" >&2
  rm -rf "$target"
  if ! mvn -q -B -Dredisson.version="$1" compile dependency:copy-dependencies >&2 </dev/null; then
    echo "interop: Maven could not build the Java side with Redisson $1, see above. It needs a JDK 17 or later, and the network for the first build." >&2
    exit 1
  fi
  echo "$sources" >"$target/built-from"
}

core= walk= versions=versions
case ${1-} in
-core) core=yes && shift ;;
-walk) walk=yes versions=walk && shift ;;
esac

cd redisson
while read -r version; do
  build "$version"
  if [ -n "$core" ]; then break; fi
done <$versions
cd ..

# The tests wait more than they compute: as many worlds at a time fill two cores.
if [ -n "$core" ]; then
  exec go run ../scripts/gotest -- -tags interop -count=1 -timeout 10m -parallel 5 "$@" . -args -core
fi
if [ -n "$walk" ]; then
  exec go run ../scripts/gotest -stall 20m -- -tags interop -count=1 -timeout 0 -parallel 4 "$@" . -args -walk
fi
exec go run ../scripts/gotest -stall 10m -- -tags interop -race -count=1 -timeout 30m -parallel 6 "$@" ./... ../bench/redisson
