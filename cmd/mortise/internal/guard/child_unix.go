//go:build unix

package guard

import (
	"context"
	"os"
	"os/signal"
	"runtime"
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
}

// Child is a command that runs under a hold. One goroutine uses it.
type Child struct {
	plan     Plan
	hold     Hold
	held     context.Context // the hold's
	observer Observer
	family   *family
	term     *terminal // nil if there is none

	died    chan os.Signal // SIGCHLD
	stopped chan os.Signal // SIGTSTP
	asked   bool           // by SIGTSTP, to stop
	freed   bool           // a child of the command was continued to let the command stop
	exited  bool
	status  int   // its exit code, if exited
	lost    error // why the hold was lost, if it was
}

// Start starts the command in a process group of its own. The context held is that of the hold: it
// ends when the hold is lost.
func Start(held context.Context, hold Hold, p Plan, o Observer) (*Child, error) {
	c := &Child{
		plan: p, hold: hold, held: held, observer: o, family: newFamily(), term: openTerminal(),
		died: make(chan os.Signal, 1), stopped: make(chan os.Signal, 1),
	}
	signal.Notify(c.died, syscall.SIGCHLD)
	c.catchStops()
	attr := &syscall.SysProcAttr{Setpgid: true}
	if c.term.take() {
		attr.Foreground, attr.Ctty = true, c.term.fd()
	}
	if !p.Outlives {
		// If this process is killed, the lock is not renewed any more, so the command must die too.
		// The kernel watches the thread that forks: it must last.
		runtime.LockOSThread()
		dieWithMortise(attr)
	}
	process, err := os.StartProcess(p.Path, p.Argv, &os.ProcAttr{
		Env: p.Env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: attr,
	})
	if err != nil {
		c.term.takeBack()
		return nil, err
	}
	// Not earlier: the command would inherit it.
	c.term.ignoreOutputStops()
	c.family.leader = process.Pid
	return c, nil
}

// Wait forwards signals and waits for the command. If the hold is lost it ends the command, with
// everything it has started, unless the plan lets it go on. It returns the command's exit code as
// shells do: 128+n if signal n ended it.
func (c *Child) Wait(signals <-chan os.Signal) int {
	lost := c.held.Done()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for !c.exited {
		select {
		case <-look.C:
			c.letStop()
		case <-c.died:
			c.reap()
		case s := <-signals:
			c.forward(s)
		case <-c.stopped:
			c.asked = true
			c.family.signal(syscall.SIGTSTP)
		case <-lost:
			lost = nil
			c.lost = context.Cause(c.held)
			if c.plan.Outlives {
				c.observer.Lost(c.lost)
			} else {
				c.end(signals)
			}
		}
	}
	c.term.takeBack()
	return c.status
}

// Lost returns why the hold was lost while the command ran, or nil.
func (c *Child) Lost() error { return c.lost }

// forward sends a signal on to the command.
func (c *Child) forward(s os.Signal) {
	if s == syscall.SIGCONT && c.held.Err() != nil && !c.plan.Outlives {
		return // it was lost meanwhile, and Wait ends the command
	}
	if s == syscall.SIGCONT {
		c.term.lendAgain(c.family.leader)
	}
	c.family.signal(s.(syscall.Signal))
}

// reap records what has happened to the command, and collects the status of the processes that it
// has left behind.
func (c *Child) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WUNTRACED, nil)
		switch {
		case err == unix.EINTR:
		case err != nil || pid == 0:
			return
		case pid != c.family.leader:
		case status.Stopped():
			c.pause(status.StopSignal())
		default:
			c.exited = true
			c.status = status.ExitStatus()
			if status.Signaled() {
				c.status = 128 + int(status.Signal())
				c.term.restoreModes() // the command itself could not
			}
		}
	}
}

// end asks the command and everything it has started to end, and makes sure that they have ended
// before another client can hold the lock.
func (c *Child) end(signals <-chan os.Signal) {
	e := ending{killAt: c.askToEnd()}
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
		case <-c.died:
		case <-c.stopped:
		case s := <-signals:
			if e.complained && Terminates(s) {
				return // it is out of our hands
			}
			if !e.complained {
				c.forward(s)
			}
		}
	}
}

// ending is the progress in ending a command.
type ending struct {
	killAt     time.Time
	killed     time.Time // for the first time: late, if this process was held up
	strays     bool      // the processes outside the group were asked as well
	complained bool      // processes that were killed are alive, and that was reported
}

// press kills the command when the time has come, and until then asks the processes that outlive
// its group to end.
func (c *Child) press(e *ending) {
	switch now := time.Now(); {
	case passed(e.killAt):
		err := c.family.kill()
		if e.killed.IsZero() {
			e.killed = now
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
