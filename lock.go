package mortise

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// Lock is a mutual exclusion lock across processes, the counterpart of
// Redisson's RLock: both can hold, and wait for, the same one. It is held by
// an owner, who may take it again. Goroutines of one client get it in the order
// in which they asked, and mortise's clients take turns; only a [FairLock] keeps
// the order over all. A release hands it to another goroutine of the client that
// waits, without asking Redis, or has Redis give it to the next client.
//
// A Lock holds no resources. Its methods are safe for concurrent use.
//
// What it does not guarantee: that a holder which is frozen, or does not look
// at its context, has stopped when its lease is over and the next one starts.
// It relies on the clocks of Redis and of this process running at similar
// speed, and on Redis not losing what it has acknowledged, as it may when it
// fails over or restarts.
type Lock struct{ locker }

// Lock returns the lock called name. It does no I/O. A name has 1 to 512 bytes
// of UTF-8 without control characters; see [Options.AllowAnyName] for what
// else is refused. What is wrong with a name is reported when it is used.
func (c *Client) Lock(name string) *Lock {
	k := new(Lock)
	k.init(object{c, name}, &lockTraits)
	k.kind = k
	return k
}

var lockTraits = traits{use: usePlain, turns: true, grantable: true, handsOff: true, batched: true}

// With returns the same lock, to be taken with these options.
func (k *Lock) With(options LockOptions) *Lock {
	k = k.client.Lock(k.name)
	k.options = &options
	return k
}

// What follows makes Lock a primitive.

func (k *Lock) channel() string { return keyspace.LockChannel(k.name) }

func (k *Lock) acquire(ctx context.Context, id string, lease time.Duration) (grant, error) {
	got, _, err := k.await(ctx, id, lease, "")
	return got, err
}

func (k *Lock) await(ctx context.Context, id string, lease time.Duration, entry script.Entry) (got grant, at script.Standing, err error) {
	ok, by, at, err := script.LockAcquire(ctx, k.client.driver, k.name, id, lease, entry)
	return grant{ok: ok, by: by}, at, err
}

func (k *Lock) reenter(ctx context.Context, id string, count int, lease time.Duration) (grant, error) {
	ok, err := script.LockReenter(ctx, k.client.driver, k.name, id, count, lease)
	return grant{ok: ok}, err
}

func (k *Lock) leave(ctx context.Context, id string, count int) (bool, error) {
	return script.LockLeave(ctx, k.client.driver, k.name, id, count)
}

func (k *Lock) release(ctx context.Context, id string) (bool, error) {
	return k.yield(ctx, id, 0)
}

func (k *Lock) yield(ctx context.Context, id string, row int) (bool, error) {
	became, err := script.LockRelease(ctx, k.client.driver, k.name, id, k.channel(), k.speaking(), k.turns(row))
	return k.released(became), err
}

func (k *Lock) renewal(id string, ttl time.Duration) script.Renewal {
	return script.LockRenewal(k.name, id, ttl)
}
