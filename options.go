package mortise

import (
	"cmp"
	"time"
)

// Options configures a client. The zero value of each field is its default.
type Options struct {
	// Lease is how long a lock without a lease of its own lasts in Redis
	// after the last renewal: how long waiters wait if this process dies.
	// While the lock is held, the watchdog renews it every third of Lease. It
	// is truncated to whole milliseconds. At least 100 ms; default 30 s, like
	// Redisson's lockWatchdogTimeout.
	Lease time.Duration

	// RetryFor is how long an operation retries while Redis cannot be reached
	// or cannot serve (loading, failing over, resharding), before it returns
	// ErrUnreachable. The operation's context can end it earlier. A negative
	// value means as long as the context lasts. The waiters of a wait queue
	// ask one after the other, and each may retry for RetryFor; use a
	// deadline to bound the total. Default 10 s.
	RetryFor time.Duration

	// PubSub selects how releases are published and subscribed to on a Redis
	// Cluster. It has no effect elsewhere. Default PubSubAuto.
	PubSub PubSub

	// AllowAnyName admits names that are invalid by default: those whose
	// derived keys would not lie in one cluster slot, and those that begin
	// with a reserved prefix. On a cluster names of the first kind stay
	// invalid, because a lock of such a name could never be released.
	AllowAnyName bool

	// OnClockJump, if set, is called when renewals show that the clock of a
	// Redis server was set, once for each time: forward, so that leases ended
	// early, or back, so that they would last too long. It is called in a
	// goroutine of its own, for which Close waits: it must not close the
	// client. A jump is detected by comparison with an earlier renewal. A jump
	// before the first renewal of the client goes undetected, and so does one
	// of less than a twentieth of the lease or a second.
	OnClockJump func(*ClockError)
}

// PubSub selects the kind of messages on a Redis Cluster. All clients that
// contend for a lock must use the same kind, or they wake each other late:
// SUBSCRIBE does not receive a message sent with SPUBLISH, and vice versa.
type PubSub int

const (
	// PubSubAuto uses sharded messages if the servers support them (Redis 7,
	// Valkey), as Redisson does since 3.22.
	PubSubAuto PubSub = iota
	// PubSubSharded uses sharded messages without checking that the servers
	// support them.
	PubSubSharded
	// PubSubClassic uses PUBLISH and SUBSCRIBE, like Redisson up to 3.21, or
	// a later one with shardedSubscriptionMode OFF.
	PubSubClassic
	// PubSubBoth sends and receives both, for fleets in which both occur.
	PubSubBoth
)

const (
	defaultLease    = 30 * time.Second
	defaultRetryFor = 10 * time.Second
	shortestRenewed = 100 * time.Millisecond
	longestLease    = 366 * 24 * time.Hour
)

// withDefaults returns a copy of o, which may be nil, with every field set.
func (o *Options) withDefaults() Options {
	if o == nil {
		o = &Options{}
	}
	c := *o
	c.Lease = cmp.Or(c.Lease, defaultLease)
	c.RetryFor = cmp.Or(c.RetryFor, defaultRetryFor)
	return c
}

func (o *Options) validate() error {
	if o.Lease < shortestRenewed || o.Lease > longestLease {
		return invalid("Options.Lease is %v; it must be between %v and a year", o.Lease, shortestRenewed)
	}
	if o.PubSub < PubSubAuto || o.PubSub > PubSubBoth {
		return invalid("Options.PubSub is %d; use one of the PubSub constants", o.PubSub)
	}
	return nil
}

// LockOptions configures how a lock is acquired. The zero value of each field
// is its default.
type LockOptions struct {
	// Lease limits how long the lock lasts: it is never renewed, and the hold
	// is lost when the time is over. It is truncated to whole milliseconds,
	// from 1 ms to a year. Default 0: the watchdog renews the lock until it
	// is released.
	Lease time.Duration

	// Margin is how long before the key can expire the hold's context ends.
	// Set it if work needs more time to stop safely. It must be less than the
	// lease. The default is also the minimum: a hundredth of the lease plus
	// 2 ms, or half of a lease of a few milliseconds. It applies to the hold
	// that acquires the lock; a re-entry has the margin of the lease it enters.
	Margin time.Duration

	// NonReentrant makes it an error, ErrReentry, to acquire a lock that the
	// context's owner already holds. Like Redisson's NonReentrantLock it uses
	// the same keys, so other owners may still re-enter. Default: re-entry is
	// counted.
	NonReentrant bool

	// Durability is how many replicas must have a lease before it counts as
	// acquired, renewed or re-entered. It matters when a master fails over. A
	// re-entry has the durability of the lease it enters, and fails with
	// ErrInvalid if it asks for another one. Default: none.
	Durability Durability
}

func (o LockOptions) validate(renewed time.Duration) error {
	lease := cmp.Or(o.Lease, renewed)
	switch {
	case o.Lease < 0:
		return invalid("the lease is %v; it must be positive, or zero to be renewed", o.Lease)
	case lease < time.Millisecond:
		return invalid("the lease is %v; the least is 1ms", o.Lease)
	case lease > longestLease:
		return invalid("the lease is %v; the most is a year", o.Lease)
	case o.Margin < 0 || o.Margin >= lease.Truncate(time.Millisecond):
		return invalid("the margin is %v; it must be positive and less than the lease of %v", o.Margin, lease)
	}
	return o.Durability.validate()
}

// usual reports whether a lease with these options is like one with the
// default options.
func (o LockOptions) usual() bool { return o.Lease == 0 && o.Margin == 0 && o.Durability.none() }

// trust returns how long a lease is trusted from the start of the attempt that
// Redis confirmed.
func (o LockOptions) trust(lease time.Duration) time.Duration {
	lease = lease.Truncate(time.Millisecond) // as it is sent to Redis
	least := min(lease/100+2*time.Millisecond, lease/2)
	return lease - max(o.Margin, least)
}
