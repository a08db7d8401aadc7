package mortise

import (
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/internal/doubt"
	"github.com/mortise-go/mortise/internal/script"
)

// Barrier makes a number of parties, in any processes, wait for each other:
// none proceeds before all have arrived. Then it can be used again, for the next
// round. It is what java.util.concurrent.CyclicBarrier is in one process;
// Redisson has no counterpart.
//
// All pass, or none: if one of the waiting parties gives up or dies, the others get
// [ErrBroken]. So do parties that arrive later, until [Barrier.Reset], or until
// [Options.Lease] has passed; by then parties that were on their way must have
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
	return &Barrier{meeting{object{c, name}, parties}}
}

// Await blocks until all parties have arrived, or ctx ends. It returns how many had
// arrived before this one: 0 for exactly one of them, and the number of parties
// less one for the last.
//
// The end of ctx breaks the barrier for the other waiting parties. So does that of
// the client or the process. The others learn of a dead process when its lease ends,
// [Options.Lease] after its last sign of life.
//
// While it waits, a party asks Redis about once a second, or three times in a
// lease if that is more often, besides receiving notifications.
//
// Errors: [ErrBroken], and then [BrokenError] gives the reason and the party; the
// error of ctx; [ErrWrongKind] if the name holds no barrier, or one for another number
// of parties; [ErrUnreachable] after [Options.RetryFor], and those of every method;
// see the package documentation.
func (b *Barrier) Await(ctx context.Context) (int, error) {
	const op = "await"
	c := b.client
	if err := c.begin(); err != nil {
		return 0, b.fail(op, err)
	}
	defer c.running.Done()
	if err := b.check(ctx); err != nil {
		return 0, b.fail(op, err)
	}
	party := c.newID()
	var fate script.Fate
	var d doubt.Doubt
	known, sent := false, false
	err := b.follow(ctx, op, b.channel(), func() (time.Duration, error) {
		err := b.operate(ctx, op, func(ctx context.Context, p script.Publish) (err error) {
			sent = true
			known = known || d.Longer(remembered)
			return d.Try(func() error {
				fate, err = script.BarrierAwait(ctx, c.driver, b.script(p), party, known)
				return err
			})
		})
		known = known || err == nil
		if fate.Over {
			return -1, err
		}
		return b.tick(), err
	})
	if err != nil {
		if sent && !errors.Is(err, ErrWrongKind) { // else it has not arrived
			b.depart(func(ctx context.Context) error {
				return script.BarrierLeave(ctx, c.driver, b.script(b.client.conn.Publish()), party)
			})
		}
		return 0, err
	}
	return fate.Index, b.outcome(op, fate)
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
	call := b.client.newID()
	return b.operate(ctx, op, func(ctx context.Context, p script.Publish) error {
		return script.BarrierReset(ctx, b.client.driver, b.script(p), call)
	})
}
