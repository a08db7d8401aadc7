package mortise

import "time"

// A client whose subscription stands in Redis, but whose messages do not arrive,
// is given the lock when its turn comes, and finds out when it looks for itself. So
// each of its turns would cost everybody a second. It knows: its turn has come, and
// it has heard nothing of that. Then it opens its channel anew, and asks more often
// until it hears something.

// deafness is what is known of a channel of this client on which a message was
// lost.
type deafness struct {
	missed time.Time // when that was last noticed
	anew   time.Time // when the channel was last opened anew
}

const (
	// deafPoll is how often a client looks for itself where it does not hear.
	deafPoll = 100 * time.Millisecond
	// deafFor is how long it does so after the last message that was lost.
	deafFor = 10 * time.Minute
	// anewAfter is how long a channel that was opened anew is given.
	anewAfter = 10 * time.Second
	// onItsWay is how long ago a client may have heard something for a message that
	// it has not heard to be one that comes later.
	onItsWay = poll / 2
)

// missed notes that the client's turn at p, which is t, has come, and that it has
// not heard of that. If that is no more than a message which is late, its arrival
// says so. It must be called with c.mu held.
func (c *Client) missed(p place, t *turn) {
	now := time.Now()
	if t.ear == nil || c.closed || now.Sub(t.heard) < onItsWay {
		return
	}
	d := c.deaf[p]
	if d.missed = now; now.Sub(d.anew) >= anewAfter {
		d.anew = now
		t.ear.Close()
		t.ear = c.ear(p)
	}
	c.deaf[p] = d
	c.sweepWithin(deafFor + 1)
}

// hears notes that the client hears on its channel for p, where q waits, if anybody
// does. It must be called with c.mu held.
func (c *Client) hears(p place, q *queue) {
	if q != nil {
		q.turn.heard = time.Now()
	}
	if len(c.deaf) > 0 {
		delete(c.deaf, p)
	}
}

// opened notes that the client listens to its channel for p, or that Redis refuses
// that. Messages that were sent before are lost, and no sign of deafness.
func (c *Client) opened(p place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.queues[p]; q != nil {
		q.turn.heard = time.Now()
	}
}

// isDeaf reports whether messages to this client about p are likely to be lost. It
// must be called with c.mu held.
func (c *Client) isDeaf(p place) bool {
	if len(c.deaf) == 0 {
		return false
	}
	d, ok := c.deaf[p]
	return ok && time.Since(d.missed) <= deafFor
}

// pollOf is how long one who waits for p relies on messages before it looks for
// itself.
func (c *Client) pollOf(p place) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isDeaf(p) {
		return deafPoll
	}
	return poll
}
