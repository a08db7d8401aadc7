//go:build unix

package guard

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// catchStops catches requests to stop, so that the command stops first: a stopped process cannot
// guard one that runs.
func (c *Child) catchStops() {
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(c.stopped, syscall.SIGTSTP)
	}
}

// catchStopsAgain is catchStops after this process has ignored them, unless it did so before.
func (c *Child) catchStopsAgain(ignored bool) {
	if !ignored {
		signal.Notify(c.stopped, syscall.SIGTSTP)
	}
}

// letStop helps a command that is half stopped: it waits in vfork(2) for a child that was stopped.
// No signal reports that. Only SIGCONT moves either of them, and meanwhile the command holds the
// lock, the terminal hangs, and Ctrl-C does nothing.
func (c *Child) letStop() {
	if pid := stoppedInVfork(c.family.leader); pid != 0 {
		c.freed = true
		_ = syscall.Kill(pid, syscall.SIGCONT) // it still exists: its parent has not collected it
	}
}

// resumeLimit is how long to wait for SIGCONT after a stop. It passes while this process is
// stopped, or if the stop had no effect.
const resumeLimit = 200 * time.Millisecond

// pause is called when a signal has stopped the command. If the terminal sent it, or this process
// was asked to stop, this process stops too, like one more process of a shell's job; the command
// does not go on before it. It ignores an operator's SIGSTOP to the command alone.
func (c *Child) pause(by syscall.Signal) {
	if c.freed {
		c.freed = false
		c.family.signal(by) // what letStop has continued stops again
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
	c.term.takeBack()
	c.observer.Stopped(time.Until(c.hold.Until()))
	c.stopJob()
	if c.held.Err() != nil && !c.plan.Outlives {
		return // Wait ends the command
	}
	c.term.lendAgain(c.family.leader)
	c.family.signal(syscall.SIGCONT)
}

// stopJob stops this process and its whole job, and returns when it was continued.
func (c *Child) stopJob() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	if !c.asked { // otherwise the others were asked as well: another run among them stops by itself, once
		// A signal to its own group reaches a busy process late, perhaps after it was continued, and
		// would stop it again.
		defer c.catchStopsAgain(signal.Ignored(syscall.SIGTSTP))
		signal.Ignore(syscall.SIGTSTP)
		_ = syscall.Kill(0, syscall.SIGTSTP)
	}
	c.asked = false
	// It has no effect on a process that no shell controls. SIGTSTP would not stop this process: once
	// it was caught, Go ignores it permanently.
	_ = syscall.Kill(os.Getpid(), syscall.SIGTTIN)
	timer := time.NewTimer(resumeLimit)
	select {
	case <-continued:
	case <-timer.C:
	}
	timer.Stop()
	signal.Stop(continued)
}
