package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
	"github.com/mortise-go/mortise/cmd/mortise/internal/guard"
)

// interruptible returns a context that ends with the first signal that asks the process to end while it waits for what it wants.
// Release stops the watching, so that later signals go to another receiver; earlier signals that
// did not ask to end are dropped.
func interruptible(ctx context.Context, signals <-chan os.Signal, wants string) (_ context.Context, cancel context.CancelCauseFunc, release func()) {
	ctx, cancel = context.WithCancelCause(ctx)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case s := <-signals:
				if s, ok := s.(syscall.Signal); ok && guard.Terminates(s) {
					cancel(&exitError{code: exitSignal + int(s), signal: s, err: fmt.Errorf("ended by %s while waiting for the %s", guard.SignalName(s), wants)})
				}
			case <-stop:
				return
			}
		}
	}()
	return ctx, cancel, func() { close(stop); <-stopped }
}

// acquire acquires the lock as planned. The returned context is the hold's. After settle, signals
// do not end ctx any more.
func (a *app) acquire(ctx context.Context, settle func(), s subject, p *plan) (grip, context.Context, error) {
	take := s.lock
	if p.nonblock {
		take = s.try
	}
	waited := func() {}
	if !p.nonblock {
		waited = a.showWaiting(ctx, waiting{what: p.wants(), limit: p.wait, began: p.began, verbose: p.verbose, look: s.look})
	}
	hold, held, err := take(ctx)
	waited()
	settle()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
		if uerr := hold.Unlock(); uerr != nil {
			a.say("%v", plain(uerr))
		}
	}
	if err != nil {
		return nil, nil, a.refused(ctx, p, err)
	}
	if p.verbose {
		a.say("got %s after %v, as %s", shown(p.name), duration.Round(time.Since(p.began)), hold.Owner())
	}
	return hold, held, nil
}

// refused returns the error for a lock that could not be acquired.
func (a *app) refused(ctx context.Context, p *plan, err error) error {
	var own *exitError
	if errors.As(context.Cause(ctx), &own) {
		return own // a signal
	}
	var held *mortise.HeldError
	var few *mortise.PermitsError
	if !errors.Is(err, mortise.ErrLocked) && !errors.Is(err, mortise.ErrNoPermits) {
		return err
	}
	errors.As(err, &held)
	errors.As(err, &few)
	waited := !p.nonblock
	if p.conflict == 0 && !p.verbose {
		return childStatus{} // silent by request
	}
	busy := p.busy(err)
	text := strconv.Quote(busy) + " is held"
	if waited {
		text = fmt.Sprintf("%q was held for all of %v", busy, p.wait)
	}
	switch {
	case few != nil:
		text = scarce(p, few, waited)
	case held != nil && held.Kept():
		text += ": " + keptText(held.TTL)
	case held != nil && held.Count == 0:
		text += fmt.Sprintf(": %s is the next to have it", refuserText(held))
	case held != nil && waited:
		text += fmt.Sprintf(", now by %s (count %d)", refuserText(held), held.Count)
	case held != nil:
		text += fmt.Sprintf(" by %s (count %d)", refuserText(held), held.Count)
	}
	return &exitError{code: p.conflict, err: errors.New(text), hint: a.busyHint(p, busy, few)}
}

// busy returns the name of what err says was not available: of one of several with --multi.
func (p *plan) busy(err error) string {
	of, ok := errors.AsType[*mortise.Error](err)
	if ok && slices.ContainsFunc(p.claims, func(c claim) bool { return c.name == of.Name }) {
		return of.Name
	}
	return p.name
}

// refuserText names the holder of an error.
func refuserText(e *mortise.HeldError) string {
	text := ownerText(e.Holder, time.Time{})
	if d := e.Held(); d > 0 {
		text += " for " + duration.Round(d).String()
	}
	return text
}

// unlimited says what p would have to be to wait longer.
func unlimited(p *plan) string {
	switch {
	case p.what == "lead":
		return "Without -w, elect waits as long as it takes"
	case !p.nonblock:
		return "Without -w, run waits as long as it takes"
	}
	return "Without -n or -w, run waits as long as it takes"
}

// busyHint says what to do about something that could not be acquired.
func (a *app) busyHint(p *plan, name string, few *mortise.PermitsError) string {
	if few != nil && few.Unset {
		return "To give it permits: " + setHint(a.self(), name) + ", or run --sem --limit N."
	}
	return unlimited(p) + ". To see more: " + a.self() + " show " + nameArgs(name)
}
