package mortise

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/doubt"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/permits"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/terms"
)

// PermitSemaphore is a semaphore across processes whose permits have leases, the
// counterpart of Redisson's RPermitExpirableSemaphore: both acquire permits of,
// and wait for, the same one. If the holder of a permit dies, the permit comes back
// by itself at the end of its lease.
//
// The number of permits must be set first, see [PermitSemaphore.TrySetPermits]; until
// then there is none, and a caller waits. [ErrNotSet] distinguishes that case from one where all
// permits are in use. A permit is held by a [Hold], whatever goroutine uses
// it; it has no owner, so acquiring one with the context of another acquires another one.
// To hold several permits, acquire them in one call, see [PermitOptions.Permits]:
// holding some while waiting for more can deadlock.
//
// Goroutines of one client get permits in the order in which they asked, and
// processes of mortise in about that order, so that requests for a few permits do
// not starve a waiter for many. Redisson's clients ignore that order: they acquire what
// is available.
//
// What it does not guarantee, beyond what [Lock] does not: that Redisson's
// clients respect a lease to the millisecond. They compare it with their own
// clocks; one whose clock is ahead takes permits back early, by that much. Nor is a
// [Semaphore], a [CountDownLatch] or a counter of another program under the same name
// detected: it is an integer, too, so there is no [ErrWrongKind], and both change it.
//
// A PermitSemaphore holds no resources. Its methods are safe for concurrent use.
type PermitSemaphore struct {
	object
	options PermitOptions
}

// PermitOptions changes how permits are acquired. The zero value of each field is
// its default.
type PermitOptions struct {
	// Permits is how many permits a hold consists of: it gets all of them or
	// none. From 1 to 1000. Default 1. Do not ask for more than there can ever be
	// without a limit: the other waiters of the client wait behind.
	Permits int

	// TTL is how long the permits last in Redis after their last renewal: when
	// they come back if this process dies. See [LockOptions.TTL]. Default:
	// [Options.TTL]. Redisson does not renew permits.
	TTL time.Duration

	// MaxHold makes the hold last that long and no longer, see
	// [LockOptions.MaxHold]. Permits with a MaxHold that is not longer than TTL
	// are never renewed. Default 0: the watchdog renews them until they are
	// released.
	MaxHold time.Duration

	// Margin, Durability and Wait are those of [LockOptions]; instead of ErrLocked, the
	// error at the end of Wait matches ErrNoPermits.
	Margin     time.Duration
	Durability Durability
	Wait       time.Duration
}

// mostPermits is how many permits a hold can consist of: their ids are part of every
// renewal.
const mostPermits = 1000

// PermitSemaphore returns the permit semaphore called name; see [Client.Lock]
// for names. A name that is only a pair of braces around another one, such
// as {job}, is refused unless [Options.AllowAnyName] is set: Redisson keeps its
// permits under the same key as those of job. It does no I/O.
func (c *Client) PermitSemaphore(name string) *PermitSemaphore {
	return &PermitSemaphore{object: c.object(name)}
}

// With returns the same semaphore, with these options for acquiring permits.
func (s *PermitSemaphore) With(options PermitOptions) *PermitSemaphore {
	return &PermitSemaphore{s.object, options}
}

// Acquire acquires permits, and blocks until it has them, ctx ends, or [PermitOptions.Wait] is over. The returned
// context is derived from ctx. It ends when the hold does: when the permits are
// released, with [Hold.Unlock], or when one of them is lost, with cause [ErrLost],
// before another client can have it. Work that needs the permits should use it. In
// case of an error it is ctx itself.
//
// The end of ctx does not release the permits; only Unlock does.
//
// Errors: [ErrNoPermits] if there were too few for all of the wait, with a
// [PermitsError] that says how many, and [ErrNotSet] if there was no semaphore;
// [ErrUnreachable] if Redis did not answer; either of them with the error of ctx, if that
// has ended the wait; [ErrNotDurable], and those of every method; see the package
// documentation.
func (s *PermitSemaphore) Acquire(ctx context.Context) (*Hold, context.Context, error) {
	return s.locker().enter(ctx, "acquire", true)
}

// TryAcquire acquires permits if enough are available and not reserved for waiters, see
// [PermitSemaphore]. It does not wait for permits: [ErrNoPermits] says that there are
// too few, [PermitsError] how many, and [ErrNotSet] that there is no semaphore. It does
// retry while Redis cannot serve, see [Options.RetryFor]. Everything else is as with
// [PermitSemaphore.Acquire].
func (s *PermitSemaphore) TryAcquire(ctx context.Context) (*Hold, context.Context, error) {
	return s.locker().enter(ctx, "try acquire", false)
}

// Do acquires permits, calls f, and releases the permits, even if f panics. It
// waits like [PermitSemaphore.Acquire], and is otherwise like [Lock.Do].
func (s *PermitSemaphore) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return under(ctx, s.Acquire, f)
}

// TryDo is Do if there is a permit. Otherwise it does not call f, and returns false and no error. Everything else is as
// with [Lock.TryDo] and [PermitSemaphore.TryAcquire].
func (s *PermitSemaphore) TryDo(ctx context.Context, f func(ctx context.Context) error) (done bool, err error) {
	return tryUnder(ctx, s.TryAcquire, f)
}

// TrySetPermits makes the name a semaphore with n permits, unless it is one
// already, and reports whether it did. n must be from 0 to 2147483647, as Java
// counts. If it reports false, the semaphore keeps the number that it had, whatever n
// is: to change the limit of a program in use, call [PermitSemaphore.SetPermits].
//
// If it returns true with an error, that is [ErrDenied] and waiters could not be
// notified. Errors: [ErrWrongKind] also if the name holds anything but a number of permits;
// [ErrUnknownOutcome] if Redis could not be asked again for minutes after its
// reply was lost; [ErrUnreachable], after which it may or may not be set; the error of
// ctx, and those of every method; see the package documentation.
func (s *PermitSemaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	return s.set(ctx, "try set permits", script.PermitTry, n, 0)
}

// SetPermits makes n the number of all permits, including those in use. If more
// than n are in use, none is available until enough have come back: no holder
// loses one. Everything else is as with [PermitSemaphore.TrySetPermits].
func (s *PermitSemaphore) SetPermits(ctx context.Context, n int) error {
	_, err := s.set(ctx, "set permits", script.PermitAll, n, 0)
	return err
}

// AddPermits adds n permits, or removes them if n is negative. It can remove permits
// that are in use: then none is available until enough have come back.
// Everything else is as with [PermitSemaphore.TrySetPermits].
func (s *PermitSemaphore) AddPermits(ctx context.Context, n int) error {
	_, err := s.set(ctx, "add permits", script.PermitAdd, n, -script.MaxNumber)
	return err
}

func (s *PermitSemaphore) set(ctx context.Context, op string, how script.PermitChange, n, least int) (done bool, err error) {
	if n < least || n > script.MaxNumber {
		return false, &Error{Op: op, Name: s.Name(), Err: outcome.Invalid("%d permits; it must be from %d to %d", n, least, script.MaxNumber)}
	}
	err = s.once(ctx, op, func(ctx context.Context, p script.Permits, id string) (err error) {
		done, err = script.PermitSet(ctx, s.core.Client().Config().Driver, p, id, how, n)
		if errors.Is(err, script.ErrTooMany) {
			err = outcome.Final(outcome.Invalid("%v", err))
		}
		return err
	})
	return done, err
}

// Available returns how many permits can be acquired now. It is negative while more are
// in use than the semaphore has. Permits whose lease has ended count as available:
// the next acquisition takes them back.
//
// It asks the master and changes nothing, and so do the following three. The
// answer may be out of date when it arrives. Errors: the error of ctx, and those of
// every method; see the package documentation.
func (s *PermitSemaphore) Available(ctx context.Context) (int, error) {
	state, err := s.look(ctx, "available", 0)
	return state.Available, err
}

// Acquired returns how many permits are in use, in any process.
func (s *PermitSemaphore) Acquired(ctx context.Context) (int, error) {
	state, err := s.look(ctx, "acquired", 0)
	return state.Given, err
}

// Permits returns how many permits there are, available and in use.
func (s *PermitSemaphore) Permits(ctx context.Context) (int, error) {
	state, err := s.look(ctx, "permits", 0)
	return state.Available + state.Given, err
}

// listed is how many permits List returns at most.
const listed = 10000

// List returns the permits that are in use, in any process, in the order in which they
// end, and at most 10,000 of them.
func (s *PermitSemaphore) List(ctx context.Context) ([]Permit, error) {
	state, err := s.look(ctx, "list", listed)
	var permits []Permit
	for _, p := range state.List {
		permits = append(permits, Permit{ID: p.ID, TTL: p.Left})
	}
	return permits, err
}

func (s *PermitSemaphore) look(ctx context.Context, op string, limit int) (state script.PermitState, err error) {
	err = s.operate(ctx, op, func(ctx context.Context, _ script.Publish) (err error) {
		state, err = script.PermitInspect(ctx, s.core.Client().Config().Driver, s.core.Client().Conn().Permits(s.core.Key()), limit)
		return err
	})
	return state, err
}

// UpdateLease makes a permit last for another lease from now on, longer or shorter
// than before, or without limit if length is negative. It reports false if no such
// permit is in use. The id is as [Hold.Permits], [PermitSemaphore.List] and Redisson
// show it.
//
// It is for permits of other clients. A hold of mortise does not learn of it: it
// relies on the lease that it requested itself, and, if the watchdog renews
// it, on that of [Options.TTL] again after the next renewal, within a third of
// it. If the permit has ended by then, the hold is lost.
//
// Errors are those of [PermitSemaphore.TrySetPermits].
func (s *PermitSemaphore) UpdateLease(ctx context.Context, id string, length time.Duration) (done bool, err error) {
	const op = "update lease"
	ids, err := permitIDs(id)
	if err == nil && length >= 0 {
		err = (&terms.Options{MaxHold: length}).Validate(length)
	}
	if err != nil {
		return false, s.fail(op, err)
	}
	err = s.once(ctx, op, func(ctx context.Context, p script.Permits, id string) (err error) {
		done, err = script.PermitExtend(ctx, s.core.Client().Config().Driver, p, id, ids[0], length)
		return err
	})
	return done, err
}

// Release releases permits by their ids, whichever client has them, wakes waiters,
// and returns how many of the permits were in use. It is a tool for operators, and
// for permits that Redisson's clients have handed over: the holder is not asked.
// A hold of mortise that has lost one of its permits that way is lost as a whole,
// and learns of it at the next renewal, within a third of its lease; one with a
// fixed lease at its end or at Unlock. To release a hold, use
// [Hold.Unlock].
//
// Ids that are unknown, or whose lease has ended, do not count. At most 1000 ids
// are accepted. If it returns a number above 0 with an error, that is [ErrDenied]
// and waiters could not be notified. All other errors are those of
// [PermitSemaphore.TrySetPermits].
func (s *PermitSemaphore) Release(ctx context.Context, ids ...string) (released int, err error) {
	const op = "release"
	ids, err = permitIDs(ids...)
	if err != nil {
		return 0, s.fail(op, err)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	channel := keyspace.SemaphoreChannel(s.core.Key())
	err = s.once(ctx, op, func(ctx context.Context, p script.Permits, id string) (err error) {
		var left bool
		p.Serial = s.core.ReleaseSerial(channel)
		if released, left, err = script.PermitRelease(ctx, s.core.Client().Config().Driver, p, id, ids); left {
			s.core.Left(channel)
		}
		return err
	})
	if err == nil || released > 0 {
		s.core.Forced(usePermit, func(held string) bool {
			return slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(held, id) })
		})
	}
	return released, err
}

// Delete deletes the semaphore with all permits, and reports false if there was
// none. Waiters keep waiting until permits are set again. Holders learn of it as with
// [PermitSemaphore.Release]. Errors are those of [PermitSemaphore.TrySetPermits].
func (s *PermitSemaphore) Delete(ctx context.Context) (deleted bool, err error) {
	err = s.once(ctx, "delete", func(ctx context.Context, p script.Permits, id string) (err error) {
		deleted, err = script.PermitDelete(ctx, s.core.Client().Config().Driver, p, id)
		return err
	})
	if deleted {
		s.core.Forced(usePermit, func(string) bool { return true })
	}
	return deleted, err
}

// apart refuses a name whose permits Redisson keeps under the same key as those of
// another: each would take back permits of the other whose lease has ended.
func (s *PermitSemaphore) apart() error {
	return s.core.CheckName(keyspace.CheckPermits)
}

// operate is [object.operate], but refuses names that cannot be used.
func (s *PermitSemaphore) operate(ctx context.Context, op string, f func(context.Context, script.Publish) error) error {
	if err := s.apart(); err != nil {
		return s.fail(op, err)
	}
	return s.object.operate(ctx, op, f)
}

// once runs a script that counts as one operation, however many copies of it run.
func (s *PermitSemaphore) once(ctx context.Context, op string, f func(ctx context.Context, p script.Permits, id string) error) error {
	id := newPermitID()
	var d doubt.Doubt
	return s.operate(ctx, op, func(ctx context.Context, _ script.Publish) error {
		if d.Longer(permits.Unsure) { // a copy now would be taken for another operation
			return outcome.Final(fmt.Errorf("%w: %w", ErrUnknownOutcome, d.Err()))
		}
		return d.Try(func() error {
			return f(ctx, s.core.Client().Conn().Permits(s.core.Key()), id)
		})
	})
}

var usePermit = lease.NewUse(lease.Class{Shared: true, Claims: true})

var permitTraits = lease.Traits{
	Use: usePermit, Kind: "permitsemaphore", Unowned: true, Partial: true, Draw: drawPermits, Permits: script.PermitIDs,
	Wanted: func(o lease.Ops) int { return o.(*permitTaker).number },
}

// locker returns the locker of a request for permits.
func (s *PermitSemaphore) locker() *locker {
	o := s.options
	taker := &permitTaker{s.core.Client().Conn().PermitSemaphore(s.core.Key()), o.Permits}
	k := new(locker)
	k.lock.Init(s.core.Object, &permitTraits, taker)
	if o := (LockOptions{TTL: o.TTL, MaxHold: o.MaxHold, Margin: o.Margin, Durability: o.Durability, Wait: o.Wait}); o != (LockOptions{}) {
		k.lock.SetOptions(o.core())
	}
	switch n := o.Permits; {
	case n < 0 || n > mostPermits:
		k.lock.SetFlaw(outcome.Invalid("PermitOptions.Permits is %d; it must be from 1 to %d", n, mostPermits))
	case n == 0:
		taker.number = 1
	}
	if err := s.apart(); err != nil {
		k.lock.SetFlaw(err)
	}
	return k
}

// permitTaker is the scripts of a semaphore for a holder of that many permits.
type permitTaker struct {
	script.PermitSemaphore
	number int
}

// drawPermits returns the id of a new lease.
func drawPermits(o lease.Ops) string {
	ids := make([]string, o.(*permitTaker).number)
	for i := range ids {
		ids[i] = newPermitID()
	}
	return strings.Join(ids, ",")
}

// newPermitID returns the id of a new permit: 16 random bytes, in hex.
func newPermitID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// permitIDs checks ids from callers, and returns them in the form that leases use.
func permitIDs(ids ...string) ([]string, error) {
	if len(ids) > mostPermits {
		return nil, outcome.Invalid("%d permits; at most %d can be named at a time", len(ids), mostPermits)
	}
	same := make([]string, len(ids))
	for i, id := range ids {
		if b, err := hex.DecodeString(id); err != nil || len(b) != 16 {
			return nil, outcome.Invalid("%q is no permit's id; it must have 32 hex digits", id)
		}
		same[i] = strings.ToLower(id)
	}
	return same, nil
}
