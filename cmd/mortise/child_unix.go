//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is the command that runs under the lock.
type child struct {
	app    *app
	plan   *plan
	hold   grip
	held   context.Context // the hold's
	family *family
	term   *terminal // nil if there is none

	died    chan os.Signal // SIGCHLD
	stopped chan os.Signal // SIGTSTP
	asked   bool           // by SIGTSTP, to stop
	freed   bool           // a child of the command was continued so that the command can stop
	exited  bool
	status  int   // its exit code, if exited
	lost    error // why the lock was lost, if it was
}

// start starts the command in a process group of its own.
func (a *app) start(hold grip, held context.Context, p *plan) (*child, error) {
	c := &child{
		app: a, plan: p, hold: hold, held: held, family: newFamily(), term: openTerminal(),
		died: make(chan os.Signal, 1), stopped: make(chan os.Signal, 1),
	}
	signal.Notify(c.died, syscall.SIGCHLD)
	c.catchStops()
	attr := &syscall.SysProcAttr{Setpgid: true}
	if c.term.take() {
		attr.Foreground, attr.Ctty = true, c.term.fd()
	}
	if !p.warn {
		// Should this process be killed, nobody renews the lock any more. The
		// kernel watches the thread that forks: it must last.
		runtime.LockOSThread()
		dieWithMortise(attr)
	}
	process, err := os.StartProcess(p.path, p.argv, &os.ProcAttr{
		Env: a.childEnv(p.name, hold), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: attr,
	})
	if err != nil {
		c.term.takeBack()
		return nil, err
	}
	// Not before: the command would inherit it.
	c.term.ignoreOutputStops()
	c.family.leader = process.Pid
	return c, nil
}

// supervise passes signals on and waits for the command. If the lock is lost
// it ends the command, with everything it has started, unless it shall only
// warn. It returns the command's exit code.
func (c *child) supervise(signals <-chan os.Signal) int {
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
			if !c.plan.warn {
				c.end(signals)
				break
			}
			c.app.say("lost the %s %q: %v; the command goes on without it", c.plan.what, c.plan.name, c.lost)
		}
	}
	c.term.takeBack()
	return c.status
}

// forward passes a signal on to the command.
func (c *child) forward(s os.Signal) {
	if s == syscall.SIGCONT && c.held.Err() != nil && !c.plan.warn {
		return // it was lost meanwhile; see supervise
	}
	if s == syscall.SIGCONT {
		c.term.lendAgain(c.family.leader)
	}
	c.family.signal(s.(syscall.Signal))
}

// reap takes note of what has become of the command, and buries what it has
// left behind.
func (c *child) reap() {
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
				c.status = exitSignal + int(status.Signal())
				c.term.restoreModes() // it had no chance to
			}
		}
	}
}

// end asks the command and all it has started to end, and makes them end
// before the lock's key can expire.
func (c *child) end(signals <-chan os.Signal) {
	killAt := time.Now().Add(c.plan.killAfter)
	// If this process was held up, the time is shorter, or over.
	if limit := c.hold.Until().Add(c.plan.killAfter); limit.Before(killAt) {
		killAt = limit
	}
	c.app.say("lost the %s %q: %v; ending the command", c.plan.what, c.plan.name, c.lost)
	if !passed(killAt) {
		c.family.signal(c.plan.signal)
		c.family.signal(syscall.SIGCONT) // a stopped process does not hear the other
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	complained, strays := false, false
	for {
		c.reap()
		if c.exited && !c.family.alive() {
			return
		}
		switch now := time.Now(); {
		case passed(killAt):
			err := c.family.kill()
			if !complained && now.Sub(killAt) > 2*time.Second {
				complained = true
				c.app.say("%s", stubborn(err))
			}
		case !strays && !c.family.groupAlive():
			strays = true
			c.family.signalStrays(c.plan.signal)
		}
		select {
		case <-tick.C:
		case <-c.died:
		case <-c.stopped:
		case s := <-signals:
			if !complained {
				c.forward(s)
			} else if s, ok := s.(syscall.Signal); ok && ends(s) {
				return // it is out of our hands
			}
		}
	}
}

func stubborn(err error) string {
	text := "part of the command does not end although it was killed, and runs on without the lock"
	if err != nil {
		text += fmt.Sprintf(": %v", err)
	}
	return text
}

// passed reports whether t is over, by the monotonic clock or by the wall
// clock: the former does not run while the machine is suspended.
func passed(t time.Time) bool {
	now := time.Now()
	return !now.Before(t) || !now.Round(0).Before(t.Round(0))
}

// lastBreath is how long processes get to end that got the same signal as the
// command, or have seen it end.
const lastBreath = 200 * time.Millisecond

// left returns how many processes the command has left behind.
func (c *child) left() int {
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
