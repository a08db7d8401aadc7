package mortise

import (
	"context"
	"time"
)

// A release may hand its lease off to the next goroutine of the same client, without
// asking Redis. Nothing changes there: the record stays, with its id, and the watchdog
// goes on renewing it. Only a usual lease is handed off: the watchdog renews it, and it
// has no margin or durability of its own. Terms that were requested for one holder do
// not hold for the next.
//
// Other processes wait meanwhile. So a relay ends when all goroutines that waited at its
// start have had the lock, or when a bound below is reached. Then the lease goes back to
// Redis, and the waiters of other processes have a chance.
const (
	relayMost = 64
	relayTime = 10 * time.Millisecond
)

// relayTrust is the trust that a lease must have left to be handed off. A lease that is
// renewed in time has more.
const relayTrust = time.Second

// relay is what is left of a series of hand-offs inside the process.
type relay struct {
	left int
	end  time.Time
}

// relay hands l off to the next goroutine in its queue, and reports whether it did. If
// so, l is released.
func (c *Client) relay(l *lease) bool {
	if !l.options.usual() || !l.traits.handsOff || !l.settled() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[l.place]
	if c.closed || q == nil || c.held.at(l.place) != l || !c.inTurn(l) {
		return false
	}
	w := q.head
	if w.busy || w.request == nil || !w.request.takes(l) {
		return false
	}
	now := time.Now()
	if l.relay == nil {
		l.relay = &relay{left: min(q.length, relayMost), end: now.Add(relayTime)}
	}
	if l.relay.left == 0 || !now.Before(l.relay.end) {
		return false
	}
	next := l.successor(w.request)
	if until := c.watchdog.Until(&l.watch); until.Sub(now) < min(relayTrust, l.watch.Terms.Trust/2) || !c.watchdog.Hand(&l.watch, &next.watch) {
		return false
	}
	c.watchdog.SetRenew(&next.watch, true)
	l.relay.left--
	l.mu.Lock()
	l.ended = ErrReleased
	l.mu.Unlock()
	c.held.put(l.place, next)
	w.given = next
	c.dequeue(l.place, q, w)
	w.signal()
	return true
}

// settled reports whether l has no effect on its record that would outlast it. A
// re-entry with a longer lease has made the key last longer, and a late copy of a
// re-entry may still do so.
func (l *lease) settled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.late && l.longer == 0
}

// takes reports whether r can accept l, a lease of the lock it waits for.
func (r *request) takes(l *lease) bool {
	return r.lock.options.usual() && r.lock.traits == l.traits
}

// receive returns a hold of a lease that was handed to r, unless the lease was lost
// meanwhile.
func (r *request) receive(ctx context.Context, l *lease) (hold *Hold, err error) {
	if l.state() != nil {
		r.lock.client.giveBack(l)
		return nil, errNoHold
	}
	if l.traits.numbered { // each holder draws a token
		if hold, err = l.reenter(ctx, r.lock); err != nil {
			r.lock.client.giveBack(l)
			return nil, err
		}
	} else {
		hold = l.hold(ctx, true)
	}
	r.owner.add(l)
	if !r.alone {
		c := r.lock.client
		c.mu.Lock()
		c.tell(l.place, l.owner)
		c.mu.Unlock()
	}
	return hold, nil
}

// giveBack releases a lease that was handed to a waiter that cannot use it. Unless the
// client is closed, it does not block.
func (c *Client) giveBack(l *lease) {
	give := func(ctx context.Context) {
		switch why := l.state(); why {
		case nil:
			if l.take(ctx) == nil {
				_ = l.release()
				l.pass()
			}
		case ErrClosed: // no work under the lease can go on
			_, _ = l.locker.release(c.lingerer, l.id)
		default:
			l.bury(why)
		}
	}
	if !c.background(give) {
		give(c.lingerer)
	}
}
