package mortise

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/watchdog"
)

// lease is the record in Redis that one or more holds of one owner share. A client may
// have very many, so it is small.
type lease struct {
	*locker // that acquired it
	owner   *owner
	id      string
	watch   watchdog.Lease
	relay   *relay // the series of hand-offs that it is part of; guarded by Client.mu
	sibling *lease // the next one of the same owner; guarded by owner.mu

	doubt bool   // a copy of the acquisition may still be on its way
	late  bool   // a copy of a script that sets the count may; guarded by mu
	busy  bool   // the count is locked, see take; guarded by mu
	row   uint16 // number of grants in a row that led to it

	longer uint32        // longest TTL requested, in s, if above the watchdog's; guarded by mu
	mu     sync.Mutex    // guards the fields below
	turn   chan struct{} // closed when the count is unlocked; nil if no goroutine waits for that
	first  Hold          // the only hold of most leases
	holds  *Hold         // those not yet released, linked; the newest first
	ended  error         // why it is over; nil while it is trusted
	expiry time.Duration // the key lasts until then at least, by fixed leases; in the client's time
	since  time.Duration // when it was acquired, if shared; in the client's time; guarded by Client.mu
	token  int64         // the newest fencing token, of a kind that has them
}

// newLease returns the lease of a successful request.
func newLease(r *request) *lease {
	k := r.lock
	l := &lease{locker: k, owner: r.owner, id: r.id, doubt: r.doubt}
	l.watch = watchdog.Lease{Of: l, Terms: k.terms()}
	l.asked(k.ttl())
	return l
}

// successor returns the lease of r when l is handed off to it. It has the same record in
// Redis.
func (l *lease) successor(r *request) *lease {
	n := &lease{
		locker: r.lock, owner: r.owner, id: l.id, doubt: l.doubt,
		longer: l.longer, expiry: l.expiry, relay: l.relay, row: l.row, since: l.since,
	}
	n.watch = watchdog.Lease{Of: n, Terms: l.watch.Terms}
	return n
}

// terms returns how the leases of k are renewed.
func (k *locker) terms() *watchdog.Terms {
	margin := k.options.Margin
	if k.options.Lease > 0 {
		margin = 0 // a fixed lease's margin may be longer than the renewed lease
	}
	if margin == 0 && k.traits.guard == 0 {
		return &k.client.terms
	}
	ttl := k.client.options.Lease
	return &watchdog.Terms{TTL: ttl, Trust: LockOptions{Margin: margin}.trust(ttl), Guard: k.traits.guard}
}

// lost ends a lease. The watchdog calls it when it has lost the lease.
func (c *Client) lost(w *watchdog.Lease, reason watchdog.Reason, err error) {
	w.Of.(*lease).end(lossFor(reason, err))
}

// lossFor returns the error of a lease that the watchdog has lost.
func lossFor(reason watchdog.Reason, err error) *LostError {
	lost := &LostError{Err: err}
	switch reason {
	case watchdog.LostGone:
		lost.Reason = LostForced
	case watchdog.LostTaken:
		lost.Reason = LostTaken
	case watchdog.LostExpired:
		lost.Reason = LostExpired
	default:
		lost.Reason = LostUnreachable
	}
	return lost
}

// end marks the lease as over, ends the contexts of its holds, and wakes the next waiter
// of this client.
func (l *lease) end(why error) {
	l.mu.Lock()
	if l.ended != nil {
		l.mu.Unlock()
		return
	}
	l.ended = why
	var few [4]*Hold // spares the common case an allocation
	holds := few[:0]
	var tell []func(error)
	for h := l.holds; h != nil; h = h.next {
		holds = append(holds, h)
		if h.fell != nil {
			tell = append(tell, h.fell)
		}
	}
	l.mu.Unlock()
	l.client.watchdog.Remove(&l.watch)
	for _, h := range holds {
		h.cancel(why)
	}
	for _, fell := range tell {
		fell(why)
	}
	l.client.freed(l)
	if l.doubt && absent(why) {
		l.client.abandon(l.locker, l.id, l.reach())
	}
}

// superseded ends l after Redis has given the lock to another lease of this client. That
// one may learn of the release of l before the caller that releases l does.
func (l *lease) superseded() {
	l.mu.Lock()
	released := l.holds == nil
	l.mu.Unlock()
	if released {
		l.end(ErrReleased)
	} else {
		l.end(&LostError{Reason: LostTaken})
	}
}

// absent reports whether a lease ended because Redis does not have it any more. A late
// copy of its acquisition would make it again, and no owner would release it.
func absent(why error) bool {
	lost, ok := why.(*LostError)
	return ok && (lost.Reason == LostForced || lost.Reason == LostTaken)
}

// state returns why the lease is over, or nil. It checks the clock, so that a process
// that was frozen gets the true state at once.
func (l *lease) state() error {
	l.expire()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// The methods below are those that a Hold needs.

func (l *lease) label() (name, id string) { return l.name, l.id }
func (l *lease) until() time.Time         { return l.client.watchdog.Until(&l.watch) }

// expire ends the lease if trust in it is over. The watchdog may have noticed that, but
// not reported it yet, if it has many leases to report.
func (l *lease) expire() {
	over, why, err := l.client.watchdog.Expire(&l.watch)
	if !over {
		return
	}
	l.mu.Lock()
	untold := l.ended == nil && l.holds != nil // a lease without holds is being released
	l.mu.Unlock()
	if untold {
		l.end(lossFor(why, err))
	}
}

// actor returns the owner that contexts under the lease carry. It is nil for a kind
// without owners, whose contexts keep the owner that they had.
func (l *lease) actor() *owner {
	if l.traits.unowned {
		return nil
	}
	return l.owner
}

func (l *lease) fence() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token
}

func (l *lease) valid(h *Hold) bool {
	if l.state() != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !h.released
}

// hold adds a hold whose context descends from parent.
func (l *lease) hold(parent context.Context, renewed bool) *Hold {
	l.mu.Lock()
	h := &l.first
	if h.of != nil {
		h = new(Hold)
	}
	h.of, h.renewed, h.parent, h.next = l, renewed, parent, l.holds
	l.holds = h
	ended := l.ended
	l.mu.Unlock()
	if ended != nil {
		h.cancel(ended) // lost just now
	}
	return h
}

// watchFor registers fell, which is called, at once or later, if the lease ends before h
// is released. fell must not block.
func (l *lease) watchFor(h *Hold, fell func(why error)) {
	l.mu.Lock()
	h.fell = fell
	ended := l.ended
	l.mu.Unlock()
	if ended != nil {
		fell(ended)
	}
}

// take locks the count of the lease. It blocks until it can do so, ctx ends, or the client
// is closed. Only the goroutine that has locked the count may run a script that changes
// it: the scripts set absolute counts, so their order matters.
func (l *lease) take(ctx context.Context) error {
	for {
		l.mu.Lock()
		if !l.busy {
			l.busy = true
			l.mu.Unlock()
			return nil
		}
		if l.turn == nil {
			l.turn = make(chan struct{})
		}
		passed := l.turn
		l.mu.Unlock()
		select {
		case <-passed:
		case <-ctx.Done():
			return contextError(ctx)
		case <-l.client.done:
			return ErrClosed
		}
	}
}

func (l *lease) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = false
	if l.turn != nil {
		close(l.turn)
		l.turn = nil
	}
}

// count returns the number of holds that are left. It must be called with l.mu held.
func (l *lease) count() (n int) {
	for h := l.holds; h != nil; h = h.next {
		n++
	}
	return n
}

// reenter adds a hold to a lease that the owner has. It returns ErrReleased if the lease
// was released before reenter could lock the count.
func (l *lease) reenter(ctx context.Context, k *locker) (h *Hold, err error) {
	doubt, err := l.client.call(ctx, l.client.options.RetryFor, func(ctx context.Context) (err error) {
		h, err = l.attempt(ctx, k)
		return err
	})
	if doubt {
		l.unsettle()
	}
	if err != nil && doubt {
		l.client.background(l.recount)
	}
	return h, err
}

// unsettle notes that a late copy of a script that sets the count may still run. It may
// also make the key last longer than the next holder wants, so the lease is not handed
// off any more.
func (l *lease) unsettle() {
	l.mu.Lock()
	l.late = true
	l.mu.Unlock()
}

// attempt re-enters once. It locks the count for no longer than that, so that other
// goroutines can unlock between attempts.
func (l *lease) attempt(ctx context.Context, k *locker) (*Hold, error) {
	if err := l.take(ctx); err != nil {
		return nil, final(err)
	}
	defer l.pass()
	if err := l.state(); err != nil {
		return nil, final(err)
	}
	if d := k.options.Durability; !d.none() && !d.like(l.options.Durability) {
		return nil, final(invalid("the lease that is to be re-entered has the durability %v; a re-entry cannot change it to %v", l.options.Durability, d))
	}
	l.mu.Lock()
	count, ttl := l.count()+1, k.ttl()
	l.asked(ttl)
	l.mu.Unlock()
	start, seen := time.Now(), k.seen()
	got, err := k.ops.Reenter(ctx, l.id, count, ttl)
	if err != nil {
		return nil, err
	}
	if got.OK {
		if err := k.regressed(seen, got.Token); err != nil {
			l.client.background(l.recount)
			return nil, final(err)
		}
	}
	l.mu.Lock()
	l.token = max(l.token, got.Token)
	if got.OK {
		l.expiry = max(l.expiry, l.client.time(start.Add(ttl)))
	}
	l.mu.Unlock()
	if got.OK {
		if got.OK, err = l.secure(ctx); err != nil {
			l.client.background(l.recount)
			return nil, err
		}
	}
	if !got.OK || !l.client.watchdog.Confirm(&l.watch, start, k.options.trust(ttl)) {
		l.end(l.over())
		return nil, final(l.state())
	}
	h := l.hold(ctx, k.renewed())
	l.keep()
	return h, nil
}

// final wraps an error so that call does not retry it.
func final(err error) error { return &driver.Error{Class: driver.Other, Err: err} }

// recount writes the true count again after a re-entry whose outcome is unknown, so that
// others do not read too high a count.
func (l *lease) recount(ctx context.Context) {
	if l.take(ctx) != nil {
		return
	}
	defer l.pass()
	l.mu.Lock()
	count, ended := l.count(), l.ended
	l.mu.Unlock()
	if count > 0 && ended == nil {
		if doubt, _ := l.client.call(ctx, l.client.options.RetryFor, func(ctx context.Context) error {
			_, err := l.ops.Leave(ctx, l.id, count)
			return err
		}); doubt {
			l.unsettle()
		}
	}
}

// keep makes the watchdog renew the lease as long as some hold requires it.
func (l *lease) keep() {
	l.mu.Lock()
	renew := false
	for h := l.holds; h != nil; h = h.next {
		renew = renew || h.renewed
	}
	l.mu.Unlock()
	l.client.watchdog.SetRenew(&l.watch, renew)
}

// unlock releases h.
func (l *lease) unlock(h *Hold) error {
	rest, err := l.withdraw(h)
	if err != nil {
		return err
	}
	defer l.pass()
	if rest == 0 {
		return l.release()
	}
	ctx := l.whileTrusted()
	defer ctx.Stop()
	return l.leave(ctx, rest)
}

// withdraw removes h from the lease, and returns how many holds are left. If it returns
// no error, it has locked the count for the caller, which has to write it to Redis.
func (l *lease) withdraw(h *Hold) (rest int, err error) {
	ended := l.state()
	l.mu.Lock()
	if h.released {
		l.mu.Unlock()
		return 0, ErrReleased
	}
	h.released = true
	mine := ended == nil && !l.busy // the count can be locked without waiting
	l.busy = l.busy || mine
	l.mu.Unlock()
	h.cancel(ErrReleased)

	for ended == nil && !mine {
		ctx := l.whileTrusted()
		err := l.take(ctx)
		ctx.Stop()
		if err == nil {
			break
		}
		if errors.Is(err, ErrClosed) {
			l.end(ErrClosed)
		}
		ended = l.state() // nil if it was renewed meanwhile
	}
	if ended != nil {
		if l.drop(h) == 0 {
			l.bury(ended)
		}
		return 0, ended
	}
	if rest = l.drop(h); rest > 0 {
		l.keep()
	}
	return rest, nil
}

// whileTrusted returns a context that ends when trust in the lease ends, as known now.
// Soon after that, the key expires by itself.
func (l *lease) whileTrusted() *driver.Deadline {
	return driver.Until(l.client.watchdog.Until(&l.watch))
}

// drop removes h and returns how many holds are left.
func (l *lease) drop(h *Hold) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := &l.holds; *at != nil; at = &(*at).next {
		if *at == h {
			*at, h.next = h.next, nil
			break
		}
	}
	return l.count()
}

// bury removes a lost lease after its last hold was released. If Redis may still have the
// lease, or a part of a group or of several permits, bury releases that in the background:
// now the work that the lease protected is known to have stopped.
func (l *lease) bury(why error) {
	l.owner.remove(l)
	if absent(why) {
		if l.traits.partial {
			l.client.abandon(l.locker, l.id, l.reach())
		}
		return // end has already abandoned a lease in doubt
	}
	if _, lost := why.(*LostError); lost || l.doubt && why != ErrReleased { // a lease handed off goes on
		l.client.abandon(l.locker, l.id, l.reach())
	}
}

// reach returns how long the key can last after the last script.
func (l *lease) reach() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most()
}

// most returns the longest TTL that was requested. It must be called with l.mu held.
func (l *lease) most() time.Duration {
	return max(time.Duration(l.longer)*time.Second, l.watch.Terms.TTL)
}

// asking returns the longest TTL that was requested, and the number of holds. A re-entry
// that requests a longer TTL meanwhile changes that number.
func (l *lease) asking() (most time.Duration, count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most(), l.count()
}

// asked notes a TTL that is requested from Redis. It must be called with l.mu held.
func (l *lease) asked(ttl time.Duration) {
	if ttl > l.watch.Terms.TTL {
		l.longer = max(l.longer, uint32((ttl+time.Second-1)/time.Second)) // a year at most
	}
}

// rest returns how long the key must last from now on if it is not renewed.
func (l *lease) rest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.expiry-l.client.time(time.Now()), time.Millisecond)
}

// over returns why a lease that the watchdog does not watch any more has ended, before the
// watchdog has reported it.
func (l *lease) over() error {
	if time.Now().Before(l.client.watchdog.Until(&l.watch)) {
		return &LostError{Reason: LostForced}
	}
	return &LostError{Reason: LostUnreachable}
}

// leave writes the count of the remaining holds.
func (l *lease) leave(ctx context.Context, count int) error {
	ok := false
	doubt, err := l.client.call(ctx, -1, func(ctx context.Context) (err error) {
		ok, err = l.ops.Leave(ctx, l.id, count)
		return err
	})
	if doubt {
		l.unsettle()
	}
	if err != nil {
		return unreleased(err)
	}
	if !ok {
		l.end(&LostError{Reason: LostForced})
		return l.state()
	}
	return nil
}

// unreleased returns the error of an unlock that Redis did not answer, or refused.
func unreleased(err error) error {
	switch driver.ClassOf(err) {
	case driver.NotSent, driver.Unknown, driver.Passing:
		return fmt.Errorf("%w: the lock ends by itself with its lease: %w", ErrUnreachable, err)
	}
	return meaning(err)
}

// release hands the lease off, or releases it in Redis. The caller has locked the count.
func (l *lease) release() error {
	if l.client.relay(l) {
		l.owner.remove(l)
		return nil
	}
	ctx := l.whileTrusted()
	defer ctx.Stop()
	if err := l.retire(); err != nil {
		return err
	}
	released := false
	doubt, err := l.client.call(ctx, -1, func(ctx context.Context) (err error) {
		released, err = l.yield(ctx, l.id, int(l.row))
		return err
	})
	return l.settle(released, doubt, err)
}

// retire stops the renewal of the lease before its release. It fails if the lease is over.
func (l *lease) retire() error {
	if l.client.watchdog.Remove(&l.watch) {
		return nil
	}
	l.end(l.over()) // no effect if the watchdog, or Close, was faster
	ended := l.state()
	l.bury(ended)
	return ended
}

// settle ends a lease that was retired, and returns the error of its release.
func (l *lease) settle(released, doubt bool, err error) error {
	l.owner.remove(l)
	l.end(ErrReleased)
	if l.doubt || (err != nil && !released) {
		l.client.abandon(l.locker, l.id, l.reach())
	}
	switch {
	case err != nil:
		return unreleased(err)
	case !released && doubt:
		return ErrUnknownOutcome
	case !released:
		return l.over()
	}
	return nil
}
