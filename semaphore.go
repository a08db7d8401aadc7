package mortise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/permits"
	"github.com/mortise-go/mortise/internal/script"
)

// Semaphore is a number of permits that processes share, the counterpart of
// Redisson's RSemaphore: Java and Go acquire and release permits of the same one. An
// acquisition subtracts from the number and a release adds to it; nothing records
// which process has the permits.
//
// So permits of a process that dies do not come back by themselves, only by
// [Semaphore.AddPermits]. Where that is not acceptable, use a [PermitSemaphore],
// whose permits end with a lease. A process can also release more than it acquired.
//
// A semaphore that was never set has no permits, and a caller waits until it is set:
// use [Semaphore.TrySetPermits] first. [ErrNotSet] distinguishes that case from one where all
// permits are taken. There can be up to 2147483647 permits, as Redisson counts with 32
// bits, and the number can be negative.
//
// Goroutines of one client get permits in the order in which they asked, and waiting
// processes in the order in which they began to wait, however many permits they ask
// for: permits are reserved for the first waiter as long as its process lives. Java
// processes ignore that order. Do not ask for more permits than there can ever be:
// all later waiters wait behind that request.
//
// A Semaphore holds no resources. Its methods are safe for concurrent use.
//
// What it does not guarantee: anything about a name whose key is changed by other
// means, or lost by Redis when it fails over or restarts. A [PermitSemaphore], a
// [CountDownLatch] or a counter of another program under the same name is an integer,
// too, and cannot be told from a semaphore: no [ErrWrongKind], and both change it.
type Semaphore struct {
	object
	options WaitOptions
}

// Semaphore returns the semaphore called name; see [Client.Lock] for names. It
// does no I/O.
func (c *Client) Semaphore(name string) *Semaphore { return &Semaphore{object: c.object(name)} }

// With returns the same semaphore, with these options for Acquire and Do.
func (s *Semaphore) With(options WaitOptions) *Semaphore { return &Semaphore{s.object, options} }

// Acquire acquires n permits, all at once, and blocks until it has them, ctx ends, or
// [WaitOptions.Wait] is over. If it fails it has acquired none; a request that may have
// succeeded although its reply was lost is undone in the background.
//
// Errors: [ErrNoPermits] if there were too few for all of the wait, with a
// [PermitsError] that says how many, and [ErrNotSet] if there was no semaphore;
// [ErrUnreachable] if Redis did not answer; either of them with the error of ctx, if that
// has ended the wait; and those of every method; see the package documentation.
func (s *Semaphore) Acquire(ctx context.Context, n int) error {
	return s.acquire(ctx, "acquire", n, true)
}

// TryAcquire acquires n permits, all at once, if they are available and not reserved for
// other waiters. It does not wait for permits: [ErrNoPermits] says that there were
// too few, [PermitsError] how many, and [ErrNotSet] that there is no semaphore. It does
// retry while Redis cannot serve, see [Options.RetryFor]. Everything else is as with [Semaphore.Acquire].
func (s *Semaphore) TryAcquire(ctx context.Context, n int) error {
	return s.acquire(ctx, "try acquire", n, false)
}

// Do acquires n permits, calls f, and releases them, even if f panics. It waits like
// [Semaphore.Acquire]. It returns the error of f joined with that of the release.
func (s *Semaphore) Do(ctx context.Context, n int, f func(ctx context.Context) error) error {
	needWork(ctx, f)
	if err := s.Acquire(ctx, n); err != nil {
		return err
	}
	return s.work(ctx, n, f)
}

// TryDo is Do if there are n permits. Otherwise it does not call f, and returns false and no error, unless nobody has set the
// semaphore. Done reports whether f was called. It blocks like [Semaphore.TryAcquire].
func (s *Semaphore) TryDo(ctx context.Context, n int, f func(ctx context.Context) error) (done bool, err error) {
	needWork(ctx, f)
	switch err := s.TryAcquire(ctx, n); {
	case isTaken(err):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, s.work(ctx, n, f)
}

// work calls f, and gives n permits back.
func (s *Semaphore) work(ctx context.Context, n int, f func(ctx context.Context) error) (err error) {
	defer func() {
		if rerr := s.Release(ctx, n); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}()
	return f(ctx)
}

// Release adds n permits and wakes waiters. The permits need not have been acquired
// by this process, or at all.
//
// It runs even if ctx has ended, because a request that is over must not keep its
// permits. While Redis does not answer it retries, for [Options.RetryFor], and not
// much longer than two minutes in any case.
//
// Errors: [ErrUnknownOutcome], and those of every method; see the package documentation.
// ErrUnknownOutcome means that Redis' reply was lost, and the permits may have been
// added; releasing them again might add them twice. [ErrUnreachable] without it: they
// were not added. [ErrDenied]: Redis refused, or added them but did not allow waking
// others; the text says which. [ErrInvalid] also if there would be more permits than
// Redisson can count.
func (s *Semaphore) Release(ctx context.Context, n int) error {
	const op = "release"
	if err := s.some(op, n, 1); err != nil {
		return err
	}
	return s.changeDetached(ctx, op, func(ctx context.Context, o script.Operation, p script.Publish) error {
		channel := keyspace.SemaphoreChannel(s.core.Key())
		total, became, err := script.SemaphoreRelease(ctx, s.core.Client().Config().Driver, s.core.Key(), o, n, p, s.core.Client().Conn().TurnCommand(), s.core.ReleaseSerial(channel))
		if became == script.ReleasedLeft {
			s.core.Left(channel)
		}
		return inRange(total, became != script.NotHeld, err)
	})
}

// AddPermits adds n permits and wakes waiters, or takes some away if n is negative,
// even if they are in use: then the number of available ones may become negative.
// Like Redisson it removes a TTL that the key may have.
//
// It blocks until ctx ends, or for as long as [Options.RetryFor] says. Errors are
// those of [Semaphore.Release], and that of ctx.
func (s *Semaphore) AddPermits(ctx context.Context, n int) error {
	const op = "add permits"
	if err := s.some(op, n, -script.MaxNumber); err != nil {
		return err
	}
	return s.change(ctx, op, func(ctx context.Context, o script.Operation, p script.Publish) error {
		total, done, err := script.SemaphoreAdd(ctx, s.core.Client().Config().Driver, s.core.Key(), o, n, p)
		return inRange(total, done, err)
	})
}

// TrySetPermits sets the number of permits if there is no such semaphore yet, and
// reports whether it did. If it reports false, the semaphore keeps the number that it
// had, whatever n is: to change the limit of a program in use, call
// [Semaphore.AddPermits] with the difference, once. It may report true with an error that matches
// [ErrDenied]: the number is set, but Redis refused to wake waiters. Everything else
// is as with [Semaphore.AddPermits].
func (s *Semaphore) TrySetPermits(ctx context.Context, n int) (set bool, err error) {
	const op = "set permits"
	if n != 0 {
		if err := s.some(op, n, 1); err != nil {
			return false, err
		}
	}
	err = s.change(ctx, op, func(ctx context.Context, o script.Operation, p script.Publish) (err error) {
		set, err = script.NumberSet(ctx, s.core.Client().Config().Driver, s.core.Key(), o, n, keyspace.SemaphoreChannel(s.core.Key()), fmt.Sprint(n), p)
		return err
	})
	return set, err
}

// Drain takes all permits that are available and returns how many it took. If the
// number is negative, it returns that number and sets it to 0. It does not reserve
// any for other waiters. Everything else is as with [Semaphore.AddPermits].
func (s *Semaphore) Drain(ctx context.Context) (n int, err error) {
	err = s.change(ctx, "drain", func(ctx context.Context, o script.Operation, _ script.Publish) error {
		drained, err := script.SemaphoreDrain(ctx, s.core.Client().Config().Driver, s.core.Key(), o)
		n = int(drained)
		return err
	})
	return n, err
}

// Available returns how many permits there are: 0 if there is no such semaphore,
// and a negative number if permits in use were taken away. The number may be out of
// date when it arrives. Errors: the error of ctx, and those of every method; see the
// package documentation.
func (s *Semaphore) Available(ctx context.Context) (int, error) {
	n, err := s.number(ctx, "available")
	return int(n), err
}

// Delete deletes the semaphore, and reports whether there was one. Waiters keep
// waiting until it is set again. Permits in use must not be released after that:
// their release would create the semaphore again. Errors are those of
// [Semaphore.AddPermits].
func (s *Semaphore) Delete(ctx context.Context) (deleted bool, err error) {
	err = s.change(ctx, "delete", func(ctx context.Context, o script.Operation, _ script.Publish) (err error) {
		deleted, err = script.NumberDelete(ctx, s.core.Client().Config().Driver, s.core.Key(), o, "", "", script.Silent)
		return err
	})
	return deleted, err
}

// some refuses an invalid number of permits before anything is sent.
func (s *Semaphore) some(op string, n, least int) error {
	if n != 0 && n >= least && n <= script.MaxNumber {
		return nil
	}
	but := ""
	if least < 0 {
		but = ", and not 0"
	}
	return s.fail(op, outcome.Invalid("the number of permits is %d; it must be between %d and %d%s", n, least, script.MaxNumber, but))
}

// inRange returns the error of a change that would have made too many permits.
func inRange(total int64, done bool, err error) error {
	if done || err != nil {
		return err
	}
	return outcome.Final(outcome.Invalid("there would be %d permits, which Redisson cannot count; nothing was changed", total))
}

var useSemaphore = lease.NewUse(lease.Class{Shared: true, Claims: true, Kind: "semaphore"})

// acquisition is one call of Acquire or TryAcquire.
type acquisition struct {
	*Semaphore
	n      int
	op     script.Operation // drawn for the first attempt
	waiter string           // the id that claims permits; empty until it may have claimed some
	doubt  bool             // a copy may have taken permits, or may yet
}

func (s *Semaphore) acquire(ctx context.Context, op string, n int, wait bool) error {
	needContext(ctx)
	if err := s.some(op, n, 1); err != nil {
		return err
	}
	ctx, cancel, err := s.options.within(ctx)
	if err != nil {
		return s.fail(op, err)
	}
	defer cancel()
	return s.fail(op, s.core.Perform(ctx, func(p script.Publish) error {
		if err := outcome.CheckContext(ctx); err != nil {
			return err
		}
		a := &acquisition{Semaphore: s, n: n}
		err := a.run(ctx, wait)
		if err == nil {
			select {
			case <-s.core.Client().Done(): // it could not release them
				a.doubt, err = true, ErrClosed
			default:
				s.core.DropOperation(a.op)
				return nil
			}
		}
		a.undo(p)
		return err
	}))
}

// run blocks until the permits are taken.
func (a *acquisition) run(ctx context.Context, wait bool) error {
	lack, err := a.core.Contend(ctx, useSemaphore, keyspace.SemaphoreChannel(a.core.Key()), a.n, wait, func(queued bool, patience time.Duration) (int, *script.PermitRefusal, error) {
		if queued {
			a.waiter = cmp.Or(a.waiter, a.core.Client().NewID())
		}
		return a.attempt(ctx, patience)
	})
	if lack != nil && err == nil {
		return permitsError(*lack)
	}
	return err
}

// attempt asks Redis once, and returns what is lacking, or how many permits others may take.
func (a *acquisition) attempt(ctx context.Context, patience time.Duration) (spare int, lack *script.PermitRefusal, err error) {
	if a.op.Lane == "" {
		a.op = a.core.DrawOperation()
	}
	ok, why := false, script.PermitRefusal{}
	began := time.Now()
	doubt, err := a.core.Once(ctx, patience, func(within context.Context) (err error) {
		ok, why, err = script.SemaphoreAcquire(within, a.core.Client().Config().Driver, a.core.Key(), a.op, a.n, a.waiter, a.core.Claimant(useSemaphore))
		if err != nil {
			a.core.NoteFailure(ctx, useSemaphore, began, err)
		}
		return err
	})
	a.doubt = a.doubt || doubt
	if ok || err != nil {
		return why.Available, nil, err
	}
	return 0, &why, nil
}

// undo gives back permits that the caller does not know it has, and lets later
// waiters proceed. The lane is free when that is done.
func (a *acquisition) undo(p script.Publish) {
	if a.op.Lane == "" {
		return
	}
	if a.waiter == "" && !a.doubt {
		a.core.DropOperation(a.op)
		return
	}
	a.core.Finish(func(ctx context.Context) {
		// It insists after Close, too: what stays behind has no lease that would end it.
		if a.core.Client().Insist(ctx, permits.Unsure, func(ctx context.Context) error {
			_, err := script.SemaphoreUndo(ctx, a.core.Client().Config().Driver, a.core.Key(), a.op, a.n, a.waiter, a.doubt, p)
			return err
		}) {
			a.core.DropOperation(a.op) // done, or it cannot be done
		}
	})
}
