package procfs

import (
	"bytes"
	"iter"
	"os"
	"strconv"
)

// Process is a process that has neither ended nor become a zombie.
type Process struct {
	PID, Parent, Group int
	State              byte // as in ps: T is stopped, D waits in the kernel
	Forked             bool // it was forked and has not started a program of its own
}

// All returns all processes. Without /proc there are none.
func All() iter.Seq[Process] {
	return func(yield func(Process) bool) {
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			if p, ok := Read(pid); ok && !yield(p) {
				return
			}
		}
	}
}

// Read returns the process with the given number, if it exists.
func Read(pid int) (Process, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, false
	}
	// pid (name) state ppid pgrp session tty tpgid flags … The name can contain
	// anything.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 7 || string(fields[0]) == "Z" || string(fields[0]) == "X" {
		return Process{}, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	group, err2 := strconv.Atoi(string(fields[2]))
	flags, err3 := strconv.ParseUint(string(fields[6]), 10, 64)
	const noExec = 0x40 // PF_FORKNOEXEC
	return Process{pid, parent, group, fields[0][0], flags&noExec != 0}, err1 == nil && err2 == nil && err3 == nil
}
