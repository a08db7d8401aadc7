package survey

import (
	"context"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/scan"
)

// Walk is an operation that asks Redis many times, such as a scan. It ends if Redis has not answered for
// as long as the client's options say.
type Walk struct {
	patience time.Duration
	silent   *time.Timer // ends the context of the walk; nil if there is no bound

	mu    sync.Mutex // guards aside
	aside int        // how many of those who ask several servers pause
}

// Run calls f with a context for what it asks Redis. f calls Answered whenever Redis has answered.
func Run(ctx context.Context, c *lease.Client, f func(ctx context.Context, w *Walk) error) error {
	return RunFor(ctx, c.Config().RetryFor, f)
}

// RunFor is walkOf with that patience.
func RunFor(ctx context.Context, patience time.Duration, f func(ctx context.Context, w *Walk) error) error {
	w := &Walk{patience: patience}
	if w.patience < 0 {
		return f(ctx, w)
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	w.silent = time.AfterFunc(w.patience, cancel)
	defer w.silent.Stop()
	err := f(scan.WithPatience(within, w), w)
	if err != nil && within.Err() != nil && ctx.Err() == nil && outcome.IsUnanswered(err) {
		return w.silence(err)
	}
	return err
}

// silence is the error of a walk that ended with err when its patience did. A server that has refused says why itself.
func (w *Walk) silence(err error) error {
	return outcome.Unreachable(&driver.Error{Class: driver.NotSent, Err: scan.Each(err, func(err error) error {
		if driver.ClassOf(err) == driver.Passing {
			return err
		}
		return outcome.SilentError{Patience: w.patience}
	})})
}

// Answered notes that Redis has answered.
func (w *Walk) Answered() { w.pauses(0) }

// Aside runs f, which does not ask Redis by itself, and takes its time.
func (w *Walk) Aside(f func()) {
	w.pauses(1)
	defer w.pauses(-1)
	f()
}

// pauses notes that one more pauses, or one less. Meanwhile nobody's silence counts: a pause may last for longer than that may.
func (w *Walk) pauses(more int) {
	if w.silent == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.aside += more; w.aside > 0 {
		w.silent.Stop()
		return
	}
	w.silent.Reset(w.patience)
}
