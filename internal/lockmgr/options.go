package lockmgr

import (
	"cmp"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/script"
)

// Config configures a client.
type Config struct {
	Driver       driver.Driver
	Invalid      error         // why every operation fails; nil if the options are acceptable
	TTL          time.Duration // of a lease that is renewed
	RetryFor     time.Duration // negative: as long as the context of the operation lasts
	UnlockFor    time.Duration // not positive: until the lease ends
	Prefix       string        // what every name in Redis begins with
	AllowAnyName bool
	Errors       Errors

	// Publish returns how releases are announced.
	Publish func(driver.Topology) script.Publish

	// OnClockJump, if set, is called in a goroutine of its own when a server's clock was
	// set.
	OnClockJump func(server string, jump time.Duration)
}

// Options configures how a lock is acquired. The zero value of each field is its default.
type Options struct {
	MaxHold      time.Duration // of a lease that is not renewed; 0 for one that is
	Margin       time.Duration // how long before the key can expire the hold ends
	NonReentrant bool
	Durability   Durability
}

// LongestLease is the longest lease, and the longest time to wait for replicas.
const LongestLease = 366 * 24 * time.Hour

// Validate returns an error for options that are not acceptable. renewed is the lease of
// a lock that is renewed.
func (o Options) Validate(renewed time.Duration) error {
	lease := cmp.Or(o.MaxHold, renewed)
	switch {
	case o.MaxHold < 0:
		return Invalid("the lease is %v; it must be positive, or zero to be renewed", o.MaxHold)
	case lease < time.Millisecond:
		return Invalid("the lease is %v; the least is 1ms", o.MaxHold)
	case lease > LongestLease:
		return Invalid("the lease is %v; the most is a year", o.MaxHold)
	case o.Margin < 0 || o.Margin >= lease.Truncate(time.Millisecond):
		return Invalid("the margin is %v; it must be positive and less than the lease of %v", o.Margin, lease)
	}
	return o.Durability.validate()
}

// usual reports whether a lease with these options is like one with the default options.
func (o Options) usual() bool { return o.MaxHold == 0 && o.Margin == 0 && o.Durability.none() }

// trust returns how long a lease is trusted from the start of the attempt that Redis
// confirmed.
func (o Options) trust(lease time.Duration) time.Duration {
	lease = lease.Truncate(time.Millisecond) // as it is sent to Redis
	least := min(lease/100+2*time.Millisecond, lease/2)
	return lease - max(o.Margin, least)
}
