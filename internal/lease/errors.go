package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/terms"
)

// Errors makes the errors that callers find with [errors.As]. Package mortise defines and
// documents their types.
type Errors interface {
	// Operation makes the error of an operation on the object called name.
	Operation(op, name string, err error) error
	outcome.Refusals
	// Lost makes the error for the loss of a lease. err is the cause of the
	// reason, or nil.
	Lost(reason LostReason, since time.Time, err error) error
	// FenceRegressed makes the error for a token that is not above one seen before.
	FenceRegressed(key string, seen, drawn int64) error
	// NotDurable makes the error for too few acknowledgements.
	NotDurable(lack terms.DurabilityLack) error
	// ClockJump makes the error for a jump of the clock of a server.
	ClockJump(server string, jump time.Duration) error
	// Revoked makes the error for a holder that was asked to release its lock.
	Revoked(by, reason string) error
	// Deadlock makes the error that names a cycle of waits.
	Deadlock(cycle []record.CycleWait) error
	// Identify adds what is known of the holder to an error of Held: whether it is client itself, and its record.
	Identify(err error, client string, known func(owner string) *record.Client)
}

// LostReason says why a lease was lost.
type LostReason uint8

// The reasons for which a lease is lost.
const (
	LostExpired     LostReason = iota // its time was over, and it was a lease without renewal
	LostTaken                         // another owner holds the lock in Redis
	LostForced                        // the lock was free in Redis before its time was over
	LostUnreachable                   // Redis did not confirm a renewal in time
)

// String returns the reason as it is recorded.
func (r LostReason) String() string {
	return [...]string{LostExpired: "expired", LostTaken: "taken", LostForced: "forced", LostUnreachable: "unreachable"}[r]
}

// OrClosed returns err. If the client was closed meanwhile, the result also matches
// ErrClosed.
func (c *Client) OrClosed(err error) error {
	select {
	case <-c.done:
		if !errors.Is(err, outcome.ErrClosed) {
			return fmt.Errorf("%w: %w", outcome.ErrClosed, err)
		}
	default:
	}
	return err
}

// Because returns the meaning of err for the caller, joined with ctx's error if ctx is
// done, and with ErrClosed if the client was closed meanwhile. It matches the errors of
// contexts only if that of the caller has ended.
func (c *Client) Because(ctx context.Context, err error) error {
	if refused, ok := any(err).(*outcome.RefusedError); ok {
		err = refused.Err
	}
	if err != nil {
		c.recorder.Identify(ctx, err)
	}
	err = c.OrClosed(err)
	caller := outcome.Lasting(ctx)
	end := caller.Err()
	switch {
	case end == nil:
		return outcome.Impersonal(outcome.Meaning(err))
	case errors.Is(err, end) && errors.Is(err, context.Cause(caller)):
		return err
	case errors.Is(err, end):
		return fmt.Errorf("%w: %w", err, context.Cause(caller))
	}
	return fmt.Errorf("%w: %w", outcome.ContextError(caller), outcome.Meaning(err))
}
