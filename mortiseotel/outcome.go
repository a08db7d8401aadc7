package mortiseotel

import (
	"context"
	"errors"

	"github.com/mortise-go/mortise"
)

// The values of dlock.outcome.
const (
	acquired = "acquired"
	locked   = "locked"
	timeout  = "timeout"
	canceled = "canceled"
	deadlock = "deadlock"
	failed   = "error"
)

// failures are the values of error.type.
var failures = []struct {
	err  error
	name string
}{
	{mortise.ErrClosed, "closed"}, {mortise.ErrUnreachable, "unreachable"}, {mortise.ErrDenied, "denied"},
	{mortise.ErrInvalid, "invalid"}, {mortise.ErrWrongKind, "wrong_kind"}, {mortise.ErrReentry, "reentry"},
	{mortise.ErrNotDurable, "not_durable"}, {mortise.ErrNoQuorum, "no_quorum"},
	{mortise.ErrFenceRegressed, "fence_regressed"}, {mortise.ErrNotSet, "not_set"}, {mortise.ErrLost, "lost"},
}

// outcome says what became of a call; failure is the value of error.type if that is an error.
func outcome(e *mortise.Event) (what, failure string) {
	over := e.Context.Err()
	busy := errors.Is(e.Err, mortise.ErrLocked) || errors.Is(e.Err, mortise.ErrNoPermits)
	switch {
	case e.Type == mortise.EventAcquired:
		return acquired, ""
	case errors.Is(e.Err, mortise.ErrDeadlock):
		return deadlock, ""
	case errors.Is(e.Err, mortise.ErrClosed), errors.Is(e.Err, mortise.ErrNotSet):
	case errors.Is(over, context.Canceled):
		return canceled, ""
	case busy && (e.Queued || over != nil):
		return timeout, ""
	case busy:
		return locked, ""
	case over != nil && errors.Is(e.Err, over) && !errors.Is(e.Err, mortise.ErrUnreachable):
		return timeout, ""
	}
	for _, known := range failures {
		if errors.Is(e.Err, known.err) {
			return failed, known.name
		}
	}
	return failed, "_OTHER" // as the semantic conventions have it
}

// lossOf returns the reason of the loss of a hold, and "" if it was released. A hold whose release is
// the first to notice that it was lost was lost.
func lossOf(e *mortise.Event) string {
	lost, known := errors.AsType[*mortise.LostError](e.Err)
	switch {
	case known && lost != nil:
		return reasonOf(lost.Reason)
	case e.Type != mortise.EventLost && !errors.Is(e.Err, mortise.ErrLost):
		return ""
	case errors.Is(e.Err, mortise.ErrClosed):
		return "closed"
	}
	return "other"
}

// reasonOf returns the reason as one of few texts.
func reasonOf(r mortise.LostReason) string {
	switch r {
	case mortise.LostExpired, mortise.LostTaken, mortise.LostForced, mortise.LostUnreachable:
		return string(r)
	}
	return "other"
}
