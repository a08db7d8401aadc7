package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithMortise has the kernel kill the command when this process is killed.
func dieWithMortise(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// adopt makes this process the parent of all orphans among its descendants, so
// that none of them can get away.
func adopt() {
	// It fails before Linux 3.4 only, where orphans are then not known.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// descendants returns the living processes that descend from this one, each
// with its process group, without those in except and their descendants.
// Without /proc it returns none.
func descendants(except map[int]bool) map[int]int {
	type process struct{ pid, group int }
	children := map[int][]process{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, group, ok := readStat(pid); ok {
			children[parent] = append(children[parent], process{pid, group})
		}
	}
	found := map[int]int{}
	next := []int{os.Getpid()}
	for len(next) > 0 {
		pid := next[len(next)-1]
		next = next[:len(next)-1]
		for _, p := range children[pid] {
			if !except[p.pid] {
				found[p.pid] = p.group
				next = append(next, p.pid)
			}
		}
	}
	return found
}

// readStat returns the parent and the process group of a process that is
// neither gone nor a zombie, from /proc/pid/stat: pid (name) state ppid pgrp …
// The name can contain anything.
func readStat(pid int) (parent, group int, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 3 || string(fields[0]) == "Z" || string(fields[0]) == "X" {
		return 0, 0, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	group, err2 := strconv.Atoi(string(fields[2]))
	return parent, group, err1 == nil && err2 == nil
}
