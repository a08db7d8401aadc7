package terms

import (
	"cmp"
	"time"

	"github.com/mortise-go/mortise/internal/outcome"
)

// Options configures how a lock is acquired. The zero value of each field is its default.
type Options struct {
	TTL          time.Duration // of a lease that is renewed; 0 for that of the client
	MaxHold      time.Duration // after which a hold is lost; 0 for never
	MinHold      time.Duration // until when the lock stays taken at least, whenever it is released
	Margin       time.Duration // how long before the key can expire the hold ends
	NonReentrant bool
	Durability   Durability
	Wait         time.Duration // how long to wait at most; 0 for as long as the context lasts

	DeadlockFails bool // a wait in a cycle is to fail, if it is the youngest
}

// LongestLease is the longest lease, and the longest time to wait for replicas.
const LongestLease = 366 * 24 * time.Hour

// ShortestRenewed is the shortest lease that is renewed.
const ShortestRenewed = 100 * time.Millisecond

// Validate returns an error for options that are not acceptable. renewed is the TTL of
// the client's leases that are renewed.
func (o *Options) Validate(renewed time.Duration) error {
	lease := o.Lease(renewed)
	switch {
	case o.TTL != 0 && o.TTL < ShortestRenewed || o.TTL > LongestLease:
		return outcome.Invalid("the TTL is %v; it must be between %v and a year, or zero for that of the client", o.TTL, ShortestRenewed)
	case o.MaxHold < 0:
		return outcome.Invalid("MaxHold is %v; it must be positive, or zero for a hold without a limit", o.MaxHold)
	case lease < time.Millisecond:
		return outcome.Invalid("MaxHold is %v; the least is 1ms", o.MaxHold)
	case o.MaxHold > LongestLease:
		return outcome.Invalid("MaxHold is %v; the most is a year", o.MaxHold)
	case o.MinHold < 0 || o.MinHold > LongestLease:
		return outcome.Invalid("MinHold is %v; it must be positive, and a year at most", o.MinHold)
	case o.MaxHold != 0 && o.MinHold > o.MaxHold:
		return outcome.Invalid("MinHold is %v, and MaxHold is %v; a lock cannot be kept for longer than it can be held", o.MinHold, o.MaxHold)
	case o.Margin < 0 || o.Margin >= lease.Truncate(time.Millisecond):
		return outcome.Invalid("the margin is %v; it must be positive and less than the lease of %v", o.Margin, lease)
	}
	if err := outcome.CheckWait(o.Wait); err != nil {
		return err
	}
	return o.Durability.validate()
}

// Lease returns the TTL of a new lease. renewed is that of the client's leases that are
// renewed.
func (o *Options) Lease(renewed time.Duration) time.Duration {
	ttl := cmp.Or(o.TTL, renewed)
	if o.MaxHold != 0 {
		ttl = min(ttl, o.MaxHold)
	}
	return ttl
}

// Usual reports whether a lease with these options is like one with the default options.
func (o *Options) Usual() bool { return o.TTL == 0 && o.MinHold == 0 && o.Grantable() }

// Grantable reports whether a release may make a lease with these options: it lasts for
// [script.GivenLease] at first, and is renewed without any end.
func (o *Options) Grantable() bool { return o.MaxHold == 0 && o.Margin == 0 && o.Durability.None() }

// Trust returns how long a lease is trusted from the start of the attempt that Redis
// confirmed.
func (o *Options) Trust(lease time.Duration) time.Duration {
	lease = lease.Truncate(time.Millisecond) // as it is sent to Redis
	least := min(lease/100+2*time.Millisecond, lease/2)
	return lease - max(o.Margin, least)
}
