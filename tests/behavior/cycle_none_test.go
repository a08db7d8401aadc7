package behavior

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// noCycles look like cycles, and are none: somebody will get on.
var noCycles = map[string]func(t *testing.T, k *knot, a, b *mortise.Client){
	"a wait with a context of Detach": func(t *testing.T, k *knot, a, b *mortise.Client) {
		one, _ := k.must(grabs["Lock"], t.Context(), a, "one")
		two, _ := k.must(grabs["Lock"], t.Context(), b, "two")
		k.wait(grabs["Lock"], mortise.Detach(one), a, "two", fails)
		k.wait(grabs["Lock"], two, b, "one", fails)
	},
	"several goroutines wait under a hold": func(t *testing.T, k *knot, a, b *mortise.Client) {
		c := k.join(nil)
		one, _ := k.must(grabs["Lock"], t.Context(), a, "one")
		two, _ := k.must(grabs["Lock"], t.Context(), b, "two")
		k.must(grabs["Lock"], t.Context(), c, "three")
		k.wait(grabs["Lock"], mortise.WithOwner(two), b, "three", fails)
		k.wait(grabs["Lock"], two, b, "one", fails)
		k.wait(grabs["Lock"], one, a, "two", fails)
	},
	"several goroutines wait under a hold, one of them for a permit": func(t *testing.T, k *knot, a, b *mortise.Client) {
		permitted(t, b, "pool", 0)
		one, _ := k.must(grabs["Lock"], t.Context(), a, "one")
		two, _ := k.must(grabs["Lock"], t.Context(), b, "two")
		inner, _ := k.must(grabs["Lock"], two, b, "inner")
		k.wait(grabs["Lock"], inner, b, "one", fails)
		k.wait(grabs["Lock"], one, a, "two", fails)
		go func() { _ = b.Semaphore("pool").Acquire(two, 1) }()
	},
	"several goroutines wait under a hold, one of them at a barrier": func(t *testing.T, k *knot, a, b *mortise.Client) {
		one, _ := k.must(grabs["Lock"], t.Context(), a, "one")
		two, _ := k.must(grabs["Lock"], t.Context(), b, "two")
		go func() { _, _ = b.Barrier("all", 2).Await(two) }()
		tick()
		k.wait(grabs["Lock"], two, b, "one", fails)
		k.wait(grabs["Lock"], one, a, "two", fails)
	},
	"several goroutines wait under a hold, one of them by another client": func(t *testing.T, k *knot, a, b *mortise.Client) {
		c, d := k.join(nil), k.join(nil)
		one, _ := k.must(grabs["Lock"], t.Context(), a, "one")
		two, _ := k.must(grabs["Lock"], t.Context(), b, "two")
		k.must(grabs["Lock"], t.Context(), c, "three")
		k.wait(grabs["Lock"], mortise.WithOwner(two), d, "three", fails)
		k.wait(grabs["Lock"], two, b, "one", fails)
		k.wait(grabs["Lock"], one, a, "two", fails)
	},
	"goroutines join the first under a hold, one after the other": func(t *testing.T, k *knot, a, b *mortise.Client) {
		c := k.join(nil)
		one, _ := k.must(grabs["Lock"], t.Context(), a, "one")
		two, _ := k.must(grabs["Lock"], t.Context(), b, "two")
		k.must(grabs["Lock"], t.Context(), c, "three")
		k.wait(grabs["Lock"], two, b, "one", fails)
		k.wait(grabs["Lock"], one, a, "two", fails)
		go func() { // each wait is too short to be told
			for t.Context().Err() == nil {
				ctx, cancel := context.WithTimeout(mortise.WithOwner(two), 200*time.Millisecond)
				_, _, err := b.Lock("three").Lock(ctx)
				cancel()
				if !errors.Is(err, mortise.ErrLocked) {
					return
				}
			}
		}()
	},
	"a goroutine under a hold waits, and pauses": func(t *testing.T, k *knot, a, b *mortise.Client) {
		c := k.join(nil)
		one, _ := k.must(grabs["Lock"], t.Context(), a, "one")
		two, _ := k.must(grabs["Lock"], t.Context(), b, "two")
		k.must(grabs["Lock"], t.Context(), c, "three")
		k.wait(grabs["Lock"], two, b, "one", fails)
		k.wait(grabs["Lock"], one, a, "two", fails)
		go func() {
			for t.Context().Err() == nil {
				ctx, cancel := context.WithTimeout(mortise.WithOwner(two), 40*time.Millisecond)
				_, _, err := b.Lock("three").Lock(ctx)
				cancel()
				if !errors.Is(err, mortise.ErrLocked) {
					return
				}
				select {
				case <-time.After(9 * time.Second):
				case <-t.Context().Done():
				}
			}
		}()
	},
	"a hold is released while its context goes on": func(t *testing.T, k *knot, a, b *mortise.Client) {
		one, _ := k.must(grabs["Lock"], t.Context(), a, "one")
		two, release := k.must(grabs["Lock"], t.Context(), b, "two")
		k.wait(grabs["Lock"], context.WithoutCancel(two), b, "one", fails)
		first := k.wait(grabs["Lock"], one, a, "two", fails)
		time.Sleep(600 * time.Millisecond) // it was seen
		if err := release(); err != nil {
			t.Error(err)
		}
		if f := k.soon("the other", first, time.Second); f.err != nil {
			t.Error(f.err)
		}
	},
	"permits": func(t *testing.T, k *knot, a, b *mortise.Client) {
		permit := func(ctx context.Context, c *mortise.Client, name string, _ mortise.LockOptions) (context.Context, func() error, error) {
			hold, ctx, err := c.PermitSemaphore(name).Acquire(ctx)
			if err != nil {
				return nil, nil, err
			}
			return ctx, hold.Unlock, nil
		}
		for _, name := range []string{"one", "two"} {
			if err := a.PermitSemaphore(name).SetPermits(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		one, _ := k.must(permit, t.Context(), a, "one")
		two, _ := k.must(permit, t.Context(), b, "two")
		k.wait(permit, one, a, "two", fails)
		k.wait(permit, two, b, "one", fails)
	},
	"readers": func(t *testing.T, k *knot, a, b *mortise.Client) {
		read := grabs["reader"]
		one, _ := k.must(read, t.Context(), a, "one")
		two, _ := k.must(read, t.Context(), b, "two")
		k.must(read, one, a, "two")
		k.must(read, two, b, "one")
	},
	"MultiLocks whose parts cross": func(t *testing.T, k *knot, a, b *mortise.Client) {
		c := k.join(nil)
		k.must(grabs["Lock"], t.Context(), c, "three")
		for _, m := range []*mortise.MultiLock{
			mortise.NewMultiLock(a.Lock("one"), a.Lock("two"), a.Lock("three")).With(fails),
			mortise.NewMultiLock(b.FairLock("two"), b.FairLock("one"), b.FairLock("three")).With(fails),
		} {
			go func() {
				if _, _, err := m.Lock(t.Context()); t.Context().Err() == nil && !errors.Is(err, mortise.ErrClosed) {
					t.Errorf("a MultiLock ended with %v", err)
				}
			}()
		}
	},
	"a hidden client": func(t *testing.T, k *knot, a, _ *mortise.Client) {
		b := k.join(&mortise.Options{Identity: mortise.Identity{Hide: true}, History: 1})
		one, _ := k.must(grabs["Lock"], t.Context(), a, "one")
		two, _ := k.must(grabs["Lock"], t.Context(), b, "two")
		k.wait(grabs["Lock"], one, a, "two", fails)
		k.wait(grabs["Lock"], two, b, "one", fails)
	},
	"inside a hidden client": func(t *testing.T, k *knot, _, _ *mortise.Client) {
		c := k.join(&mortise.Options{Identity: mortise.Identity{Hide: true}, History: 1})
		one, _ := k.must(grabs["Lock"], t.Context(), c, "one")
		two, _ := k.must(grabs["Lock"], t.Context(), c, "two")
		k.wait(grabs["Lock"], one, c, "two", fails)
		k.wait(grabs["Lock"], two, c, "one", fails)
		for range 20 { // it looks, for its history
			hold, _ := mustLock(t, c.Lock("three"), t.Context())
			time.Sleep(300 * time.Millisecond)
			mustUnlock(t, hold)
		}
	},
	"names of other prefixes": func(t *testing.T, k *knot, a, _ *mortise.Client) {
		o := seenAs("staging")
		o.Prefix = "staging:"
		b := k.join(o)
		k.must(grabs["Lock"], t.Context(), b, "one")
		one, _ := k.must(grabs["Lock"], t.Context(), a, "one")
		k.must(grabs["Lock"], one, a, "two")
		two, _ := k.must(grabs["Lock"], t.Context(), b, "two")
		k.wait(grabs["Lock"], two, b, "one", fails)
		k.wait(grabs["Lock"], mortise.Detach(one), a, "two", fails)
	},
	"the wait ended while its client froze": func(t *testing.T, k *knot, a, b *mortise.Client) {
		two, _ := k.must(grabs["Lock"], t.Context(), b, "two")
		one, _ := k.must(grabs["Lock"], t.Context(), a, "one")
		ctx, cancel := context.WithTimeout(two, 700*time.Millisecond)
		defer cancel()
		end := k.wait(grabs["Lock"], ctx, b, "one", fails)
		time.Sleep(600 * time.Millisecond)
		k.faults[1].Set(tellsNothing, nil) // its record stays as it is
		k.soon("the first", end, time.Second)
		k.wait(grabs["Lock"], one, a, "two", fails)
		time.Sleep(40 * time.Second)
		k.faults[1].Set(nil, nil)
	},
}

func TestNoCycle(t *testing.T) {
	for name, f := range noCycles {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				k, a, b := pair(t, s)
				f(t, k, a, b)
				k.wantNone()
			})
		})
	}
}

// tellsNothing is a fault: no script that tells of the client is answered, and none runs.
func tellsNothing(ctx context.Context, name string) error {
	if strings.HasPrefix(name, "client_") {
		return hang(ctx, name)
	}
	return nil
}

// A record tells of a moment that has passed: it is on its way for longer than two looks take. The
// wait that it tells of is over before the other begins.
func TestRecordThatWasWrittenLateProvesNoCycle(t *testing.T) {
	for _, ms := range []int{300, 1000, 1500, 1850} {
		bubbleNamed(t, fmt.Sprint(ms, "ms"), func(t *testing.T, s *memredis.Server) {
			k, a, b := pair(t, s)
			one, _ := k.must(grabs["Lock"], t.Context(), a, "one")
			two, _ := k.must(grabs["Lock"], t.Context(), b, "two")
			ctx, cancel := context.WithCancel(two)
			end := k.wait(grabs["Lock"], ctx, b, "one", fails)
			time.Sleep(600 * time.Millisecond)
			written := make(chan struct{})
			var once sync.Once
			k.faults[1].Set(func(_ context.Context, name string) error {
				if name == "client_record" {
					once.Do(func() { close(written) })
					time.Sleep(time.Duration(ms) * time.Millisecond)
				}
				return nil
			}, nil)
			<-written
			cancel()
			if f := <-end; !errors.Is(f.err, context.Canceled) {
				t.Errorf("the wait that was given up ended with %v", f.err)
			}
			k.wait(grabs["Lock"], one, a, "two", fails)
			k.wantNone()
			synctest.Wait()
		})
	}
}

// TestRedlocksAreInNoCycle: a Redlock keeps nobody out by one of its parts.
func TestRedlocksAreInNoCycle(t *testing.T) {
	several(t, 3, func(t *testing.T, servers []*memredis.Server) {
		var o events
		options := seenAs("api-7")
		options.Observer = &o
		a, b := newProcess(t, servers, options), newProcess(t, servers, options)
		redlock := func(p *process, name string) *mortise.Redlock {
			return mortise.NewRedlock(name, p.clients...).With(fails)
		}
		_, one := mustRedlock(t, redlock(a, "one"), t.Context())
		_, two := mustRedlock(t, redlock(b, "two"), t.Context())
		for _, w := range []struct {
			k   *mortise.Redlock
			ctx context.Context
		}{{redlock(a, "two"), one}, {redlock(b, "one"), two}} {
			go func() {
				if _, _, err := w.k.Lock(w.ctx); errors.Is(err, mortise.ErrDeadlock) {
					t.Errorf("a Redlock ended with %v", err)
				}
			}()
		}
		time.Sleep(time.Minute)
		if e := o.of(mortise.EventDeadlock); len(e) > 0 {
			t.Errorf("told: %v", e[0].Err)
		}
	})
}

// bubbleNamed runs a subtest in a bubble.
func bubbleNamed(t *testing.T, name string, f func(t *testing.T, s *memredis.Server)) {
	t.Run(name, func(t *testing.T) { bubble(t, f) })
}
