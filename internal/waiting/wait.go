package waiting

import (
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/internal/dice"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
)

// A client that waits for very many names asks for each less often: it must not keep Redis busy by asking alone. The
// longest poll is half of what a client's place in the turns outlasts its last attempt.
const (
	pollsPerSecond = 5000
	longestPoll    = 5 * time.Second
)

// poll returns how long the first waiter for a name relies on notifications. It must be called with Client.Mu held.
func (qs *Queues) poll() time.Duration {
	return min(max(outcome.Poll, time.Duration(len(qs.queues))*time.Second/pollsPerSecond), longestPoll)
}

// Jitter varies d, so that many waiters do not ask at the same time.
func Jitter(d time.Duration) time.Duration { return d*9/10 + dice.N(d/5) }

// NextPoll returns how long to wait before the next poll.
func NextPoll() time.Duration { return Jitter(outcome.Poll) }

// Lengths of sleeps without a limit.
const (
	UntilWoken time.Duration = -1 // until a wake-up or a notification
	parked     time.Duration = -2 // until a wake-up; the end of the wait must cause one
)

// Sleeper is the one wait loop: it runs the steps of one goroutine between its sleeps.
// A sleep ends with a wake-up from its own process, with a notification from Redis, when
// its time is over, or when the wait ends.
type Sleeper struct {
	Done     <-chan struct{} // closed when the wait ends; nil if only the context ends it
	Wake     <-chan struct{} // nil for a goroutine in no queue
	Own, All <-chan struct{} // notifications, on the client's own channel and on that of all
	timer    *time.Timer
	Pace     pacer
	until    time.Time // no notification causes an attempt before
	leaves   time.Time // others have the first chance until then
}

// stepper has the steps of a goroutine between its sleeps.
type stepper interface {
	// step does what can be done now. If the wait goes on, it returns ErrNoHold, and
	// how long to sleep.
	Step(ctx context.Context, why Cause) (d time.Duration, err error)
}

// Run calls k.step until that does not return ErrNoHold, and returns its error. It
// returns ErrEnded if the wait ends before.
func (s *Sleeper) Run(ctx context.Context, k stepper) error {
	d, err := k.Step(ctx, Started)
	for errors.Is(err, lease.ErrNoHold) {
		var why Cause
		if why, err = s.sleep(ctx, d); err == nil {
			d, err = k.Step(ctx, why)
		}
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	return err
}

// sleep returns what ended it, or ErrEnded.
func (s *Sleeper) sleep(ctx context.Context, d time.Duration) (why Cause, err error) {
	switch {
	case s.over(ctx):
	case d == parked:
		<-s.Wake // takes less stack than a select: there may be many waiters
		why = Woken
	default:
		why = s.listen(ctx, d)
	}
	if s.over(ctx) { // select may have chosen another cause
		return 0, outcome.ErrEnded
	}
	return why, nil
}

// listen sleeps until anything happens, and for d at most.
func (s *Sleeper) listen(ctx context.Context, d time.Duration) Cause {
	var over <-chan time.Time
	if d != UntilWoken {
		over = s.alarm(d)
	}
	select {
	case <-s.Wake:
		return Woken
	case <-s.Own:
		return Notified
	case <-s.All:
		return Notified
	case <-over:
		return Elapsed
	case <-ctx.Done():
	case <-s.Done:
	}
	return Woken
}

// alarm returns a channel that receives after d. It invalidates the former one.
func (s *Sleeper) alarm(d time.Duration) <-chan time.Time {
	if s.timer == nil {
		s.timer = time.NewTimer(d)
	} else {
		s.timer.Reset(d)
	}
	return s.timer.C
}

// paced bounds the attempts that notifications cause. A notification counts, unless the
// lock is left to others at that time. The end of that time counts as well, because a
// message has set it.
func (s *Sleeper) paced(why Cause, occupied bool) Cause {
	if why != Notified && why != Elapsed {
		return why
	}
	now := time.Now()
	switch {
	case why == Notified && !now.Before(s.leaves):
		s.until = s.Pace.until(s.until)
	case why == Elapsed && !s.leaves.IsZero() && !occupied:
		if s.until = s.Pace.until(s.until); now.Before(s.until) {
			return Woken
		}
	}
	return why
}

// over reports whether the wait is over.
func (s *Sleeper) over(ctx context.Context) bool {
	select {
	case <-s.Done:
		return true
	default:
		return ctx.Err() != nil
	}
}
