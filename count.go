package mortise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mortise-go/mortise/internal/doubt"
	"github.com/mortise-go/mortise/internal/script"
)

// A number in Redis, such as that of permits or that of a latch, has no owner by which
// Redis could tell a repeat of a script from a new call. So each operation has a lane and
// a serial number. Redis remembers by them, for script.Remembered, what it did.

// draw returns a new operation, in a lane that no other operation of this client uses.
func (c *Client) draw() script.Operation {
	c.mu.Lock()
	defer c.mu.Unlock()
	op := script.Operation{Serial: c.serial.Add(1)}
	if n := len(c.idle); n > 0 {
		op.Lane, c.idle = c.idle[n-1], c.idle[:n-1]
	} else {
		op.Lane = c.id + ":" + strconv.Itoa(c.lanes)
		c.lanes++
	}
	return op
}

// drop ends an operation: other operations may use its lane, and copies that arrive later
// have no effect.
func (c *Client) drop(op script.Operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, op.Lane)
}

// unsure is how long an operation whose reply was lost is tried again. It is half of the
// time that Redis remembers the operation, so that Redis recognizes even a copy that took
// as long to arrive.
const unsure = script.Remembered / 2

// once is call for an operation that Redis remembers.
func (c *Client) once(ctx context.Context, patience time.Duration, op func(context.Context) error) (unknown bool, err error) {
	var d doubt.Doubt
	return c.call(ctx, patience, func(ctx context.Context) error {
		if d.Longer(unsure) {
			return final(fmt.Errorf("%w: Redis may have forgotten by now whether it did it: %w", ErrUnreachable, d.Err()))
		}
		return d.Try(func() error { return op(ctx) })
	})
}

// change runs a script that changes the number, as an operation of its own. If it fails
// in doubt, the error matches ErrUnknownOutcome.
func (o *object) change(ctx context.Context, op string, f func(ctx context.Context, n script.Operation, p script.Publish) error) error {
	return o.perform(ctx, op, func(p script.Publish) error {
		n := o.client.draw()
		defer o.client.drop(n)
		unknown, err := o.client.once(ctx, o.client.options.RetryFor, func(ctx context.Context) error { return f(ctx, n, p) })
		if err == nil || !unknown || errors.Is(err, script.ErrUnheard) {
			return err
		}
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	})
}

// changeAtLast is change for what others wait for: the end of ctx does not stop it. It
// gives up after unsure.
func (o *object) changeAtLast(ctx context.Context, op string, f func(ctx context.Context, n script.Operation, p script.Publish) error) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), unsure, ErrUnreachable)
	defer cancel()
	return o.change(ctx, op, f)
}

// number returns the number, or 0 if there is none.
func (o *object) number(ctx context.Context, op string) (n int64, err error) {
	err = o.operate(ctx, op, func(ctx context.Context, _ script.Publish) (err error) {
		n, err = script.NumberRead(ctx, o.client.driver, o.name)
		return err
	})
	return n, err
}

// attendance is the wait of one goroutine for a number in Redis.
type attendance struct {
	sleeper
	of      *object
	place   place
	w       *waiter
	channel string
	asked   bool                          // it asked just before the wait
	ask     func() (done bool, err error) // reports whether the wait is over
}

// attend waits in the queue for its place until ask reports true, or another waiter has
// let this one through. Only the first waiter in the queue asks: at once unless it asked
// just before, after each notification on the channel, and about once a second.
func (a *attendance) attend(ctx context.Context) error {
	a.sleeper = sleeper{done: a.of.client.done, wake: a.w.wake}
	return a.of.client.unlessOver(ctx, a.sleeper.run(ctx, a))
}

func (a *attendance) step(ctx context.Context, why cause) (time.Duration, error) {
	c := a.of.client
	head, through := c.position(a.place, a.w)
	if through {
		return 0, nil
	}
	if !head {
		return untilWoken, errNoHold
	}
	if why == notified {
		if d := a.pace.next(time.Now()); d > 0 && !c.pause(ctx, d) {
			return 0, errEnded
		}
	}
	if why != started || !a.asked {
		if done, err := a.ask(); done || err != nil {
			return 0, err
		}
	}
	listener := c.listen(a.place, a.channel, a.of.hearing())
	a.own = listener.Hints()
	return jitter(poll), cmp.Or(listener.Refused(), errNoHold)
}

// position reports whether w is the head of its queue, and whether it was let
// through.
func (c *Client) position(p place, w *waiter) (head, through bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queues[p].head == w, w.through
}
