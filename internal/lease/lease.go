package lease

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/terms"
	"github.com/mortise-go/mortise/internal/watchdog"
)

// Lease is the record in Redis that one or more holds of one owner share. A client may
// have very many, so it is small.
type Lease struct {
	*Lock // that acquired it
	owner *Owner
	own   Owner // the owner, if the request had none
	id    string
	watch watchdog.Lease

	Series *Series       // the series of hand-offs that it is part of; guarded by Client.Mu
	Since  time.Duration // when it was acquired, if shared; in the client's time; guarded by Client.Mu

	sibling *Lease // the next one of the same owner; guarded by owner.mu

	mu       sync.Mutex    // guards the fields up to late
	unlocked chan struct{} // closed when the count is unlocked; nil if it is not locked
	first    Hold          // the only hold of most leases
	holds    *Hold         // those not yet released, linked; the newest first
	ended    *ending       // why it is over; nil while it is trusted
	expiry   time.Duration // the key lasts until then at least, by fixed leases; in the client's time
	token    int64         // the newest fencing token, of a kind that has them
	longer   uint32        // longest TTL requested, in s, if above the watchdog's
	late     bool          // a copy of a script that sets the count may still be on its way

	doubt   bool   // a copy of the acquisition may still be on its way
	revoked bool   // its holder was asked to release it; guarded by mu
	streak  uint16 // number of grants in a row that led to it, if a grant made it
	row     uint16 // the same if it may have been granted before it was asked for; the next grants are counted on from there

	acquired time.Duration // in the client's time
}

// Series is what is left of a series of hand-offs inside the process.
type Series struct {
	Left int
	End  time.Time
}

// newLease returns the lease of a successful request.
func newLease(r *Request) *Lease {
	k := r.Lock
	l := &Lease{Lock: k, id: r.ID, doubt: r.Doubt, acquired: k.client.Time(time.Now())}
	l.belongTo(r.Owner)
	l.watch = watchdog.Lease{Of: l, Terms: k.terms()}
	l.noteTTL(k.TTL())
	return l
}

// belongTo makes o the owner of l. The lease of a request without an owner has a new one.
func (l *Lease) belongTo(o *Owner) {
	if o == nil {
		o = &l.own
	}
	l.owner = o
}

// Successor returns the lease of r when l is handed off to it now. It has the same record in
// Redis.
func (l *Lease) Successor(r *Request, now time.Time) *Lease {
	n := &Lease{
		Lock: r.Lock, id: l.id, doubt: l.doubt,
		longer: l.longer, expiry: l.expiry, Series: l.Series, streak: l.streak, row: l.row, Since: l.Since,
		acquired: l.client.Time(now),
	}
	n.belongTo(r.Owner)
	n.watch = watchdog.Lease{Of: n, Terms: l.watch.Terms}
	return n
}

// terms returns how the leases of k are renewed.
func (k *Lock) terms() *watchdog.Terms {
	margin := k.options.Margin
	if !k.Renewed() {
		margin = 0 // a fixed lease's margin may be longer than the renewed lease
	}
	if margin == 0 && k.traits.Guard == 0 && k.options.TTL == 0 {
		return &k.client.terms
	}
	ttl := k.renewedTTL()
	o := terms.Options{Margin: margin}
	return &watchdog.Terms{TTL: ttl, Trust: o.Trust(ttl), Guard: k.traits.Guard}
}

// register notes that l is held now. It wakes the waiters of the same owner, on this lock
// and on its other side: they can enter now, or must fail. If alone is set, the owner has
// no other waiters yet. It reports false if the client was closed meanwhile.
//
// It ends the former lease of this client on the lock, if there is one: Redis has given
// the lock to another lease.
func (l *Lease) register(alone bool) bool {
	c := l.client
	c.Mu.Lock()
	if c.closed {
		c.Mu.Unlock()
		return false
	}
	at := l.Place().under(l.id)
	former := c.HeldAt(at)
	l.mu.Lock()
	if l.ended == nil { // else it was lost meanwhile, and nothing would remove it
		c.held.put(at, l)
	}
	l.mu.Unlock()
	c.recorder.Changed()
	c.waiters.Acquired(l, alone)
	c.Mu.Unlock()
	if former != nil {
		former.supersede()
	}
	return true
}

// Owner returns the owner of the lease.
func (l *Lease) Owner() *Owner { return l.owner }

// Acquired returns when the lease was acquired, in the client's time.
func (l *Lease) Acquired() time.Duration { return l.acquired }

// ID returns the id of the lease in Redis.
func (l *Lease) ID() string { return l.id }

// AddHold adds a hold of k whose context descends from parent. start is when it was
// requested.
func (l *Lease) AddHold(parent context.Context, k *Lock, start time.Time) *Hold {
	parent = k.bound(outcome.Lasting(parent), start)
	l.mu.Lock()
	h := &l.first
	if h.of != nil {
		h = new(Hold)
	}
	h.of, h.renewed, h.parent, h.next = l, k.Renewed(), parent, l.holds
	l.holds = h
	ended := l.ended
	l.mu.Unlock()
	if ended != nil {
		h.cancel(ended) // lost just now
	}
	return h
}

// SetOnEnd registers f, which is called, at once or later, if the lease ends before h is
// released. f must not block.
func (l *Lease) SetOnEnd(h *Hold, f func(why error)) {
	l.mu.Lock()
	h.onEnd = f
	ended := l.ended
	if ended == nil {
		ended = h.lost()
	}
	l.mu.Unlock()
	if ended != nil {
		f(ended.Err)
	}
}

// The next methods are those that a Hold needs; unlock is in release.go.

func (l *Lease) NameAndID() (name, id string) { return l.Name(), l.id }
func (l *Lease) Until() time.Time             { return l.client.watchdog.Until(&l.watch) }

// ContextOwner returns the owner that contexts under the lease carry. It is nil for a kind
// without owners, whose contexts keep the owner that they had.
func (l *Lease) ContextOwner() *Owner {
	if l.traits.Unowned {
		return nil
	}
	return l.owner
}

func (l *Lease) FencingToken() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token
}

func (l *Lease) Valid(h *Hold) bool {
	if l.Over() != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !h.released && h.lost() == nil
}

// Expire ends the lease if trust in it is over. The watchdog may have noticed that, but
// not reported it yet, if it has many leases to report.
func (l *Lease) Expire() {
	over, why, err := l.client.watchdog.Expire(&l.watch)
	if !over {
		return
	}
	l.mu.Lock()
	ended, unreported := l.ended, l.ended == nil && l.holds != nil // a lease without holds is being released
	l.mu.Unlock()
	switch {
	case unreported:
		l.end(l.watchdogLoss(why, err))
	case ended != nil && ended.loss:
		l.tell(ended, true) // the watchdog ends it at this moment, and may not have come to that
	}
}

// Over returns why the lease is over, or nil. It checks the clock, so that a process that
// was frozen gets the true state at once.
func (l *Lease) Over() *ending {
	l.Expire()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// Err returns the error of a lease that is over, or nil.
func (l *Lease) Err() error {
	if end := l.Over(); end != nil {
		return end.Err
	}
	return nil
}

// end marks the lease as over, ends the contexts of its holds, and wakes the next waiter
// of this client.
func (l *Lease) end(why *ending) {
	l.mu.Lock()
	if l.ended != nil {
		l.mu.Unlock()
		return
	}
	l.ended = why
	for h := l.holds; h != nil; h = h.next {
		h.stopTimer()
	}
	l.mu.Unlock()
	if why.loss {
		l.client.Counters.lost.Add(1)
	}
	l.client.watchdog.Remove(&l.watch)
	l.tell(why, false)
	l.freed()
	if l.doubt && why.gone {
		l.abandon()
	}
}

// tell ends the contexts of the holds of a lease that has ended. Concurrent
// callers all block until the contexts have ended; only the first has late == false.
//
// The oldest hold is the first: its context may be the parent of others, which ask it, and which
// would come back to here if it had not ended.
func (l *Lease) tell(why *ending, late bool) {
	var few [4]*Hold // spares the common case an allocation
	holds := few[:0]
	var onEnd map[*Hold]func(error)
	l.mu.Lock()
	for h := l.holds; h != nil; h = h.next {
		holds = append(holds, h)
		if h.onEnd != nil {
			if onEnd == nil {
				onEnd = make(map[*Hold]func(error))
			}
			onEnd[h] = h.onEnd
		}
	}
	l.mu.Unlock()
	slices.Reverse(holds) // the oldest first
	for _, h := range holds {
		if f := onEnd[h]; late && f != nil { // a composite's hold ends first: it is asked as well
			f(why.Err)
		}
		h.cancel(why)
	}
	for _, h := range holds {
		if f := onEnd[h]; !late && f != nil {
			f(why.Err)
		}
		if l.client.observes() {
			h.reportLoss(why)
		}
	}
}

// ReleaseUnused releases, in the background, a lease that has ended because its client is being
// closed, if it was acquired for h alone, which no caller has: no work under it goes on.
func (l *Lease) ReleaseUnused(h *Hold) {
	l.mu.Lock()
	unused := l.ended == EndClosed && l.holds == h && h.next == nil
	l.mu.Unlock()
	if unused {
		l.client.Spawn(func(ctx context.Context) { _, _ = l.Lock.Release(ctx, l.id) })
	}
}

// freed notes that l is not held any more, and wakes the first waiter of this client to
// ask for the lock.
func (l *Lease) freed() {
	c := l.client
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if at := l.Place().under(l.id); c.HeldAt(at) == l {
		delete(c.held[at.Use], at.Name)
		c.recorder.Changed()
	}
	c.waiters.Freed(l)
}

// EndGone ends a lease that Redis does not have any more.
func (l *Lease) EndGone() { l.end(l.unreportedLoss()) }

// EndReleased ends a lease whose record its kind removes from Redis by itself.
func (l *Lease) EndReleased() {
	l.owner.remove(l)
	l.end(endReleased)
}

// supersede ends l after Redis has given the lock to another lease of this client. That
// one may learn of the release of l before the caller that releases l does.
func (l *Lease) supersede() {
	l.mu.Lock()
	why := endReleased
	if l.holds != nil {
		why = l.loss(LostTaken, nil)
	}
	l.mu.Unlock()
	l.end(why)
}

// noteTTL notes a TTL that is requested from Redis. It must be called with l.mu held.
func (l *Lease) noteTTL(ttl time.Duration) {
	if ttl > l.watch.Terms.TTL {
		l.longer = max(l.longer, uint32((ttl+time.Second-1)/time.Second)) // a year at most
	}
}

// maxTTL returns the longest TTL that was requested. It must be called with l.mu held.
func (l *Lease) maxTTL() time.Duration {
	return max(time.Duration(l.longer)*time.Second, l.watch.Terms.TTL)
}

// maxTTLAndCount returns the longest TTL that was requested, and the number of holds. A
// re-entry that requests a longer TTL meanwhile changes that number.
func (l *Lease) maxTTLAndCount() (ttl time.Duration, count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.maxTTL(), l.count()
}

// remainingTTL returns how long the key must last from now on if it is not renewed.
func (l *Lease) remainingTTL() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.expiry-l.client.Time(time.Now()), time.Millisecond)
}

// AsHolder returns the lease as what keeps others out.
func (l *Lease) AsHolder() script.Holder {
	until := time.Until(l.Until())
	l.mu.Lock()
	defer l.mu.Unlock()
	return script.Holder{Owner: l.id, Count: max(l.count(), 1), TTL: max(until, l.expiry-l.client.Time(time.Now()), 0)}
}

// abandon releases, in the background, what Redis may have of the lease: for as long as
// the key can last after the last script.
func (l *Lease) abandon() {
	ttl, _ := l.maxTTLAndCount()
	l.client.janitor.abandon(l.Lock, l.id, ttl)
}

func (l *Lease) Parts() (leases []*Lease, whole bool) { return []*Lease{l}, true }

// Settled reports whether l has no effect on its record that would outlast it, and nobody has asked
// for its release. A re-entry with a longer lease has made the key last longer, and a late copy of a
// re-entry may still do so.
func (l *Lease) Settled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.late && l.longer == 0 && !l.revoked
}

// HandTo makes next, the successor of l, the lease of their record, if it is trusted for so long at least, or for half of the time of
// a renewal, and reports whether it did. It must be called with Client.Mu held.
func (l *Lease) HandTo(next *Lease, trust time.Duration) bool {
	c := l.client
	if !c.watchdog.Hand(&l.watch, &next.watch, min(trust, l.watch.Terms.Trust/2)) {
		return false
	}
	c.watchdog.SetRenew(&next.watch, true)
	l.mu.Lock()
	l.ended = endReleased
	l.mu.Unlock()
	c.held.put(l.Place(), next)
	return true
}

// Revoke ends the contexts of the holds of l, or lets the client's OnAsk decide. The lease lasts on:
// others have the lock once it is released, and it is not handed off any more.
func (l *Lease) Revoke(err error) {
	l.mu.Lock()
	l.revoked = true
	var holds []*Hold
	for h := l.holds; h != nil; h = h.next {
		holds = append(holds, h)
	}
	l.mu.Unlock()
	for _, h := range holds {
		if up := HoldFrom(h.parent); up != nil && up.isPart(l) {
			h = up // the caller has the hold of the composite
		}
		if decide := l.client.config.OnAsk; decide != nil {
			l.client.Background(func(context.Context) { decide(h, err) })
			continue
		}
		h.cancel(&ending{Err: err, cause: l.client.errors.Operation("hold", h.Name(), err)})
	}
}
