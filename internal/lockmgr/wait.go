package lockmgr

import (
	"context"
	"errors"
	"time"
)

// poll is how long a waiter relies on notifications before it asks Redis without one.
// A lost message delays a waiter by this much.
const poll = time.Second

// A client that waits for very many names asks for each less often: it must not keep Redis busy by asking alone. The
// longest poll is half of what a client's place in the turns outlasts its last attempt.
const (
	pollsPerSecond = 5000
	longestPoll    = 5 * time.Second
)

// poll returns how long the first waiter for a name relies on notifications. It must be called with Client.mu held.
func (c *Client) poll() time.Duration {
	return min(max(poll, time.Duration(len(c.queues))*time.Second/pollsPerSecond), longestPoll)
}

// Poll returns how long to wait before the next poll.
func Poll() time.Duration { return jitter(poll) }

// Lengths of sleeps without a limit.
const (
	untilWoken time.Duration = -1 // until a wake-up or a notification
	parked     time.Duration = -2 // until a wake-up; the end of the wait must cause one
)

// sleeper is the one wait loop: it runs the steps of one goroutine between its sleeps.
// A sleep ends with a wake-up from its own process, with a notification from Redis, when
// its time is over, or when the wait ends.
type sleeper struct {
	done     <-chan struct{} // closed when the wait ends; nil if only the context ends it
	wake     <-chan struct{} // nil for a goroutine in no queue
	own, all <-chan struct{} // notifications, on the client's own channel and on that of all
	timer    *time.Timer
	pace     pacer
	until    time.Time // no notification causes an attempt before
	leaves   time.Time // others have the first chance until then
}

// errEnded says that a wait is over: its context has ended, or the client was closed.
var errEnded = errors.New("the wait is over")

// stepper has the steps of a goroutine between its sleeps.
type stepper interface {
	// step does what can be done now. If the wait goes on, it returns errNoHold, and
	// how long to sleep.
	step(ctx context.Context, why cause) (d time.Duration, err error)
}

// run calls k.step until that does not return errNoHold, and returns its error. It
// returns errEnded if the wait ends before.
func (s *sleeper) run(ctx context.Context, k stepper) error {
	d, err := k.step(ctx, started)
	for errors.Is(err, errNoHold) {
		var why cause
		if why, err = s.sleep(ctx, d); err == nil {
			d, err = k.step(ctx, why)
		}
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	return err
}

// sleep returns what ended it, or errEnded.
func (s *sleeper) sleep(ctx context.Context, d time.Duration) (why cause, err error) {
	switch {
	case s.over(ctx):
	case d == parked:
		<-s.wake // takes less stack than a select: there may be many waiters
		why = woken
	default:
		why = s.listen(ctx, d)
	}
	if s.over(ctx) { // select may have chosen another cause
		return 0, errEnded
	}
	return why, nil
}

// listen sleeps until anything happens, and for d at most.
func (s *sleeper) listen(ctx context.Context, d time.Duration) cause {
	var over <-chan time.Time
	if d != untilWoken {
		over = s.alarm(d)
	}
	select {
	case <-s.wake:
		return woken
	case <-s.own:
		return notified
	case <-s.all:
		return notified
	case <-over:
		return elapsed
	case <-ctx.Done():
	case <-s.done:
	}
	return woken
}

// alarm returns a channel that receives after d. It invalidates the former one.
func (s *sleeper) alarm(d time.Duration) <-chan time.Time {
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
func (s *sleeper) paced(why cause, occupied bool) cause {
	if why != notified && why != elapsed {
		return why
	}
	now := time.Now()
	switch {
	case why == notified && !now.Before(s.leaves):
		s.until = s.pace.until(s.until)
	case why == elapsed && !s.leaves.IsZero() && !occupied:
		if s.until = s.pace.until(s.until); now.Before(s.until) {
			return woken
		}
	}
	return why
}

// over reports whether the wait is over.
func (s *sleeper) over(ctx context.Context) bool {
	select {
	case <-s.done:
		return true
	default:
		return ctx.Err() != nil
	}
}

// whyEnded returns err, or if the wait has ended, why it has, and what it was for. known is
// that as far as Redis has answered, or nil.
func whyEnded(ctx context.Context, known, err error) error {
	ended := errors.Is(err, errEnded)
	switch _, asked := errors.AsType[*interruptedError](err); {
	case ended && ctx.Err() == nil:
		return ErrClosed
	case ended:
		return GaveUp(ctx, known, nil)
	case asked && ctx.Err() != nil:
		return GaveUp(ctx, known, err)
	}
	return err
}
