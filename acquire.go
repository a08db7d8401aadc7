package mortise

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/dice"
	"github.com/mortise-go/mortise/internal/script"
)

// request is one call of Lock or TryLock.
type request struct {
	lock  *locker
	seek  ops // replaces the lock's own ops where waiters queue in Redis
	owner *owner
	as    *waiter         // the waiter that asks, if it may be granted the lock meanwhile
	id    string          // of the lease, drawn before the first attempt
	start time.Time       // of the last attempt
	seen  int64           // the highest token that the client had seen then
	doubt bool            // the outcome of an attempt is unknown
	used  bool            // there is a lease with that id
	turn  string          // the id of the client's turn, if it asks as the head of its queue
	told  bool            // it asks because the client was notified that the lock is free
	alone bool            // no other request can act for the owner yet
	claim bool            // a refused attempt leaves a claim in Redis
	row   int             // how often in a row the lock was granted, if this is a grant
	entry script.Entry    // of the client's turn, made if the attempt is refused
	at    script.Standing // of that turn, after the last refusal
	held  refusal         // what was in the way at the last attempt
}

// errNoHold says that there is no hold yet: Redis has refused the lock, a grant or
// a hand-off was lost again, or the owner has no lease to re-enter. The request
// tries the next way to the lock, or waits.
var errNoHold = errors.New("no hold yet")

// run returns a hold as soon as there is one. If wait is false, it returns a refusal
// instead of waiting.
func (r *request) run(ctx context.Context, wait bool) (*Hold, error) {
	hold, err := r.reenter(ctx)
	if err != errNoHold {
		return hold, err
	}
	if !wait {
		return r.try(ctx)
	}
	if wait := r.lock.traits.wait; wait != nil {
		return wait(ctx, r)
	}
	hold, s, err := r.enqueue(ctx)
	if err != errNoHold {
		return hold, err
	}
	if ctx.Done() == nil {
		return s.wait(ctx)
	}
	stop := context.AfterFunc(ctx, s.w.signal)
	hold, err = s.wait(ctx)
	stop()
	return hold, err
}

// try asks once.
func (r *request) try(ctx context.Context) (*Hold, error) {
	hold, err := r.attempt(ctx)
	if err == errNoHold { // another request of the same owner may have been faster
		hold, err = r.reenter(ctx)
	}
	if err == errNoHold {
		err = r.held
	}
	return hold, err
}

// enqueue acquires the lock if it is free and no goroutine of this client waits for it.
// Otherwise it returns errNoHold, and the contest whose waiter is in the queue.
func (r *request) enqueue(ctx context.Context) (hold *Hold, s *contest, err error) {
	c, p := r.lock.client, r.lock.place
	if !c.listens(r.lock) { // else it is busy, and a turn costs no more than an attempt
		if hold, err = r.bypass(ctx); err != errNoHold {
			return hold, nil, err
		}
		if c.claim(p) {
			return r.claimed(ctx)
		}
	}
	s = newContest(r)
	c.join(p, &s.w, false)
	return nil, s, errNoHold
}

// bypass asks at once if the owner need not queue.
func (r *request) bypass(ctx context.Context) (*Hold, error) {
	if _, past, err := r.beside(); err != nil || !past {
		return nil, cmp.Or(err, errNoHold)
	}
	return r.attempt(ctx)
}

// claimed asks without a queue. The caller has claimed the place for that.
func (r *request) claimed(ctx context.Context) (hold *Hold, s *contest, err error) {
	c, p := r.lock.client, r.lock.place
	defer c.unclaim(p)
	if hold, err = r.attempt(ctx); err == errNoHold {
		// On a shared place several may ask at once, and none is first: the waiter
		// that listens stays in front.
		s = newContest(r)
		c.join(p, &s.w, !p.shared())
	}
	return hold, s, err
}

// reenter adds a hold to a lease that the owner already has.
func (r *request) reenter(ctx context.Context) (*Hold, error) {
	for {
		var l *lease
		if !r.alone {
			l = r.owner.lease(r.lock.client, r.lock.place)
		}
		if l == nil {
			return nil, errNoHold
		}
		if r.lock.options.NonReentrant {
			if err := l.state(); err != nil && err != ErrReleased {
				return nil, err
			}
			return nil, ErrReentry
		}
		hold, err := l.reenter(ctx, r.lock)
		if !errors.Is(err, ErrReleased) {
			return hold, err
		}
		r.owner.remove(l) // it was released while r waited to change its count
	}
}

// beside returns the scripts with which the owner asks, and whether it need not queue,
// given its other leases. For most kinds of lock those do not matter.
func (r *request) beside() (ask ops, past bool, err error) {
	if r.seek != nil {
		return r.seek, false, nil
	}
	if beside := r.lock.traits.beside; beside != nil {
		return beside(r.lock, r.owner)
	}
	return r.lock.ops, false, nil
}

// errCome ends an attempt of a waiter that was notified of a grant.
var errCome = final(errors.New("the lock was granted to this waiter"))

// attempt asks Redis once. If Redis refuses, r.held says what is in the way. It returns
// errCome for a waiter that was notified of a grant.
func (r *request) attempt(ctx context.Context) (*Hold, error) {
	k := r.lock
	c := k.client
	if r.id == "" {
		r.id = k.newID()
	}
	ask, _, err := r.beside()
	if err != nil {
		return nil, err
	}
	var got script.Grant
	doubt, err := c.callFor(ctx, r.as, c.options.RetryFor, func(ctx context.Context) (err error) {
		if c.hasCome(r.as) {
			return errCome
		}
		r.start, r.seen = time.Now(), k.seen()
		got, err = ask.Acquire(ctx, script.Attempt{ID: r.id, Lease: k.ttl(), Entry: r.entry, Claim: r.claim})
		if r.entry != "" {
			r.at = got.At
		}
		return err
	})
	r.doubt = r.doubt || doubt
	if err != nil {
		if r.held != nil && ctx.Err() != nil {
			err = &waitError{ctx: err, held: r.held}
		}
		return nil, err
	}
	if !got.OK {
		r.held = refused(got)
		return nil, errNoHold
	}
	return r.granted(ctx, got.Token, k.ttl())
}

// refused returns what is in the way of a request that was not granted.
func refused(got script.Grant) refusal {
	if lack := got.Lack; lack != nil {
		return &PermitsError{Wanted: lack.Wanted, Available: lack.Available, Next: lack.Next}
	}
	return &HeldError{Holder: Holder{Owner: got.By.Owner, Count: got.By.Count}, TTL: got.By.TTL}
}

// errLate says that a lock was acquired and released again, because Redis replied after
// the trust in its lease had ended.
var errLate = &driver.Error{Class: driver.Passing, Err: errors.New("the lock was acquired, but the answer came after the time of its lease was over")}

// granted returns a hold of the lease that Redis has given to r, with that TTL.
func (r *request) granted(ctx context.Context, token int64, ttl time.Duration) (*Hold, error) {
	k := r.lock
	l := newLease(r)
	l.token, l.row, l.expiry = token, uint16(min(r.row, math.MaxUint16)), k.client.time(r.start.Add(ttl))
	trust := k.options.trust(ttl)
	err := k.regressed(r.seen, token)
	if time.Since(r.start) >= trust {
		err = errLate
	}
	if err != nil {
		if _, rerr := k.release(ctx, r.id); rerr != nil {
			r.doubt = true // it may still be in Redis
		}
		return nil, err
	}
	if err := r.secure(ctx); err != nil {
		return nil, err
	}
	k.client.watchdog.Add(&l.watch, r.start, trust, k.renewed())
	hold := l.hold(ctx, k.renewed())
	r.owner.add(l) // other requests of the owner may re-enter it from here on
	if !k.client.granted(l, r.alone) {
		l.end(ErrClosed)
		_, _ = k.release(k.client.lingerer, r.id) // else it stays in Redis until its TTL ends
		return nil, ErrClosed
	}
	r.used = true
	return hold, nil
}

// contest is a request that waits: one waiter in the queue of its client. It is on
// the heap, because there may be many waiters, and their stacks must stay small.
type contest struct {
	sleeper
	*request
	w        waiter
	view     view
	refusals int // counted if the waiter pauses instead of listening
	hold     *Hold
}

func newContest(r *request) *contest {
	s := &contest{request: r, w: waiter{owner: r.owner, request: r, wake: make(chan struct{}, 1)}}
	s.sleeper.done, s.sleeper.wake, s.tied = r.lock.client.done, s.w.wake, true
	return s
}

// wait blocks until the waiter has the lock or the wait ends. The end of ctx must signal
// the waiter.
func (s *contest) wait(ctx context.Context) (*Hold, error) {
	err := s.sleeper.run(ctx, s)
	s.leave(&s.w)
	return s.hold, s.request.unlessOver(ctx, err)
}

// unlessOver returns err. If err is errEnded, it returns why the wait has ended.
func (r *request) unlessOver(ctx context.Context, err error) error {
	if err == errEnded {
		return r.ended(ctx)
	}
	return err
}

// step does all that the waiter can do now, and returns how long it may sleep afterwards.
func (s *contest) step(ctx context.Context, why cause) (d time.Duration, err error) {
	if why == started && s.held != nil { // it asked a moment ago, before it queued
		why = asked
	}
	for {
		if s.hold, err = s.reenter(ctx); err != errNoHold {
			return 0, err
		}
		if err = s.look(why); err != nil {
			return 0, err
		}
		var now time.Time
		if !s.view.notBefore.IsZero() { // else it does not matter
			now = time.Now()
		}
		do := decide(&s.view, now)
		if do < askFirst {
			return s.rest(do)
		}
		if why, err = s.act(ctx, do); err != errNoHold {
			return 0, err
		}
	}
}

// look updates s.view.
func (s *contest) look(why cause) (err error) {
	v := &s.view
	s.lock.client.see(&s.w, v)
	v.cause = s.paced(why, v.occupancy != unoccupied)
	s.leaves = time.Time{}
	if v.notBefore.After(s.until) {
		s.leaves = v.notBefore
	} else {
		v.notBefore = s.until
	}
	_, v.bypass, err = s.beside()
	return err
}

// act performs an action that may lead to a hold. If it does not, why tells decide
// whether there is a reason to ask Redis.
func (s *contest) act(ctx context.Context, do action) (why cause, err error) {
	c, w := s.lock.client, &s.w
	switch why = woken; do {
	case acceptHandoff:
		if s.hold, err = s.receive(ctx, c.given(w)); err == errNoHold {
			c.rejoin(s.lock.place, w)
		}
		return why, err
	case acceptGrant:
		s.hold, err = s.come(ctx, w)
	case askFirst:
		if !s.stand(w) {
			return why, errNoHold // another waiter is the first now
		}
		s.hold, err = s.lead(ctx, &s.pace)
		why = asked
	case askBypassing:
		if !c.setBusy(w, true) {
			return why, errNoHold // it was handed a lease
		}
		c.asks(w)
		s.as = nil // only the first waiter is granted the lock
		s.hold, err = s.attempt(ctx)
		why = asked
	}
	c.setBusy(w, false)
	return why, err
}

// rest prepares for a sleep, and returns its length.
func (s *contest) rest(do action) (d time.Duration, err error) {
	k := s.lock
	spins := k.traits.pause != nil
	switch do {
	case sleepBehind:
		s.own, s.all = nil, nil
		return untilWoken, errNoHold
	case sleepOccupied:
		return jitter(poll), errNoHold
	case sleepYielding:
		d = max(time.Until(s.view.notBefore), 0)
	case sleepRefused:
		if d = s.patience(); spins {
			d = k.client.spinPause(&s.w, k.traits.pause(s.refusals))
			s.refusals++
		}
	}
	if !spins {
		if s.own, s.all, err = s.hear(); err != nil {
			return 0, err
		}
	}
	return d, errNoHold
}

// lead asks Redis as the first waiter of its client.
func (r *request) lead(ctx context.Context, pace *pacer) (*Hold, error) {
	r.claim = r.lock.traits.claims
	former := r.held
	hold, err := r.attempt(ctx)
	switch err {
	case nil:
		r.answered(false)
		r.lock.client.admit(r.lock.place)
	case errNoHold:
		r.answered(true)
		if changedHands(former, r.held) {
			pace.genuine()
		}
	default:
		if r.unanswered(); errors.Is(err, errCome) {
			err = errNoHold
		}
	}
	return hold, err
}

// leave removes w from the queue, and gives back a lease that w was handed but did not
// accept.
func (r *request) leave(w *waiter) {
	c := r.lock.client
	if l := c.leave(r.lock.place, w); l != nil {
		c.giveBack(l)
	}
}

// patience returns how long to wait for a notification after a refusal: until the lease
// in the way ends, if that is near.
func (r *request) patience() time.Duration {
	d := jitter(r.lock.client.pollOf(r.lock.place))
	if ttl := r.held.left(); ttl >= 0 {
		return min(d, ttl+time.Millisecond)
	}
	return d
}

// ended returns the error of a wait that is over.
func (r *request) ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return ErrClosed
	}
	return &waitError{ctx: contextError(ctx), held: r.held}
}

// endedBy returns the error of a wait for several locks that is over. by is nil if no
// holder of any of them was seen.
func endedBy(ctx context.Context, by *HeldError) error {
	r := new(request)
	if by != nil {
		r.held = by
	}
	return r.ended(ctx)
}

// jitter varies d, so that many waiters do not ask at the same time.
func jitter(d time.Duration) time.Duration { return d*9/10 + dice.N(d/5) }

// pacer bounds the attempts that notifications can cause: any client may publish.
type pacer struct {
	since time.Time
	count int
}

// At most paceCount attempts are made in a paceWindow, far more than a busy lock needs.
const (
	paceWindow = 100 * time.Millisecond
	paceCount  = 20
)

// next returns how long to wait before the attempt that a notification causes.
func (p *pacer) next(now time.Time) time.Duration { return p.share(now, 1) }

// until returns the instant before which no notification causes an attempt. so is the
// former one, which remains until it has passed.
func (p *pacer) until(so time.Time) time.Time {
	now := time.Now()
	if now.Before(so) {
		return so
	}
	return now.Add(p.next(now))
}

// genuine takes an attempt off the count, after it has shown that its notification was
// true.
func (p *pacer) genuine() { p.count = max(p.count-1, 0) }

// changedHands reports whether a lock was released between two refusals: it has
// another holder, or a lease that nobody has renewed.
func changedHands(former, now refusal) bool {
	was, _ := former.(*HeldError)
	is, _ := now.(*HeldError)
	return was != nil && is != nil && (was.Owner != is.Owner || is.TTL > was.TTL)
}

// share is next for one of n listeners that receive the same notifications. They share
// one bound, but each may ask as often as it does without notifications.
func (p *pacer) share(now time.Time, n int) time.Duration {
	window, most := min(max(paceWindow, paceWindow*time.Duration(n)/paceCount), poll), max(paceCount/n, 1)
	if now.Sub(p.since) >= window {
		p.since, p.count = now, 0
	}
	if p.count >= most {
		p.since, p.count = p.since.Add(window), 0 // the attempt is made then
	}
	p.count++
	return max(p.since.Sub(now), 0)
}
