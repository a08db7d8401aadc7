#!/usr/bin/env bash
# Makes sure that the programs named as arguments are there, installing them
# with the system's package manager if they are not. Says plainly what to do
# where it cannot.
#
#   need.sh redis cc      # what tests against servers need besides Go
#   need.sh java maven    # what `make interop` needs besides
set -euo pipefail

present() {
  case $1 in
    redis) command -v "${REDIS_SERVER_BIN:-redis-server}" && command -v redis-cli && command -v redis-sentinel ;;
    cc) command -v gcc || command -v cc || command -v clang ;;
    git) git --version ;;
    java) java -version && javac -version ;;
    maven) mvn -version ;;
    pip) pip --version ;;
    chromium) command -v chromium || command -v chromium-browser || command -v google-chrome ;;
  esac >/dev/null 2>&1
}

package() { # name for: what, package manager
  case "$1/$2" in
    redis/apt-get) echo redis-server redis-sentinel ;;
    redis/*) echo redis ;;
    cc/apt-get) echo gcc libc6-dev ;;
    cc/apk) echo gcc musl-dev ;;
    git/*) echo git ;;
    cc/*) echo gcc ;;
    java/apt-get) echo default-jdk-headless ;;
    java/dnf) echo java-latest-openjdk-devel ;;
    java/apk) echo openjdk17 ;;
    java/brew) echo openjdk ;;
    maven/*) echo maven ;;
    pip/apk) echo py3-pip ;;
    pip/brew) echo python ;;
    pip/*) echo python3-pip ;;
    chromium/apt-get) echo chromium fonts-dejavu-core fonts-inter ;;
    chromium/*) echo chromium ;;
  esac
}

manager() {
  for m in apt-get dnf apk brew; do
    if command -v $m >/dev/null; then echo $m && return; fi
  done
}

missing=()
for what in "$@"; do present "$what" || missing+=("$what"); done
[ ${#missing[@]} -gt 0 ] || exit 0

fail() {
  echo "mortise: missing: ${missing[*]}. $1" >&2
  echo "mortise: install it by hand and try again (for Redis: redis-server, redis-cli and redis-sentinel, 7.0 or later, or Valkey's under these names)." >&2
  exit 1
}

m=$(manager)
[ -n "$m" ] || fail "No package manager that this script knows (apt-get, dnf, apk, brew) was found."
packages=()
for what in "${missing[@]}"; do
  read -ra names <<<"$(package "$what" "$m")"
  packages+=("${names[@]}")
done
echo "mortise: installing ${packages[*]} with $m" >&2
root=()
if [ "$m" != brew ] && [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || fail "Installing ${packages[*]} needs root, and there is no sudo."
  root=(sudo)
fi
case $m in
  apt-get)
    # Debian starts a server on port 6379 when it installs one; tests start
    # their own, so that one is not wanted.
    "${root[@]}" apt-get update -q >&2 || fail "apt-get update failed."
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -yq --no-install-recommends "${packages[@]}" >&2 ||
      fail "apt-get install failed." ;;
  dnf) "${root[@]}" dnf install -y "${packages[@]}" >&2 || fail "dnf install failed." ;;
  apk) "${root[@]}" apk add "${packages[@]}" >&2 || fail "apk add failed." ;;
  brew) brew install "${packages[@]}" >&2 || fail "brew install failed." ;;
esac
for what in "${missing[@]}"; do present "$what" || fail "It was installed, but $what is still not found."; done
