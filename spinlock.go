package mortise

import (
	"time"

	"github.com/mortise-go/mortise/internal/dice"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/script"
)

// SpinLock is a [Lock] without notifications, the counterpart of Redisson's
// RSpinLock: a waiter retries after a pause, and a release notifies no other
// client. It needs no rights to publish or subscribe, and suits locks that are
// held for a few milliseconds at a time. While it waits, each process asks Redis
// about eight times a second, or as its [Backoff] says; a Lock asks once.
//
// Goroutines of one client acquire it in the order in which they asked; one of
// them asks Redis, and a release in this process does wake the next. Between
// clients the order is random. A client that holds the lock nearly all the time
// leaves it free for up to 75 ms two to four times a second, so that other
// clients have a reasonable chance.
//
// What it does not guarantee, in addition to Lock: that its release wakes the
// waiters for a Lock or FencedLock of the same name. They notice within about a
// second, those of Redisson when the lease would have ended.
type SpinLock struct {
	locker
	script script.SpinLock
}

// Backoff returns how long a waiter pauses after its n-th refusal in a row,
// counted from 0. It is called by one goroutine at a time for each waiter, but
// concurrently for several waiters. A pause of less than 1 ms counts as 1 ms.
type Backoff func(n int) time.Duration

// leastPause prevents a busy loop if a Backoff returns 0.
const leastPause = time.Millisecond

// Redisson's pauses.
const (
	spinFirst = time.Millisecond
	spinMost  = 128 * time.Millisecond
)

// ExponentialBackoff doubles the pause with each refusal, from first to most,
// and shortens each by up to a half at random, so that waiters that were refused
// together do not retry together. A SpinLock uses it with 1 ms and 128 ms, like
// Redisson.
func ExponentialBackoff(first, most time.Duration) Backoff {
	return func(n int) time.Duration {
		d := first
		for range n {
			if d <= 0 || d > most/2 {
				d = most
				break
			}
			d *= 2
		}
		if d = min(d, most); d < 2 {
			return d
		}
		return d - dice.N(d/2)
	}
}

// ConstantBackoff always pauses for d. Redisson's pauses for 64 ms by default.
func ConstantBackoff(d time.Duration) Backoff { return func(int) time.Duration { return d } }

// SpinLock returns the spin lock called name; see [Client.Lock] for names. It
// does no I/O.
func (c *Client) SpinLock(name string) *SpinLock {
	o := c.core.Object(name)
	k := &SpinLock{script: c.core.Conn().SpinLock(o.Key())}
	k.lock.Init(o, &spinTraits, &k.script)
	return k
}

var spinTraits = lease.Traits{Use: usePlain, Kind: "spinlock", Keeps: true, Pause: ExponentialBackoff(spinFirst, spinMost)}

// With returns a handle to the same lock that acquires it with these options.
func (k *SpinLock) With(options LockOptions) *SpinLock {
	with := *k
	with.lock.SetOptions(options.core())
	return &with
}

// WithBackoff returns a handle to the same lock that waits with these pauses;
// nil means the default.
func (k *SpinLock) WithBackoff(b Backoff) *SpinLock {
	with, t := *k, &spinTraits
	if b != nil {
		own := spinTraits
		own.Pause = func(n int) time.Duration { return max(b(n), leastPause) }
		t = &own
	}
	with.lock.SetTraits(t)
	return &with
}
