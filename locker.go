package mortise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/script"
)

// locker is what all kinds of lock have in common: the exported methods, and the data
// that a request needs. Kinds differ in their scripts and their traits.
type locker struct {
	object
	ops     ops
	place   place
	options *LockOptions // must not be changed: most locks share them
	traits  *traits      // the same
}

var defaultOptions LockOptions

// init makes k a lock of the kind that has these traits and scripts. A locker is small,
// because every lease keeps the one that acquired it. init works in place to keep the
// stacks of waiting goroutines small.
func (k *locker) init(o object, t *traits, s ops) {
	k.object, k.ops, k.place, k.options, k.traits = o, s, place{use: t.use, name: o.name}, &defaultOptions, t
}

// ops are the operations of one kind of lock; internal/script implements them for each
// kind. The code around them is the same for all kinds. Every script is safe to run twice
// with the same id.
type ops interface {
	// Channel returns the channel that announces releases; empty if there is none.
	Channel() string
	// Acquire acquires the lock for an id that never had it before.
	Acquire(ctx context.Context, a script.Attempt) (script.Grant, error)
	// Reenter sets the count of holds of a lock that id has, and extends its lease.
	Reenter(ctx context.Context, id string, count int, lease time.Duration) (script.Grant, error)
	// Leave sets the count of holds of a lock that id has and keeps.
	Leave(ctx context.Context, id string, count int) (bool, error)
	// Release releases the lock, whatever its count, and wakes waiters. It may return an
	// error although it has released the lock: then Redis refused to announce that.
	Release(ctx context.Context, id string, t script.Turns) (script.Freed, error)
	// Renewal returns how the watchdog extends the lease of id. The script never shortens
	// a lease: with a ttl of nearly nothing it only checks that the lease is there.
	Renewal(id string, ttl time.Duration) script.Renewal
}

// Do acquires the lock, calls f, and releases the lock, even if f panics. It
// blocks like [Lock.Lock]. The context passed to f ends when the lease is lost,
// with cause [ErrLost], before another owner can have the lock; f should return
// then.
//
// Do returns the error of f joined with that of the release. So nil means that
// f succeeded and the lock was held until f was done.
func (k *locker) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return under(ctx, k.Lock, f)
}

// under runs f under a lock.
func under(ctx context.Context, lock func(context.Context) (*Hold, context.Context, error), f func(ctx context.Context) error) (err error) {
	hold, ctx, err := lock(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if uerr := hold.Unlock(); uerr != nil {
			err = errors.Join(err, uerr)
		}
	}()
	return f(ctx)
}

// Lock acquires the lock. It waits for other owners until ctx ends.
//
// The returned context is derived from ctx. It carries the owner, so acquiring
// the same lock with it re-enters. It ends when the hold does: when the hold is
// released, or when the lease is lost, with cause [ErrLost], before another
// owner can have the lock. Work under the lock should use it. If Lock fails, it
// returns ctx itself.
//
// The end of ctx does not release the lock; only [Hold.Unlock] does.
//
// Lock, [FencedLock], [SpinLock] and [FairLock] of one name are one lock, and
// their owner can re-enter it as any of them, as Redisson's threads can. The
// release of the last hold wakes the waiters of the kind that the owner acquired
// first. An owner never waits for itself: a lock that it can neither re-enter
// nor hold together with its own, such as a [GroupLock] with an overlapping but
// different set of values or another kind of object of that name, is an error
// at once.
//
// Errors: the error of ctx, which also matches [ErrLocked] if the lock was
// seen to be held; [ErrReentry]; [ErrFenceRegressed] from a [FencedLock];
// [ErrLost] if ctx carries an owner whose lease on this lock was lost and not
// yet unlocked; [ErrNotDurable] if the lock was acquired, but too few replicas
// have acknowledged it; and those of every method; see the package documentation.
func (k *locker) Lock(ctx context.Context) (*Hold, context.Context, error) {
	return k.enter(ctx, "lock", true)
}

// TryLock acquires the lock if it is free, or held by the owner that ctx carries.
// It does not wait for other owners: [ErrLocked] means that one of them holds
// the lock, and [HeldError] tells which. It does retry while Redis cannot serve
// it, see [Options.RetryFor]. Everything else is as with [Lock.Lock].
func (k *locker) TryLock(ctx context.Context) (*Hold, context.Context, error) {
	return k.enter(ctx, "try lock", false)
}

func (k *locker) enter(ctx context.Context, op string, wait bool) (*Hold, context.Context, error) {
	hold, err := k.take(ctx, wait)
	if err != nil {
		return nil, ctx, &Error{Op: op, Name: k.name, Err: because(ctx, k.client.because(err))}
	}
	return hold, hold.context(), nil
}

// because returns err for the caller. If the client was closed meanwhile, the result
// also matches ErrClosed.
func (c *Client) because(err error) error {
	select {
	case <-c.done:
		if !errors.Is(err, ErrClosed) {
			return fmt.Errorf("%w: %w", ErrClosed, err)
		}
	default:
	}
	return err
}

// sound checks the arguments. It sends nothing.
func (k *locker) sound() error {
	if err := k.client.check(k.name); err != nil {
		return err
	}
	if k.traits.flaw != nil {
		return k.traits.flaw
	}
	return k.options.validate(k.client.options.Lease)
}

// ready asks Redis for what a request must know before it acquires a lock.
func (k *locker) ready(ctx context.Context) error {
	if _, err := k.client.publish(ctx, k.name); err != nil {
		return err
	}
	return k.client.canWait(ctx, k.name, k.options.Durability)
}

// take checks the arguments, and acquires or re-enters the lock.
func (k *locker) take(ctx context.Context, wait bool) (*Hold, error) {
	c := k.client
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.running.Done()
	for late := 1; ; late++ {
		r, err := k.request(ctx)
		if err != nil {
			return nil, err
		}
		hold, err := r.run(ctx, wait)
		r.tidy(wait)
		if !errors.Is(err, errLate) || late == lateMost {
			return hold, err
		}
	}
}

// lateMost is how often a lock may be acquired too late to trust its lease. A process
// that was frozen meanwhile asks again. If Redis' replies take longer than the lease,
// asking again does not help.
const lateMost = 5

// request checks the arguments and returns the request of the owner that ctx carries.
func (k *locker) request(ctx context.Context) (*request, error) {
	if err := k.sound(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	if err := k.ready(ctx); err != nil {
		return nil, err
	}
	r := &request{lock: k, owner: ownerOf(ctx)}
	if k.traits.unowned || r.owner == nil {
		r.owner, r.alone = new(owner), true
	}
	return r, nil
}

// tidy removes what a request without a hold may have left in Redis.
func (r *request) tidy(waited bool) {
	k := r.lock
	if k.traits.claims && waited && r.held != nil && !r.doubt && !r.used {
		k.withdraw(r.id)
	}
	if r.doubt && !r.used {
		k.client.abandon(k, r.id, k.ttl())
	}
}

// withdraw removes the claim of a waiter that gave up. It tries once: if that fails, the
// claim soon expires.
func (k *locker) withdraw(id string) {
	f := func(ctx context.Context) { _, _ = k.release(ctx, id) }
	if !k.client.background(f) {
		f(k.client.lingerer) // closed; waiters in other processes must not wait for the claim to expire
	}
}

// newID returns the id of a new lease.
func (k *locker) newID() string {
	if draw := k.traits.draw; draw != nil {
		return draw(k)
	}
	return k.client.newID() + k.traits.mark
}

// release releases the lock of id, whatever its count, and reports whether id had it.
// Like ops.Release, it may report true together with an error.
func (k *locker) release(ctx context.Context, id string) (bool, error) { return k.yield(ctx, id, 0) }

// yield is release for a lock that was granted row times in a row.
func (k *locker) yield(ctx context.Context, id string, row int) (bool, error) {
	var t script.Turns
	if k.traits.turns {
		t = k.turns(row)
	}
	freed, err := k.ops.Release(ctx, id, t)
	if freed.Again > 0 {
		k.lookIn(freed.Again)
	}
	if k.traits.pause != nil {
		k.client.spinOn(k)
	}
	return k.released(freed.Released), err
}

// ttl is the lease that k requests from Redis.
func (k *locker) ttl() time.Duration { return cmp.Or(k.options.Lease, k.client.options.Lease) }

// renewed reports whether the watchdog renews the lock.
func (k *locker) renewed() bool { return k.options.Lease == 0 }

// ForceUnlock frees the lock regardless of its holder, and returns that holder,
// or nil if there was none. Waiters are woken. The holder is not asked. A holder of
// this client learns of it at once, one of another mortise client at its next
// renewal, within a third of its lease; with a fixed lease, which is not renewed, at
// the end of the lease or at Unlock. Until then two owners may believe that they hold
// the lock.
//
// ForceUnlock reads the holder of the lock, and then frees the lock of that
// holder. If the lock changes hands in between, it reads again. So it takes two
// round trips, and never frees the lock of a holder that it does not report.
//
// Errors: [ErrUnknownOutcome] if the holder that was read does not have the lock
// any more, but Redis' reply was lost, so it is unknown whether this call freed
// the lock; [ErrWrongKind], [ErrUnreachable], [ErrDenied], [ErrInvalid],
// [ErrClosed], the error of ctx.
func (k *locker) ForceUnlock(ctx context.Context) (*Holder, error) {
	const op = "force unlock"
	for {
		key, err := k.read(ctx, op)
		if err != nil {
			return nil, err
		}
		if key.Type == "none" {
			return nil, nil
		}
		by, ok := plainHolder(key)
		if !ok {
			return nil, &Error{Op: op, Name: k.name, Err: notPlain(key)}
		}
		if freed, err := k.free(ctx, op, by.Owner); freed {
			return &by, err
		} else if err != nil {
			return nil, err
		}
	}
}

// UnlockOwner frees the lock if owner still holds it, whatever the count, and
// reports whether it did. [Holder.Owner] and [Hold.Owner] show the owner. It is
// a tool for operators: the holder is not asked. Everything else is as with
// [Lock.ForceUnlock].
func (k *locker) UnlockOwner(ctx context.Context, owner string) (bool, error) {
	const op = "unlock owner"
	key, err := k.read(ctx, op)
	if err != nil || key.Type == "none" {
		return false, err
	}
	by, ok := plainHolder(key)
	if !ok {
		return false, &Error{Op: op, Name: k.name, Err: notPlain(key)}
	}
	if by.Owner != owner {
		return false, nil
	}
	return k.free(ctx, op, owner)
}

// notPlain is the error for a name that holds something other than a plain lock.
func notPlain(key script.Key) error {
	return fmt.Errorf("%w: it holds a %s that is no plain lock", ErrWrongKind, key.Type)
}

// free frees the lock of one owner. It may report true together with an error: then the
// lock is freed, but Redis refused to notify the waiters.
func (k *locker) free(ctx context.Context, op, owner string) (freed bool, err error) {
	again := false // an earlier copy may have run
	err = k.operate(ctx, op, func(ctx context.Context, _ script.Publish) (err error) {
		freed, err = k.release(ctx, owner)
		if err == nil && !freed && again {
			return &driver.Error{Class: driver.Other, Err: ErrUnknownOutcome}
		}
		again = again || (err != nil && driver.ClassOf(err) == driver.Unknown)
		return err
	})
	if freed || errors.Is(err, ErrUnknownOutcome) { // either way owner does not have the lock any more
		k.forced(owner)
	}
	return freed, err
}

// forced ends the lease of id at once if it belongs to this client.
func (k *locker) forced(id string) {
	for _, at := range [...]place{k.place, k.place.twin()} {
		if l := k.client.leaseOf(at, id); l != nil {
			l.end(&LostError{Reason: LostForced})
			return
		}
	}
}
