package mortise

import (
	"context"
	"errors"
	"fmt"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/waiting"
)

// Lock is a mutual exclusion lock across processes, the counterpart of
// Redisson's RLock: both can hold, and wait for, the same lock. It belongs to
// an owner, and the owner may re-enter it. Goroutines of one client acquire it
// in the order in which they asked, and mortise's clients take turns; only a
// [FairLock] keeps the order across all clients. A release hands the lock to
// another waiter of the same client, without asking Redis, or lets Redis grant
// it to the next client.
//
// A Lock holds no resources. Its methods are safe for concurrent use.
//
// What it does not guarantee: that a holder that is frozen, or does not check
// its context, has stopped when its lease is over and the next holder starts.
// It relies on the clocks of Redis and of this process running at similar
// speed, and on Redis not losing acknowledged writes, as it may when it fails
// over or restarts.
type Lock struct {
	locker
	script script.Lock
}

// Lock returns the lock called name. It does no I/O. A name has 1 to 512 bytes
// of UTF-8 without control characters; see [Options.AllowAnyName] for other
// invalid names. An invalid name is reported when the lock is used.
func (c *Client) Lock(name string) *Lock {
	o := c.core.Object(name)
	k := &Lock{script: c.core.Conn().Lock(o.Key())}
	k.lock.Init(o, &lockTraits, &k.script)
	return k
}

// usePlain is the use of Lock and of the kinds with the same hash in Redis.
var usePlain = lease.NewUse(lease.Class{})

var lockTraits = lease.Traits{Use: usePlain, Kind: "lock", Turns: true, Grantable: true, HandsOff: true, Keeps: true, Batched: true}

// With returns a handle to the same lock that acquires it with these options.
func (k *Lock) With(options LockOptions) *Lock {
	with := *k
	with.lock.SetOptions(options.core())
	return &with
}

// locker is what all kinds of lock have in common: the exported methods.
type locker struct{ lock lease.Lock }

// Name returns the name, without [Options.Prefix].
func (k *locker) Name() string { return k.lock.Name() }

// operate runs a script that is neither an acquisition nor a release of a hold.
func (k *locker) operate(ctx context.Context, op string, f func(context.Context, script.Publish) error) error {
	needContext(ctx)
	return k.fail(op, k.lock.Operate(ctx, f))
}

// fail returns the error of an operation, and nil if err is nil.
func (k *locker) fail(op string, err error) error {
	return fail(op, k.lock.Name(), err)
}

// Do acquires the lock, calls f, and releases the lock, even if f panics. It
// blocks like [Lock.Lock]. The context passed to f ends when the lease is lost,
// with cause [ErrLost], before another owner can have the lock; f should return
// then.
//
// Do returns the error of f joined with that of the release, unless f has returned
// the loss that the release would report. So nil means that f succeeded and the lock
// was held until f was done.
func (k *locker) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return under(ctx, k.Lock, f)
}

// TryDo is Do if the lock is free, or held by the owner that ctx carries. Otherwise it does not call f, and
// returns false and no error. Done reports whether f was called. It blocks like [Lock.TryLock].
//
// With [LockOptions.MinHold], processes whose timers differ by less than that do a job once for each tick.
func (k *locker) TryDo(ctx context.Context, f func(ctx context.Context) error) (done bool, err error) {
	return tryUnder(ctx, k.TryLock, f)
}

// tryUnder runs f under a lock, unless others have it.
func tryUnder(ctx context.Context, lock func(context.Context) (*Hold, context.Context, error), f func(ctx context.Context) error) (done bool, err error) {
	needWork(ctx, f)
	err = under(ctx, lock, func(ctx context.Context) error {
		done = true
		return f(ctx)
	})
	if !done && isTaken(err) {
		return false, nil
	}
	return done, err
}

// isTaken reports whether err says that others have what was asked for, and nothing else.
func isTaken(err error) bool {
	return (errors.Is(err, ErrLocked) || errors.Is(err, ErrNoPermits)) && !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrNotSet)
}

// under runs f under a lock.
func under(ctx context.Context, lock func(context.Context) (*Hold, context.Context, error), f func(ctx context.Context) error) (err error) {
	needWork(ctx, f)
	hold, ctx, err := lock(ctx)
	if err != nil {
		return err
	}
	defer func() {
		uerr := hold.Unlock()
		if lost, ok := errors.AsType[*LostError](uerr); uerr != nil && (!ok || !errors.Is(err, lost)) {
			err = errors.Join(err, uerr)
		}
	}()
	return f(ctx)
}

// Lock acquires the lock. It waits for other owners until ctx ends, or for
// [LockOptions.Wait] at most. The end of ctx also ends the work under the lock; that of
// Wait does not, so it is the way to limit a wait.
//
// The returned context is derived from ctx. It carries the owner, so acquiring
// the same lock with it re-enters. It ends when the hold does: when the hold is
// released, or when the lease is lost, with cause [ErrLost], before another
// owner can have the lock. Work under the lock should use it, and what comes after
// Unlock must not, so a name of its own helps; [Lock.Do] leaves no choice:
//
//	hold, lctx, err := lock.Lock(ctx)
//
// If Lock fails, it returns ctx itself.
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
// Errors: [ErrLocked] if another owner had the lock for all of the wait, and a
// [HeldError] names it; [ErrUnreachable] if Redis did not answer; either of them with the
// error of ctx, if that has ended the wait; [ErrReentry]; [ErrFenceRegressed] from a [FencedLock];
// [ErrLost] if ctx carries an owner whose lease on this lock was lost and not
// yet unlocked; [ErrNotDurable] if the lock was acquired, but too few replicas
// have acknowledged it; and those of every method; see the package documentation.
func (k *locker) Lock(ctx context.Context) (*Hold, context.Context, error) {
	return k.enter(ctx, "lock", true)
}

// TryLock acquires the lock if it is free, or held by the owner that ctx carries.
// It does not wait for other owners: [ErrLocked] means that one of them holds
// the lock, and [HeldError] says which. But it does wait for Redis: while that cannot
// be reached, or cannot serve, TryLock retries for [Options.RetryFor], 10 s by default,
// or for [LockOptions.Wait], and then returns [ErrUnreachable]. Everything else is as with
// [Lock.Lock].
func (k *locker) TryLock(ctx context.Context) (*Hold, context.Context, error) {
	return k.enter(ctx, "try lock", false)
}

func (k *locker) enter(ctx context.Context, op string, wait bool) (*Hold, context.Context, error) {
	needContext(ctx)
	hold, err := waiting.Acquire(ctx, &k.lock, wait)
	if err != nil {
		return nil, ctx, k.refuse(ctx, op, err)
	}
	return (*Hold)(hold), hold.Context(), nil
}

// refuse returns the error of a request. It is not part of enter to keep the stacks of
// waiting goroutines small.
func (k *locker) refuse(ctx context.Context, op string, err error) error {
	return k.fail(op, k.lock.Client().Because(ctx, err))
}

// ForceUnlock frees the lock regardless of its holder, and returns that holder,
// or nil if there was none. Waiters are woken. The holder is not asked. A holder of
// this client learns of it at once, one of another mortise client at its next
// renewal, within a third of its lease; with a fixed lease, which is not renewed, at
// the end of the lease or at Unlock. Until then two owners may believe that they hold
// the lock.
//
// If the lock has a counter of fencing tokens, as a [FencedLock] has, ForceUnlock draws a token
// that nobody gets, and moves the fence of a fencing guard on to it whose resource has the name of
// the lock (with [Options.Prefix]): that guard refuses what the old holder still writes, from now
// on. A resource of another name refuses it once it has seen a token that is newer, as of the next
// holder's first write. So does a resource outside Redis.
//
// ForceUnlock reads the holder of the lock, and its process, and then frees the lock of that
// holder. If the lock changes hands in between, it reads again. So it takes three
// round trips, and never frees the lock of a holder that it does not report.
//
// Errors: [ErrUnknownOutcome] if the holder that was read does not have the lock
// any more, but Redis' reply was lost, so it is unknown whether this call freed
// the lock; [ErrWrongKind], [ErrUnreachable], [ErrDenied], [ErrInvalid],
// [ErrClosed], the error of ctx.
func (k *locker) ForceUnlock(ctx context.Context) (*Holder, error) {
	const op = "force unlock"
	for {
		key, err := read(ctx, op, &k.lock.Object)
		if err != nil {
			return nil, err
		}
		if key.Type == "none" {
			return nil, nil
		}
		by, ok := plainHolder(key)
		if !ok {
			return nil, k.fail(op, notPlain(key))
		}
		k.name(ctx, &by)
		if freed, err := k.freed(ctx, op, by.Owner, key.Token != ""); freed {
			return &by, err
		} else if err != nil {
			return nil, err
		}
	}
}

// name adds to a holder what the record of its client says.
func (k *locker) name(ctx context.Context, by *Holder) {
	s := State{Holders: []Holder{*by}}
	reader(k.lock.Client()).identify(ctx, &s)
	*by = s.Holders[0]
}

// UnlockOwner frees the lock if owner still holds it, whatever the count, and
// reports whether it did. [Holder.Owner] and [Hold.Owner] show the owner. It is
// a tool for operators: the holder is not asked. Everything else is as with
// [Lock.ForceUnlock].
func (k *locker) UnlockOwner(ctx context.Context, owner string) (bool, error) {
	const op = "unlock owner"
	key, err := read(ctx, op, &k.lock.Object)
	if err != nil || key.Type == "none" {
		return false, err
	}
	by, ok := plainHolder(key)
	if !ok {
		return false, k.fail(op, notPlain(key))
	}
	if by.Owner != owner {
		return false, nil
	}
	return k.freed(ctx, op, owner, key.Token != "")
}

// notPlain is the error for a name that holds something other than a plain lock.
func notPlain(key script.Key) error {
	return fmt.Errorf("%w: it holds a %s that is no plain lock", ErrWrongKind, key.Type)
}

// free frees the lock of one owner. It may report true together with an error: then the
// lock is freed, but Redis refused to notify the waiters.
func (k *locker) free(ctx context.Context, op, owner string) (bool, error) {
	return k.freed(ctx, op, owner, false)
}

// freed is free for a lock that may have fencing tokens: then its fence moves on.
func (k *locker) freed(ctx context.Context, op, owner string, fenced bool) (bool, error) {
	freed, err := k.lock.Free(ctx, owner, fenced)
	return freed, k.fail(op, err)
}
