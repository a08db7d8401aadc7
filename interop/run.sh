#!/usr/bin/env bash
# Builds the Java side for every Redisson release in redisson/versions and runs
# the interop tests. "make interop" calls it. Arguments are passed on to go test:
#
#     interop/run.sh -run 'TestLock$/4.7.0'
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

cd redisson
while read -r version; do build "$version"; done <versions
cd ..

# The tests wait more than they compute: six worlds at a time fill two cores.
exec go run ../scripts/gotest -tags interop -race -count=1 -timeout 30m -parallel 6 "$@" ./... ../bench/redisson
