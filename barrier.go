package mortise

import (
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/internal/doubt"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/permits"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/waiting"
)

// Barrier makes a number of parties, in any processes, wait for each other:
// none proceeds before all have arrived. Then it can be used again, for the next
// round. It is what java.util.concurrent.CyclicBarrier is in one process;
// Redisson has no counterpart.
//
// All pass, or none: if one of the waiting parties gives up or dies, the others get
// [ErrBroken]. So do parties that arrive later, until [Barrier.Reset], or until
// [Options.TTL] has passed; by then parties that were on their way must have
// learned of it.
//
// A Barrier holds no resources. Its methods are safe for concurrent use. Each
// call of Await is a party of its own, also when several goroutines of one
// client call it.
//
// What it does not guarantee: that an error of one party means an error for the
// others. A party that gives up at the very moment the last one arrives, or does
// not learn of that arrival for as long as its lease lasts, gets an error although
// the others pass. No error means that all have arrived.
type Barrier struct{ meeting }

// Barrier returns the barrier called name for that many parties, from 1 to 1000;
// see [Client.Lock] for names. All must agree on the number. It does no I/O.
func (c *Client) Barrier(name string, parties int) *Barrier {
	return &Barrier{meeting{object: c.object(name), parties: parties}}
}

// With returns the same barrier, with these options for [Barrier.Await].
func (b *Barrier) With(options WaitOptions) *Barrier {
	return &Barrier{meeting{b.object, b.parties, options}}
}

// Await blocks until all parties have arrived, ctx ends, or [WaitOptions.Wait] is over. It
// returns how many had arrived before this one: 0 for exactly one of them, and the number
// of parties less one for the last.
//
// The end of ctx, or of Wait, breaks the barrier for the other waiting parties. So does that of
// the client or the process. The others learn of a dead process when its lease ends,
// [Options.TTL] after its last sign of life.
//
// A party that gives up says so to Redis before Await returns, so that no party that arrives
// after that is let in with it. This takes one round trip after the end of ctx or of Wait. While
// Redis does not answer, Await blocks for [Options.UnlockFor] longer, or for a lease if that is
// shorter; then this party leaves in the background, for as long as its lease may last. Until
// Redis has answered, it counts as waiting for parties of other clients; those of the same
// client wait for that answer.
//
// While it waits, a party asks Redis about once a second, or three times in a
// lease if that is more often, besides receiving notifications.
//
// Errors: [ErrBroken], and then [BrokenError] gives the reason and the party;
// [ErrMissing] if this party has broken it, because others were missing for all of its
// wait, with a [MissingError] that says how many; the error of ctx, with ErrMissing or
// [ErrUnreachable], if that has ended the wait; [ErrWrongKind] if the name holds no barrier, or one for another number
// of parties; [ErrUnreachable] after [Options.RetryFor], and those of every method;
// see the package documentation.
func (b *Barrier) Await(ctx context.Context) (int, error) {
	const op = "await"
	var fate script.Fate
	err := b.core.Client().Run(func() (err error) {
		if err = b.check(ctx); err != nil {
			return err
		}
		fate, err = b.await(ctx)
		return err
	})
	if err != nil {
		return 0, b.fail(op, err)
	}
	return fate.Index, b.outcome(op, fate)
}

// await blocks until the fate of this party is known.
func (b *Barrier) await(ctx context.Context) (script.Fate, error) {
	c := b.core.Client()
	party := c.NewID()
	ctx, cancel := outcome.Within(ctx, b.options.Wait)
	defer cancel()
	var fate script.Fate
	var d doubt.Doubt
	known := false // whether it has arrived
	there := b.parties
	missing := func() error { return b.missing(b.parties-there, false) }
	err := permits.Follow(ctx, &b.core.Object, b.channel(), missing, func() (time.Duration, error) {
		if !known && d.Err() == nil { // a former party of this client must not be counted with this one
			if err := b.core.TakenBack(ctx); err != nil {
				return 0, err
			}
		}
		err := b.core.Operate(ctx, func(ctx context.Context, p script.Publish) (err error) {
			known = known || d.Longer(remembered)
			return d.Try(func() error {
				fate, err = script.BarrierAwait(ctx, c.Config().Driver, b.script(p), party, known)
				return err
			})
		})
		if err == nil {
			known, there = true, fate.There
		}
		if fate.Over {
			return -1, err
		}
		return b.tick(), err
	})
	if err != nil && (known || d.Err() != nil) && !errors.Is(err, ErrWrongKind) { // else it has not arrived
		b.depart(func(ctx context.Context) error {
			return script.BarrierLeave(ctx, c.Config().Driver, b.script(c.Conn().Publish()), party)
		})
	}
	return fate, err
}

// Reset makes the barrier as new. Waiting parties get [ErrBroken]; later ones wait for
// each other. It blocks for one round trip.
//
// Errors: the error of ctx or [ErrUnreachable], after either of which the barrier may
// or may not be reset, and those of every method; see the package documentation.
func (b *Barrier) Reset(ctx context.Context) error {
	const op = "reset"
	if err := b.check(ctx); err != nil {
		return b.fail(op, err)
	}
	call := b.core.Client().NewID()
	return b.operate(ctx, op, func(ctx context.Context, p script.Publish) error {
		return script.BarrierReset(ctx, b.core.Client().Config().Driver, b.script(p), call)
	})
}

// BrokenReason says why a barrier is broken.
type BrokenReason string

// The reasons for which a barrier is broken.
const (
	// BrokenAbandoned: a party gave up. Its context ended, or its client was closed
	// or could not reach Redis.
	BrokenAbandoned BrokenReason = "left"
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
	case BrokenAbandoned:
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
	options WaitOptions
}

// missing returns the error for a wait in which that many parties were missing, or nil if
// none is known to be.
func (m *meeting) missing(n int, inside bool) error {
	if n <= 0 {
		return nil
	}
	return &MissingError{Missing: n, Of: m.parties, inside: inside}
}

// check returns an error for an invalid number of parties, or if ctx has ended,
// before anything is sent.
func (m *meeting) check(ctx context.Context) error {
	needContext(ctx)
	if m.parties < 1 || m.parties > maxParties {
		return outcome.Invalid("the barrier is for %d parties; it must be between 1 and %d", m.parties, maxParties)
	}
	if ctx.Err() != nil {
		return outcome.ContextError(ctx)
	}
	return outcome.CheckWait(m.options.Wait)
}

func (m *meeting) script(p script.Publish) script.Barrier {
	return script.Barrier{Name: m.core.Key(), Parties: m.parties, Lease: m.core.Client().Config().TTL, Publish: p}
}

func (m *meeting) channel() string { return keyspace.BarrierChannel(m.core.Key()) }

// tick is how often a waiting party renews its lease, and looks again.
func (m *meeting) tick() time.Duration {
	return min(waiting.NextPoll(), m.core.Client().Config().TTL/3)
}

// remembered is how long an unanswered call may be repeated as if it were the
// first: Redis keeps the result of an earlier copy for a minute.
const remembered = 30 * time.Second

// depart runs a script that removes a party that no longer waits. It blocks until Redis has
// answered, or for [Options.UnlockFor]: if the caller went on before, its next party would find
// this one waiting, and could pass with it alone.
func (m *meeting) depart(script func(ctx context.Context) error) {
	m.core.TakeBack(m.core.Client().Config().TTL, script)
}

// departLater is depart in the background, for a party that was let in: nobody is let in with it
// any more.
func (m *meeting) departLater(script func(ctx context.Context) error) {
	m.core.FinishWithin(m.core.Client().Config().TTL, script)
}

// outcome returns the error for the fate of a party, or nil.
func (m *meeting) outcome(op string, f script.Fate) error {
	if f.Why == "" {
		return nil
	}
	return m.fail(op, &BrokenError{Reason: BrokenReason(f.Why), By: f.Who})
}
