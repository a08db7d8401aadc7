//go:build unix

package guard

import (
	"errors"
	"syscall"
)

// family is the command's process group and, where the system shows them, all other processes that
// descend from the command: those that a shell with job control has put into groups of their own,
// and those whose parents have ended.
type family struct {
	leader int  // the command: pid and process group
	gone   bool // the group has ended; another may have its number by now
	before map[int]bool
}

// newFamily must be called before the command is started.
func newFamily() *family {
	adopt()
	f := &family{before: map[int]bool{}}
	for pid := range descendants(nil) {
		f.before[pid] = true // children from before this process became mortise
	}
	return f
}

// signal sends s to the process group. It ignores a group that has ended.
func (f *family) signal(s syscall.Signal) {
	if f.groupAlive() {
		_ = syscall.Kill(-f.leader, s)
	}
}

// signalStrays sends s to the processes outside the group.
func (f *family) signalStrays(s syscall.Signal) {
	for pid, group := range descendants(f.before) {
		if group != f.leader {
			_ = syscall.Kill(pid, s) // it may have ended meanwhile
		}
	}
}

// kill kills the whole family. An error says that a process may not be killed.
func (f *family) kill() error {
	var err error
	if f.groupAlive() {
		if e := syscall.Kill(-f.leader, syscall.SIGKILL); e != nil && !errors.Is(e, syscall.ESRCH) {
			err = e
		}
	}
	for pid := range descendants(f.before) {
		if e := syscall.Kill(pid, syscall.SIGKILL); e != nil && !errors.Is(e, syscall.ESRCH) {
			err = e
		}
	}
	return err
}

// groupAlive reports whether the process group has any member.
func (f *family) groupAlive() bool {
	f.gone = f.gone || errors.Is(syscall.Kill(-f.leader, 0), syscall.ESRCH)
	return !f.gone
}

// alive reports whether any process of the family is alive.
func (f *family) alive() bool { return f.groupAlive() || len(descendants(f.before)) > 0 }

// count returns how many processes are alive, as far as that can be known.
func (f *family) count() int {
	n := len(descendants(f.before))
	if n == 0 && f.groupAlive() {
		n = 1
	}
	return n
}
