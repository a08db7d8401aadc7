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
	guard  int  // the guard process, which is not one of them, though their parent
	leader int  // the command: pid and process group
	gone   bool // the group has ended; another may have its number by now
	before map[int]bool
}

// members returns the processes, each with its process group, as far as the system shows them.
func (f *family) members() map[int]int {
	found := descendants(f.before)
	delete(found, f.guard)
	return found
}

// signal sends s to the process group. It ignores a group that has ended.
func (f *family) signal(s syscall.Signal) {
	if f.groupAlive() {
		_ = syscall.Kill(-f.leader, s)
	}
}

// signalStrays sends s to the processes outside the group.
func (f *family) signalStrays(s syscall.Signal) {
	for pid, group := range f.members() {
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
	for pid := range f.members() {
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
func (f *family) alive() bool { return f.groupAlive() || len(f.members()) > 0 }

// count returns how many processes are alive, as far as that can be known.
func (f *family) count() int {
	n := len(f.members())
	if n == 0 && f.groupAlive() {
		n = 1
	}
	return n
}
