package mortise

import (
	"cmp"
	"time"
)

// Options configures a client. The zero value of each field is its default.
type Options struct {
	// Lease is how long a lock without a lease of its own lasts in Redis
	// after the last renewal: how long others wait when this process dies.
	// The watchdog renews it every third of that time while the lock is held.
	// It counts in whole milliseconds. At least 100 ms; default 30 s, like
	// Redisson's lockWatchdogTimeout.
	Lease time.Duration

	// RetryFor is how long an operation goes on trying while Redis cannot be
	// reached or cannot serve (loading, failing over, resharding), before it
	// returns ErrUnreachable. The operation's context ends it earlier. A
	// negative value means for as long as the context lasts. Goroutines that
	// queue for one lock ask one after the other, and each has that time; a
	// deadline bounds the whole. Default 10 s.
	RetryFor time.Duration

	// PubSub says how releases are announced and heard on a Redis Cluster. It
	// does not matter elsewhere. Default PubSubAuto.
	PubSub PubSub

	// AllowAnyName admits names that are refused by default: those whose
	// derived keys would not lie in one cluster slot, and those that begin
	// with a reserved prefix. On a cluster the former are refused even so,
	// because a lock of such a name could never be released.
	AllowAnyName bool

	// OnClockJump, if set, is called when renewals show that the clock of a
	// Redis server was set, once for each time: forward, so that leases ended
	// early, or back, so that they would last too long. It is called in a
	// goroutine of its own, for which Close waits: it must not close the
	// client. A jump shows against an earlier renewal; so one that comes before
	// the client has renewed anything goes unseen, and so does one of less than
	// a twentieth of the lease or a second.
	OnClockJump func(*ClockError)
}

// PubSub says how messages travel on a Redis Cluster. All clients that contend
// for a lock must agree, or they wake each other only by and by: a message
// sent with SPUBLISH is not heard by SUBSCRIBE, and vice versa.
type PubSub int

const (
	// PubSubAuto uses sharded messages if the servers know them (Redis 7,
	// Valkey). So does Redisson since 3.22.
	PubSubAuto PubSub = iota
	// PubSubSharded uses sharded messages without asking the servers.
	PubSubSharded
	// PubSubClassic uses PUBLISH and SUBSCRIBE, like Redisson up to 3.21, or
	// a later one with shardedSubscriptionMode OFF.
	PubSubClassic
	// PubSubBoth speaks and hears both, for fleets in which both occur.
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

// LockOptions changes how a lock is taken. The zero value of each field is its
// default.
type LockOptions struct {
	// Lease makes the lock last that long and no longer: it is never
	// renewed, and the hold is lost when the time is over. It counts in whole
	// milliseconds, from 1 ms to a year. Default 0: the watchdog renews the
	// lock until it is released.
	Lease time.Duration

	// Margin is how long before the key can expire the hold's context ends.
	// Work that needs time to stop safely asks for a wider one. It must be
	// less than the lease. Default, and least value: a hundredth of the lease
	// and 2 ms, or half of a lease of a few milliseconds. It counts for the hold
	// that takes the lock; a re-entry has the margin of the lease it enters.
	Margin time.Duration

	// NonReentrant makes taking a lock that the context's owner holds already
	// an error, ErrReentry. Like Redisson's NonReentrantLock it uses the same
	// keys, so others may still re-enter. Default: re-entry is counted.
	NonReentrant bool

	// Durability says how many replicas must have a lease before it counts as
	// taken, renewed or re-entered. It concerns what happens to the lock when
	// a master fails over. A re-entry has the durability of the lease it
	// enters, and ErrInvalid if it asks for another one. Default: none.
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

// usual reports whether a lease with these options is like that of anybody who
// asks for nothing special.
func (o LockOptions) usual() bool { return o.Lease == 0 && o.Margin == 0 && o.Durability.none() }

// trust returns how long a lease is trusted from the start of the attempt that
// Redis confirmed.
func (o LockOptions) trust(lease time.Duration) time.Duration {
	lease = lease.Truncate(time.Millisecond) // as it is written
	least := min(lease/100+2*time.Millisecond, lease/2)
	return lease - max(o.Margin, least)
}
