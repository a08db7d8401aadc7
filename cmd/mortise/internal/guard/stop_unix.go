//go:build unix

package guard

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// catchStops has requests to stop delivered, so that the command stops first:
// a process that is stopped cannot guard one that is not.
func (c *Child) catchStops() {
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(c.stopped, syscall.SIGTSTP)
	}
}

// letStop helps a command that is half stopped, which no signal tells us: it
// waits in vfork(2) for a child that was stopped. Nothing but SIGCONT moves
// either, and meanwhile the command has the lock, the terminal hangs, and
// Ctrl-C does nothing.
func (c *Child) letStop() {
	if pid := stoppedInVfork(c.family.leader); pid != 0 {
		c.freed = true
		_ = syscall.Kill(pid, syscall.SIGCONT) // it cannot have ended: nobody has waited for it
	}
}

// resumeLimit is how long to wait, after stopping, for being continued. It
// passes while this process is stopped, or else nobody has stopped it.
const resumeLimit = 200 * time.Millisecond

// pause is called when the command was stopped by a signal. If that was the
// terminal's doing, or somebody asked us to stop, this process stops too, like
// a shell's job that has one more process; the command does not go on before
// it. An operator's SIGSTOP to the command alone is left alone.
func (c *Child) pause(by syscall.Signal) {
	if c.freed {
		c.freed = false
		c.family.signal(by) // what letStop has continued stops as well
	}
	wants := by == syscall.SIGTTIN || by == syscall.SIGTTOU
	switch {
	case c.lost != nil && !c.plan.Outlives:
		return // it is being ended
	case c.term != nil && wants && c.term.ours():
		c.term.eager = true
		c.term.lend(c.family.leader)
		c.family.signal(syscall.SIGCONT)
		return
	case !c.asked && (c.term == nil || !c.term.lent && by == syscall.SIGSTOP):
		return
	}
	c.asked = false
	c.term.takeBack()
	c.observer.Stopped(time.Until(c.hold.Until()))
	stopJob()
	if c.held.Err() != nil && !c.plan.Outlives {
		return // Wait ends it
	}
	c.term.lendAgain(c.family.leader)
	c.family.signal(syscall.SIGCONT)
}

// stopJob stops this process with all of its job, and returns when it was
// continued.
func stopJob() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	// All of the job. It has no effect on one that no shell controls. SIGTSTP
	// would not stop us: once it was caught, Go ignores it for good.
	_ = syscall.Kill(0, syscall.SIGTTIN)
	timer := time.NewTimer(resumeLimit)
	select {
	case <-continued:
	case <-timer.C:
	}
	timer.Stop()
	signal.Stop(continued)
}
