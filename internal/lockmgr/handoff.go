package lockmgr

import (
	"context"
	"errors"
	"math"
	"time"
)

// A release may hand its lease off to the next goroutine of the same client, without
// asking Redis. Nothing changes there: the record stays, with its id, and the watchdog
// goes on renewing it. Only a usual lease is handed off: the watchdog renews it, and it
// has no margin or durability of its own. Terms that were requested for one holder do
// not hold for the next.
//
// Other processes wait meanwhile. So a series of hand-offs ends after seriesTime, and where other clients
// take part in the lock (see rivals.go) when all goroutines that waited at its start have had the lock, or
// seriesMost of them. Then the lease goes back to Redis, and the waiters of other processes have a chance.
const (
	seriesMost = 64
	seriesTime = 10 * time.Millisecond
)

// handoffTrust is the trust that a lease must have left to be handed off. A lease that is
// renewed in time has more.
const handoffTrust = time.Second

// series is what is left of a series of hand-offs inside the process.
type series struct {
	left int
	end  time.Time
}

// handOff hands l off to the next goroutine in its queue, and reports whether it did. If
// so, l is released.
func (l *Lease) handOff() bool {
	if !l.options.usual() || !l.traits.HandsOff || !l.settled() {
		return false
	}
	c := l.client
	c.mu.Lock()
	defer c.mu.Unlock()
	w := l.nextWaiter()
	if w == nil {
		return false
	}
	now := time.Now()
	if l.series == nil {
		l.series = &series{left: math.MaxInt, end: now.Add(seriesTime)}
		if !l.alone(now) {
			l.series.left = min(w.in.length, seriesMost)
		}
	}
	if l.series.left == 0 || !now.Before(l.series.end) {
		return false
	}
	next := l.successor(w.request, now)
	if !c.watchdog.Hand(&l.watch, &next.watch, min(handoffTrust, l.watch.Terms.Trust/2)) {
		return false
	}
	c.watchdog.SetRenew(&next.watch, true)
	l.series.left--
	l.mu.Lock()
	l.ended = endReleased
	l.mu.Unlock()
	c.held.put(l.place(), next)
	w.handed = next
	w.in.dequeue(w)
	w.signal()
	return true
}

// nextWaiter returns the first waiter for l's lock, or nil if l cannot be handed to it. It
// must be called with Client.mu held.
func (l *Lease) nextWaiter() *waiter {
	q := l.site().queue()
	if l.client.closed || q == nil || l.client.held.at(l.place()) != l || !l.inSlice() {
		return nil
	}
	w := q.head
	if w.state >= asks || w.request == nil || !w.request.takes(l) {
		return nil
	}
	return w
}

// settled reports whether l has no effect on its record that would outlast it, and nobody has asked
// for its release. A re-entry with a longer lease has made the key last longer, and a late copy of a
// re-entry may still do so.
func (l *Lease) settled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.late && l.longer == 0 && !l.revoked
}

// takes reports whether r can accept l, a lease of the lock it waits for.
func (r *request) takes(l *Lease) bool {
	return r.lock.options.usual() && r.lock.traits == l.traits
}

// acceptHandoff returns a hold of a lease that was handed to r, unless the lease was lost
// meanwhile.
func (r *request) acceptHandoff(ctx context.Context, l *Lease) (hold *Hold, err error) {
	if l.over() != nil {
		l.giveBack()
		return nil, errNoHold
	}
	if l.traits.Numbered { // each holder draws a token
		if hold, err = l.reenter(ctx, r.lock); err != nil {
			if why := l.over(); why != nil && why != endClosed && errors.Is(err, why.err) {
				err = errNoHold // lost, or superseded: the caller does not know that it had the lock
			} else if ctx.Err() != nil && isUnanswered(err) {
				// Until a moment ago, another goroutine had what is this owner's now.
				err = GaveUp(ctx, l.client.errors.Held(l.asHolder()), err)
			}
			l.giveBack()
			return nil, err
		}
	} else {
		hold = l.addHold(ctx, r.lock, time.Time{})
	}
	r.told.came(HowHandedOff)
	l.client.counters.handedOff.Add(1)
	l.owner.add(l)
	if r.owner != nil {
		l.client.mu.Lock()
		l.site().wakeOwner(l.owner)
		l.client.mu.Unlock()
	}
	return hold, nil
}

// giveBack releases a lease that was handed to a waiter that cannot use it. Unless the
// client is closed, it does not block.
func (l *Lease) giveBack() {
	l.Finish(func(ctx context.Context) {
		switch why := l.over(); why {
		case nil:
			if l.lockCount(ctx) == nil {
				_ = l.release(time.Time{})
				l.unlockCount()
			}
		case endClosed: // no work under the lease can go on
			_, _ = l.Lock.release(l.client.lingerer, l.id)
		default:
			l.reap(why)
		}
	})
}
