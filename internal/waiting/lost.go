package waiting

import (
	"time"

	"github.com/mortise-go/mortise/internal/outcome"
)

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
	onItsWay = outcome.Poll / 2
)

// missed notes that the client's turn has come without a message. If the message is only
// late, its arrival corrects that. It must be called with Client.Mu held.
func (q *queue) missed() {
	c, t, now := q.client, &q.turn, time.Now()
	if t.listener == nil || c.IsClosed() || now.Sub(t.heard) < onItsWay {
		return
	}
	d := c.deaf[q.place]
	if d.missed = now; now.Sub(d.anew) >= anewAfter {
		d.anew = now
		t.listener.Close()
		t.listener = q.subscribe()
	}
	c.deaf[q.place] = d
	c.sweepWithin(deafFor + 1)
}

// hears notes that the client's channel for the place works. It must be called with
// Client.Mu held.
func (s Site) hears() {
	if q := s.queue(); q != nil {
		q.turn.heard = time.Now()
	}
	if len(s.Queues.deaf) > 0 {
		delete(s.Queues.deaf, s.Place)
	}
}

// opened notes that the client listens to its channel for the place, or that Redis refuses
// the channel. Messages that were sent before are lost, but are no sign of deafness.
func (s Site) opened() {
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	if q := s.queue(); q != nil {
		q.turn.heard = time.Now()
	}
}

// isDeaf reports whether messages to this client about the place are likely to be lost. It
// must be called with Client.Mu held.
func (s Site) isDeaf() bool {
	if len(s.Queues.deaf) == 0 {
		return false
	}
	d, ok := s.Queues.deaf[s.Place]
	return ok && time.Since(d.missed) <= deafFor
}

// Poll returns how long a waiter relies on notifications before it asks Redis without one.
func (s Site) Poll() time.Duration {
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	if s.isDeaf() {
		return deafPoll
	}
	return s.Queues.poll()
}
