package mortise

import (
	"context"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// CountDownLatch lets processes wait until something has been done a number of
// times, the counterpart of Redisson's RCountDownLatch: Java and Go count down,
// and wait for, the same one. It opens when its count reaches zero, and when it is
// deleted or expires; then there is nothing under its name in Redis. So one that
// nobody has set is open: use [CountDownLatch.TrySetCount] first.
//
// A latch should not be set anew under the same name while somebody may still
// wait: one who was on the way out when that happened can find it closed again,
// and then waits for the new count, in Go as in Java.
//
// On a Redis Cluster the name must not contain an opening brace: Redisson wraps
// the channel's name in braces all the same, so that channel and key of
// {order}:42 lie in different slots. It is refused there with [ErrInvalid]. On a
// single server such names work; they are better avoided, for the day on which
// there is a cluster.
//
// A CountDownLatch holds no resources. Its methods are safe for concurrent use.
//
// What it does not guarantee: that everybody who was to count down has, since
// nobody notes who did; and anything if Redis loses the key when it fails over or
// restarts, which opens the latch.
type CountDownLatch struct{ object }

// CountDownLatch returns the latch called name; see [Client.Lock] for names. It
// does no I/O.
func (c *Client) CountDownLatch(name string) *CountDownLatch {
	return &CountDownLatch{object{c, name}}
}

// TrySetCount closes the latch until it has been counted down n times, if it is
// open, and reports whether it did. n must be positive. It may report true with an
// error that matches [ErrDenied]: set, but Redis refused to tell others.
//
// It blocks until ctx ends, or for as long as [Options.RetryFor] says. Errors: that
// of ctx; [ErrUnknownOutcome] if Redis' reply was lost, and nobody can say whether
// the count was set; [ErrWrongKind], [ErrUnreachable], [ErrDenied], [ErrInvalid],
// [ErrClosed].
func (l *CountDownLatch) TrySetCount(ctx context.Context, n int) (set bool, err error) {
	const op = "set count"
	if n < 1 || n > script.MaxNumber {
		return false, &Error{Op: op, Name: l.name, Err: invalid("the count is %d; it must be between 1 and %d", n, script.MaxNumber)}
	}
	err = l.change(ctx, op, func(ctx context.Context, o script.Operation, p script.Publish) (err error) {
		if err := l.together(); err != nil {
			return err
		}
		set, err = script.NumberSet(ctx, l.client.driver, l.name, o, n, keyspace.LatchChannel(l.name), "1", p)
		return err
	})
	return set, err
}

// CountDown counts down by one. At zero the latch opens and those who wait are
// woken; an open one stays open.
//
// It does its work even if ctx has ended, because others wait for it. While Redis
// does not answer it tries again, for [Options.RetryFor], and not much longer than
// two minutes in any case.
//
// Errors: [ErrUnknownOutcome] if Redis' reply was lost, and nobody can say whether
// it was counted; counting again might do so twice. [ErrUnreachable] without it: it
// was not. [ErrDenied] if Redis refused, or opened the latch but did not allow
// waking others, who find out within a second or two; the text says which.
// [ErrWrongKind], [ErrInvalid], [ErrClosed].
func (l *CountDownLatch) CountDown(ctx context.Context) error {
	return l.changeAtLast(ctx, "count down", func(ctx context.Context, o script.Operation, p script.Publish) error {
		if err := l.together(); err != nil {
			return err
		}
		_, _, err := script.LatchCountDown(ctx, l.client.driver, l.name, o, p)
		return err
	})
}

// Count returns how often the latch is to be counted down before it opens: 0 if it
// is open. The number may be out of date when it arrives. Errors: that of ctx,
// [ErrWrongKind], [ErrUnreachable], [ErrDenied], [ErrInvalid], [ErrClosed].
func (l *CountDownLatch) Count(ctx context.Context) (int, error) {
	n, err := l.number(ctx, "count")
	return int(max(n, 0)), err
}

// Wait returns when the latch is open, at once if it is so already. It waits until
// ctx ends, and returns the error of ctx then. Other errors: [ErrWrongKind],
// [ErrUnreachable], [ErrDenied], [ErrInvalid], [ErrClosed].
//
// The opening wakes it. Should that message be lost, or the latch expire, of which
// Redis tells nobody, it finds out within about a second.
func (l *CountDownLatch) Wait(ctx context.Context) error {
	return l.perform(ctx, "wait", func(script.Publish) error {
		if err := l.together(); err != nil {
			return err
		}
		c, p := l.client, place{use: useLatch, name: l.name}
		w := newWaiter(nil)
		c.join(p, w, false)
		defer c.leave(p, w)
		a := &attendance{of: &l.object, place: p, w: w, channel: keyspace.LatchChannel(l.name)}
		a.ask = func() (open bool, err error) {
			c.beholding(p)
			var n int64
			_, err = c.call(ctx, c.options.RetryFor, func(ctx context.Context) (err error) {
				n, err = script.NumberRead(ctx, c.driver, l.name)
				return err
			})
			if err != nil || n > 0 {
				return false, err
			}
			c.letThrough(p)
			return true, nil
		}
		return a.attend(ctx)
	})
}

// Delete opens the latch whatever its count, and reports whether it was closed.
// Those who wait are woken, unless they are Java's: Redisson's await without a time
// limit does not notice. Everything else is as with [CountDownLatch.TrySetCount].
func (l *CountDownLatch) Delete(ctx context.Context) (closed bool, err error) {
	err = l.change(ctx, "delete", func(ctx context.Context, o script.Operation, p script.Publish) (err error) {
		if err := l.together(); err != nil {
			return err
		}
		closed, err = script.NumberDelete(ctx, l.client.driver, l.name, o, keyspace.LatchChannel(l.name), "1", p)
		return err
	})
	return closed, err
}

var useLatch = newUse(class{shared: true})

// together refuses a name whose channel is elsewhere on a cluster than its key.
func (l *CountDownLatch) together() error {
	if l.client.conn.Cluster() && keyspace.Slot(keyspace.LatchChannel(l.name)) != keyspace.Slot(l.name) {
		return final(invalid("on a cluster the name of a latch must not contain braces: " +
			"Redisson's channel for it would lie in another slot"))
	}
	return nil
}

// beholding notes who waits when the head of the queue for p begins to look at a
// latch: for all of them that look counts.
func (c *Client) beholding(p place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := c.queues[p].head; w != nil; w = w.next {
		w.there = true
	}
}

// letThrough ends the wait of those who waited when the head of the queue for p
// began to look.
func (c *Client) letThrough(p place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := c.queues[p].head; w != nil; w = w.next {
		if w.there {
			w.through = true
			w.signal()
		}
	}
}
