package mortise

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// BrokenReason says why a barrier is broken.
type BrokenReason string

// The reasons for which a barrier is broken.
const (
	// BrokenLeft: a party gave up. Its context ended, its client was closed or
	// could not reach Redis.
	BrokenLeft BrokenReason = "left"
	// BrokenDied: a party showed no life for as long as its lease lasts. It was
	// killed, frozen or cut off.
	BrokenDied BrokenReason = "died"
	// BrokenReset: somebody called Reset.
	BrokenReset BrokenReason = "reset"
	// BrokenLost: Redis knows nothing of this party any more. Its key was
	// deleted, evicted, or lost in a restart or failover; or this party itself
	// was frozen or cut off for too long. What became of the others is unknown.
	BrokenLost BrokenReason = "lost"
)

// BrokenError says why a barrier is broken. It matches [ErrBroken].
type BrokenError struct {
	Reason BrokenReason
	// By is who broke it: the UUID of its client, a colon and a number. Empty
	// for BrokenLost.
	By string
}

// Error says why the barrier is broken, and who broke it.
func (e *BrokenError) Error() string {
	switch e.Reason {
	case BrokenLeft:
		return "the barrier is broken: the party " + readable(e.By) + " gave up"
	case BrokenDied:
		return "the barrier is broken: the party " + readable(e.By) + " died, or was cut off"
	case BrokenReset:
		return "the barrier is broken: " + readable(e.By) + " has reset it"
	case BrokenLost:
		return "the barrier is broken: Redis knows nothing of this party any more"
	}
	return "the barrier is broken: " + string(e.Reason) + " " + readable(e.By)
}

// Is makes a BrokenError match ErrBroken.
func (e *BrokenError) Is(target error) bool { return target == ErrBroken }

// maxParties bounds what one script has to do when all have come.
const maxParties = 1000

// meeting is what barriers of both kinds have in common.
type meeting struct {
	object
	parties int
}

// check refuses what cannot be, before anything is sent.
func (m *meeting) check(ctx context.Context) error {
	if m.parties < 1 || m.parties > maxParties {
		return invalid("the barrier is for %d parties; it must be between 1 and %d", m.parties, maxParties)
	}
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	return nil
}

func (m *meeting) script(p script.Publish) script.Barrier {
	return script.Barrier{Name: m.name, Parties: m.parties, Lease: m.client.options.Lease, Publish: p}
}

func (m *meeting) channel() string { return keyspace.BarrierChannel(m.name) }

// tick is how often a party that waits shows that it lives, and asks.
func (m *meeting) tick() time.Duration { return min(jitter(poll), m.client.options.Lease/3) }

// remembered is how long an unanswered call may be repeated as if it were the
// first: what a copy of it may have led to is kept for a minute in Redis.
const remembered = 30 * time.Second

// depart has a script run that takes a party out which does not wait any more,
// in the background so that nobody has to wait for that.
func (m *meeting) depart(script func(ctx context.Context) error) {
	c := m.client
	if !c.background(func(ctx context.Context) { _, _ = c.call(ctx, c.options.Lease, script) }) {
		_ = script(c.lingerer) // closed, but there is a moment left
	}
}

// fail wraps the error of an operation.
func (m *meeting) fail(op string, err error) error { return &Error{Op: op, Name: m.name, Err: err} }

// outcome is the error for what has become of a party.
func (m *meeting) outcome(op string, f script.Fate) error {
	if f.Why == "" {
		return nil
	}
	return m.fail(op, &BrokenError{Reason: BrokenReason(f.Why), By: f.Who})
}
