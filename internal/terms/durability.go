package terms

import (
	"context"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/internal/outcome"
)

// Durability is how many replicas must have a lease before it counts.
type Durability struct {
	Acks    int // a number, or AcksMajority or AcksAll
	AOF     bool
	Timeout time.Duration
}

// Special values of Durability.Acks.
const (
	AcksMajority = -1
	AcksAll      = -2
)

// DurabilityLack says how many replicas acknowledged a lease.
type DurabilityLack struct {
	Wanted       int
	Acknowledged int
	Unsynced     bool  // the master has not synced its append-only file
	Err          error // why Redis has not answered; nil if it has
}

const defaultAckTimeout = time.Second

// String describes d in words.
func (d Durability) String() string {
	var text string
	switch {
	case d.None():
		return "none"
	case d.Acks == AcksMajority:
		text = "a majority"
	case d.Acks == AcksAll:
		text = "all replicas"
	case d.Acks == 1:
		text = "at least 1 replica"
	default:
		text = fmt.Sprintf("at least %d replicas", d.Acks)
	}
	if d.AOF {
		text += ", synced"
	}
	return fmt.Sprintf("%s, within %v", text, d.Patience())
}

func (d Durability) None() bool { return d.Acks == 0 && !d.AOF }

// Like reports whether d and other are equal except for the timeout.
func (d Durability) Like(other Durability) bool { return d.Acks == other.Acks && d.AOF == other.AOF }

// Counts reports whether d depends on the number of connected replicas.
func (d Durability) Counts() bool { return d.Acks < 0 }

// Wanted returns how many of a master's replicas must acknowledge.
func (d Durability) Wanted(replicas int) int {
	switch d.Acks {
	case AcksMajority:
		return (replicas + 1) / 2
	case AcksAll:
		return replicas
	}
	return d.Acks
}

// Met reports whether that many acknowledgements, and whether the master has synced its file, are enough.
func (d Durability) Met(wanted, acks int, synced bool) bool {
	return acks >= wanted && (synced || !d.AOF)
}

func (d Durability) Patience() time.Duration {
	if d.Timeout == 0 {
		return defaultAckTimeout
	}
	return d.Timeout
}

func (d Durability) validate() error {
	switch {
	case d.Acks < AcksAll:
		return outcome.Invalid("Durability.Acks is %d; use a number of replicas, AcksMajority or AcksAll", d.Acks)
	case d.Timeout != 0 && (d.Timeout < time.Millisecond || d.Timeout > LongestLease):
		return outcome.Invalid("Durability.Timeout is %v; it must be between 1ms and a year", d.Timeout)
	}
	return nil
}

// Limit returns the time until which a renewal whose context is ctx may wait for replicas.
func (d Durability) Limit(ctx context.Context) time.Time {
	limit := time.Now().Add(d.Patience())
	if end, ok := ctx.Deadline(); ok { // the reply must arrive before it
		if early := time.Now().Add(time.Until(end) * 3 / 4); early.Before(limit) {
			limit = early
		}
	}
	return limit
}
