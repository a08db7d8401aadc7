package lockmgr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// A wait ends when its context does or, earlier, when its own limit is over. Its error then
// says what it waited for: for another owner, or for Redis. The first waiter of a client
// learns that from Redis, and the others from what it has noted in their queue.

// waitLimit is the context of a wait that has a limit of its own. What is acquired with it
// outlives the limit: the context of a hold descends from that of the caller.
type waitLimit struct {
	context.Context
	caller context.Context
	wait   time.Duration
}

// Within returns a context for waiting for d at most. It returns ctx itself if d is 0.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return ctx, func() {}
	}
	inner, cancel := context.WithTimeout(ctx, d)
	return &waitLimit{inner, ctx, d}, cancel
}

// Rejoin returns held, a context of what was acquired with ctx, with the limit of ctx.
func Rejoin(ctx, held context.Context) (context.Context, context.CancelFunc) {
	l, ok := ctx.(*waitLimit)
	if !ok {
		return held, func() {}
	}
	end, _ := l.Deadline()
	inner, cancel := context.WithDeadline(held, end)
	return &waitLimit{inner, held, l.wait}, cancel
}

// lasting returns ctx without limits of waits.
func lasting(ctx context.Context) context.Context {
	for {
		l, ok := ctx.(*waitLimit)
		if !ok {
			return ctx
		}
		ctx = l.caller
	}
}

// limitError says that the limit of a wait is over. Unlike the end of the caller's context
// it matches no other error.
type limitError struct{ wait time.Duration }

func (e *limitError) Error() string {
	wait := e.wait
	if wait > time.Second {
		wait = wait.Round(time.Millisecond) // it may be what was left of a limit
	}
	return fmt.Sprintf("the wait limit of %v is over", wait)
}

// isOverdue reports whether err is of a wait whose own limit is over.
func isOverdue(err error) bool {
	_, ok := errors.AsType[*limitError](err)
	return ok
}

// CheckWait returns an error for a limit that is not acceptable.
func CheckWait(d time.Duration) error {
	if d < 0 {
		return Invalid("the wait limit is %v; it must be positive, or zero for none", d)
	}
	return nil
}

// ContextError returns the error of the ended ctx; it matches the cause, too.
func ContextError(ctx context.Context) error {
	if l, ok := ctx.(*waitLimit); ok {
		if l.caller.Err() == nil {
			return &limitError{l.wait}
		}
		return ContextError(l.caller)
	}
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// acquireWithin is acquire for a wait with a limit, for other owners or only for Redis.
func (k *Lock) acquireWithin(ctx context.Context, wait, tells bool) (*Hold, error) {
	ctx, cancel := Within(ctx, k.options.Wait)
	defer cancel()
	return k.acquire(ctx, wait, tells)
}

// limited reports whether ctx has the limit of a wait already.
func limited(ctx context.Context) bool {
	_, ok := ctx.(*waitLimit)
	return ok
}

// waitError is the error for a wait that is over.
type waitError struct {
	end error // of the context, or of the limit
	why error // what was waited for
}

func (e *waitError) Error() string   { return "gave up waiting: " + e.end.Error() + "; " + e.why.Error() }
func (e *waitError) Unwrap() []error { return []error{e.end, e.why} }

func isWaitError(err error) bool {
	_, ok := errors.AsType[*waitError](err)
	return ok
}

// interruptedError is the error of an operation whose context ended before Redis had answered.
type interruptedError struct {
	end    error
	failed bool  // it failed before, and was tried again
	silent bool  // it failed, or Redis has not answered for as long as a poll takes
	why    error // matches ErrUnreachable
	last   error // of the last attempt; has the class of the error
}

func (e *interruptedError) Error() string   { return "gave up: " + e.end.Error() + "; " + e.why.Error() }
func (e *interruptedError) Unwrap() []error { return []error{e.end, e.why} }

func (e *interruptedError) As(target any) bool {
	if _, ok := target.(**driver.Error); ok {
		return errors.As(e.last, target)
	}
	return false
}

// interrupted returns the error of an operation that ended with err because ctx did. start
// is when its last attempt began, and failed the last failure for which ctx was not to blame,
// or nil.
func interrupted(ctx context.Context, start time.Time, failed, err error) error {
	if _, own := ctx.(*driver.Deadline); own || ctx.Err() == nil {
		return cmp.Or(failed, err)
	}
	return &interruptedError{ContextError(ctx), failed != nil, failed != nil || time.Since(start) >= poll, unreachable(failed), err}
}

// expired reports whether ctx has ended, or ends right now, so that it may be the cause of
// an error.
func expired(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	end, ok := ctx.Deadline()
	return ok && !time.Now().Before(end)
}

var (
	errNoAnswer = errors.New("it has not answered")
	errNoTime   = errors.New("there was no time to ask it")
)

// isCutOff reports whether err is of a wait that ended while Redis was asked, or before it
// could be, and not after a failure.
func isCutOff(err error) bool { return errors.Is(err, errNoAnswer) || errors.Is(err, errNoTime) }

// unreachable returns the error for a wait for Redis. failed is the last failure; nil if
// Redis just does not answer.
func unreachable(failed error) error {
	if failed == nil {
		failed = errNoAnswer
	}
	return notServed(foreign{failed})
}

// foreign is an error of a driver that does not match the errors of contexts. Those
// mean that the caller has given up, but the time limit of a connection has them, too.
type foreign struct{ err error }

func (e foreign) Error() string      { return e.err.Error() }
func (e foreign) As(target any) bool { return errors.As(e.err, target) }

func (e foreign) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.err, target)
}

// impersonal returns err as one that does not match the errors of contexts, where no caller's
// context has ended.
func impersonal(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return foreign{err}
	}
	return err
}

// GaveUp returns the error of a wait that ended with ctx. known is what was in the way when
// Redis last answered, or nil. err is that of the attempt under way, or nil. An attempt that
// was cut off early says nothing about Redis: what is known counts. If Redis was silent for
// as long as a poll takes, it does not.
func GaveUp(ctx context.Context, known, err error) error {
	asked, ok := errors.AsType[*interruptedError](err)
	switch {
	case ok && (asked.silent || known == nil):
		known = asked.why
	case known == nil:
		known = unreachable(nil)
	}
	return &waitError{ContextError(ctx), known}
}

// gaveUp is GaveUp for a request.
func (r *request) gaveUp(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return ErrClosed
	}
	known := r.lock.site().obstacle(r.wanted())
	if known == nil {
		known = r.refusal()
	}
	if _, asked := errors.AsType[*interruptedError](err); known == nil && !asked {
		known = ErrLocked // others have their turn, and it is not known which
	}
	return GaveUp(ctx, known, err)
}

// note notes in the queue, if there is one, what came of asking Redis: it refused, or it
// failed, or something else is in the way; or nothing is.
func (s site) note(refused *refusal, why error) {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if q := s.queue(); q != nil {
		q.refused, q.why, q.silent = refused, why, 0
	}
}

// NoteFailure notes that Redis does not answer for the object with that use, since began.
func (o *Object) NoteFailure(ctx context.Context, use Use, began time.Time, err error) {
	site{o.client, place{use, o.name}}.noteFailure(ctx, began, err)
}

// noteFailure notes that Redis does not answer, since began, unless the end of ctx is the reason.
func (s site) noteFailure(ctx context.Context, began time.Time, err error) {
	if !isUnanswered(err) || expired(ctx) {
		return
	}
	if errors.Is(err, context.DeadlineExceeded) { // it was cut off
		err = nil
	}
	why := unreachable(err)
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if q := s.queue(); q != nil {
		if q.silent == 0 {
			q.silent = max(s.client.time(began), 1)
		}
		q.refused, q.why = nil, why
	}
}

// heard notes that Redis answers for the place. It must be called with Client.mu held.
func (s site) heard() {
	if q := s.queue(); q != nil && q.silent != 0 {
		q.why, q.silent = nil, 0
	}
}

// patience returns for how long w may still ask, and, if that is no time, the error for that: those who wait one after
// the other wait for Redis together. W is nil for who does not wait.
func (w *waiter) patience(c *Client) (left time.Duration, err error) {
	left = c.config.RetryFor
	if w == nil || left < 0 {
		return left, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := w.in; q != nil && q.silent != 0 {
		if left -= c.time(time.Now()) - max(q.silent, w.came); left <= 0 {
			return 0, q.why
		}
	}
	return left, nil
}

// noteSilence notes that a waiter has given up before Redis had answered, unless more is
// known.
func (s site) noteSilence() {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	if q := s.queue(); q != nil && q.refused == nil && q.why == nil {
		q.why = unreachable(nil)
	}
}

// obstacle returns the error for what is in the way as far as the goroutines of this client
// know; nil if they do not. wanted is how many permits the caller wants, if any.
func (s site) obstacle(wanted int) error {
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	q := s.queue()
	if q != nil && q.why != nil {
		return q.why
	}
	if l := c.held.at(s.place); l != nil {
		return c.errors.Held(l.asHolder())
	}
	switch _, asks := c.asking[s.place]; {
	case q != nil && q.refused != nil:
		return q.refused.of(wanted).asError(c.errors).err
	case q != nil && q.freed != 0 && wanted == 0 && c.time(time.Now())-q.freed < poll:
		return ErrLocked // until then; Redis has not been silent for long since
	case asks, q != nil && q.head.isAsking():
		return unreachable(nil)
	}
	return nil
}

// of returns the refusal of a request for that many permits, if it was for lack of permits.
func (r *refusal) of(wanted int) *refusal {
	if r.lack == nil || r.lack.Wanted == wanted {
		return r
	}
	lack := *r.lack
	lack.Wanted = wanted
	return &refusal{lack: &lack}
}

// wanted returns how many permits r is for; 0 if it is for a lock.
func (r *request) wanted() int {
	if wanted := r.lock.traits.Wanted; wanted != nil {
		return wanted(r.lock.ops)
	}
	return 0
}

// CheckContext returns the error of a wait whose context has ended before Redis was asked,
// and nil if it has not ended.
func CheckContext(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	end := ContextError(ctx)
	if isOverdue(end) {
		return &waitError{end, unreachable(errNoTime)}
	}
	return end
}
