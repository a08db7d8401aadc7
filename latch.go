package mortise

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
)

// CountDownLatch lets processes wait until something has been done a number of
// times, the counterpart of Redisson's RCountDownLatch: Java and Go count down,
// and wait for, the same one. It opens when its count reaches zero, and when it is
// deleted or expires; then there is nothing under its name in Redis. So a latch that
// was never set is open: Wait returns at once, and CountDown counts nothing, both
// without an error. Call [CountDownLatch.TrySetCount] before the first Wait
// and the first CountDown.
//
// Do not set a latch again under the same name while a caller may still wait: a
// waiter that is about to return when that happens can find it closed again,
// and then waits for the new count, in Go as in Java.
//
// On a Redis Cluster the name must not contain an opening brace: Redisson wraps
// the channel's name in braces all the same, so that channel and key of
// {order}:42 lie in different slots. It is refused there with [ErrInvalid]. On a
// single server such names work, but are best avoided: they do not survive a move
// to a cluster.
//
// A [Semaphore], a [PermitSemaphore] or a counter of another program under the same name
// is an integer, too, and cannot be told from a latch: there is no [ErrWrongKind].
//
// A CountDownLatch holds no resources. Its methods are safe for concurrent use.
//
// What it does not guarantee: that every expected process has counted down, since
// nothing records which did; and anything if Redis loses the key when it fails over
// or restarts, which opens the latch.
type CountDownLatch struct {
	object
	options WaitOptions
}

// CountDownLatch returns the latch called name; see [Client.Lock] for names. It
// does no I/O.
func (c *Client) CountDownLatch(name string) *CountDownLatch {
	return &CountDownLatch{object: c.object(name)}
}

// With returns the same latch, with these options for [CountDownLatch.Wait].
func (l *CountDownLatch) With(options WaitOptions) *CountDownLatch {
	return &CountDownLatch{l.object, options}
}

// TrySetCount closes the latch until it has been counted down n times, if it is
// open, and reports whether it did. n must be positive. It may report true with an
// error that matches [ErrDenied]: it is set, but Redis refused to notify others.
//
// It blocks until ctx ends, or for as long as [Options.RetryFor] says. Errors: that
// of ctx; [ErrUnknownOutcome] if Redis' reply was lost, so that the count may or may not
// be set, and those of every method; see the package documentation.
func (l *CountDownLatch) TrySetCount(ctx context.Context, n int) (set bool, err error) {
	const op = "set count"
	if n < 1 || n > script.MaxNumber {
		return false, l.fail(op, outcome.Invalid("the count is %d; it must be between 1 and %d", n, script.MaxNumber))
	}
	err = l.change(ctx, op, func(ctx context.Context, o script.Operation, p script.Publish) (err error) {
		if err := l.together(); err != nil {
			return err
		}
		set, err = script.NumberSet(ctx, l.core.Client().Config().Driver, l.core.Key(), o, n, keyspace.LatchChannel(l.core.Key()), "1", p)
		return err
	})
	return set, err
}

// CountDown counts down by one. At zero the latch opens and its waiters are
// woken; an open one stays open, and one that was never set does not remember the call.
//
// It runs even if ctx has ended, because other callers wait for it. While Redis
// does not answer it retries, for [Options.RetryFor], and not much longer than
// two minutes in any case.
//
// Errors: [ErrUnknownOutcome], and those of every method; see the package documentation.
// ErrUnknownOutcome means that Redis' reply was lost, and the call may have been counted;
// counting again might do so twice. [ErrUnreachable] without it: it was not. [ErrDenied]:
// Redis refused, or opened the latch but did not allow waking waiters, which find out
// within a second or two; the text says which.
func (l *CountDownLatch) CountDown(ctx context.Context) error {
	return l.changeDetached(ctx, "count down", func(ctx context.Context, o script.Operation, p script.Publish) error {
		if err := l.together(); err != nil {
			return err
		}
		_, _, err := script.LatchCountDown(ctx, l.core.Client().Config().Driver, l.core.Key(), o, p)
		return err
	})
}

// Count returns how many more times the latch must be counted down before it opens: 0
// if it is open. The number may be out of date when it arrives. Errors: that of ctx,
// and those of every method; see the package documentation.
func (l *CountDownLatch) Count(ctx context.Context) (int, error) {
	n, err := l.number(ctx, "count")
	return int(max(n, 0)), err
}

// Wait blocks until the latch is open, ctx ends, or [WaitOptions.Wait] is over. It
// returns at once if the latch is open already, also if it was never set: Redis cannot
// tell the two.
//
// Errors: [ErrMissing] if the latch was closed for all of the wait, with a
// [MissingError] that says how many times it must still be counted down;
// [ErrUnreachable] if Redis did not answer; either of them with the error of ctx, if that
// has ended the wait; and those of every method; see the package documentation.
//
// The opening wakes it. If that message is lost, or the latch expires, which Redis
// does not announce, it finds out within about a second.
func (l *CountDownLatch) Wait(ctx context.Context) error {
	needContext(ctx)
	const op = "wait"
	ctx, cancel, err := l.options.within(ctx)
	if err != nil {
		return l.fail(op, err)
	}
	defer cancel()
	return l.fail(op, l.core.Perform(ctx, func(script.Publish) error {
		if err := l.together(); err != nil {
			return err
		}
		if err := outcome.CheckContext(ctx); err != nil {
			return err
		}
		return l.core.WaitOpen(ctx, useLatch, keyspace.LatchChannel(l.core.Key()), func(patience time.Duration) (missing, err error) { return l.missing(ctx, patience) })
	}))
}

// missing returns what the latch waits for, or nil if it is open.
func (l *CountDownLatch) missing(ctx context.Context, patience time.Duration) (missing, err error) {
	c := l.core.Client()
	var n int64
	began := time.Now()
	err = c.RetryFor(ctx, patience, func(within context.Context) (err error) {
		if n, err = script.NumberRead(within, c.Config().Driver, l.core.Key()); err != nil {
			l.core.NoteFailure(ctx, useLatch, began, err)
		}
		return err
	})
	if err != nil || n <= 0 {
		return nil, err
	}
	return &MissingError{Missing: int(n)}, nil
}

// Delete opens the latch whatever its count, and reports whether it was closed.
// Waiters are woken, except those of Java: Redisson's await without a time
// limit does not notice. Everything else is as with [CountDownLatch.TrySetCount].
func (l *CountDownLatch) Delete(ctx context.Context) (closed bool, err error) {
	err = l.change(ctx, "delete", func(ctx context.Context, o script.Operation, p script.Publish) (err error) {
		if err := l.together(); err != nil {
			return err
		}
		closed, err = script.NumberDelete(ctx, l.core.Client().Config().Driver, l.core.Key(), o, keyspace.LatchChannel(l.core.Key()), "1", p)
		return err
	})
	return closed, err
}

var useLatch = lease.NewUse(lease.Class{Shared: true, Kind: "latch"})

// together refuses a name whose channel is on another slot of a cluster than its key.
func (l *CountDownLatch) together() error {
	if l.core.Client().Conn().Cluster() && keyspace.Slot(keyspace.LatchChannel(l.core.Key())) != keyspace.Slot(l.core.Key()) {
		return outcome.Final(outcome.Invalid("on a cluster the name of a latch must not contain braces: " +
			"Redisson's channel for it would lie in another slot"))
	}
	return nil
}
