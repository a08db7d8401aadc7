package mortise

import (
	"time"

	"github.com/mortise-go/mortise/internal/dice"
	"github.com/mortise-go/mortise/internal/script"
)

// SpinLock is a [Lock] that uses no messages, the counterpart of Redisson's
// RSpinLock: who waits looks again after a pause, and who releases wakes
// nobody. It needs no rights to publish or subscribe, and suits locks that are
// held for a few milliseconds at a time. While it waits, each process asks Redis
// about eight times a second, or as its [Backoff] says; a Lock asks once.
//
// Goroutines of one client get it in the order in which they asked; one of them
// asks Redis, and a release in this process does wake the next. Between clients
// it is by chance. A client that has the lock nearly all the time leaves it free
// for up to 75 ms two or three times a second, so that the chance of others is not
// too small.
//
// What it does not guarantee, beyond what Lock does not: that those who wait
// for a Lock or FencedLock of the same name are woken by its release. They find
// out within about a second, Redisson's when the lease would have ended.
type SpinLock struct {
	locker
	script script.SpinLock
}

// Backoff says how long a waiter pauses after its n-th refusal in a row,
// counted from 0. It is called by one goroutine at a time for each waiter, and
// by several for several. A pause of less than 1 ms counts as 1 ms.
type Backoff func(n int) time.Duration

// leastPause keeps a Backoff that gives nothing from asking without end.
const leastPause = time.Millisecond

// Redisson's pauses.
const (
	spinFirst = time.Millisecond
	spinMost  = 128 * time.Millisecond
)

// ExponentialBackoff doubles the pause with each refusal, from first to most,
// and shortens each by up to a half at random, so that those who were refused
// together do not come back together. A SpinLock uses it with 1 ms and 128 ms,
// like Redisson.
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

// ConstantBackoff always pauses for d. Redisson's has 64 ms.
func ConstantBackoff(d time.Duration) Backoff { return func(int) time.Duration { return d } }

// SpinLock returns the spin lock called name; see [Client.Lock] for names. It
// does no I/O.
func (c *Client) SpinLock(name string) *SpinLock {
	k := &SpinLock{script: c.conn.SpinLock(name)}
	k.init(object{c, name}, &spinTraits, &k.script)
	return k
}

var spinTraits = traits{use: usePlain, pause: ExponentialBackoff(spinFirst, spinMost)}

// With returns the same lock, to be taken with these options.
func (k *SpinLock) With(options LockOptions) *SpinLock {
	spin := k.client.SpinLock(k.name)
	spin.options, spin.traits = &options, k.traits
	return spin
}

// WithBackoff returns the same lock, to be waited for with these pauses; nil
// means the default.
func (k *SpinLock) WithBackoff(b Backoff) *SpinLock {
	spin := k.client.SpinLock(k.name)
	spin.options = k.options
	if b != nil {
		t := spinTraits
		t.pause = func(n int) time.Duration { return max(b(n), leastPause) }
		spin.traits = &t
	}
	return spin
}
