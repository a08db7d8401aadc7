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

// locker is what all kinds of lock have in common: the exported methods, and
// what a request needs to know. What differs are its scripts and its traits.
type locker struct {
	object
	ops     ops
	place   place
	options *LockOptions // not to be changed: most locks share them
	traits  *traits      // the same
}

var defaultOptions LockOptions

// init makes k a lock of the kind that has these traits and scripts. Every lease
// keeps the locker by which it was taken, so it is small. It is made in place:
// goroutines that make one and then wait are to have little on their stacks.
func (k *locker) init(o object, t *traits, s ops) {
	k.object, k.ops, k.place, k.options, k.traits = o, s, place{use: t.use, name: o.name}, &defaultOptions, t
}

// ops are what the scripts of one kind of lock do; internal/script has them for each
// kind. What is around them is the same for all kinds. Every script is safe to run
// twice with the same id.
type ops interface {
	// Channel is where releases are announced; empty if nowhere.
	Channel() string
	// Acquire takes the lock for an id that never had it before.
	Acquire(ctx context.Context, a script.Attempt) (script.Grant, error)
	// Reenter sets the count of a lock that id has, and makes it last.
	Reenter(ctx context.Context, id string, count int, lease time.Duration) (script.Grant, error)
	// Leave sets the count of a lock that id has and keeps.
	Leave(ctx context.Context, id string, count int) (bool, error)
	// Release gives the lock back entirely, and wakes others. It may report that it
	// did with an error: released, but Redis refused to announce it.
	Release(ctx context.Context, id string, t script.Turns) (script.Freed, error)
	// Renewal is how the watchdog extends the lease of id. It never shortens
	// one: with a ttl of nearly nothing it only looks whether the lease is there.
	Renewal(id string, ttl time.Duration) script.Renewal
}

// Do takes the lock, calls f, and releases the lock, also if f panics. It
// waits like [Lock.Lock]. The context given to f ends when the lease is lost,
// with cause [ErrLost], before another can have the lock; f should return
// then.
//
// It returns the error of f joined with that of the release, so that nil means
// that f succeeded and the lock was held until f was done.
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

// Lock takes the lock, waiting for it until ctx ends. The returned context is
// derived from ctx. It carries the owner, so that taking the same lock with it
// re-enters, and it ends when the hold does: when it is released, or when the
// lease is lost, with cause [ErrLost], before another can have the lock. Work
// under the lock should use it. In case of an error it is ctx itself.
//
// The end of ctx does not release the lock; only [Hold.Unlock] does.
//
// Lock, [FencedLock], [SpinLock] and [FairLock] of one name are one lock, and
// their owner re-enters it as any of them, like Redisson's threads. The release
// of the last hold wakes the waiters of the kind that the owner took first. What
// is neither re-entered nor to be had beside it, such as a [GroupLock] with some
// of its values or another kind of object of that name, is an error at once:
// nobody waits for itself.
//
// Errors: the error of ctx, which also matches [ErrLocked] if the lock was
// seen to be held; [ErrReentry]; [ErrFenceRegressed] of a [FencedLock]; [ErrLost] if ctx carries an owner whose
// lease on this lock was lost and not yet unlocked; [ErrNotDurable] if it was
// taken, but too few replicas know; [ErrWrongKind],
// [ErrUnreachable], [ErrDenied], [ErrInvalid], [ErrClosed].
func (k *locker) Lock(ctx context.Context) (*Hold, context.Context, error) {
	return k.enter(ctx, "lock", true)
}

// TryLock takes the lock if it is free, or held by the owner that ctx carries.
// It does not wait for other owners: [ErrLocked] says that one of them has
// it, and [HeldError] which. It does try again while Redis cannot serve, see
// [Options.RetryFor]. Everything else is as with [Lock.Lock].
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

// because is the meaning of an error for a caller whose client may have been
// closed meanwhile: then the error says so as well.
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

// sound checks the arguments, before anything is sent.
func (k *locker) sound() error {
	if err := k.client.check(k.name); err != nil {
		return err
	}
	if k.traits.flaw != nil {
		return k.traits.flaw
	}
	return k.options.validate(k.client.options.Lease)
}

// ready asks Redis what must be known of it before a lock is taken.
func (k *locker) ready(ctx context.Context) error {
	if _, err := k.client.publish(ctx, k.name); err != nil {
		return err
	}
	return k.client.canWait(ctx, k.name, k.options.Durability)
}

// take checks the arguments and acquires or re-enters.
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

// lateMost is how often a lock may be acquired so late that its lease cannot be
// trusted any more. A process that was frozen meanwhile asks again; where Redis'
// answers take longer than the lease, asking does not help.
const lateMost = 5

// request checks the arguments.
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

// tidy takes back what a request in vain may have left in Redis.
func (r *request) tidy(waited bool) {
	k := r.lock
	if k.traits.claims && waited && r.held != nil && !r.doubt && !r.used {
		k.withdraw(r.id)
	}
	if r.doubt && !r.used {
		k.client.abandon(k, r.id, k.ttl())
	}
}

// withdraw takes back what a waiter in vain has claimed. It is tried once: if it
// fails, the claim ends by itself in a moment.
func (k *locker) withdraw(id string) {
	f := func(ctx context.Context) { _, _ = k.release(ctx, id) }
	if !k.client.background(f) {
		f(k.client.lingerer) // closed; those of other processes shall not wait for that
	}
}

// newID returns the id of a new lease.
func (k *locker) newID() string {
	if draw := k.traits.draw; draw != nil {
		return draw(k)
	}
	return k.client.newID() + k.traits.mark
}

// release gives the lock of id back entirely, and reports whether id had it. As with
// ops.Release it may do so with an error.
func (k *locker) release(ctx context.Context, id string) (bool, error) { return k.yield(ctx, id, 0) }

// yield is release for a lock that was given so often in a row.
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

// ttl is the lease that is asked of Redis.
func (k *locker) ttl() time.Duration { return cmp.Or(k.options.Lease, k.client.options.Lease) }

// renewed reports whether the watchdog keeps the lock.
func (k *locker) renewed() bool { return k.options.Lease == 0 }

// ForceUnlock frees the lock whoever holds it, and returns that holder, or nil
// if nobody did. Others who wait are woken. The holder is not asked and, if it
// is a mortise client, learns of it at the next renewal, within a third of its
// lease; one with a fixed lease, which is not renewed, at its end or at Unlock.
// Until then two may believe that they hold the lock.
//
// It looks who holds the lock and frees it of that holder; should the lock
// change hands in between, it looks again. So it takes two round trips, and
// never takes the lock from somebody it does not report.
//
// Errors: [ErrUnknownOutcome] if the lock is free of the holder that was seen,
// but Redis' reply was lost, so that nobody can say who freed it;
// [ErrWrongKind], [ErrUnreachable], [ErrDenied], [ErrInvalid], [ErrClosed], the
// error of ctx.
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

// UnlockOwner frees the lock if owner, as [Holder.Owner] or [Hold.Owner] show
// it, still holds it, whatever the count, and reports whether it did. It is a
// tool for operators: the holder is not asked. Everything else is as with
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

// notPlain is the error for a name that holds something else than a plain lock.
func notPlain(key script.Key) error {
	return fmt.Errorf("%w: it holds a %s that is no plain lock", ErrWrongKind, key.Type)
}

// free frees the lock of one owner. It may report true with an error: freed,
// but Redis refused to tell those who wait.
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
	if freed || errors.Is(err, ErrUnknownOutcome) { // in either case it is not that owner's any more
		k.forced(owner)
	}
	return freed, err
}

// forced tells the holder at once if it is in this process.
func (k *locker) forced(id string) {
	for _, at := range [...]place{k.place, k.place.twin()} {
		if l := k.client.leaseOf(at, id); l != nil {
			l.end(&LostError{Reason: LostForced})
			return
		}
	}
}
