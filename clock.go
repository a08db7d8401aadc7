package mortise

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/watchdog"
)

// lead bounds how far a server's clock is ahead of a clock of this process.
type lead struct{ least, most time.Duration }

// reading is what is known of a server's clock.
type reading struct {
	at         time.Duration // when it was read, in the client's time
	mono, wall lead          // lead over the client's time, and over the wall clock
	jump       *ClockError   // the last jump
	noticed    time.Time     // when jump was noticed
}

// drift limits how much faster one clock may run than another without being set:
// by one part in drift.
const drift = 1000

// read compares the server's clock, which showed now between start and end, with
// earlier readings. It returns the jump, if there was one.
//
// Because the reply took some time, a reading only bounds the lead. A jump is a
// lead outside of the known bounds. The monotonic clock stops while this machine
// is suspended, so a forward jump counts only if the wall clock shows it as well.
func (r *reading) read(server string, now time.Duration, start, end, born time.Time, slack time.Duration) *ClockError {
	if start.Sub(born) < r.at {
		return nil // it may be older than the last reading
	}
	next := now + time.Millisecond // the server's time is in whole milliseconds
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

// with combines the known bounds l, which are older but may be narrower, with
// those of a new reading.
func (l lead) with(next lead, wander time.Duration) lead {
	both := lead{max(l.least-wander, next.least), min(l.most+wander, next.most)}
	if both.least > both.most { // a small jump
		return next
	}
	return both
}

// clocked records what a server's clock showed between start and end, and calls
// OnClockJump if it jumped.
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

// ahead returns the forward jump of the server's clock that may have ended lease
// w, which Redis no longer has, or nil. Such a jump was noticed after the lease
// was last confirmed.
func (c *Client) ahead(server string, w *watchdog.Lease) error {
	confirmed := c.watchdog.Until(w).Add(-w.Terms.Trust)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.clocks[server]; r != nil && r.jump != nil && r.jump.Jump > 0 && confirmed.Before(r.noticed) {
		return r.jump
	}
	return nil
}
