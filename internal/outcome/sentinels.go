package outcome

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mortise-go/mortise/driver"
)

// The sentinel errors of the core. Package mortise exports and documents them.
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

// IsUnanswered reports whether Redis has neither done nor refused what failed with err, so
// that it is worth trying again.
func IsUnanswered(err error) bool {
	switch driver.ClassOf(err) {
	case driver.NotSent, driver.Unknown, driver.Passing:
		return true
	}
	return false
}

// IsSilence reports whether err is of a call that has waited for Redis in vain.
func IsSilence(err error) bool {
	cut := errors.Is(err, ErrNotDurable) && errors.Is(err, context.DeadlineExceeded) // nothing came, from Redis or its replicas
	return cut || errors.Is(Meaning(err), ErrUnreachable)
}

// Final wraps an error so that no call retries it.
func Final(err error) error { return &driver.Error{Class: driver.Other, Err: err} }
