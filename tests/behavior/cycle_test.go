package behavior

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// fails are the options of a lock whose wait is to fail in a cycle.
var fails = mortise.LockOptions{Deadlock: mortise.DeadlockFail}

// knot is a test of waits that wait for each other.
type knot struct {
	t       *testing.T
	s       *memredis.Server
	clients []*mortise.Client
	faults  []*faults
	told    []*events
}

// join adds a client to the knot.
func (k *knot) join(options *mortise.Options) *mortise.Client {
	k.t.Helper()
	o := &events{}
	if options == nil {
		options = seenAs(fmt.Sprint("host-", len(k.clients)))
	}
	options.Observer = o
	c, f := open(k.t, k.s, options)
	k.clients, k.faults, k.told = append(k.clients, c), append(k.faults, f), append(k.told, o)
	return c
}

// pair returns two clients of a knot.
func pair(t *testing.T, s *memredis.Server) (k *knot, a, b *mortise.Client) {
	t.Helper()
	k = &knot{t: t, s: s}
	return k, k.join(nil), k.join(nil)
}

// cycles returns the events of cycles, of all clients.
func (k *knot) cycles() (list []mortise.Event) {
	for _, o := range k.told {
		list = append(list, o.of(mortise.EventDeadlock)...)
	}
	return list
}

// wantNone fails if a cycle is told within a minute.
func (k *knot) wantNone() {
	k.t.Helper()
	time.Sleep(time.Minute)
	for _, e := range k.cycles() {
		k.t.Errorf("a cycle is told that there is not: %v", e.Err)
	}
}

// grab acquires something, and returns the context of the hold and what releases it.
type grab func(ctx context.Context, c *mortise.Client, name string, o mortise.LockOptions) (context.Context, func() error, error)

// locks returns what acquires a lock.
func locks(of func(c *mortise.Client, name string, o mortise.LockOptions) taker) grab {
	return func(ctx context.Context, c *mortise.Client, name string, o mortise.LockOptions) (context.Context, func() error, error) {
		hold, ctx, err := of(c, name, o).Lock(ctx)
		if err != nil {
			return nil, nil, err
		}
		return ctx, hold.Unlock, nil
	}
}

var grabs = map[string]grab{
	"Lock":       locks(func(c *mortise.Client, name string, o mortise.LockOptions) taker { return c.Lock(name).With(o) }),
	"SpinLock":   locks(func(c *mortise.Client, name string, o mortise.LockOptions) taker { return c.SpinLock(name).With(o) }),
	"FairLock":   locks(func(c *mortise.Client, name string, o mortise.LockOptions) taker { return c.FairLock(name).With(o) }),
	"FencedLock": locks(func(c *mortise.Client, name string, o mortise.LockOptions) taker { return c.FencedLock(name).With(o) }),
	"reader": locks(func(c *mortise.Client, name string, o mortise.LockOptions) taker {
		return c.RWLock(name).Read().With(o)
	}),
	"writer": locks(func(c *mortise.Client, name string, o mortise.LockOptions) taker {
		return c.RWLock(name).Write().With(o)
	}),
	"MultiLock": locks(func(c *mortise.Client, name string, o mortise.LockOptions) taker {
		return mortise.NewMultiLock(c.Lock(name).With(o), c.FairLock(name+" too").With(o)).With(o)
	}),
	"Election": func(ctx context.Context, c *mortise.Client, name string, o mortise.LockOptions) (context.Context, func() error, error) {
		term, ctx, err := c.Election(name).With(o).Campaign(ctx, "me")
		if err != nil {
			return nil, nil, err
		}
		return ctx, term.Resign, nil
	},
}

// must acquires what is free.
func (k *knot) must(g grab, ctx context.Context, c *mortise.Client, name string) (context.Context, func() error) {
	k.t.Helper()
	ctx, release, err := g(ctx, c, name, mortise.LockOptions{})
	if err != nil {
		k.t.Fatal(err)
	}
	return ctx, release
}

// fate is what became of a wait.
type fate struct {
	release func() error
	err     error
}

// wait has a goroutine wait, and returns what becomes of it.
func (k *knot) wait(g grab, ctx context.Context, c *mortise.Client, name string, o mortise.LockOptions) <-chan fate {
	end := make(chan fate, 1)
	go func() {
		_, release, err := g(ctx, c, name, o)
		end <- fate{release, err}
	}()
	synctest.Wait()
	return end
}

// soon returns what becomes of a wait within d.
func (k *knot) soon(what string, end <-chan fate, d time.Duration) fate {
	k.t.Helper()
	select {
	case f := <-end:
		return f
	case <-time.After(d):
		k.t.Fatalf("%s still waits after %v", what, d)
		return fate{}
	}
}

// cycleOf fails if a wait does not end soon because of a cycle of locks whose names, in order, begin so.
func (k *knot) cycleOf(what string, end <-chan fate, locks ...string) *mortise.DeadlockError {
	k.t.Helper()
	f := k.soon(what, end, 2500*time.Millisecond)
	var cycle *mortise.DeadlockError
	if !errors.Is(f.err, mortise.ErrDeadlock) || !errors.As(f.err, &cycle) {
		k.t.Fatalf("%s ended with %v, want a deadlock", what, f.err)
	}
	var names []string
	for _, w := range cycle.Waits {
		names = append(names, w.Lock)
		if w.Client.Host == "" || w.Client.PID == 0 || w.Since.IsZero() || !strings.Contains(f.err.Error(), w.Client.Host) {
			k.t.Errorf("a wait of the cycle is %+v; the error is %q", w, f.err)
		}
	}
	slices.Sort(names)
	if !slices.EqualFunc(names, locks, strings.HasPrefix) { // of a MultiLock any part
		k.t.Errorf("the cycle has the locks %q, want %q", names, locks)
	}
	return cycle
}

// wantFailure is cycleOf for a caller that does not need the cycle.
func (k *knot) wantFailure(what string, end <-chan fate, locks ...string) {
	k.t.Helper()
	_ = k.cycleOf(what, end, locks...)
}

// wantThrough fails if a wait does not end soon with a hold, and releases that.
func (k *knot) wantThrough(what string, end <-chan fate) {
	k.t.Helper()
	if f := k.soon(what, end, 2500*time.Millisecond); f.err != nil {
		k.t.Fatalf("%s failed: %v", what, f.err)
	} else if err := f.release(); err != nil {
		k.t.Error(err)
	}
}

// tick lets some time pass, so that what follows is younger.
func tick() { time.Sleep(10 * time.Millisecond) }

func TestCyclesOfKinds(t *testing.T) {
	rings := []struct{ held, wanted, name string }{
		{"Lock", "Lock", "two"}, {"Lock", "SpinLock", "two"}, {"FairLock", "FairLock", "two"}, {"FencedLock", "FencedLock", "two"},
		{"reader", "writer", "two"}, {"writer", "writer", "two"}, {"writer", "reader", "two"},
		{"MultiLock", "Lock", "two"}, {"MultiLock", "FairLock", "two too"}, {"MultiLock", "MultiLock", "two"},
		{"Lock", "FencedLock", "two"}, {"FairLock", "Lock", "two"}, {"Election", "Election", "two"},
	}
	for _, r := range rings {
		for _, inside := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, wanted as %s, inside=%t", r.held, r.wanted, inside), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					k, a, b := pair(t, s)
					if inside {
						b = a
					}
					one, _ := k.must(grabs["Lock"], t.Context(), a, "one")
					two, release := k.must(grabs[r.held], t.Context(), b, "two")
					first := k.wait(grabs[r.wanted], one, a, r.name, fails)
					tick()
					second := k.wait(grabs["Lock"], two, b, "one", fails)
					k.wantFailure("the younger", second, "one", r.name)
					if err := release(); err != nil {
						t.Fatal(err)
					}
					k.wantThrough("the older", first)
				})
			})
			t.Run(fmt.Sprintf("%s, wanted as %s by the younger, inside=%t", r.held, r.wanted, inside), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					k, a, b := pair(t, s)
					if inside {
						b = a
					}
					one, release := k.must(grabs["Lock"], t.Context(), a, "one")
					two, _ := k.must(grabs[r.held], t.Context(), b, "two")
					first := k.wait(grabs["Lock"], two, b, "one", fails)
					tick()
					second := k.wait(grabs[r.wanted], one, a, r.name, fails)
					k.wantFailure("the younger", second, "one", r.name)
					if err := release(); err != nil {
						t.Fatal(err)
					}
					k.wantThrough("the older", first)
				})
			})
		}
	}
}

// A wait at the end of a long row of waits reads a bounded number of records.
func TestLongRowsAreLookedAtSeldom(t *testing.T) {
	for _, n := range []int{2, 10, 16, 30} {
		if n == 30 && !*deep { // the cost of the test is the square of it
			continue
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				var inner context.Context
				var first *mortise.Hold
				var got <-chan *mortise.Hold
				var reads atomic.Int64
				var all sync.WaitGroup
				for i := range n { // each waits for the lock of the one before it
					c, f := open(t, s, nil)
					hold, in := mustLock(t, c.Lock(fmt.Sprint(i)), t.Context())
					if inner = in; i == 0 {
						first = hold
						continue
					}
					next := later(t, inner, c.Lock(fmt.Sprint(i-1)))
					if i == n-1 {
						got = next
						f.Set(func(_ context.Context, name string) error {
							if name == "client_read" {
								reads.Add(1)
							}
							return nil
						}, nil)
						continue
					}
					all.Go(func() {
						mustUnlock(t, <-next)
						mustUnlock(t, hold)
					})
				}
				time.Sleep(3 * time.Second)
				young := reads.Swap(0)
				time.Sleep(20 * time.Second)
				old := reads.Load()
				t.Logf("%d records read in the first 3 s, %d in the next 20 s", young, old)
				if most, mostOld := int64(3*100+n), int64(20*40+n); young > most || old > mostOld {
					t.Errorf("%d records were read in the first 3 s, and %d in the next 20 s; want at most %d and %d", young, old, most, mostOld)
				}
				if young == 0 || old < 10 {
					t.Errorf("%d records were read in the first 3 s, and %d in the next 20 s: it does not look", young, old)
				}
				mustUnlock(t, first)
				mustUnlock(t, <-got)
				all.Wait()
			})
		})
	}
}
