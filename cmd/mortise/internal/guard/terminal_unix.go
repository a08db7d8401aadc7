//go:build unix

package guard

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the controlling terminal, which belongs to one process group at a time: the
// foreground group. A nil terminal stands for none; its methods do nothing.
type terminal struct {
	file  *os.File
	own   int  // our process group
	eager bool // the command must be in the foreground from the start
	lent  bool // to the command
	modes *term.State
}

// openTerminal returns nil if there is no terminal.
func openTerminal() *terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	t := &terminal{file: file, own: unix.Getpgrp(), eager: term.IsTerminal(0) && !isPipe(os.Stdout)}
	t.modes, _ = term.GetState(t.fd()) // nil on failure
	return t
}

func (t *terminal) fd() int { return int(t.file.Fd()) }

// isPipe reports whether f is a pipe. There may be a pager at its other end, in our process group,
// that needs the terminal more.
func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}

// take reports whether to start the command in the foreground.
func (t *terminal) take() bool {
	if t == nil || !t.eager || !t.ours() {
		return false
	}
	t.lent = true
	return true
}

// ours reports whether our process group is in the foreground.
func (t *terminal) ours() bool {
	group, err := unix.IoctlGetInt(t.fd(), unix.TIOCGPGRP)
	return err == nil && group == t.own
}

// ignoreOutputStops lets this process write to the terminal, and get it back, while in the
// background.
func (t *terminal) ignoreOutputStops() {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU)
	}
}

// lend gives the terminal to a process group, if it is ours to give.
func (t *terminal) lend(group int) {
	if t != nil && !t.lent && t.ours() {
		t.lent = unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, group) == nil
	}
}

// lendAgain is lend after this process was continued, perhaps in the foreground instead of the
// background or the other way round.
func (t *terminal) lendAgain(group int) {
	if t != nil && t.eager {
		t.lend(group)
	}
}

// takeBack brings this process back to the foreground.
func (t *terminal) takeBack() {
	if t == nil || !t.lent {
		return
	}
	t.lent = false
	signal.Ignore(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, t.own) // the terminal may be gone
}

// isLent reports whether the terminal is the command's.
func (t *terminal) isLent() bool { return t != nil && t.lent }

// restoreModes undoes the changes of a killed program to the terminal.
func (t *terminal) restoreModes() {
	if t != nil && t.lent && t.modes != nil {
		_ = term.Restore(t.fd(), t.modes) // the terminal may be gone
	}
}
