package behavior

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// deafHandOff has a goroutine hand its FencedLock off to another, which cannot draw its token until hear is called. Its outcome
// comes on got.
func deafHandOff(t *testing.T, c *mortise.Client, f *faults, lost func(context.Context, string) error) (got <-chan fenced, hear func()) {
	first, _ := mustFence(t, c.FencedLock("job"), t.Context())
	second := make(chan fenced, 1)
	go func() {
		hold, _, err := c.FencedLock("job").Lock(t.Context())
		second <- fenced{hold, err}
	}()
	synctest.Wait()
	var heard atomic.Bool
	f.Set(func(_ context.Context, name string) error {
		if name == "fenced_reenter" && !heard.Load() {
			return errCut
		}
		return nil
	}, lost)
	mustUnlock(t, first)
	synctest.Wait()
	if f.Count("fenced_reenter") == 0 {
		t.Fatal("the lease was not handed off")
	}
	return second, func() { heard.Store(true) }
}

type fenced struct {
	hold *mortise.Hold
	err  error
}

// must returns the hold, which is expected.
func (f fenced) must(t *testing.T) *mortise.Hold {
	t.Helper()
	if f.err != nil {
		t.Fatalf("Lock: %v, want the lock, which is free again", f.err)
	}
	return f.hold
}

// A waiter that was handed a lease inside the process, and loses it before it has drawn
// its token, goes on waiting: it has not had the lock.
func TestFencedHandOffThatIsLost(t *testing.T) {
	cut := func(context.Context, string) error { return errCut }
	for name, lose := range map[string]func(t *testing.T, s *memredis.Server, f *faults){
		"Redis is unreachable for longer than the lease": func(t *testing.T, _ *memredis.Server, f *faults) {
			f.Set(cut, nil)
			time.Sleep(4 * time.Second)
			f.Set(nil, nil)
		},
		"the key is deleted": func(t *testing.T, s *memredis.Server, _ *faults) {
			run(t, s, `return redis.call('del', KEYS[1])`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, &mortise.Options{TTL: 3 * time.Second})
				defer f.Set(nil, nil)
				got, hear := deafHandOff(t, c, f, nil)
				lose(t, s, f)
				hear()
				hold := (<-got).must(t)
				if hold.Token() < 2 {
					t.Errorf("the token is %d, want a newer one than the first", hold.Token())
				}
				mustUnlock(t, hold)
			})
		})
	}
}

// The same if another goroutine of the client has acquired the lock meanwhile.
func TestFencedHandOffThatIsSuperseded(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		defer f.Set(nil, nil)
		got, hear := deafHandOff(t, c, f, nil)
		run(t, s, `return redis.call('del', KEYS[1])`)
		third, _ := mustFence(t, c.FencedLock("job"), t.Context()) // after a poll
		hear()
		time.Sleep(5 * time.Second)
		mustUnlock(t, third)
		mustUnlock(t, (<-got).must(t))
	})
}

// A waiter that loses the lease that it was handed goes in front of one whose attempt is in doubt. Each has an id of its own: what
// the other sends to take its attempt back, when it gives up, is not for the lease of this one, and no turn is left of either.
func TestFencedHandOffThatIsLostInFrontOfADoubt(t *testing.T) {
	t.Parallel()
	for round := range 20 { // which of them asks first is left to chance
		t.Run(fmt.Sprint(round), func(t *testing.T) { bubble(t, inFrontOfADoubt) })
	}
}

func inFrontOfADoubt(t *testing.T, s *memredis.Server) {
	c, f := open(t, s, nil)
	defer f.Set(nil, nil)
	var lost atomic.Bool
	got, hear := deafHandOff(t, c, f, func(_ context.Context, name string) error {
		if name == "fenced_acquire" && lost.CompareAndSwap(false, true) {
			return errCut
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	third := make(chan fenced, 1)
	go func() {
		hold, _, err := c.FencedLock("job").Lock(ctx)
		third <- fenced{hold, err}
	}()
	time.Sleep(2 * time.Second)
	if !lost.Load() {
		t.Fatal("no attempt is in doubt")
	}
	turns := func() (list []string) {
		v := run(t, s, `return redis.call('zrange', 'mortise:turns:{job}', 0, -1)`)
		for i := range v.Len() {
			list = append(list, v.At(i).Str())
		}
		return list
	}
	doubtful := turns() // of the third, if it has one already
	run(t, s, `return redis.call('del', KEYS[1])`)
	hear()
	select {
	case other := <-third: // it was faster
		mustUnlock(t, other.must(t))
		mustUnlock(t, (<-got).must(t))
		cancel()
	case second := <-got:
		hold := second.must(t)
		time.Sleep(time.Second)
		if got := turns(); slices.ContainsFunc(got, func(turn string) bool { return slices.Contains(doubtful, turn) }) {
			t.Errorf("the client has the turns %q, of which %q belong to an attempt that was given up", got, doubtful)
		}
		cancel()
		<-third
		time.Sleep(time.Second)
		if got := turns(); len(got) > 0 {
			t.Errorf("nobody waits, and the client has the turns %q", got)
		}
		if v := run(t, s, `return redis.call('hget', KEYS[1], '`+hold.Owner()+`')`); v.Str() != "1" || !hold.Valid() {
			t.Errorf("Redis has %v of the lock, valid: %v, want that it is held", v, hold.Valid())
		}
		mustUnlock(t, hold)
	}
}
