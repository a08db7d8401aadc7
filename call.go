package mortise

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/dice"
)

// call runs op until Redis has given a definite answer, and for at most
// patience after its first failure (for ever if that is negative). Op is one
// script, and every script is safe to run twice, so a lost reply is answered
// by asking again.
//
// Doubt tells that the outcome of some copy is not known: it may have run, and
// may still run later.
func (c *Client) call(ctx context.Context, patience time.Duration, op func(context.Context) error) (doubt bool, err error) {
	return c.callFor(ctx, nil, patience, op)
}

// callFor is call for a waiter: if it hears meanwhile that it has the lock, that
// ends a pause, once.
func (c *Client) callFor(ctx context.Context, w *waiter, patience time.Duration, op func(context.Context) error) (doubt bool, err error) {
	var failing time.Time // since when
	for attempt := 0; ; attempt++ {
		if err = op(ctx); err == nil {
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
		if patience >= 0 && now.Sub(failing) >= patience {
			return doubt, err
		}
		came, ok := c.pauseFor(ctx, w, pauseAfter(attempt))
		if !ok {
			return doubt, err
		}
		if came {
			w = nil
		}
	}
}

// pauseFor is pause for a waiter, if w is one. It reports that w has heard that it
// has the lock, which ends the pause. Whatever else wakes w it leaves for later:
// anybody may publish.
func (c *Client) pauseFor(ctx context.Context, w *waiter, d time.Duration) (came, ok bool) {
	if w == nil {
		return false, c.pause(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for woken := false; ; woken = true {
		select {
		case <-w.wake:
			if c.hasCome(w) {
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

// pauseAfter is the pause after the n-th failed attempt: a hundredth of a
// second at first, a fifth of a second at last: a new master serves at once, and
// nobody says so.
func pauseAfter(n int) time.Duration {
	d := min(200*time.Millisecond, 10*time.Millisecond<<min(n, 10))
	return d/2 + dice.N(d/2)
}

// pause waits, and reports false if ctx or the client ended meanwhile.
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
