package mortise

import (
	"context"
	"errors"
	"time"
)

// poll is how long a waiter relies on messages before it looks for itself. A
// message can be lost; this is what that costs.
const poll = time.Second

// untilWoken is how long to sleep where only a wake-up or a message ends it.
const untilWoken time.Duration = -1

// sleeper is the one wait loop: it runs what one goroutine does between its sleeps.
// A sleep ends with a wake-up from inside the process, with a message that hints
// at news in Redis, when its time is over, or with the wait itself.
type sleeper struct {
	done     <-chan struct{} // closed when nobody waits any more; nil if the context tells it
	wake     <-chan struct{} // nil for a goroutine in no queue
	tied     bool            // the end of the wait wakes it
	own, all <-chan struct{} // hints: of a channel of its own, and of one for all
	timer    *time.Timer
	pace     pacer
	until    time.Time // no hint makes it ask before
	leaves   time.Time // the first chance to others until then
}

// errEnded says that a wait is over: its context has ended, or the client.
var errEnded = errors.New("the wait is over")

// stepper is what a goroutine does between its sleeps.
type stepper interface {
	// step does what can be done now. It returns errNoHold if that was in vain,
	// and for how long to sleep.
	step(ctx context.Context, why cause) (d time.Duration, err error)
}

// run has k step until that is not in vain, and returns its error, or errEnded.
func (s *sleeper) run(ctx context.Context, k stepper) error {
	d, err := k.step(ctx, started)
	for err == errNoHold {
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
	case s.tied && d == untilWoken && s.own == nil && s.all == nil:
		<-s.wake // to be one of many takes little stack
		why = woken
	default:
		why = s.listen(ctx, d)
	}
	if s.over(ctx) { // of several causes any may be told
		return 0, errEnded
	}
	return why, nil
}

// listen sleeps until anything happens.
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

// alarm returns a channel on which something arrives after d. The former one is
// not used any more.
func (s *sleeper) alarm(d time.Duration) <-chan time.Time {
	if s.timer == nil {
		s.timer = time.NewTimer(d)
	} else {
		s.timer.Reset(d)
	}
	return s.timer.C
}

// paced bounds the attempts that messages cause: a hint counts unless the lock is
// left to others then, and so does the end of that time, which a message has set.
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

// over reports whether a wait for ctx is.
func (s *sleeper) over(ctx context.Context) bool {
	select {
	case <-s.done:
		return true
	default:
		return ctx.Err() != nil
	}
}

// unlessOver returns err, or if that is errEnded, what the wait has ended with.
func (c *Client) unlessOver(ctx context.Context, err error) error {
	switch {
	case err != errEnded:
		return err
	case ctx.Err() != nil:
		return contextError(ctx)
	}
	return ErrClosed
}
