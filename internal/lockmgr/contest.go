package lockmgr

import (
	"context"
	"errors"
	"time"
)

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

func newContest(ctx context.Context, r *request) *contest {
	s := &contest{request: r, w: waiter{client: r.lock.client, owner: r.owner, request: r, wake: make(chan struct{}, 1), within: nestedIn(ctx)}}
	if wanted := r.lock.traits.Wanted; wanted != nil {
		s.w.wants = int32(wanted(r.lock.ops))
	}
	s.sleeper.done, s.sleeper.wake = r.lock.client.done, s.w.wake
	return s
}

// wait blocks until the waiter has the lock or the wait ends. The end of ctx must signal
// the waiter.
func (s *contest) wait(ctx context.Context) (*Hold, error) {
	s.w.within.waitUnder(1)
	err := s.request.unlessOver(ctx, s.sleeper.run(ctx, s))
	s.w.within.waitUnder(-1)
	s.leave(&s.w)
	return s.hold, err
}

// unlessOver returns err. If err is errEnded, it returns why the wait has ended.
func (r *request) unlessOver(ctx context.Context, err error) error {
	if errors.Is(err, errEnded) {
		return r.gaveUp(ctx, nil)
	}
	return err
}

// step does all that the waiter can do now, and returns how long it may sleep afterwards.
func (s *contest) step(ctx context.Context, why cause) (d time.Duration, err error) {
	if why == started && s.refused != nil { // it asked a moment ago, before it queued
		why = asked
	}
	for {
		if s.hold, err = s.reenter(ctx); !errors.Is(err, errNoHold) {
			return 0, err
		}
		if err = s.observe(why); err != nil {
			return 0, err
		}
		var now time.Time
		if !s.view.notBefore.IsZero() { // else it does not matter
			now = time.Now()
		}
		do := decide(&s.view, now)
		if do < askFirst {
			return s.prepareSleep(do)
		}
		if why, err = s.act(ctx, do); !errors.Is(err, errNoHold) {
			return 0, err
		}
	}
}

// observe updates s.view.
func (s *contest) observe(why cause) error {
	v := &s.view
	if s.w.see(v) != nil {
		if err := s.w.heedCycle(); err != nil {
			return err
		}
	}
	v.cause = s.paced(why, v.occupancy != unoccupied)
	s.leaves = time.Time{}
	if v.notBefore.After(s.until) {
		s.leaves = v.notBefore
	} else {
		v.notBefore = s.until
	}
	_, past, err := s.admission()
	if past && v.pass == inOrder {
		v.pass = besideOwn
	}
	return err
}

// act performs an action that may lead to a hold. If it does not, why informs decide
// whether there is a reason to ask Redis.
func (s *contest) act(ctx context.Context, do action) (why cause, err error) {
	w := &s.w
	switch why = woken; do {
	case acceptHandoff:
		if s.hold, err = s.acceptHandoff(ctx, w.takeHandoff()); errors.Is(err, errNoHold) {
			s.lock.site().join(w, true) // the lease was lost again
		}
		return why, err
	case acceptGrant:
		s.hold, err = s.acceptGrant(ctx, w)
	case askFirst:
		if !s.prepareTurn(w) {
			return why, errNoHold // another waiter is the first now
		}
		s.yields = s.view.cause <= woken && !s.notified || time.Now().Before(s.leaves)
		s.hold, err = s.askAsFirst(ctx, &s.pace)
		why = asked
	case askBypassing:
		if !w.beginAsking() {
			return why, errNoHold // it was handed a lease
		}
		s.waiter = nil // only the first waiter is granted the lock
		s.hold, err = s.attempt(ctx)
		why = asked
	}
	if err == nil {
		s.lock.site().got(w, int(s.spare))
	}
	w.endAsking()
	return why, err
}

// prepareSleep prepares for a sleep, and returns its length.
func (s *contest) prepareSleep(do action) (d time.Duration, err error) {
	k := s.lock
	spins := k.traits.Pause != nil
	switch do {
	case sleepBehind:
		s.own, s.all = nil, nil
		return parked, errNoHold
	case sleepOccupied:
		return jitter(poll), errNoHold
	case sleepYielding:
		d = max(time.Until(s.view.notBefore), 0)
	case sleepRefused:
		if d = s.patience(); spins {
			d = s.w.spinPause(k.traits.Pause(s.refusals))
			s.refusals++
		}
	}
	if !spins {
		if s.own, s.all, err = s.subscribe(); err != nil {
			return 0, err
		}
	}
	return d, errNoHold
}

// askAsFirst asks Redis as the first waiter of its client.
func (r *request) askAsFirst(ctx context.Context, pace *pacer) (*Hold, error) {
	former := r.refused
	hold, err := r.attempt(ctx)
	switch {
	case err == nil:
		r.turnAnswered(false)
		r.lock.site().admit()
	case errors.Is(err, errNoHold):
		r.turnAnswered(true)
		if changedHands(former, r.refused) {
			pace.genuine()
		}
	default:
		if r.turnFailed(); errors.Is(err, errGranted) {
			err = errNoHold
		}
	}
	return hold, err
}

// leave removes w from the queue, and gives back a lease that w was handed but did not
// accept.
func (r *request) leave(w *waiter) {
	if l := r.lock.site().leave(w); l != nil {
		l.giveBack()
	}
}

// patience returns how long to wait for a notification after a refusal: until the lease
// in the way ends, if that is near.
func (r *request) patience() time.Duration {
	d := jitter(r.lock.site().poll())
	if ttl := r.refused.left(); ttl >= 0 {
		return min(d, ttl+time.Millisecond)
	}
	return d
}

// refusal returns the error for what was in the way at the last attempt, or nil.
func (r *request) refusal() error {
	if r.refused == nil {
		return nil
	}
	return r.refused.asError(r.lock.client.errors).err
}

// changedHands reports whether a lock was released between two refusals: it has
// another holder, or a lease that nobody has renewed.
func changedHands(former, now *refusal) bool {
	if former == nil || now == nil || former.lack != nil || now.lack != nil {
		return false
	}
	return former.by.Owner != now.by.Owner || now.by.TTL > former.by.TTL
}
