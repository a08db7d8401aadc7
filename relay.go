package mortise

import (
	"context"
	"time"
)

// A lease that its holder releases may go to the next goroutine of the same
// client without a word to Redis, where nothing changes: the record stays, with
// its id, and the watchdog goes on renewing it. Only a lease as everybody has it
// is handed on, which the watchdog renews and which has no margin or durability
// of its own: what else was asked of Redis for one holder is not true for the
// next.
//
// Other processes wait meanwhile. So a relay is over when all who waited at its
// start had their turn, or the bounds below are reached; then the lease goes
// back to Redis, and whoever waits there has a chance.
const (
	relayMost = 64
	relayTime = 10 * time.Millisecond
)

// relayTrust is the trust that a lease must have left to be handed on. Renewed
// in time, a lease has more.
const relayTrust = time.Second

// relay is what is left of a series of hand-overs inside the process.
type relay struct {
	left int
	end  time.Time
}

// relay hands l on to the next goroutine in its queue, and reports whether it
// did: then l is released.
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

// settled reports whether nothing of what l was can change it for the next one:
// a re-entry with a longer lease has made the key last longer, and a copy of one
// that is late would do so yet.
func (l *lease) settled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.late && l.longer == 0
}

// takes reports whether r can go on with l, a lease of the lock it waits for.
func (r *request) takes(l *lease) bool {
	return r.lock.options.usual() && r.lock.traits == l.traits
}

// receive makes a hold of a lease that was handed to r, unless the lease was lost
// meanwhile.
func (r *request) receive(ctx context.Context, l *lease) (hold *Hold, err error) {
	if l.state() != nil {
		r.lock.client.giveBack(l)
		return nil, errNoHold
	}
	if l.traits.numbered { // whose every holder draws a token
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

// giveBack releases a lease that was handed to somebody who has no use for it.
// Nobody waits for that.
func (c *Client) giveBack(l *lease) {
	give := func(ctx context.Context) {
		switch why := l.state(); why {
		case nil:
			if l.take(ctx) == nil {
				_ = l.release()
				l.pass()
			}
		case ErrClosed: // there is no work that may go on
			_, _ = l.locker.release(c.lingerer, l.id)
		default:
			l.bury(why)
		}
	}
	if !c.background(give) {
		give(c.lingerer)
	}
}
