package outcome

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A wait ends when its context does or, earlier, when its own limit is over.

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

// Lasting returns ctx without limits of waits.
func Lasting(ctx context.Context) context.Context {
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

// IsOverdue reports whether err is of a wait whose own limit is over.
func IsOverdue(err error) bool {
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

// CheckContext returns the error of a wait whose context has ended before Redis was asked,
// and nil if it has not ended.
func CheckContext(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	end := ContextError(ctx)
	if IsOverdue(end) {
		return &waitError{end, Unreachable(errNoTime)}
	}
	return end
}
