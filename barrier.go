package mortise

import (
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/internal/doubt"
	"github.com/mortise-go/mortise/internal/script"
)

// Barrier is where a number of parties, in any processes, wait for each other:
// none goes on before all have come. Then it can be used again, for the next
// round. It is what java.util.concurrent.CyclicBarrier is in one process;
// Redisson has nothing like it.
//
// All pass, or none: if one of those who wait gives up or dies, the others are
// told with [ErrBroken]. So are those who come later, until [Barrier.Reset], or
// until [Options.Lease] has passed, when those who were on their way must have
// heard of it.
//
// A Barrier holds no resources. Its methods are safe for concurrent use. Each
// call of Await is a party of its own, also when several goroutines of one
// client call it.
//
// What it does not guarantee: that an error of one party means an error for the
// others. Who gives up in the very moment in which the last one comes, or does
// not hear of it for as long as its lease lasts, gets an error although the
// others pass. No error means that all have come.
type Barrier struct{ meeting }

// Barrier returns the barrier called name for so many parties, from 1 to 1000;
// see [Client.Lock] for names. All must agree on the number. It does no I/O.
func (c *Client) Barrier(name string, parties int) *Barrier {
	return &Barrier{meeting{object{c, name}, parties}}
}

// Await waits until all parties have come, or ctx ends. It returns how many had
// come before this one: 0 for exactly one of them, and the number of parties
// less one for the last.
//
// The end of ctx breaks the barrier for the others who wait. So does that of the
// client or the process. Others learn of a dead process when its lease is over,
// [Options.Lease] after its last sign of life.
//
// While it waits a party asks Redis about once a second, or three times in a
// lease if that is more, besides listening to messages.
//
// Errors: [ErrBroken], and then [BrokenError] says why and by whom; the error of
// ctx; [ErrWrongKind] if what lies under the name is no barrier, or one for
// another number of parties; [ErrUnreachable] after [Options.RetryFor];
// [ErrDenied], [ErrInvalid], [ErrClosed].
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

// Reset makes the barrier as new. Those who wait get [ErrBroken]; those who come
// from now on wait for each other. It blocks for one round trip.
//
// Errors: [ErrWrongKind], [ErrDenied], [ErrInvalid], [ErrClosed]; the error of
// ctx or [ErrUnreachable], in which case the barrier may be reset or not.
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
