package waiting

import (
	"time"

	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/keyspace"
)

// idleFor is how long a client goes on listening after the last of its
// goroutines has stopped waiting for a lock: another one is likely to wait.
const idleFor = time.Second

// idleSubscription is the channels for a lock that none of the client's goroutines waits for.
type idleSubscription struct {
	own        *hub.Listener // nil if the client needed no channel of its own
	all, heeds *hub.Listener // nil if it did not listen to the common channel
	since      time.Time
	last       uint64 // the client's last wait when the queue ended
}

// close closes the channels.
func (e idleSubscription) close() { closeAll(e.own, e.all, e.heeds) }

// closeAll closes those listeners that exist.
func closeAll(listeners ...*hub.Listener) {
	for _, l := range listeners {
		if l != nil {
			l.Close()
		}
	}
}

// Listens reports whether the client listens to its channel for a place although none of
// its goroutines waits for it, or others have the first chance to acquire it, which is known by the name that as returns.
func (s Site) Listens(as func() string) bool {
	c := s.Queues
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return s.listensIdle() || len(c.sharing.of) > 0 && time.Now().Before(c.sharing.after(as()))
}

// listensIdle reports whether the client listens to its channel for a place for which none of its goroutines
// waits. It must be called with Client.Mu held.
func (s Site) listensIdle() bool {
	e, ok := s.Queues.idle[s.Place]
	return ok && e.own != nil && s.queue() == nil && e.own.Confirmed()
}

// hearsOthers reports whether what is announced to all may concern the client that has a channel of its own, too. It must be called with
// Client.Mu held.
func (q *queue) hearsOthers() bool {
	return q.site().Claims() || q.client.sharing.shared(keyspace.LockChannel(q.place.Name)) != nil
}

// keepListening keeps the channels of a queue that has ended open for a while. It closes those that Redis
// refuses, and the common channel if the client was notified of its turns on its own, and no thread of Redisson's takes part. It must be called with
// Client.Mu held.
func (q *queue) keepListening() {
	c := q.client
	e := c.idle[q.place]
	if q.turn.listener != nil {
		e.own = q.turn.listener
	}
	if e.all, e.heeds = q.listener, q.heeds; e.all != nil && e.own != nil && !q.hearsOthers() {
		closeAll(e.all, e.heeds)
		e.all, e.heeds = nil, nil
	}
	if c.IsClosed() || e.own != nil && e.own.Refused() != nil || e.all != nil && e.all.Refused() != nil {
		delete(c.idle, q.place)
		e.close()
		return
	}
	if e.own == nil && e.all == nil {
		return
	}
	e.since, e.last = time.Now(), c.lastWait
	if q.site().Claims() && q.refused == nil && !q.since.IsZero() {
		e.since = q.since // nobody waited: a client that always finds permits need not listen forever
	}
	c.idle[q.place] = e
	c.sweepWithin(idleFor)
}

// resume takes over the common channel from the last queue for the place. Its own channel the queue takes
// over when it needs that. It must be called with Client.Mu held.
func (q *queue) resume() {
	e, ok := q.client.idle[q.place]
	q.since = e.since
	if !ok || e.all == nil {
		return
	}
	if e.all.Refused() != nil {
		closeAll(e.all, e.heeds)
	} else {
		q.listener, q.heeds = e.all, e.heeds
	}
	if e.all, e.heeds = nil, nil; e.own == nil {
		delete(q.client.idle, q.place)
	} else {
		q.client.idle[q.place] = e
	}
}

// sweepLeast is the shortest time between two sweeps: each goes through all that may
// be idle.
const sweepLeast = 100 * time.Millisecond

// sweepWithin schedules a sweep in d at the latest. It must be called with Client.Mu held.
func (qs *Queues) sweepWithin(d time.Duration) {
	at := time.Now().Add(d)
	switch {
	case qs.IsClosed():
	case qs.sweeper == nil:
		qs.sweeper = time.AfterFunc(d, qs.sweep)
		qs.swept = at
	case qs.swept.IsZero() || at.Before(qs.swept):
		qs.sweeper.Reset(d)
		qs.swept = at
	}
}

// sweep closes the channels that have been idle for long enough, and removes old records of
// sharing, deafness and meetings.
func (qs *Queues) sweep() {
	qs.Mu.Lock()
	defer qs.Mu.Unlock()
	qs.swept = time.Time{}
	now := time.Now()
	next := func(left time.Duration) { qs.sweepWithin(max(left+1, sweepLeast)) }
	for p, e := range qs.idle {
		if left := idleFor - now.Sub(e.since); left > 0 {
			next(left)
			continue
		}
		delete(qs.idle, p)
		e.close()
	}
	for as, s := range qs.sharing.of {
		if left := s.lasts(now); left >= 0 {
			next(left)
			continue
		}
		delete(qs.sharing.of, as)
	}
	for p, at := range qs.met {
		if left := metFor - now.Sub(at); left > 0 {
			next(left)
			continue
		}
		delete(qs.met, p)
	}
	for p, d := range qs.deaf {
		if left := deafFor - now.Sub(d.missed); left >= 0 {
			next(left)
			continue
		}
		delete(qs.deaf, p)
	}
}
