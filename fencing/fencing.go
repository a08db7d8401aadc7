// Package fencing keeps stale holders of a lock from doing harm.
//
// A lock in Redis is a lease. A holder that is frozen in the middle of a write finishes the write
// when it wakes, although its lease has ended and another holder has the lock; no lock can prevent
// that. The resource can: every hold of a [github.com/mortise-go/mortise.FencedLock] has a token
// that is larger than all before, and a resource that remembers the newest token it has seen, and
// refuses older ones, is safe from late writers.
//
// The check and the write must be one step, or the freeze can happen in between. This package has
// that step for data in Redis ([Guard]) and for an HTTP service ([Handler]); for an SQL database it
// is a condition of the UPDATE, shown in package sqlexample:
//
//	UPDATE account SET balance = ?, token = ? WHERE id = ? AND token <= ?
//
// A token that is equal to the newest is admitted: its holder writes more than once.
package fencing

import (
	"errors"
	"fmt"
)

// ErrStale says that the resource has seen a newer token, so another holder has had the lock since.
// Nothing was written. errors.As finds a *StaleError.
var ErrStale = errors.New("stale fencing token")

// StaleError says which token was too old. It matches [ErrStale].
type StaleError struct {
	Resource string
	Token    int64
	Newest   int64 // the newest token that the resource has seen; 0 if not known
}

// Error names the stale token, the resource, and the newest token.
func (e *StaleError) Error() string {
	return fmt.Sprintf("token %d for %q is stale: %d has been seen, so another holder has had the lock since, or the counter of its tokens was lost", e.Token, e.Resource, e.Newest)
}

// Is makes a StaleError match ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }
