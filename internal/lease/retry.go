package lease

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/dice"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/terms"
)

// Call runs op until Redis has given a definite answer, and for about patience at most, which also
// ends an attempt under way. A negative patience sets no bound, and with none there is one attempt. op is one
// script, and every script is safe to run twice. So call asks again after a lost reply.
//
// doubt reports that the outcome of some copy is unknown: it may have run, and may still
// run later.
func (c *Client) Call(ctx context.Context, patience time.Duration, op func(context.Context) error) (doubt bool, err error) {
	return c.CallFor(ctx, c, patience, op)
}

// Retry runs op until Redis has given a definite answer, as the client's options say.
func (c *Client) Retry(ctx context.Context, op func(context.Context) error) error {
	return c.RetryFor(ctx, c.config.RetryFor, op)
}

// RetryFor is Retry for so long.
func (c *Client) RetryFor(ctx context.Context, patience time.Duration, op func(context.Context) error) error {
	_, err := c.Call(ctx, patience, op)
	return err
}

// Pauser pauses between two attempts.
type Pauser interface {
	// Pause sleeps for d. It reports false as ok if ctx ends or c is closed before, and as came whether the pauser has what it asks for,
	// which ends the pause.
	Pause(ctx context.Context, c *Client, d time.Duration) (came, ok bool)
}

// Pause implements [Pauser] for a call of which nothing comes but its answer.
func (c *Client) Pause(ctx context.Context, _ *Client, d time.Duration) (came, ok bool) {
	return false, c.Sleep(ctx, d)
}

// CallFor is call with pauses of p. Once what p waits for has come, later pauses do not end early.
func (c *Client) CallFor(ctx context.Context, p Pauser, patience time.Duration, op func(context.Context) error) (doubt bool, err error) {
	r := repetition{ctx: ctx, within: ctx, began: time.Now(), patience: patience}
	defer r.stop()
	if patience < driver.Longest { // else a driver's own limit suffices for the first attempt
		r.bound()
	}
	for attempt := 0; ; attempt++ {
		start := time.Now()
		if err = op(r.within); err == nil {
			c.noteAnswer()
			return doubt, nil
		}
		switch driver.ClassOf(err) {
		case driver.Unknown:
			doubt = true
		case driver.NotSent, driver.Passing:
		default:
			return doubt, err
		}
		over := r.failedWith(err)
		if r.failed != nil && !Expired(ctx) {
			c.noteFailed(r.failed)
		}
		if over {
			return doubt, interrupted(ctx, start, r.failed, err)
		}
		r.bound()
		came, ok := p.Pause(ctx, c, r.pause(attempt))
		if !ok {
			return doubt, interrupted(ctx, start, r.failed, err)
		}
		if came {
			p = c
		}
	}
}

// repetition is a call that is repeated.
type repetition struct {
	ctx, within context.Context // of the caller, and of the attempts
	began       time.Time
	patience    time.Duration
	limit       *driver.Deadline // within, if it has a limit of its own
	failed      error            // the last failure for which ctx was not to blame
}

// bound ends the attempts when the call must be over. Of a caller that cannot leave, a driver takes less time if it may be
// somewhat late.
func (r *repetition) bound() {
	if r.limit == nil && r.patience > 0 {
		r.limit = new(driver.Deadline)
		r.limit.Init(r.ctx, r.began.Add(r.patience), r.began.Add(r.patience+r.patience/5))
		r.within = r.limit
	}
}

func (r *repetition) stop() {
	if r.limit != nil {
		r.limit.Stop()
	}
}

// failedWith notes the error of an attempt, and reports whether it was the last.
func (r *repetition) failedWith(err error) (over bool) {
	over = r.patience >= 0 && time.Since(r.began) >= r.patience
	switch {
	case Expired(r.ctx):
	case !over || !errors.Is(err, context.DeadlineExceeded):
		r.failed = err
	case r.failed == nil: // it was cut off
		r.failed = &driver.Error{Class: driver.ClassOf(err), Err: outcome.SilentError{Patience: r.patience}, Hint: driver.HintOf(err)}
	}
	return over
}

// pause is PauseAfter, within the time that is left.
func (r *repetition) pause(attempt int) time.Duration {
	pause := PauseAfter(attempt)
	if r.patience > 0 {
		return min(pause, r.patience-time.Since(r.began))
	}
	return pause
}

// patience is how long a call retries that also waits for replicas.
func (c *Client) patience(d terms.Durability) time.Duration {
	if c.config.RetryFor < 0 {
		return c.config.RetryFor
	}
	return c.config.RetryFor + d.Timeout
}

// Insist runs op, in the background, until Redis has given a definite answer, and for no longer
// than limit. It reports whether there was one. Unlike call it goes on after Close, until ctx
// ends: what Close lets linger is what others would have to wait for.
func (c *Client) Insist(ctx context.Context, limit time.Duration, op func(context.Context) error) (answered bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for attempt := 0; ; attempt++ {
		if err := op(ctx); err == nil || !outcome.IsUnanswered(err) {
			return true
		}
		select {
		case <-time.After(PauseAfter(attempt)):
		case <-ctx.Done():
			return false
		}
	}
}

// noteAnswer notes that Redis has answered.
func (c *Client) noteAnswer() {
	if c.failed.Load() != nil {
		c.failed.Store(nil)
	}
}

// Err returns for callers the last failure since Redis has last answered; nil if there was none.
func (c *Client) Err() error {
	if failed := c.failed.Load(); failed != nil {
		return outcome.Impersonal(outcome.Meaning(*failed))
	}
	return nil
}

// noteFailed notes the last failure since Redis has last answered.
func (c *Client) noteFailed(err error) { c.failed.Store(&err) }

// PauseAfter returns the pause after the n-th failed attempt: 5 to 10 ms at first, 100 to
// 200 ms at last. It stays short because a new master serves at once, and does not
// announce that.
func PauseAfter(n int) time.Duration {
	d := min(200*time.Millisecond, 10*time.Millisecond<<min(n, 10))
	return d/2 + dice.N(d/2)
}

// Sleep sleeps for d. It reports false if ctx ends or the client is closed before.
func (c *Client) Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-c.done:
		return false
	}
}

// interrupted returns the error of an operation that ended with err because ctx did. start
// is when its last attempt began, and failed the last failure for which ctx was not to blame,
// or nil.
func interrupted(ctx context.Context, start time.Time, failed, err error) error {
	if _, own := ctx.(*driver.Deadline); own || ctx.Err() == nil {
		return cmp.Or(failed, err)
	}
	return outcome.InterruptedBy(ctx, failed, time.Since(start), err)
}

// Expired reports whether ctx has ended, or ends right now, so that it may be the cause of
// an error.
func Expired(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	end, ok := ctx.Deadline()
	return ok && !time.Now().Before(end)
}
