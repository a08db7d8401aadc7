package waiting

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
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

// HandOff implements [lease.Waiters].
func (qs *Queues) HandOff(l *lease.Lease) bool {
	if !l.Options().Usual() || !l.Traits().HandsOff || !l.Settled() {
		return false
	}
	qs.Mu.Lock()
	defer qs.Mu.Unlock()
	w := qs.nextWaiter(l)
	if w == nil {
		return false
	}
	now := time.Now()
	if l.Series == nil {
		l.Series = &lease.Series{Left: math.MaxInt, End: now.Add(seriesTime)}
		if !qs.alone(l, now) {
			l.Series.Left = min(w.in.length, seriesMost)
		}
	}
	if l.Series.Left == 0 || !now.Before(l.Series.End) {
		return false
	}
	next := l.Successor(&w.request.Request, now)
	if !l.HandTo(next, handoffTrust) {
		return false
	}
	l.Series.Left--
	w.handed = next
	w.in.dequeue(w)
	w.Signal()
	return true
}

// nextWaiter returns the first waiter for l's lock, or nil if l cannot be handed to it. It
// must be called with Client.Mu held.
func (qs *Queues) nextWaiter(l *lease.Lease) *Waiter {
	q := SiteOf(l.Lock).queue()
	if qs.IsClosed() || q == nil || qs.HeldAt(l.Place()) != l || !qs.inSlice(l) {
		return nil
	}
	w := q.head
	if w.state >= asks || w.request == nil || !w.request.takes(l) {
		return nil
	}
	return w
}

// takes reports whether r can accept l, a lease of the lock it waits for.
func (r *request) takes(l *lease.Lease) bool {
	return r.Lock.Options().Usual() && r.Lock.Traits() == l.Traits()
}

// acceptHandoff returns a hold of a lease that was handed to r, unless the lease was lost
// meanwhile.
func (r *request) acceptHandoff(ctx context.Context, l *lease.Lease) (hold *lease.Hold, err error) {
	if l.Over() != nil {
		giveBack(l)
		return nil, lease.ErrNoHold
	}
	if l.Traits().Numbered { // each holder draws a token
		if hold, err = l.Reenter(ctx, r.Lock); err != nil {
			if why := l.Over(); why != nil && why != lease.EndClosed && errors.Is(err, why.Err) {
				err = lease.ErrNoHold // lost, or superseded: the caller does not know that it had the lock
			} else if ctx.Err() != nil && outcome.IsUnanswered(err) {
				// Until a moment ago, another goroutine had what is this owner's now.
				r.known = l.Client().Errors().Held(l.AsHolder())
			}
			giveBack(l)
			return nil, err
		}
	} else {
		hold = l.AddHold(ctx, r.Lock, time.Time{})
	}
	r.Call.Came(outcome.HowHandedOff)
	l.Client().Counters.HandedOff.Add(1)
	l.Owner().Add(l)
	if r.Owner != nil {
		l.Client().Mu.Lock()
		SiteOf(l.Lock).WakeOwner(l.Owner())
		l.Client().Mu.Unlock()
	}
	return hold, nil
}

// giveBack releases a lease that was handed to a waiter that cannot use it. Unless the
// client is closed, it does not block.
func giveBack(l *lease.Lease) {
	l.Finish(func(ctx context.Context) {
		switch why := l.Over(); why {
		case nil:
			if l.LockCount(ctx) == nil {
				_ = l.Release(time.Time{})
				l.UnlockCount()
			}
		case lease.EndClosed: // no work under the lease can go on
			_, _ = l.Lock.Release(l.Client().Lingerer(), l.ID())
		default:
			l.Reap(why)
		}
	})
}
