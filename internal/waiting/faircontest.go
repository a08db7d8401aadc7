package waiting

import (
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
)

// fairContest is a request that waits in a queue in Redis.
type fairContest struct {
	Sleeper
	*request
	w       fairWaiter
	queue   *fairQueue // the one that w is in
	ops     fairOps
	channel *hub.Listener // the waiter's own channel; only for the first waiters
	hold    *lease.Hold
}

// waitInRedis blocks until r holds the lock, whose waiters queue in Redis, or gives up. Every
// waiter is in that queue; the first one of this client refreshes the places of all of them.
func (r *request) waitInRedis(ctx context.Context) (*lease.Hold, error) {
	c := r.queues()
	r.ID = c.NewID()
	s := &fairContest{request: r, w: fairWaiter{Waiter: Waiter{client: c, owner: r.Owner, Wake: make(chan struct{}, 1), Within: lease.NestedIn(ctx)}, id: r.ID, of: r}}
	s.w.fair = &s.w
	s.w.until, _ = ctx.Deadline()
	s.ops = fairOps{FairLock: r.Lock.Traits().Queue(r.Lock.Ops()), lock: r.Lock, w: &s.w}
	s.Sleeper.Done, s.Sleeper.Wake = c.Done(), s.w.Wake
	r.queueOps, r.waiter = &s.ops, &s.w.Waiter

	s.join() // before Redis can call the waiter
	s.w.Within.WaitUnder(1)
	err := s.Sleeper.Run(ctx, s)
	if errors.Is(err, outcome.ErrEnded) {
		s.noteObstacle()
	}
	s.w.Within.WaitUnder(-1)
	s.leave()
	return s.hold, err
}

// join adds the waiter to the queue of its client.
func (s *fairContest) join() {
	c := s.Lock.Client()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	SiteOf(s.Lock).enqueue(&s.w.Waiter, false)
	s.queue = s.w.in.fair
	s.queue.join(&s.w)
}

// leave ends the wait. If the waiter does not have the lock, it leaves the queue in Redis.
func (s *fairContest) leave() {
	if s.channel != nil {
		s.channel.Close()
	}
	c := s.Lock.Client()
	c.Mu.Lock()
	s.queue.attempted(&s.w)
	delete(s.queue.waiters, s.w.id)
	since := s.w.since
	c.Mu.Unlock()
	SiteOf(s.Lock).Leave(&s.w.Waiter)
	c.Mu.Lock()
	s.queue.approach()
	c.Mu.Unlock()
	if !s.Leased(s.hold) && s.ops.contact >= unanswered {
		fairLock{s.Lock, s.ops.FairLock}.quit(s.w.id, since, s.Doubt)
		s.Doubt = false // quit resolves it
	}
}

// Step performs all actions that are due for the waiter.
func (s *fairContest) Step(ctx context.Context, why Cause) (time.Duration, error) {
	if s.ops.contact == unasked {
		if err := s.begin(ctx, why); !errors.Is(err, lease.ErrNoHold) || s.ops.contact == unasked {
			return outcome.Poll, err
		}
		why = Asked
		s.Lock.Client().NoteWait(s.Call)
	}
	if err := s.w.heedCycle(); err != nil {
		return 0, err
	}
	for {
		if err := s.try(ctx, why); !errors.Is(err, lease.ErrNoHold) {
			return 0, err
		}
		do, err := s.hear()
		if err != nil {
			return 0, err
		}
		if do != dutyHeartbeat {
			return UntilWoken, lease.ErrNoHold
		}
		if err := s.sendHeartbeat(ctx); err != nil {
			return 0, err
		}
		why = Woken
	}
}

// begin makes the first attempt, once fewer than fairAtOnce waiters of the client
// are making theirs. If those get no reply for long, it does not wait for them:
// otherwise it would learn only after them that Redis is unreachable.
func (s *fairContest) begin(ctx context.Context, why Cause) (err error) {
	if !s.admitted(why) {
		s.hold, err = s.reenter(ctx)
		return err
	}
	if s.hold, err = s.ask(ctx); errors.Is(err, errGranted) {
		err = lease.ErrNoHold
	}
	return err
}

// admitted reports whether the waiter may make its first attempt.
func (s *fairContest) admitted(why Cause) bool {
	c := s.Lock.Client()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if why == Elapsed && s.w.phase == gated {
		s.queue.admitNow(&s.w)
	}
	return s.w.phase == admitted
}

// try makes an attempt if there is a reason to.
func (s *fairContest) try(ctx context.Context, why Cause) (err error) {
	if s.hold, err = s.reenter(ctx); !errors.Is(err, lease.ErrNoHold) {
		return err
	}
	if seen, granted, told := s.news(); granted {
		if s.hold, err = s.confirmGrant(ctx, seen); err == nil {
			s.Call.Came(outcome.HowGranted)
		}
	} else if told || why == Notified {
		if d := s.pauseBefore(); d > 0 && !s.Lock.Client().Sleep(ctx, d) {
			return outcome.ErrEnded
		}
		former := s.refused
		s.hold, err = s.ask(ctx)
		if err == nil || changedHands(former, s.refused) {
			s.genuine()
		}
	}
	if errors.Is(err, errGranted) { // the next step handles the grant
		s.w.Signal()
		err = lease.ErrNoHold
	}
	return err
}

// ask makes an attempt, and records its outcome.
func (s *fairContest) ask(ctx context.Context) (*lease.Hold, error) {
	hold, err := s.attempt(ctx)
	c, f, w, why := s.Lock.Client(), s.queue, &s.w, &s.ops.refusal
	c.Mu.Lock()
	defer c.Mu.Unlock()
	switch {
	case err == nil:
		if why.Came && !s.Doubt && w.phase == placed {
			f.missed()
		}
	case errors.Is(err, lease.ErrNoHold):
		if !w.seen.IsZero() && why.Since != 0 {
			w.dropped++
		}
		w.seen = s.Start
		f.mix(why.Mixed)
		f.scheduleHeartbeat(why.Again)
	}
	f.attempted(w)
	return hold, err
}

// news reports, once, whether Redis has granted the lock to the waiter, or else whether
// the waiter was notified to ask for it. seen is when the waiter was last seen not to have it.
func (s *fairContest) news() (seen time.Time, granted, told bool) {
	c, w := s.Lock.Client(), &s.w
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if w.grant != ungranted {
		w.grant = ungranted
		return w.seen, true, false
	}
	return w.seen, false, w.takeCall()
}

// pauseBefore returns how long to pause before an attempt that a message may have caused:
// any client may publish.
func (s *fairContest) pauseBefore() time.Duration {
	c := s.Lock.Client()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return s.queue.pace.Next(time.Now())
}

// genuine notes that the message that caused the last attempt was true.
func (s *fairContest) genuine() {
	c := s.Lock.Client()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	s.queue.pace.genuine()
}

// fairDuty is what a waiter must do at its position before it sleeps.
type fairDuty uint8

const (
	dutyNone      fairDuty = iota
	dutySubscribe          // to its own channel: without the client's, or with Redisson's threads, it needs that
	dutyHeartbeat          // of the client
)

// hear subscribes to the channels that the waiter's position requires, and returns what
// else it must do there.
func (s *fairContest) hear() (do fairDuty, err error) {
	do, shared := s.settle()
	if do == dutySubscribe {
		s.channel = s.Lock.Client().Hub().Listen(keyspace.FairChannel(s.Lock.Key(), s.ID), SubscribeMode(s.Lock.Client().Conn()))
		s.Own = s.channel.Hints()
		do, shared = s.settle()
	}
	for _, l := range [...]*hub.Listener{s.channel, shared} {
		if l == nil {
			continue
		}
		if err := l.Refused(); err != nil {
			return dutyNone, err
		}
	}
	return do, nil
}

// settle moves the waiter to its position in Redis' order, and returns what it must do
// there. shared is the client's channel; nil if it has none.
func (s *fairContest) settle() (do fairDuty, shared *hub.Listener) {
	c, f := s.Lock.Client(), s.queue
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if f.turn.listener == nil && c.Conn().TurnCommand() != "" {
		f.turn.listener = f.subscribe()
	}
	f.settle(&s.w, s.ops.since)
	shared = f.turn.listener
	switch before := f.before(&s.w); {
	case s.channel == nil && before < fairNear && (shared == nil || f.mixed):
		do = dutySubscribe
	case before == 0 && f.owesHeartbeat():
		do = dutyHeartbeat
	}
	return do, shared
}
