package outcome

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// The error of a wait that is over says what it waited for: for another owner, or for Redis. The first waiter of a client
// learns that from Redis, and the others from what it has noted in their queue. What has ended a wait is put into words once, when
// its call returns.

// Poll is how long a waiter relies on notifications before it asks Redis without one.
// A lost message delays a waiter by this much.
const Poll = time.Second

// ErrEnded says that a wait is over: its context has ended, or the client was closed.
var ErrEnded = errors.New("the wait is over")

// WhyEnded returns err, or if the wait has ended, why it has, and what it was for. known is
// that as far as Redis has answered, or nil.
func WhyEnded(ctx context.Context, known, err error) error {
	ended := errors.Is(err, ErrEnded)
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

// waitError is the error for a wait that is over.
type waitError struct {
	end error // of the context, or of the limit
	why error // what was waited for
}

func (e *waitError) Error() string   { return "gave up waiting: " + e.end.Error() + "; " + e.why.Error() }
func (e *waitError) Unwrap() []error { return []error{e.end, e.why} }

func IsWaitError(err error) bool {
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

var (
	errNoAnswer = errors.New("it has not answered")
	errNoTime   = errors.New("there was no time to ask it")
)

// IsCutOff reports whether err is of a wait that ended while Redis was asked, or before it
// could be, and not after a failure.
func IsCutOff(err error) bool { return errors.Is(err, errNoAnswer) || errors.Is(err, errNoTime) }

// Unreachable returns the error for a wait for Redis. failed is the last failure; nil if
// Redis just does not answer.
func Unreachable(failed error) error {
	if failed == nil {
		failed = errNoAnswer
	}
	return notServed(Foreign{failed})
}

// Foreign is an error of a driver that does not match the errors of contexts. Those
// mean that the caller has given up, but the time limit of a connection has them, too.
type Foreign struct{ Err error }

func (e Foreign) Error() string      { return e.Err.Error() }
func (e Foreign) As(target any) bool { return errors.As(e.Err, target) }

func (e Foreign) Is(target error) bool {
	return target != context.DeadlineExceeded && target != context.Canceled && errors.Is(e.Err, target)
}

// Impersonal returns err as one that does not match the errors of contexts, where no caller's
// context has ended.
func Impersonal(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return Foreign{err}
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
		known = Unreachable(nil)
	}
	return &waitError{ContextError(ctx), known}
}

// FailedBefore returns why an operation has failed before its context ended; nil if err is of another one, or it did not.
func FailedBefore(err error) error {
	if asked, ok := errors.AsType[*interruptedError](err); ok && asked.failed {
		return asked.why
	}
	return nil
}

// SilentError says that Redis has not answered for as long as it was waited for.
type SilentError struct{ Patience time.Duration }

func (e SilentError) Error() string {
	return fmt.Sprintf("it has not answered for %v", e.Patience)
}

// InterruptedBy returns the error of an operation that ended with err because ctx did. failed is its last failure for which ctx was
// not to blame, or nil, and took how long its last attempt has waited.
func InterruptedBy(ctx context.Context, failed error, took time.Duration, err error) error {
	return &interruptedError{ContextError(ctx), failed != nil, failed != nil || took >= Poll, Unreachable(failed), err}
}
