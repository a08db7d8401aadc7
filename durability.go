package mortise

import (
	"fmt"
	"time"

	"github.com/mortise-go/mortise/internal/lockmgr"
)

// Durability is how many replicas must have a lease before it counts: when a
// lock is acquired, when it is re-entered, and when its lease is renewed. A
// master answers before its replicas have the lease; if it dies then, the
// promoted replica does not know the lock.
//
// A lock that is not acknowledged in time is released again, and the call that
// acquired it fails with [ErrNotDurable]. A renewal that is not acknowledged does
// not count: it is retried, and if none counts until the lease is over, the lock
// is lost. A release waits for no replicas: if a failover loses it, the lock
// stays held until its lease is over, which does no other harm. A refused request
// does not wait for replicas either.
//
// Durability costs an additional round trip for each acquisition, and the time
// that replicas need. What it guarantees depends on which replica is promoted,
// see docs/guarantees.md; WAIT is no consensus.
//
// It needs a driver that supports it, as those of mortise do, and the rights to
// WAIT or WAITAOF, and for AcksMajority and AcksAll to INFO.
type Durability struct {
	// Acks is the number of replicas that must have the lease, or one of
	// AcksMajority and AcksAll. Default 0: none. Redisson asks for one, if any
	// replica is connected.
	Acks Acks

	// AOF requires that those replicas, and the master, have synced the lease
	// to their append-only files, so that it survives a loss of power. It
	// needs Redis 7.2 or Valkey, and a master with such a file; elsewhere
	// acquiring fails with ErrInvalid, before anything is written.
	AOF bool

	// Timeout is how long to wait for the replicas. If the lease is trusted
	// for less than that, the timeout is three quarters of what is left. At
	// least 1 ms; default 1 s.
	Timeout time.Duration
}

// Acks is a number of replicas.
type Acks int

const (
	// AcksMajority is the number of replicas that, with the master, is more
	// than half of the master and the replicas connected to it at that time:
	// 1 replica of 1 or 2, 2 of 3 or 4. Without replicas it is 0, so a master
	// that has lost them all goes on. If the number of replicas is known,
	// prefer a fixed Acks.
	AcksMajority Acks = lockmgr.AcksMajority
	// AcksAll is all replicas that are connected to the master at that time,
	// including those that still receive their first copy of the data. A
	// disconnected replica does not count; the master notices that a silent
	// one is gone after repl-timeout, a minute by default. Without replicas it
	// is 0, as above.
	AcksAll Acks = lockmgr.AcksAll
)

// String describes d in words.
func (d Durability) String() string { return d.core().String() }

func (d Durability) core() lockmgr.Durability {
	return lockmgr.Durability{Acks: int(d.Acks), AOF: d.AOF, Timeout: d.Timeout}
}

// NotDurableError says how many replicas acknowledged a lock, and how many were
// required. It matches [ErrNotDurable].
type NotDurableError struct {
	Wanted       int
	Acknowledged int
	// Unsynced is true if Durability.AOF was set, and the master itself did not
	// sync its append-only file in time.
	Unsynced bool
	// Err is set if the time was over before Redis answered at all.
	Err error
}

// Error says how many replicas acknowledged.
func (e *NotDurableError) Error() string {
	text := fmt.Sprintf("%v: %d of %d in time", ErrNotDurable, e.Acknowledged, e.Wanted)
	if e.Unsynced {
		text += ", and the master has not synced it to its append-only file"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *NotDurableError) Unwrap() error { return e.Err }

// Is makes a NotDurableError match ErrNotDurable.
func (e *NotDurableError) Is(target error) bool { return target == ErrNotDurable }
