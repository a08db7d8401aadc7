#!/usr/bin/env python3
"""Several steps under one lock: the script runs itself again under it, and waits up to ten minutes for that.

If the lock is lost in the middle, mortise ends the script.
"""
import os
import sys

script, *args = sys.argv
if args[:1] != ["--locked"]:  # an argument, which no other process inherits, as it would a variable
    os.execvp("mortise", ["mortise", "run", "-w", "10m", "deploy", "--", sys.executable, script, "--locked", *args])

what = args[1] if len(args) > 1 else "everything"
print("migrating", what)
print("restarting", what)
