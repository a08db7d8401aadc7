package mortiseotel

import (
	"errors"

	"github.com/mortise-go/mortise"
)

// failures are the values of error.type.
var failures = []struct {
	err  error
	name string
}{
	{mortise.ErrClosed, "closed"}, {mortise.ErrUnreachable, "unreachable"}, {mortise.ErrDenied, "denied"},
	{mortise.ErrNoScripts, "no_scripts"}, {mortise.ErrInvalid, "invalid"}, {mortise.ErrWrongKind, "wrong_kind"}, {mortise.ErrReentry, "reentry"},
	{mortise.ErrNotDurable, "not_durable"}, {mortise.ErrNoQuorum, "no_quorum"},
	{mortise.ErrFenceRegressed, "fence_regressed"}, {mortise.ErrNotSet, "not_set"}, {mortise.ErrLost, "lost"},
}

// failure returns the value of error.type for a call with that outcome; "" if it is no error.
func failure(e *mortise.Event, outcome string) string {
	if outcome != "error" {
		return ""
	}
	for _, known := range failures {
		if errors.Is(e.Err, known.err) {
			return known.name
		}
	}
	return "_OTHER" // as the semantic conventions have it
}
