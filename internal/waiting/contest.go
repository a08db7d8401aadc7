package waiting

import (
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
)

// contest is a request that waits: one waiter in the queue of its client. It is on
// the heap, because there may be many waiters, and their stacks must stay small.
type contest struct {
	Sleeper
	*request
	w        Waiter
	view     view
	refusals int // counted if the waiter pauses instead of listening
	hold     *lease.Hold
}

func newContest(ctx context.Context, r *request) *contest {
	s := &contest{request: r, w: Waiter{client: r.queues(), owner: r.Owner, request: r, Wake: make(chan struct{}, 1), Within: lease.NestedIn(ctx)}}
	if wanted := r.Lock.Traits().Wanted; wanted != nil {
		s.w.Wants = int32(wanted(r.Lock.Ops()))
	}
	s.Sleeper.Done, s.Sleeper.Wake = r.Lock.Client().Done(), s.w.Wake
	return s
}

// wait blocks until the waiter has the lock or the wait ends. The end of ctx must signal
// the waiter.
func (s *contest) wait(ctx context.Context) (*lease.Hold, error) {
	s.w.Within.WaitUnder(1)
	err := s.Sleeper.Run(ctx, s)
	if errors.Is(err, outcome.ErrEnded) {
		s.noteObstacle()
	}
	s.w.Within.WaitUnder(-1)
	s.leave(&s.w)
	return s.hold, err
}

// Step does all that the waiter can do now, and returns how long it may sleep afterwards.
func (s *contest) Step(ctx context.Context, why Cause) (d time.Duration, err error) {
	if why == Started && s.refused != nil { // it asked a moment ago, before it queued
		why = Asked
	}
	for {
		if s.hold, err = s.reenter(ctx); !errors.Is(err, lease.ErrNoHold) {
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
		if why, err = s.act(ctx, do); !errors.Is(err, lease.ErrNoHold) {
			return 0, err
		}
	}
}

// observe updates s.view.
func (s *contest) observe(why Cause) error {
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
func (s *contest) act(ctx context.Context, do action) (why Cause, err error) {
	w := &s.w
	switch why = Woken; do {
	case acceptHandoff:
		if s.hold, err = s.acceptHandoff(ctx, w.takeHandoff()); errors.Is(err, lease.ErrNoHold) {
			SiteOf(s.Lock).Join(w, true) // the lease was lost again
		}
		return why, err
	case acceptGrant:
		s.hold, err = s.acceptGrant(ctx, w)
	case askFirst:
		if !s.prepareTurn(w) {
			return why, lease.ErrNoHold // another waiter is the first now
		}
		s.yields = s.view.cause <= Woken && !s.notified || time.Now().Before(s.leaves)
		s.hold, err = s.askAsFirst(ctx, &s.Pace)
		why = Asked
	case askBypassing:
		if !w.beginAsking() {
			return why, lease.ErrNoHold // it was handed a lease
		}
		s.waiter = nil // only the first waiter is granted the lock
		s.hold, err = s.attempt(ctx)
		why = Asked
	}
	if err == nil {
		SiteOf(s.Lock).Got(w, int(s.spare))
	}
	w.EndAsking()
	return why, err
}

// prepareSleep prepares for a sleep, and returns its length.
func (s *contest) prepareSleep(do action) (d time.Duration, err error) {
	k := s.Lock
	spins := k.Traits().Pause != nil
	switch do {
	case sleepBehind:
		s.Own, s.All = nil, nil
		return parked, lease.ErrNoHold
	case sleepOccupied:
		return Jitter(outcome.Poll), lease.ErrNoHold
	case sleepYielding:
		d = max(time.Until(s.view.notBefore), 0)
	case sleepRefused:
		if d = s.patience(); spins {
			d = s.w.spinPause(k.Traits().Pause(s.refusals))
			s.refusals++
		}
	}
	if !spins {
		if s.Own, s.All, err = s.subscribe(); err != nil {
			return 0, err
		}
	}
	return d, lease.ErrNoHold
}

// askAsFirst asks Redis as the first waiter of its client.
func (r *request) askAsFirst(ctx context.Context, pace *pacer) (*lease.Hold, error) {
	former := r.refused
	hold, err := r.attempt(ctx)
	switch {
	case err == nil:
		r.turnAnswered(false)
		SiteOf(r.Lock).admit()
	case errors.Is(err, lease.ErrNoHold):
		r.turnAnswered(true)
		if changedHands(former, r.refused) {
			pace.genuine()
		}
	default:
		if r.turnFailed(); errors.Is(err, errGranted) {
			err = lease.ErrNoHold
		}
	}
	return hold, err
}

// leave removes w from the queue, and gives back a lease that w was handed but did not
// accept.
func (r *request) leave(w *Waiter) {
	if l := SiteOf(r.Lock).Leave(w); l != nil {
		giveBack(l)
	}
}

// patience returns how long to wait for a notification after a refusal: until the lease
// in the way ends, if that is near.
func (r *request) patience() time.Duration {
	d := Jitter(SiteOf(r.Lock).Poll())
	if ttl := r.refused.Left(); ttl >= 0 {
		return min(d, ttl+time.Millisecond)
	}
	return d
}

// refusal returns the error for what was in the way at the last attempt, or nil.
func (r *request) refusal() error {
	if r.refused == nil {
		return nil
	}
	return r.refused.AsError(r.Lock.Client().Errors()).Err
}

// changedHands reports whether a lock was released between two refusals: it has
// another holder, or a lease that nobody has renewed.
func changedHands(former, now *outcome.Refusal) bool {
	if former == nil || now == nil || former.Lack != nil || now.Lack != nil {
		return false
	}
	return former.By.Owner != now.By.Owner || now.By.TTL > former.By.TTL
}

// reenter adds a hold to a lease that the owner already has.
func (r *request) reenter(ctx context.Context) (*lease.Hold, error) {
	hold, err := r.Request.Reenter(ctx)
	if err != nil && ctx.Err() != nil && r.refused != nil {
		r.known = r.refusal()
	}
	return hold, err
}
