package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

// Composites are locks that consist of several members, all of them on one server.
var Composites = map[string]struct {
	Names string // of the members, in the order in which they are acquired
	Open  func(c, d *mortise.Client) Taker
	One   func(c *mortise.Client, name string) Taker // a lock that keeps it out
}{
	"plain": {"a b c", func(c, _ *mortise.Client) Taker { return Multi(c, "a", "b", "c") }, PlainLock},
	"plain, of one slot": {"{s}a {s}b {s}c", func(c, _ *mortise.Client) Taker {
		return Multi(c, "{s}a", "{s}b", "{s}c")
	}, PlainLock},
	"mixed kinds": {"a b c d", func(c, _ *mortise.Client) Taker {
		return mortise.NewMultiLock(c.FencedLock("a"), c.Lock("b"), c.FairLock("c"), c.Lock("d"))
	}, PlainLock},
	"two clients": {"a b c d", func(c, d *mortise.Client) Taker {
		return mortise.NewMultiLock(c.Lock("a"), d.Lock("b"), c.Lock("c"), d.Lock("d"))
	}, PlainLock},
	"both sides": {"a b", func(c, _ *mortise.Client) Taker {
		return mortise.NewMultiLock(c.RWLock("a").Write(), c.RWLock("a").Read(), c.RWLock("b").Write(), c.RWLock("b").Read())
	}, func(c *mortise.Client, name string) Taker { return c.RWLock(name).Write() }},
}

// PlainLock returns the plain lock of a name as a Taker.
func PlainLock(c *mortise.Client, name string) Taker { return c.Lock(name) }

// Blocker returns a function that acquires a lock and returns its release.
func Blocker(t *testing.T, open func(name string) Taker) func(name string) (release func()) {
	return func(name string) func() {
		hold, _, err := open(name).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return func() { MustUnlock(t, hold) }
	}
}

// Crosswise releases two holds of one owner at the same time. The first one had to wait for another
// lock each time, so it has its members in another order than the second one, which re-entered all
// of them. It reports how long the two releases took.
func Crosswise(t *testing.T, k Taker, names []string, block func(name string) (release func()), waits func(name string), took func(time.Duration)) {
	for _, name := range names {
		for range 3 {
			release := block(name)
			ctx, cancel := context.WithCancel(mortise.WithOwner(t.Context()))
			got := make(chan *mortise.Hold, 1)
			go func() {
				hold, _, err := k.Lock(ctx)
				if err != nil {
					t.Error(err)
				}
				got <- hold
			}()
			waits(name)
			release()
			first := <-got
			second, _, err := k.Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			start, released := time.Now(), make(chan error, 2)
			for _, hold := range []*mortise.Hold{first, second} {
				go func() { released <- hold.Unlock() }()
			}
			over := time.After(time.Minute)
			for range 2 {
				select {
				case err := <-released:
					if err != nil {
						t.Error(err)
					}
				case <-over:
					t.Fatalf("after a wait for %s the two releases do not end", name)
				}
			}
			took(time.Since(start))
			cancel()
		}
	}
}
