package main

import (
	"bytes"
	"iter"
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
	children := map[int][]process{}
	for p := range processes() {
		children[p.parent] = append(children[p.parent], p)
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

// process is a process that is neither gone nor a zombie.
type process struct {
	pid, parent, group int
	state              byte
	forked             bool // and has begun no program of its own since
}

// processes returns all of them. Without /proc there are none.
func processes() iter.Seq[process] {
	return func(yield func(process) bool) {
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			if p, ok := readStat(pid); ok && !yield(p) {
				return
			}
		}
	}
}

// readStat reads /proc/pid/stat: pid (name) state ppid pgrp session tty tpgid
// flags … The name can contain anything.
func readStat(pid int) (process, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 7 || string(fields[0]) == "Z" || string(fields[0]) == "X" {
		return process{}, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	group, err2 := strconv.Atoi(string(fields[2]))
	flags, err3 := strconv.ParseUint(string(fields[6]), 10, 64)
	const noExec = 0x40 // PF_FORKNOEXEC
	return process{pid, parent, group, fields[0][0], flags&noExec != 0}, err1 == nil && err2 == nil && err3 == nil
}

// stoppedInVfork returns the child that a process waits for in vfork(2), if
// that child was stopped before it has begun its program, and 0 otherwise. The
// parent cannot stop then, and nobody is told: the kernel has it wait for the
// child, and holds its own signal back until that comes.
func stoppedInVfork(parent int) int {
	if p, ok := readStat(parent); !ok || p.state != 'D' {
		return 0
	}
	for p := range processes() {
		if p.parent == parent && p.state == 'T' && p.forked {
			return p.pid
		}
	}
	return 0
}
