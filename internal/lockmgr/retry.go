package lockmgr

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/dice"
)

// call runs op until Redis has given a definite answer, and for at most patience after
// the first failure; a negative patience sets no bound. op is one script, and every script
// is safe to run twice. So call asks again after a lost reply.
//
// doubt reports that the outcome of some copy is unknown: it may have run, and may still
// run later.
func (c *Client) call(ctx context.Context, patience time.Duration, op func(context.Context) error) (doubt bool, err error) {
	return c.callFor(ctx, nil, patience, op)
}

// Retry runs op until Redis has given a definite answer, as the client's options say.
func (c *Client) Retry(ctx context.Context, op func(context.Context) error) error {
	_, err := c.call(ctx, c.config.RetryFor, op)
	return err
}

// callFor is call for a waiter: a notification that it has the lock ends a pause, once.
// w may be nil.
func (c *Client) callFor(ctx context.Context, w *waiter, patience time.Duration, op func(context.Context) error) (doubt bool, err error) {
	var failing time.Time // since when
	var failed error      // the last failure for which ctx was not to blame
	for attempt := 0; ; attempt++ {
		start := time.Now()
		if err = op(ctx); err == nil {
			if c.failed.Load() != nil {
				c.failed.Store(nil)
			}
			return doubt, nil
		}
		switch driver.ClassOf(err) {
		case driver.Unknown:
			doubt = true
		case driver.NotSent, driver.Passing:
		default:
			return doubt, err
		}
		now := time.Now()
		if failing.IsZero() {
			failing = now
		}
		if !expired(ctx) {
			failed = err
			c.noteFailed(err)
		}
		if patience >= 0 && now.Sub(failing) >= patience {
			return doubt, interrupted(ctx, start, failed, err)
		}
		came, ok := w.pause(ctx, c, PauseAfter(attempt))
		if !ok {
			return doubt, interrupted(ctx, start, failed, err)
		}
		if came {
			w = nil
		}
	}
}

// Insist runs op, in the background, until Redis has given a definite answer, and for no longer
// than limit. It reports whether there was one. Unlike call it goes on after Close, until ctx
// ends: what Close lets linger is what others would have to wait for.
func (c *Client) Insist(ctx context.Context, limit time.Duration, op func(context.Context) error) (answered bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for attempt := 0; ; attempt++ {
		if err := op(ctx); err == nil || !isUnanswered(err) {
			return true
		}
		select {
		case <-time.After(PauseAfter(attempt)):
		case <-ctx.Done():
			return false
		}
	}
}

// noteFailed notes the last failure since Redis has last answered.
func (c *Client) noteFailed(err error) { c.failed.Store(&err) }

// pause is [Client.pause] for a waiter, or for none if w is nil. came reports that w was
// notified that it has the lock, which ends the pause. Any other wake-up of w has no
// effect until the pause is over: any client may publish.
func (w *waiter) pause(ctx context.Context, c *Client, d time.Duration) (came, ok bool) {
	if w == nil {
		return false, c.pause(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for woken := false; ; woken = true {
		select {
		case <-w.wake:
			if w.isGranted() {
				w.signal()
				return true, true
			}
			continue
		case <-timer.C:
			ok = true
		case <-ctx.Done():
		case <-c.done:
		}
		if woken {
			w.signal()
		}
		return false, ok
	}
}

// PauseAfter returns the pause after the n-th failed attempt: 5 to 10 ms at first, 100 to
// 200 ms at last. It stays short because a new master serves at once, and does not
// announce that.
func PauseAfter(n int) time.Duration {
	d := min(200*time.Millisecond, 10*time.Millisecond<<min(n, 10))
	return d/2 + dice.N(d/2)
}

// pause sleeps for d. It reports false if ctx ends or the client is closed before.
func (c *Client) pause(ctx context.Context, d time.Duration) bool {
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
