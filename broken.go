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
	// BrokenLeft: a party gave up. Its context ended, or its client was closed
	// or could not reach Redis.
	BrokenLeft BrokenReason = "left"
	// BrokenDied: a party did not renew its lease in time. It was killed, frozen
	// or cut off.
	BrokenDied BrokenReason = "died"
	// BrokenReset: Reset was called.
	BrokenReset BrokenReason = "reset"
	// BrokenLost: Redis no longer knows this party. The barrier's key was
	// deleted, evicted, or lost in a restart or failover; or this party itself
	// was frozen or cut off for too long. The fate of the others is unknown.
	BrokenLost BrokenReason = "lost"
)

// BrokenError says why a barrier is broken. It matches [ErrBroken].
type BrokenError struct {
	Reason BrokenReason
	// By is the id of the party that broke it: the UUID of its client, a colon
	// and a number. Empty for BrokenLost.
	By string
}

// Error says why the barrier is broken, and which party broke it.
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

// maxParties bounds the work of the script that runs when all parties have arrived.
const maxParties = 1000

// meeting is what barriers of both kinds have in common.
type meeting struct {
	object
	parties int
}

// check returns an error for an invalid number of parties, or if ctx has ended,
// before anything is sent.
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

// tick is how often a waiting party renews its lease, and looks again.
func (m *meeting) tick() time.Duration { return min(jitter(poll), m.client.options.Lease/3) }

// remembered is how long an unanswered call may be repeated as if it were the
// first: Redis keeps the result of an earlier copy for a minute.
const remembered = 30 * time.Second

// depart runs a script that removes a party that no longer waits. It runs it in
// the background, so that the caller does not block.
func (m *meeting) depart(script func(ctx context.Context) error) {
	c := m.client
	if !c.background(func(ctx context.Context) { _, _ = c.call(ctx, c.options.Lease, script) }) {
		_ = script(c.lingerer) // the client is closed, but lingers
	}
}

// fail wraps the error of an operation.
func (m *meeting) fail(op string, err error) error { return &Error{Op: op, Name: m.name, Err: err} }

// outcome returns the error for the fate of a party, or nil.
func (m *meeting) outcome(op string, f script.Fate) error {
	if f.Why == "" {
		return nil
	}
	return m.fail(op, &BrokenError{Reason: BrokenReason(f.Why), By: f.Who})
}
