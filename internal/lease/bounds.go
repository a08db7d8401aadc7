package lease

import (
	"context"
	"time"
)

// bounds is the parent of the context of a hold that has a MaxHold or a MinHold. Few holds
// have one, so what belongs to it is here, and not in Hold.
//
// The lease lasts as long as some hold needs it. So the watchdog ends the lease at the last
// of the limits of its holds, and a timer each hold whose own limit is earlier.
type bounds struct {
	context.Context
	Limit
	least time.Time   // until when the lock stays taken; zero without a MinHold
	timer *time.Timer // ends the hold alone; nil if the end of the lease does; guarded by Lease.mu
	lost  *ending     // the hold was lost, and taken out of the lease, which was not; guarded by Lease.mu
}

// Limit is the end of a hold or of a lease. It is zero if there is none.
type Limit struct {
	key   time.Time // until when a renewal may make the key last
	Until time.Time // when trust ends, earlier by the margin
}

func (e Limit) IsZero() bool { return e.Until.IsZero() }

// limit returns the limit of a hold of k that was requested at start.
func (k *Lock) limit(start time.Time) Limit {
	if k.options.MaxHold == 0 {
		return Limit{}
	}
	end, ttl := start.Add(k.options.MaxHold.Truncate(time.Millisecond)), k.TTL().Truncate(time.Millisecond)
	return Limit{end, end.Add(k.options.Trust(ttl) - ttl)}
}

// bound returns the parent of the context of a hold of k that was requested at start.
func (k *Lock) bound(parent context.Context, start time.Time) context.Context {
	if k.options.MaxHold == 0 && k.options.MinHold == 0 {
		return parent
	}
	b := &bounds{Context: parent, Limit: k.limit(start)}
	if k.options.MinHold != 0 {
		b.least = time.Now().Add(k.options.MinHold)
	}
	return b
}

// bounds returns what limits h, or nil.
func (h *Hold) bounds() *bounds {
	if b, ok := h.parent.(*bounds); ok && !b.IsZero() {
		return b
	}
	return nil
}

// lost returns how h was lost if the lease was not, or nil. It must be called with Lease.mu
// held.
func (h *Hold) lost() *ending {
	if b := h.bounds(); b != nil {
		return b.lost
	}
	return nil
}

// limit returns when the last hold of the lease ends, or zero if one has no limit. It must be
// called with l.mu held.
func (l *Lease) limit() (last Limit) {
	for h := l.holds; h != nil; h = h.next {
		b := h.bounds()
		if b == nil {
			return Limit{}
		}
		if b.Until.After(last.Until) {
			last = b.Limit
		}
	}
	return last
}

// Limit returns when the last hold of the lease ends, or zero if one has no limit.
func (l *Lease) Limit() Limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit()
}

// limitWith returns what limit does once there is another hold of k, requested at start.
func (l *Lease) limitWith(k *Lock, start time.Time) Limit {
	one := k.limit(start)
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.limit()
	if one.IsZero() || l.holds == nil {
		return one
	}
	if last.IsZero() || last.Until.After(one.Until) {
		return last
	}
	return one
}

// endHoldsBefore starts a timer for each hold whose limit is before that of the lease. It must
// be called with l.mu held.
func (l *Lease) endHoldsBefore(last Limit) {
	for h := l.holds; h != nil; h = h.next {
		if b := h.bounds(); b != nil && b.timer == nil && (last.IsZero() || b.Until.Before(last.Until)) {
			b.timer = time.AfterFunc(time.Until(b.Until), h.expire)
		}
	}
}

// expire ends the hold if its own time is over, and with it the lease if trust in that is.
func (h *Hold) expire() {
	h.of.Expire()
	b := h.bounds()
	if b == nil || time.Now().Before(b.Until) {
		return
	}
	if l, ok := h.of.(*Lease); ok {
		l.endHold(h, b)
	}
}

// endHold ends a hold whose time is over. If the lease has other holds, it goes on for them.
func (l *Lease) endHold(h *Hold, b *bounds) {
	why := l.loss(LostExpired, nil)
	l.mu.Lock()
	if l.ended != nil || h.released || b.lost != nil {
		lost := b.lost
		l.mu.Unlock()
		if lost != nil {
			h.cancel(lost) // its timer ends it at this moment, and may not have come to that
		}
		return
	}
	if l.holds == h && h.next == nil {
		l.mu.Unlock()
		l.end(why)
		return
	}
	b.lost = why
	l.takeOut(h)
	tell := h.onEnd
	l.mu.Unlock()
	h.cancel(why)
	if tell != nil {
		tell(why.Err)
	}
	if l.client.observes() {
		h.reportLoss(why)
	}
	l.updateRenewal()
	l.client.Background(l.recount)
}

// stopTimer stops the timer of a hold that has ended. It must be called with Lease.mu held.
func (h *Hold) stopTimer() {
	if b := h.bounds(); b != nil && b.timer != nil {
		b.timer.Stop()
	}
}

// remaining returns ttl, or less if the lease must end before.
func (l *Lease) remaining(ttl time.Duration) time.Duration {
	end := l.Limit()
	if end.IsZero() {
		return ttl
	}
	return min(ttl, max(time.Until(end.key), time.Millisecond))
}

// Within returns k with no more than what is left until end as its MaxHold. If k has none, end
// does not count.
func (k *Lock) Within(end Limit) *Lock {
	if k.options.MaxHold == 0 || end.IsZero() {
		return k
	}
	o := *k.options
	o.MaxHold = max(min(o.MaxHold, time.Until(end.key)), time.Millisecond)
	return k.With(&o)
}
