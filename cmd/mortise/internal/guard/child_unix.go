//go:build unix

package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Plan is what to run, and what to do when the hold is lost.
type Plan struct {
	Path string   // of the program
	Argv []string // its own name included
	Env  []string

	Outlives  bool           // the command goes on when the hold is lost
	Signal    syscall.Signal // that asks the command to end
	KillAfter time.Duration  // from that signal to SIGKILL
	Grace     time.Duration  // from a signal that asks this process to end to SIGKILL; 0 for ever
}

// Child is a command that runs under a hold. One goroutine uses it.
type Child struct {
	plan     Plan
	hold     Hold
	held     context.Context // the hold's
	observer Observer
	family   *family
	term     *terminal // nil if there is none

	post      *Post
	reports   <-chan report  // of the guard process; nil when that has ended
	died      chan os.Signal // SIGCHLD
	stopped   chan os.Signal // SIGTSTP
	asked     bool           // by SIGTSTP, to stop
	freed     bool           // a child of the command was continued to let the command stop
	exited    bool
	unguarded bool            // the guard process has ended before the command
	status    unix.WaitStatus // if exited
	passed    []os.Signal     // that this process has sent on
	typed     bool            // the signal that ended the command was typed on the terminal
	patient   time.Time       // until then, another SIGINT kills the command
	hasty     bool            // another SIGINT came
	over      time.Time       // when the grace is over that began with a signal; zero if none has
	lost      error           // why the hold was lost, if it was
	told      time.Time       // until then the hold lasts, as the guard process knows
}

// Start starts the command in a process group of its own, as a child of the guard process. The
// context held is that of the hold: it ends when the hold is lost.
func Start(held context.Context, hold Hold, p Plan, o Observer, post *Post) (*Child, error) {
	c := &Child{
		plan: p, hold: hold, held: held, observer: o, post: post, term: openTerminal(),
		died: make(chan os.Signal, 1), stopped: make(chan os.Signal, 1),
	}
	post.used = true
	if <-post.ready; post.err != nil {
		return nil, fmt.Errorf("its guard process does not start: %w", post.err)
	}
	adopt()
	c.family = &family{guard: post.pid, before: post.before}
	c.reports = post.reports
	signal.Notify(c.died, syscall.SIGCHLD)
	c.catchStops()
	var words []word
	if !p.Outlives {
		words = append(words, c.until())
	}
	var err error
	c.family.leader, err = post.start(held, order{
		path: p.Path, argv: p.Argv, env: p.Env, foreground: c.term.take(), outlives: p.Outlives,
	}, words...)
	if err != nil {
		post.abandon()
		c.term.takeBack()
		return nil, err
	}
	c.term.ignoreOutputStops()
	return c, nil
}

// Wait forwards signals and waits for the command. If the hold is lost it ends the command, with
// everything it has started, unless the plan lets it go on. It returns the command's exit code as
// shells do: 128+n if signal n ended it.
func (c *Child) Wait(signals <-chan os.Signal) int {
	lost := c.held.Done()
	look := time.NewTimer(c.beat())
	defer look.Stop()
	grace := time.NewTimer(0)
	defer grace.Stop()
	grace.Stop()
	for !c.exited {
		select {
		case <-look.C:
			c.letStop()
			c.reap()
			look.Reset(c.beat())
		case r, ok := <-c.reports:
			c.hear(r, ok)
		case <-c.died:
			c.reap()
		case s := <-signals:
			c.heed(s, signals, grace)
		case <-grace.C:
			c.end(time.Now(), signals)
		case <-c.stopped:
			c.asked = true
			c.family.signal(syscall.SIGTSTP)
		case <-lost:
			lost = nil
			c.lost = context.Cause(c.held)
			if c.plan.Outlives {
				c.observer.Lost(c.lost)
			} else {
				c.end(c.askToEnd(), signals)
			}
		}
		if c.unguarded && c.lost == nil && !c.plan.Outlives {
			c.observer.Unguarded()
			c.end(time.Now(), signals)
		}
	}
	if !c.over.IsZero() {
		c.end(c.over, signals) // what it has started has the grace, too
	}
	c.term.takeBack()
	c.post.dismiss(c.reports != nil)
	if c.status.Signaled() {
		return 128 + int(c.status.Signal())
	}
	return c.status.ExitStatus()
}

// heed handles a signal that this process gets.
func (c *Child) heed(s os.Signal, signals <-chan os.Signal, grace *time.Timer) {
	if c.forward(s) {
		grace.Reset(c.plan.Grace)
	}
	if s == syscall.SIGINT && c.insists() {
		c.end(time.Now().Add(lastBreath), signals)
	}
}

// until returns the word that tells the guard process until when the command may run. The first one
// goes with the order to start it: this process may be stopped before it can send another.
func (c *Child) until() word {
	c.told = c.hold.Until()
	return word{wordUntil, time.Now().UnixNano(), max(time.Until(c.told), 0) + c.plan.KillAfter}
}

// beat tells the guard process until when the command may run, if that has changed: it kills the
// command then if this process cannot, because it is stopped. It returns when to look again, which
// is often enough for each renewal to be told in time.
func (c *Child) beat() time.Duration {
	left := time.Until(c.hold.Until())
	if left > 0 && !c.hold.Until().Equal(c.told) && !c.plan.Outlives && c.reports != nil {
		c.post.tell(c.until())
	}
	return min(max(left/4, 10*time.Millisecond), time.Second)
}

// Signal returns the signal that ended the command, or 0. It was typed if it reached the command only,
// because the terminal was the command's, and not the process group of this process.
func (c *Child) Signal() (s syscall.Signal, typed bool) {
	if !c.status.Signaled() {
		return 0, false
	}
	return c.status.Signal(), c.typed
}

// Terminated reports whether this process was asked to end while the command ran.
func (c *Child) Terminated() bool { return slices.ContainsFunc(c.passed, Terminates) }

// Lost returns why the hold was lost while the command ran, or nil.
func (c *Child) Lost() error { return c.lost }

// forward sends a signal on to the command. It reports whether the command's grace begins with it.
func (c *Child) forward(s os.Signal) (grace bool) {
	if s == syscall.SIGCONT && c.held.Err() != nil && !c.plan.Outlives {
		return false // it was lost meanwhile, and Wait ends the command
	}
	if s == syscall.SIGCONT {
		c.term.lendAgain(c.family.leader)
	}
	c.family.signal(s.(syscall.Signal))
	if !slices.Contains(c.passed, s) {
		c.passed = append(c.passed, s)
	}
	if c.plan.Grace == 0 || !c.over.IsZero() || !slices.Contains(asking, s) {
		return false
	}
	c.over = time.Now().Add(c.plan.Grace)
	return true
}

// patience is how long a SIGINT is the first of two.
const patience = 10 * time.Second

// insists reports whether a SIGINT is the second one, which kills a command that the first has not
// ended. A copy of the first one, as of a terminal and a parent that passes it on, does not count.
func (c *Child) insists() bool {
	now := time.Now()
	if left := c.patient.Sub(now); left > 0 {
		c.hasty = left < patience-lastBreath
		return c.hasty
	}
	c.patient = now.Add(patience)
	return false
}

// hear handles a report of the guard process, or its end.
func (c *Child) hear(r report, ok bool) {
	if ok {
		c.happened(unix.WaitStatus(r.value))
		return
	}
	c.reports, c.unguarded = nil, true
	c.reap() // on Linux the command is a child of this process now
}

// happened handles what has happened to the command.
func (c *Child) happened(status unix.WaitStatus) {
	if status.Stopped() {
		c.pause(status.StopSignal())
		return
	}
	c.exited, c.status = true, status
	if c.hasty && status.Signaled() && status.Signal() == syscall.SIGKILL {
		c.status = unix.WaitStatus(syscall.SIGINT) // SIGINT has ended it, if by another way
	}
	if status.Signaled() {
		c.term.restoreModes() // the command itself could not
		s := status.Signal()
		c.typed = c.term.isLent() && (s == syscall.SIGINT || s == syscall.SIGQUIT) && !slices.Contains(c.passed, os.Signal(s))
	}
}

// reap collects the status of the guard process, and of what was left behind: the processes that
// the command has left when the guard process ends, and the command itself if that was killed.
func (c *Child) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err == nil && pid == c.family.leader:
			c.unguarded = true // it is this process' child only if the guard process has ended
			c.happened(status)
		case err == nil && pid != 0:
		default:
			if c.unguarded && !c.exited && errors.Is(err, unix.ECHILD) && !c.family.groupAlive() {
				c.exited, c.status = true, unix.WaitStatus(syscall.SIGKILL) // another process has collected it
			}
			return
		}
	}
}

// end asks the command and everything it has started to end, and makes sure that they have ended
// before another client can hold the lock. At killAt it kills them.
func (c *Child) end(killAt time.Time, signals <-chan os.Signal) {
	e := ending{killAt: killAt}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		c.reap()
		if c.exited && !c.family.alive() {
			return
		}
		c.press(&e)
		select {
		case <-tick.C:
		case r, ok := <-c.reports:
			c.hear(r, ok)
		case <-c.died:
		case <-c.stopped:
		case s := <-signals:
			c.forward(s)
			if e.complained && Terminates(s) {
				return // it is out of our hands
			}
		}
	}
}

// ending is the progress in ending a command.
type ending struct {
	killAt     time.Time
	killed     time.Time // for the first time: late, if this process was held up
	relieved   bool      // the guard process was killed as well
	strays     bool      // the processes outside the group were asked as well
	complained bool      // processes that were killed are alive, and that was reported
}

// press kills the command when the time has come, and until then asks the processes that outlive
// its group to end.
func (c *Child) press(e *ending) {
	switch now := time.Now(); {
	case passed(e.killAt), !c.over.IsZero() && passed(c.over):
		err := c.family.kill()
		if e.killed.IsZero() {
			e.killed = now
		}
		if !e.relieved && now.Sub(e.killed) > time.Second {
			// It may be stopped, so that it does not report the end of the others. On Linux this process
			// is told instead.
			e.relieved = true
			_ = syscall.Kill(c.family.guard, syscall.SIGKILL) // it may have ended
		}
		if !e.complained && now.Sub(e.killed) > 2*time.Second {
			e.complained = true
			c.observer.Undying(err)
		}
	case !e.strays && !c.family.groupAlive():
		e.strays = true
		c.family.signalStrays(c.plan.Signal)
	}
}

// askToEnd asks the command to end. It returns the time at which to kill it.
func (c *Child) askToEnd() time.Time {
	killAt := time.Now().Add(c.plan.KillAfter)
	// If this process was delayed, the time is shorter, or has passed.
	if limit := c.hold.Until().Add(c.plan.KillAfter); limit.Before(killAt) {
		killAt = limit
	}
	c.observer.Lost(c.lost) // after the calculation: writing may take long
	if !passed(killAt) {
		c.family.signal(c.plan.Signal)
		c.family.signal(syscall.SIGCONT) // a stopped process does not react to the other signal
	}
	return killAt
}

// passed reports whether t has passed, by the monotonic or by the wall clock: the former does not
// run while the machine is suspended.
func passed(t time.Time) bool {
	now := time.Now()
	return !now.Before(t) || !now.Round(0).Before(t.Round(0))
}

// lastBreath is the time for processes to end that got the same signal as the command, or that have
// noticed its end.
const lastBreath = 200 * time.Millisecond

// Left returns how many processes the command has left behind, after Wait has returned. Processes
// that are about to end get a moment to do so.
func (c *Child) Left() int {
	c.post.await()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(lastBreath); ; {
		c.reap()
		n := c.family.count()
		if n == 0 {
			return 0
		}
		select {
		case <-tick.C:
		case <-c.died:
		case <-limit:
			return n
		}
	}
}
