#!/bin/sh
# Builds the Java side for every Redisson release in redisson/versions and runs
# the interop tests. Called by "make interop". Further arguments go to go test:
#
#     interop/run.sh -run 'TestLock/4.7.0'
set -eu
cd "$(dirname "$0")"

fail() {
	echo "interop: $*" >&2
	exit 1
}

# install_java_and_maven installs what is missing where apt-get can do so.
install_java_and_maven() {
	command -v javac >/dev/null && command -v mvn >/dev/null && return
	words="the interop tests need a JDK (17 or later) and Maven"
	command -v apt-get >/dev/null || fail "$words: install them, so that javac and mvn are in PATH"
	as_root=""
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null || fail "$words, and this user may not install them: run \"apt-get install default-jdk-headless maven\" as root"
		as_root="sudo -n"
	fi
	echo "interop: installing a JDK and Maven"
	{ $as_root apt-get update -q && $as_root apt-get install -qy --no-install-recommends default-jdk-headless maven; } >&2 ||
		fail "$words, and apt-get could not install them (see above): is the network up, and may this user install packages?"
}

# build VERSION leaves classes and jars in redisson/target/VERSION, unless they
# are there and made from the same sources.
build() {
	target="target/$1"
	sources=$(cat pom.xml $(find src -type f | LC_ALL=C sort) | cksum)
	[ "$(cat "$target/built-from" 2>/dev/null)" = "$sources" ] && return
	echo "interop: building the Java side with Redisson $1"
	rm -rf "$target"
	mvn -q -B -Dredisson.version="$1" compile dependency:copy-dependencies >&2 ||
		fail "Maven could not build the Java side with Redisson $1 (see above): the first build needs the network"
	echo "$sources" >"$target/built-from"
}

install_java_and_maven
cd redisson
while read -r version; do
	[ -z "$version" ] || build "$version" </dev/null
done <versions
cd ..

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
# The tests wait more than they compute: three worlds at a time fill two cores.
{ go test -tags interop -race -count=1 -timeout 10m -parallel 3 -v "$@" ./... || echo "go test: exit status $?"; } | tee "$log"
if grep -q '^go test: exit status' "$log"; then status=1; fi
# A test that was skipped has proved nothing, so a skip is a failure.
if grep -q -- '--- SKIP' "$log"; then fail "tests were skipped (see above): what they need is missing"; fi
exit $status
