package mortise

import (
	"github.com/mortise-go/mortise/internal/lockmgr"
	"github.com/mortise-go/mortise/internal/script"
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
var usePlain = lockmgr.NewUse(lockmgr.Class{})

var lockTraits = lockmgr.Traits{Use: usePlain, Turns: true, Grantable: true, HandsOff: true, Keeps: true, Batched: true}

// With returns a handle to the same lock that acquires it with these options.
func (k *Lock) With(options LockOptions) *Lock {
	with := *k
	with.lock.SetOptions(options.core())
	return &with
}
