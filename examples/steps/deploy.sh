#!/bin/sh
# Several steps under one lock: the script runs itself again under it, and waits up to ten minutes for that. If the lock is lost in
# the middle, mortise ends the script.
set -eu
[ "${MORTISE_NAME-}" = deploy ] || exec mortise run -w 10m deploy -- "$0" "$@"

echo "migrating ${1-everything}"
echo "restarting ${1-everything}"
