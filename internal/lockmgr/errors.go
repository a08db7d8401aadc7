package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/script"
)

// The sentinel errors of this package. Package mortise exports and documents them.
var (
	ErrLocked         = errors.New("locked by another owner")
	ErrLost           = errors.New("the lease was lost")
	ErrReleased       = errors.New("released already")
	ErrReentry        = errors.New("held by the same owner already")
	ErrWrongKind      = errors.New("the name is in use for something else")
	ErrClosed         = errors.New("the client is closed")
	ErrInvalid        = errors.New("invalid argument")
	ErrUnreachable    = errors.New("redis cannot be reached or cannot serve")
	ErrDenied         = errors.New("redis denied access")
	ErrNoScripts      = errors.New("this server runs no Lua scripts, of which every lock consists")
	ErrNotDurable     = errors.New("not acknowledged by enough replicas")
	ErrNoQuorum       = errors.New("too few servers answered")
	ErrUnknownOutcome = errors.New("the outcome is unknown")
)

// Errors makes the errors that callers find with [errors.As]. Package mortise defines and
// documents their types.
type Errors interface {
	// Operation makes the error of an operation on the object called name.
	Operation(op, name string, err error) error
	// Held makes the error for a refusal because of a holder.
	Held(by script.Holder) error
	// NoPermits makes the error for a refusal because of a lack of permits.
	NoPermits(lack script.PermitRefusal) error
	// Lost makes the error for the loss of a lease. err is the cause of the
	// reason, or nil.
	Lost(reason LostReason, since time.Time, err error) error
	// FenceRegressed makes the error for a token that is not above one seen before.
	FenceRegressed(key string, seen, drawn int64) error
	// NotDurable makes the error for too few acknowledgements.
	NotDurable(lack DurabilityLack) error
	// ClockJump makes the error for a jump of the clock of a server.
	ClockJump(server string, jump time.Duration) error
	// Revoked makes the error for a holder that was asked to release its lock.
	Revoked(by, reason string) error
	// Deadlock makes the error that names a cycle of waits.
	Deadlock(cycle []CycleWait) error
	// Identify adds what is known of the holder to an error of Held: whether it is client itself, and its record.
	Identify(err error, client string, known func(owner string) *Record)
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

// refusal is why Redis refused a request: because of a holder or, if lack is not nil, for
// lack of permits.
type refusal struct {
	by     script.Holder
	lack   *script.PermitRefusal
	server string // of a Redlock, which refused
}

// left returns the time for which the refusal stands at most, unless prolonged; -1 if
// that is not known.
func (r *refusal) left() time.Duration {
	if r.lack != nil {
		return r.lack.Next
	}
	return r.by.TTL
}

// refusedError is the error of a request that was refused and does not wait.
type refusedError struct {
	refusal
	err error // for callers
}

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// refusalIn returns the error for callers of the refusal that err is about, or nil.
func refusalIn(err error) error {
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return refused.err
	}
	if wait, ok := errors.AsType[*waitError](err); ok && errors.Is(wait.why, ErrLocked) {
		return wait.why
	}
	return nil
}

// asError returns the error for a refusal. Each caller gets an error of its own, to which its call adds
// what is known of the holder; see identify.
func (r *refusal) asError(e Errors) *refusedError {
	var err error
	if r.lack != nil {
		err = e.NoPermits(*r.lack)
	} else {
		err = e.Held(r.by)
	}
	if r.server != "" {
		err = fmt.Errorf("%s: %w", r.server, err)
	}
	return &refusedError{*r, err}
}

// orClosed returns err. If the client was closed meanwhile, the result also matches
// ErrClosed.
func (c *Client) orClosed(err error) error {
	select {
	case <-c.done:
		if !errors.Is(err, ErrClosed) {
			return fmt.Errorf("%w: %w", ErrClosed, err)
		}
	default:
	}
	return err
}

// Because returns the meaning of err for the caller, joined with ctx's error if ctx is
// done, and with ErrClosed if the client was closed meanwhile. It matches the errors of
// contexts only if that of the caller has ended.
func (c *Client) Because(ctx context.Context, err error) error {
	if refused, ok := any(err).(*refusedError); ok {
		err = refused.err
	}
	c.identify(ctx, err)
	err = c.orClosed(err)
	caller := lasting(ctx)
	end := caller.Err()
	switch {
	case end == nil:
		return impersonal(Meaning(err))
	case errors.Is(err, end) && errors.Is(err, context.Cause(caller)):
		return err
	case errors.Is(err, end):
		return fmt.Errorf("%w: %w", err, context.Cause(caller))
	}
	return fmt.Errorf("%w: %w", ContextError(caller), Meaning(err))
}

// Invalid returns an error that matches ErrInvalid.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// unable is ErrUnreachable for a Redis that was reached.
type unable struct{}

func (unable) Error() string        { return "redis cannot serve" }
func (unable) Is(target error) bool { return target == ErrUnreachable }

// notServed wraps an error of a Redis that could not be reached, or that says why it cannot
// serve.
func notServed(err error) error {
	if reason := driver.Reason(err); reason != "" {
		return fmt.Errorf("%w: %s: %w", unable{}, reason, err)
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// Meaning wraps a driver's error in the sentinel for its class.
func Meaning(err error) error {
	var e *driver.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Class {
	case driver.NotSent, driver.Unknown, driver.Passing:
		if errors.Is(err, ErrUnreachable) {
			return err
		}
		return notServed(err)
	case driver.Closed:
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case driver.Denied:
		return fmt.Errorf("%w: %w", ErrDenied, err)
	case driver.Unfit:
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	case driver.NoScripts:
		return fmt.Errorf("%w: %w", ErrNoScripts, err)
	case driver.WrongType:
		return fmt.Errorf("%w: %w", ErrWrongKind, err)
	}
	return err
}
