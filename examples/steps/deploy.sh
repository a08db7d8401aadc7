#!/bin/sh
# Several steps under one lock: the script runs itself again under it, and waits up to ten minutes for that. If the lock is lost in
# the middle, mortise ends the script.
set -eu
if [ "${1-}" != --locked ]; then # an argument, which no other process inherits, as it would a variable
	exec mortise run -w 10m deploy -- sh "$0" --locked "$@"
fi
shift

echo "migrating ${1-everything}"
echo "restarting ${1-everything}"
