package lockmgr

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
	limit
	least time.Time   // until when the lock stays taken; zero without a MinHold
	timer *time.Timer // ends the hold alone; nil if the end of the lease does; guarded by Lease.mu
	lost  *ending     // the hold was lost, and taken out of the lease, which was not; guarded by Lease.mu
}

// limit is the end of a hold or of a lease. It is zero if there is none.
type limit struct {
	key   time.Time // until when a renewal may make the key last
	until time.Time // when trust ends, earlier by the margin
}

func (e limit) isZero() bool { return e.until.IsZero() }

// limit returns the limit of a hold of k that was requested at start.
func (k *Lock) limit(start time.Time) limit {
	if k.options.MaxHold == 0 {
		return limit{}
	}
	end, ttl := start.Add(k.options.MaxHold.Truncate(time.Millisecond)), k.ttl().Truncate(time.Millisecond)
	return limit{end, end.Add(k.options.trust(ttl) - ttl)}
}

// bound returns the parent of the context of a hold of k that was requested at start.
func (k *Lock) bound(parent context.Context, start time.Time) context.Context {
	if k.options.MaxHold == 0 && k.options.MinHold == 0 {
		return parent
	}
	b := &bounds{Context: parent, limit: k.limit(start)}
	if k.options.MinHold != 0 {
		b.least = time.Now().Add(k.options.MinHold)
	}
	return b
}

// bounds returns what limits h, or nil.
func (h *Hold) bounds() *bounds {
	if b, ok := h.parent.(*bounds); ok && !b.isZero() {
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
func (l *Lease) limit() (last limit) {
	for h := l.holds; h != nil; h = h.next {
		b := h.bounds()
		if b == nil {
			return limit{}
		}
		if b.until.After(last.until) {
			last = b.limit
		}
	}
	return last
}

// limitWith returns what limit does once there is another hold of k, requested at start.
func (l *Lease) limitWith(k *Lock, start time.Time) limit {
	one := k.limit(start)
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.limit()
	if one.isZero() || l.holds == nil {
		return one
	}
	if last.isZero() || last.until.After(one.until) {
		return last
	}
	return one
}

// endHoldsBefore starts a timer for each hold whose limit is before that of the lease. It must
// be called with l.mu held.
func (l *Lease) endHoldsBefore(last limit) {
	for h := l.holds; h != nil; h = h.next {
		if b := h.bounds(); b != nil && b.timer == nil && (last.isZero() || b.until.Before(last.until)) {
			b.timer = time.AfterFunc(time.Until(b.until), h.expire)
		}
	}
}

// expire ends the hold if its own time is over, and with it the lease if trust in that is.
func (h *Hold) expire() {
	h.of.expire()
	b := h.bounds()
	if b == nil || time.Now().Before(b.until) {
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
		tell(why.err)
	}
	if l.client.observes() {
		h.tellLoss(why)
	}
	l.updateRenewal()
	l.client.background(l.recount)
}

// stopTimer stops the timer of a hold that has ended. It must be called with Lease.mu held.
func (h *Hold) stopTimer() {
	if b := h.bounds(); b != nil && b.timer != nil {
		b.timer.Stop()
	}
}

// remaining returns ttl, or less if the lease must end before.
func (l *Lease) remaining(ttl time.Duration) time.Duration {
	l.mu.Lock()
	end := l.limit()
	l.mu.Unlock()
	if end.isZero() {
		return ttl
	}
	return min(ttl, max(time.Until(end.key), time.Millisecond))
}

// within returns k with no more than what is left until end as its MaxHold. If k has none, end
// does not count.
func (k *Lock) within(end limit) *Lock {
	if k.options.MaxHold == 0 || end.isZero() {
		return k
	}
	o := *k.options
	o.MaxHold = max(min(o.MaxHold, time.Until(end.key)), time.Millisecond)
	return k.With(&o)
}

// limit returns when the first member that lasts ends by its limit, or zero if none has one.
func (c *composite) limit() (first limit) {
	for _, m := range c.lasting() {
		l := m.lease()
		l.mu.Lock()
		end := l.limit()
		l.mu.Unlock()
		if first.isZero() || !end.isZero() && end.until.Before(first.until) {
			first = end
		}
	}
	return first
}
