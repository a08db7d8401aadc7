package lockmgr

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mortise-go/mortise/internal/script"
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

	series *series       // the series of hand-offs that it is part of; guarded by Client.mu
	since  time.Duration // when it was acquired, if shared; in the client's time; guarded by Client.mu

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

// newLease returns the lease of a successful request.
func newLease(r *request) *Lease {
	k := r.lock
	l := &Lease{Lock: k, id: r.id, doubt: r.doubt, acquired: k.client.time(time.Now())}
	l.belongTo(r.owner)
	l.watch = watchdog.Lease{Of: l, Terms: k.terms()}
	l.noteTTL(k.ttl())
	return l
}

// belongTo makes o the owner of l. The lease of a request without an owner has a new one.
func (l *Lease) belongTo(o *Owner) {
	if o == nil {
		o = &l.own
	}
	l.owner = o
}

// successor returns the lease of r when l is handed off to it now. It has the same record in
// Redis.
func (l *Lease) successor(r *request, now time.Time) *Lease {
	n := &Lease{
		Lock: r.lock, id: l.id, doubt: l.doubt,
		longer: l.longer, expiry: l.expiry, series: l.series, streak: l.streak, row: l.row, since: l.since,
		acquired: l.client.time(now),
	}
	n.belongTo(r.owner)
	n.watch = watchdog.Lease{Of: n, Terms: l.watch.Terms}
	return n
}

// terms returns how the leases of k are renewed.
func (k *Lock) terms() *watchdog.Terms {
	margin := k.options.Margin
	if !k.renewed() {
		margin = 0 // a fixed lease's margin may be longer than the renewed lease
	}
	if margin == 0 && k.traits.Guard == 0 && k.options.TTL == 0 {
		return &k.client.terms
	}
	ttl := k.renewedTTL()
	o := Options{Margin: margin}
	return &watchdog.Terms{TTL: ttl, Trust: o.trust(ttl), Guard: k.traits.Guard}
}

// register notes that l is held now. It wakes the waiters of the same owner, on this lock
// and on its other side: they can enter now, or must fail. If alone is set, the owner has
// no other waiters yet. It reports false if the client was closed meanwhile.
//
// It ends the former lease of this client on the lock, if there is one: Redis has given
// the lock to another lease.
func (l *Lease) register(alone bool) bool {
	c := l.client
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return false
	}
	at := l.place().under(l.id)
	former := c.held.at(at)
	l.mu.Lock()
	if l.ended == nil { // else it was lost meanwhile, and nothing would remove it
		c.held.put(at, l)
	}
	l.mu.Unlock()
	c.recorder.changed()
	l.had()
	l.site().heard()
	if !alone {
		l.site().wakeOwner(l.owner)
		if here, other := l.place(), l.place().other(); other != here {
			site{c, other}.wakeOwner(l.owner)
		}
	}
	c.mu.Unlock()
	if former != nil {
		former.supersede()
	}
	return true
}

// ID returns the id of the lease in Redis.
func (l *Lease) ID() string { return l.id }

// addHold adds a hold of k whose context descends from parent. start is when it was
// requested.
func (l *Lease) addHold(parent context.Context, k *Lock, start time.Time) *Hold {
	parent = k.bound(lasting(parent), start)
	l.mu.Lock()
	h := &l.first
	if h.of != nil {
		h = new(Hold)
	}
	h.of, h.renewed, h.parent, h.next = l, k.renewed(), parent, l.holds
	l.holds = h
	ended := l.ended
	l.mu.Unlock()
	if ended != nil {
		h.cancel(ended) // lost just now
	}
	return h
}

// setOnEnd registers f, which is called, at once or later, if the lease ends before h is
// released. f must not block.
func (l *Lease) setOnEnd(h *Hold, f func(why error)) {
	l.mu.Lock()
	h.onEnd = f
	ended := l.ended
	if ended == nil {
		ended = h.lost()
	}
	l.mu.Unlock()
	if ended != nil {
		f(ended.err)
	}
}

// The next methods are those that a Hold needs; unlock is in release.go.

func (l *Lease) nameAndID() (name, id string) { return l.Name(), l.id }
func (l *Lease) until() time.Time             { return l.client.watchdog.Until(&l.watch) }

// contextOwner returns the owner that contexts under the lease carry. It is nil for a kind
// without owners, whose contexts keep the owner that they had.
func (l *Lease) contextOwner() *Owner {
	if l.traits.Unowned {
		return nil
	}
	return l.owner
}

func (l *Lease) fencingToken() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token
}

func (l *Lease) valid(h *Hold) bool {
	if l.over() != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !h.released && h.lost() == nil
}

// expire ends the lease if trust in it is over. The watchdog may have noticed that, but
// not reported it yet, if it has many leases to report.
func (l *Lease) expire() {
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

// over returns why the lease is over, or nil. It checks the clock, so that a process that
// was frozen gets the true state at once.
func (l *Lease) over() *ending {
	l.expire()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// Err returns the error of a lease that is over, or nil.
func (l *Lease) Err() error {
	if end := l.over(); end != nil {
		return end.err
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
		l.client.counters.lost.Add(1)
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
			f(why.err)
		}
		h.cancel(why)
	}
	for _, h := range holds {
		if f := onEnd[h]; !late && f != nil {
			f(why.err)
		}
		if l.client.observes() {
			h.tellLoss(why)
		}
	}
}

// releaseUnused releases, in the background, a lease that has ended because its client is being
// closed, if it was acquired for h alone, which no caller has: no work under it goes on.
func (l *Lease) releaseUnused(h *Hold) {
	l.mu.Lock()
	unused := l.ended == endClosed && l.holds == h && h.next == nil
	l.mu.Unlock()
	if unused {
		l.client.spawn(func(ctx context.Context) { _, _ = l.Lock.release(ctx, l.id) })
	}
}

// freed notes that l is not held any more, and wakes the first waiter of this client to
// ask for the lock.
func (l *Lease) freed() {
	c := l.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := l.place().under(l.id); c.held.at(at) == l {
		delete(c.held[at.use], at.name)
		c.recorder.changed()
	}
	if q := l.site().queue(); q != nil {
		if q.freed = c.time(time.Now()); q.claimant() == "" { // else the release calls it, when it is its turn
			q.head.signal()
		}
	}
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
	return max(l.expiry-l.client.time(time.Now()), time.Millisecond)
}

// asHolder returns the lease as what keeps others out.
func (l *Lease) asHolder() script.Holder {
	until := time.Until(l.until())
	l.mu.Lock()
	defer l.mu.Unlock()
	return script.Holder{Owner: l.id, Count: max(l.count(), 1), TTL: max(until, l.expiry-l.client.time(time.Now()), 0)}
}

// abandon releases, in the background, what Redis may have of the lease: for as long as
// the key can last after the last script.
func (l *Lease) abandon() {
	ttl, _ := l.maxTTLAndCount()
	l.client.janitor.abandon(l.Lock, l.id, ttl)
}
