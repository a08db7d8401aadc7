package mortise

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/watchdog"
)

// lead bounds by how much a server's clock is ahead of one of ours.
type lead struct{ least, most time.Duration }

// reading is what is known of a server's clock.
type reading struct {
	at         time.Duration // in the client's time: when it was read
	mono, wall lead          // of the client's time, and of the wall clock
	jump       *ClockError   // the last one
	noticed    time.Time     // when
}

// drift is how much faster than another one a clock may go that is not set: it is
// one part in so many.
const drift = 1000

// read compares the server's clock, which showed now between start and end, with
// what it showed before. It returns a jump, if there was one.
//
// The answer took some time, so it says no more than between which bounds the
// lead lies; a jump is what lies outside of the bounds that were known. While
// this machine was suspended its monotonic clock did not go; so a server's clock
// was set forward only if the wall clock says so as well.
func (r *reading) read(server string, now time.Duration, start, end, born time.Time, slack time.Duration) *ClockError {
	if start.Sub(born) < r.at {
		return nil // it may be of a time before what is known
	}
	next := now + time.Millisecond // it shows whole ones
	mono := lead{now - end.Sub(born), next - start.Sub(born)}
	wall := lead{now - end.Round(0).Sub(born.Round(0)), next - start.Round(0).Sub(born.Round(0))}
	old, wander, known := *r, (end.Sub(born)-r.at)/drift, r.at > 0
	r.at, r.mono, r.wall = end.Sub(born), mono, wall
	slack += wander
	switch {
	case !known:
	case min(mono.least-old.mono.most, wall.least-old.wall.most) > slack || old.mono.least-mono.most > slack:
		jump := (mono.least + mono.most - old.mono.least - old.mono.most) / 2
		r.jump, r.noticed = &ClockError{server, jump.Round(time.Millisecond)}, end
		return r.jump
	default:
		r.mono, r.wall = old.mono.with(mono, wander), old.wall.with(wall, wander)
	}
	return nil
}

// with returns what a new reading tells besides what was known: that may be
// narrower, but is older.
func (l lead) with(next lead, wander time.Duration) lead {
	both := lead{max(l.least-wander, next.least), min(l.most+wander, next.most)}
	if both.least > both.most { // a small jump
		return next
	}
	return both
}

// clocked notes what a server's clock showed between start and end, and has the
// program told if it jumped.
func (c *Client) clocked(server string, now time.Duration, start, end time.Time) {
	if now == 0 {
		return
	}
	c.mu.Lock()
	r := c.clocks[server]
	if r == nil {
		r = new(reading)
		c.clocks[server] = r
	}
	jump := r.read(server, now, start, end, c.born, min(time.Second, c.options.Lease/20))
	c.mu.Unlock()
	if tell := c.options.OnClockJump; tell != nil && jump != nil {
		c.background(func(context.Context) { tell(jump) })
	}
}

// ahead returns the jump of its server's clock that may have ended a lease which
// Redis does not have any more, or nil: one forward that was noticed after the
// lease was last confirmed.
func (c *Client) ahead(server string, w *watchdog.Lease) error {
	confirmed := c.watchdog.Until(w).Add(-w.Terms.Trust)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.clocks[server]; r != nil && r.jump != nil && r.jump.Jump > 0 && confirmed.Before(r.noticed) {
		return r.jump
	}
	return nil
}
