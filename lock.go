package mortise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// Lock is a mutual exclusion lock across processes, the counterpart of
// Redisson's RLock: both can hold, and wait for, the same one. It is held by
// an owner, who may take it again; it is not fair between processes, but
// goroutines of one client get it in the order in which they asked.
//
// A Lock holds no resources. Its methods are safe for concurrent use.
//
// What it does not guarantee: that a holder which is frozen, or does not look
// at its context, has stopped when its lease is over and the next one starts.
// It relies on the clocks of Redis and of this process running at similar
// speed, and on Redis not losing what it has acknowledged, as it may when it
// fails over or restarts.
type Lock struct {
	client  *Client
	name    string
	options LockOptions
}

// Lock returns the lock called name. It does no I/O. A name has 1 to 512 bytes
// of UTF-8 without control characters; see [Options.AllowAnyName] for what
// else is refused. What is wrong with a name is reported when it is used.
func (c *Client) Lock(name string) *Lock { return &Lock{client: c, name: name} }

// With returns the same lock, to be taken with these options.
func (k *Lock) With(options LockOptions) *Lock {
	return &Lock{client: k.client, name: k.name, options: options}
}

// Name returns the name of the lock.
func (k *Lock) Name() string { return k.name }

// Do takes the lock, calls f, and releases the lock, also if f panics. It
// waits like [Lock.Lock]. The context given to f ends when the lease is lost,
// with cause [ErrLost], before another can have the lock; f should return
// then.
//
// It returns the error of f joined with that of the release, so that nil means
// that f succeeded and the lock was held until f was done.
func (k *Lock) Do(ctx context.Context, f func(ctx context.Context) error) (err error) {
	hold, ctx, err := k.Lock(ctx)
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
// Errors: the error of ctx, which also matches [ErrLocked] if the lock was
// seen to be held; [ErrReentry]; [ErrLost] if ctx carries an owner whose
// lease on this lock was lost and not yet unlocked; [ErrWrongKind],
// [ErrUnreachable], [ErrDenied], [ErrInvalid], [ErrClosed].
func (k *Lock) Lock(ctx context.Context) (*Hold, context.Context, error) {
	return k.enter(ctx, "lock", true)
}

// TryLock takes the lock if it is free, or held by the owner that ctx carries.
// It does not wait for other owners: [ErrLocked] says that one of them has
// it, and [HeldError] which. It does try again while Redis cannot serve, see
// [Options.RetryFor]. Everything else is as with [Lock.Lock].
func (k *Lock) TryLock(ctx context.Context) (*Hold, context.Context, error) {
	return k.enter(ctx, "try lock", false)
}

func (k *Lock) enter(ctx context.Context, op string, wait bool) (*Hold, context.Context, error) {
	hold, err := k.take(ctx, wait)
	if err != nil {
		select {
		case <-k.client.done:
			if !errors.Is(err, ErrClosed) {
				err = fmt.Errorf("%w: %w", ErrClosed, err)
			}
		default:
		}
		return nil, ctx, &Error{Op: op, Name: k.name, Err: because(ctx, err)}
	}
	return hold, hold.ctx, nil
}

// take checks the arguments and acquires or re-enters.
func (k *Lock) take(ctx context.Context, wait bool) (*Hold, error) {
	c := k.client
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.running.Done()
	if err := c.check(k.name); err != nil {
		return nil, err
	}
	if err := k.options.validate(c.options.Lease); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	if _, err := c.publish(ctx, k.name); err != nil {
		return nil, err
	}
	r := &request{lock: k, owner: ownerOf(ctx)}
	if r.owner == nil {
		r.owner = new(owner)
	}
	hold, err := r.run(ctx, wait)
	if r.doubt && (err != nil || hold.lease.id != r.id) {
		c.abandon(k, r.id, k.ttl())
	}
	return hold, err
}

// ttl is the lease that is asked of Redis.
func (k *Lock) ttl() time.Duration { return cmp.Or(k.options.Lease, k.client.options.Lease) }

// renewed reports whether the watchdog keeps the lock.
func (k *Lock) renewed() bool { return k.options.Lease == 0 }

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
func (k *Lock) ForceUnlock(ctx context.Context) (*Holder, error) {
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
func (k *Lock) UnlockOwner(ctx context.Context, owner string) (bool, error) {
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
func (k *Lock) free(ctx context.Context, op, owner string) (freed bool, err error) {
	again := false // an earlier copy may have run
	err = k.operate(ctx, op, func(ctx context.Context, p script.Publish) (err error) {
		freed, err = script.LockRelease(ctx, k.client.driver, k.name, owner, keyspace.LockChannel(k.name), p)
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
func (k *Lock) forced(id string) {
	k.client.mu.Lock()
	l := k.client.held[k.name]
	k.client.mu.Unlock()
	if l != nil && l.id == id {
		l.end(&LostError{Reason: LostForced})
	}
}

// operate runs a script that is neither an acquisition nor a release of a hold.
func (k *Lock) operate(ctx context.Context, op string, f func(context.Context, script.Publish) error) error {
	c := k.client
	run := func() error {
		if err := c.begin(); err != nil {
			return err
		}
		defer c.running.Done()
		if err := c.check(k.name); err != nil {
			return err
		}
		p, err := c.publish(ctx, k.name)
		if err != nil {
			return err
		}
		_, err = c.call(ctx, c.options.RetryFor, func(ctx context.Context) error { return f(ctx, p) })
		return err
	}
	if err := run(); err != nil {
		return &Error{Op: op, Name: k.name, Err: because(ctx, err)}
	}
	return nil
}

// hearing says how the lock's channel is subscribed.
func (k *Lock) hearing() hub.Kind {
	p := k.speaking()
	return hub.Kind{Classic: p != script.Sharded, Sharded: p != script.Classic}
}

// speaking says how releases are announced; take has found that out.
func (k *Lock) speaking() script.Publish { return *k.client.announce.Load() }

// What follows makes Lock a primitive.

func (k *Lock) acquire(ctx context.Context, id string, lease time.Duration) (bool, script.Holder, error) {
	return script.LockAcquire(ctx, k.client.driver, k.name, id, lease)
}

func (k *Lock) reenter(ctx context.Context, id string, count int, lease time.Duration) (bool, error) {
	return script.LockReenter(ctx, k.client.driver, k.name, id, count, lease)
}

func (k *Lock) leave(ctx context.Context, id string, count int) (bool, error) {
	return script.LockLeave(ctx, k.client.driver, k.name, id, count)
}

func (k *Lock) release(ctx context.Context, id string) (bool, error) {
	return script.LockRelease(ctx, k.client.driver, k.name, id, keyspace.LockChannel(k.name), k.speaking())
}
