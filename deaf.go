package mortise

import "time"

// A client may have a subscription in Redis while its messages do not arrive. When its
// turn comes it is granted the lock, and learns that only at its next poll. So each of
// its turns would cost every waiter a second. Such a client learns that its turn has come
// without a message. Then it reopens its channel, and polls more often until a message
// arrives.

// deafness is what is known about a channel of this client on which a message was lost.
type deafness struct {
	missed time.Time // when that was last noticed
	anew   time.Time // when the channel was last reopened
}

const (
	// deafPoll is how often a client polls while messages are likely to be lost.
	deafPoll = 100 * time.Millisecond
	// deafFor is how long it does so after the last message that was lost.
	deafFor = 10 * time.Minute
	// anewAfter is how long a reopened channel stays open before it is reopened again.
	anewAfter = 10 * time.Second
	// onItsWay is how long after a channel was last known to work a missing message
	// counts as late and not as lost.
	onItsWay = poll / 2
)

// missed notes that the client's turn at p, which is t, has come without a message. If
// the message is only late, its arrival corrects that. It must be called with c.mu held.
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

// hears notes that the client's channel for p works. q is the queue for p, or nil. It must
// be called with c.mu held.
func (c *Client) hears(p place, q *queue) {
	if q != nil {
		q.turn.heard = time.Now()
	}
	if len(c.deaf) > 0 {
		delete(c.deaf, p)
	}
}

// opened notes that the client listens to its channel for p, or that Redis refuses the
// channel. Messages that were sent before are lost, but are no sign of deafness.
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

// pollOf returns how long a waiter for p relies on notifications before it asks Redis
// without one.
func (c *Client) pollOf(p place) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isDeaf(p) {
		return deafPoll
	}
	return poll
}
