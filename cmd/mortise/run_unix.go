//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
	"github.com/mortise-go/mortise/cmd/mortise/internal/guard"
)

// run acquires the lock, runs the command and releases the lock.
func (a *app) run(ctx context.Context, p *plan) error {
	signals := guard.CatchSignals()
	once := func() error { return a.runOnce(ctx, p, signals) }
	if p.keep {
		return a.keep(ctx, signals, once)
	}
	return once()
}

func (a *app) runOnce(ctx context.Context, p *plan, signals <-chan os.Signal) error {
	ctx, cancel, release := interruptible(ctx, signals, p.what)
	defer cancel(nil)
	settle := sync.OnceFunc(release)
	defer settle()

	var post *guard.Post
	if a.getenv(envHeld) == "" { // otherwise this process may become the command, without a guard
		post = guard.Prepare()
		defer post.Discard()
	}
	began := time.Now()
	a.waits, a.wait, a.tells = !p.nonblock, p.wait, p.verbose
	// This process ends after the release, so nothing could go on in the background.
	client, err := a.client(ctx, mortise.Options{TTL: max(p.ttl, shortestTTL), UnlockFor: -1, Identity: p.identity(), History: p.history})
	if err != nil {
		settle()
		return a.refused(ctx, p, err)
	}
	defer leave(client)
	left, by, err := a.uncovered(ctx, client, p)
	if err != nil {
		settle()
		return a.refused(ctx, p, err)
	}
	if left == nil {
		return a.become(client, p, by)
	}
	if post == nil {
		post = guard.Prepare()
		defer post.Discard()
	}
	left.limitFrom(began)
	s := left.open(client, left)
	s.look = left.look(client)
	hold, held, err := a.acquire(ctx, settle, s, left)
	if err != nil {
		return err
	}
	return a.under(hold, held, left, post, signals)
}

// become replaces this process by the command: the run around it holds the lock, and guards the
// process group of both.
func (a *app) become(client *mortise.Client, p *plan, by *outer) error {
	leave(client)
	env := a.innerEnv(p, by)
	if a.hidden != nil { // it ends with the command, which is this process
		_, _ = unix.FcntlInt(a.hidden.Fd(), unix.F_SETFD, 0) // an error would show in a mortise inside
	}
	return startError(p, syscall.Exec(p.path, p.argv, env))
}

// under runs the command under a held lock, and releases the lock.
func (a *app) under(hold grip, held context.Context, p *plan, post *guard.Post, signals <-chan os.Signal) error {
	c, err := guard.Start(held, hold, a.guarded(hold, p), observer{a, p}, post)
	if err != nil {
		if uerr := hold.Unlock(); uerr != nil {
			a.say("%v", plain(uerr))
		}
		return startError(p, err)
	}
	status := childStatus{code: c.Wait(signals)}
	status.signal, status.typed = c.Signal()
	asked, err := a.release(hold, p, signals)
	if c.Lost() == nil {
		if n := c.Left(); n > 0 {
			a.say("the command has left %d of its processes running; they are no longer under the lock", n)
		}
	}
	switch {
	case c.Lost() != nil && !p.warn:
		return &exitError{code: exitLost, again: !asked && !c.Terminated(), err: p.lostText(c.Lost())}
	case c.Lost() != nil:
		return status // the loss was reported when it happened
	case errors.Is(err, mortise.ErrLost) && !p.warn:
		return &exitError{code: exitLost, err: fmt.Errorf("the %s %q was lost before the command ended (status %d): %w", p.what, p.name, status.code, plain(err)),
			hint: "Another client may have held the lock at the same time."}
	case err != nil:
		a.say("%v", plain(err))
	}
	return status
}

// lostText says why the command was ended.
func (p *plan) lostText(cause error) error {
	if limit, ok := p.over(cause); ok {
		return fmt.Errorf("the command was ended: --max-hold of %v is over", limit)
	}
	if why, ok := errors.AsType[*mortise.RevokedError](cause); ok {
		return fmt.Errorf("the command was ended: %s", p.revokedText(why))
	}
	return fmt.Errorf("the command was ended, because the %s %q was lost", p.what, p.name)
}

// guarded returns the part of the plan that the guard needs.
func (a *app) guarded(hold grip, p *plan) guard.Plan {
	return guard.Plan{
		Path: p.path, Argv: p.argv, Env: a.childEnv(p, hold),
		Outlives: p.warn, Signal: p.signal, KillAfter: p.killAfter, Grace: p.grace,
	}
}

// observer reports what the guard sees of a command.
type observer struct {
	app  *app
	plan *plan
}

// Lost implements guard.Observer.
func (o observer) Lost(cause error) {
	then := "ending the command"
	if o.plan.warn {
		then = "the command goes on without it"
	}
	if limit, ok := o.plan.over(cause); ok {
		if o.plan.warn { // otherwise the end says it
			o.app.say("--max-hold of %v is over; %s", limit, then)
		}
		return
	}
	if why, ok := errors.AsType[*mortise.RevokedError](cause); ok {
		if o.plan.warn {
			then = "the command goes on with it"
		}
		o.app.say("%s; %s", o.plan.revokedText(why), then)
		return
	}
	o.app.say("lost the %s %q: %s; %s", o.plan.what, o.plan.name, o.plan.reason(cause), then)
}

// Stopped implements guard.Observer.
func (o observer) Stopped(left time.Duration) {
	o.app.say("stopped; the %s %q is lost if this does not go on within %v", o.plan.what, o.plan.name, duration.Round(left))
}

// Undying implements guard.Observer.
func (o observer) Undying(err error) {
	text := "a part of the command was killed but does not end; it runs on without the lock"
	if err != nil {
		text += fmt.Sprintf(": %v", err)
	}
	o.app.say("%s", text)
}

// Unguarded implements guard.Observer.
func (o observer) Unguarded() {
	o.app.say("the guard process was killed; ending the command")
}

// How long a release is tried while Redis does not answer, and when the user is told so.
const (
	releaseLimit  = 5 * time.Second
	releaseNotice = time.Second
)

// release releases the lock. If Redis does not answer, the lock is left to its TTL after
// releaseLimit, or when a signal asks to end; then asked is true. Redis has releaseNotice for its
// answer in any case: signals come in pairs, as when a terminal is closed.
func (a *app) release(hold grip, p *plan, signals <-chan os.Signal) (asked bool, err error) {
	done := make(chan error, 1)
	go func() { done <- hold.Unlock() }()
	start := time.Now()
	timer := time.NewTimer(releaseNotice)
	defer timer.Stop()
	for told := false; ; {
		select {
		case err := <-done:
			if err == nil && p.verbose {
				a.say("released %s", shown(p.name))
			}
			return asked, err
		case <-timer.C:
			if asked {
				return true, p.unreleased("")
			}
			if told {
				return false, p.unreleased(", because Redis does not answer")
			}
			told = true
			a.say("Redis does not answer; trying to release the %s %q for up to %v", p.what, p.name, releaseLimit)
			timer.Reset(time.Until(start.Add(releaseLimit)))
		case s := <-signals:
			asked = asked || guard.Terminates(s) && s != syscall.SIGPIPE // that may be due to a message to a closed stderr
			if asked && told {
				return true, p.unreleased("")
			}
		}
	}
}

// unreleased returns the error for a lock that could not be released.
func (p *plan) unreleased(why string) error {
	return fmt.Errorf("the %s %q was not released%s; it ends by itself within %v", p.what, p.name, why, p.ttl)
}

// startError returns the error for a program that was found but did not start.
func startError(p *plan, err error) error {
	hint := ""
	if errors.Is(err, syscall.ENOEXEC) {
		hint = "If it is a script, it lacks a first line such as #!/bin/sh."
	} else if errors.Is(err, syscall.ENOENT) {
		hint = "It is there, but its interpreter is not; see its first line."
	}
	return &exitError{code: exitNotExec, hint: hint, err: fmt.Errorf("%q cannot be executed: %w", p.argv[0], err)}
}
