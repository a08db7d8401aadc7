package waiting

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
)

// What the goroutines of a client know of what is in the way: the first waiter in a queue learns it from Redis, and notes it for
// the others.

// Note notes in the queue, if there is one, what came of asking Redis: it refused, or it
// failed, or something else is in the way; or nothing is.
func (s Site) Note(refused *outcome.Refusal, why error) {
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	if q := s.queue(); q != nil {
		q.refused, q.why, q.silent = refused, why, 0
	}
}

// NoteFailure notes that Redis does not answer, since began, unless the end of ctx is the reason.
func (s Site) NoteFailure(ctx context.Context, began time.Time, err error) {
	if !outcome.IsUnanswered(err) || lease.Expired(ctx) {
		return
	}
	if errors.Is(err, context.DeadlineExceeded) { // it was cut off
		err = nil
	}
	why := outcome.Unreachable(err)
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	if q := s.queue(); q != nil {
		if q.silent == 0 {
			q.silent = max(s.Queues.Time(began), 1)
		}
		q.refused, q.why = nil, why
	}
}

// heard notes that Redis answers for the place. It must be called with Client.Mu held.
func (s Site) heard() {
	if q := s.queue(); q != nil && q.silent != 0 {
		q.why, q.silent = nil, 0
	}
}

// Patience returns for how long w may still ask, and, if that is no time, the error for that: those who wait one after
// the other wait for Redis together. W is nil for who does not wait.
func (w *Waiter) Patience(c *Queues) (left time.Duration, err error) {
	left = c.Config().RetryFor
	if w == nil || left < 0 {
		return left, nil
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if q := w.in; q != nil && q.silent != 0 {
		if left -= c.Time(time.Now()) - max(q.silent, w.came); left <= 0 {
			return 0, q.why
		}
	}
	return left, nil
}

// noteSilence notes that a waiter has given up before Redis had answered, unless more is
// known.
func (s Site) noteSilence() {
	s.Queues.Mu.Lock()
	defer s.Queues.Mu.Unlock()
	if q := s.queue(); q != nil && q.refused == nil && q.why == nil {
		q.why = outcome.Unreachable(nil)
	}
}

// Obstacle returns the error for what is in the way as far as the goroutines of this client
// know; nil if they do not. wanted is how many permits the caller wants, if any.
func (s Site) Obstacle(wanted int) error {
	c := s.Queues
	c.Mu.Lock()
	defer c.Mu.Unlock()
	q := s.queue()
	if q != nil && q.why != nil {
		return q.why
	}
	if l := c.HeldAt(s.Place); l != nil {
		return c.Errors().Held(l.AsHolder())
	}
	switch _, asks := c.asking[s.Place]; {
	case q != nil && q.refused != nil:
		return q.refused.Of(wanted).AsError(c.Errors()).Err
	case q != nil && q.freed != 0 && wanted == 0 && c.Time(time.Now())-q.freed < outcome.Poll:
		return outcome.ErrLocked // until then; Redis has not been silent for long since
	case asks, q != nil && q.head.isAsking():
		return outcome.Unreachable(nil)
	}
	return nil
}

// wanted returns how many permits r is for; 0 if it is for a lock.
func (r *request) wanted() int {
	if wanted := r.Lock.Traits().Wanted; wanted != nil {
		return wanted(r.Lock.Ops())
	}
	return 0
}

// noteObstacle notes what is in the way when the wait ends, before its waiter leaves the queue, which knows that.
func (r *request) noteObstacle() {
	r.known = cmp.Or(SiteOf(r.Lock).Obstacle(r.wanted()), r.refusal())
}

// ended returns err, or if the wait has ended, why it has, and what it was for. It is the one place where that is put into words.
func (r *request) ended(ctx context.Context, err error) error {
	known := r.known
	if known == nil && errors.Is(err, outcome.ErrEnded) {
		known = outcome.ErrLocked // others have their turn, and it is not known which
	}
	return outcome.WhyEnded(ctx, known, err)
}
