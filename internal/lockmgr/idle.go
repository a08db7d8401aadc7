package lockmgr

import (
	"time"

	"github.com/mortise-go/mortise/internal/hub"
)

// idleFor is how long a client goes on listening after the last of its
// goroutines has stopped waiting for a lock: another one is likely to wait.
const idleFor = time.Second

// idleSubscription is the client's channel for a lock that none of its goroutines waits for.
type idleSubscription struct {
	listener *hub.Listener
	since    time.Time
	owed     bool // the client may be notified that the lock is free, in place of the next one
}

// listens reports whether the client listens to its channel for a lock although none of
// its goroutines waits for it, or others have the first chance to acquire it.
func (k *Lock) listens() bool {
	c := k.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.idle[k.place]; ok && c.queues[k.place] == nil && e.listener.Confirmed() {
		return true
	}
	return len(c.sharing.of) > 0 && time.Now().Before(k.after())
}

// keepListening keeps the client's channel open for a while after its queue has ended,
// unless Redis refuses the channel. It must be called with Client.mu held.
func (q *queue) keepListening() {
	c, l := q.client, q.turn.listener
	if c.closed || l.Refused() != nil {
		l.Close()
		return
	}
	c.idle[q.place] = idleSubscription{l, time.Now(), q.turn.entry != ""}
	c.sweepWithin(idleFor)
}

// sweepLeast is the shortest time between two sweeps: each goes through all that may
// be idle.
const sweepLeast = 100 * time.Millisecond

// sweepWithin schedules a sweep in d at the latest. It must be called with Client.mu held.
func (c *Client) sweepWithin(d time.Duration) {
	at := time.Now().Add(d)
	switch {
	case c.closed:
	case c.sweeper == nil:
		c.sweeper = time.AfterFunc(d, c.sweep)
		c.swept = at
	case c.swept.IsZero() || at.Before(c.swept):
		c.sweeper.Reset(d)
		c.swept = at
	}
}

// sweep closes the channels that have been idle for long enough, and removes old records of
// sharing and deafness.
func (c *Client) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.swept = time.Time{}
	now := time.Now()
	next := func(left time.Duration) { c.sweepWithin(max(left+1, sweepLeast)) }
	for p, e := range c.idle {
		if left := idleFor - now.Sub(e.since); left > 0 {
			next(left)
			continue
		}
		delete(c.idle, p)
		e.listener.Close()
	}
	for as, s := range c.sharing.of {
		if left := s.lasts(now); left >= 0 {
			next(left)
			continue
		}
		delete(c.sharing.of, as)
	}
	for p, d := range c.deaf {
		if left := deafFor - now.Sub(d.missed); left >= 0 {
			next(left)
			continue
		}
		delete(c.deaf, p)
	}
}
