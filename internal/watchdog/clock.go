package watchdog

import (
	"sync"
	"time"
)

// lead bounds how far a server's clock is ahead of a clock of this process.
type lead struct{ least, most time.Duration }

// reading is what is known of a server's clock.
type reading struct {
	at         time.Duration // when it was read, in the client's time
	mono, wall lead          // lead over the client's time, and over the wall clock
	jump       time.Duration // the last jump; 0 if there was none
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
func (r *reading) read(now time.Duration, start, end, born time.Time, slack time.Duration) (jump time.Duration) {
	if start.Sub(born) < r.at {
		return 0 // it may be older than the last reading
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
		jump = (mono.least + mono.most - old.mono.least - old.mono.most) / 2
		r.jump, r.noticed = jump.Round(time.Millisecond), end
		return r.jump
	default:
		r.mono, r.wall = old.mono.with(mono, wander), old.wall.with(wall, wander)
	}
	return 0
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

// Clocks is what is known of the clocks of the servers that renew leases.
type Clocks struct {
	born  time.Time     // zero of the client's time
	slack time.Duration // a clock that moves by no more has not jumped

	mu      sync.Mutex          // guards servers
	servers map[string]*reading // by server
}

// NewClocks returns clocks of which nothing is known yet. born is zero of the client's time, and a clock that moves by no more than
// slack has not jumped.
func NewClocks(born time.Time, slack time.Duration) *Clocks {
	return &Clocks{born: born, slack: slack, servers: make(map[string]*reading)}
}

// Read records what a server's clock showed between start and end. It returns the jump, if
// there was one.
func (c *Clocks) Read(server string, now time.Duration, start, end time.Time) (jump time.Duration) {
	if now == 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.servers[server]
	if r == nil {
		r = new(reading)
		c.servers[server] = r
	}
	return r.read(now, start, end, c.born, c.slack)
}

// Ahead returns the forward jump of the server's clock if it was noticed after that time,
// and 0 otherwise.
func (c *Clocks) Ahead(server string, since time.Time) (jump time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.servers[server]; r != nil && since.Before(r.noticed) {
		return max(r.jump, 0)
	}
	return 0
}
