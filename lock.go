package mortise

import "github.com/mortise-go/mortise/internal/script"

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
type Lock struct {
	locker
	script script.Lock
}

// Lock returns the lock called name. It does no I/O. A name has 1 to 512 bytes
// of UTF-8 without control characters; see [Options.AllowAnyName] for what
// else is refused. What is wrong with a name is reported when it is used.
func (c *Client) Lock(name string) *Lock {
	k := &Lock{script: c.conn.Lock(name)}
	k.init(object{c, name}, &lockTraits, &k.script)
	return k
}

// usePlain is Lock, and what has the same hash in Redis.
var usePlain = newUse(class{})

var lockTraits = traits{use: usePlain, turns: true, grantable: true, handsOff: true, batched: true}

// With returns the same lock, to be taken with these options.
func (k *Lock) With(options LockOptions) *Lock {
	k = k.client.Lock(k.name)
	k.options = &options
	return k
}
