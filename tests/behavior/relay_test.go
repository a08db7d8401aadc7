package behavior

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// inLine starts n goroutines that lock k one after the other in this order, and
// then call f with their number and hold. It returns once all of them wait.
func inLine(t *testing.T, all *sync.WaitGroup, n int, k *mortise.Lock, f func(i int, h *mortise.Hold)) {
	t.Helper()
	for i := range n {
		all.Go(func() {
			hold, _, err := k.Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			f(i, hold)
		})
		synctest.Wait()
	}
}

func TestLeaseIsHandedOnInsideTheProcess(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		k := c.Lock("job")
		first, firstCtx := mustLock(t, k, t.Context())
		var order []int
		var last *mortise.Hold
		var all sync.WaitGroup
		inLine(t, &all, 50, k, func(i int, h *mortise.Hold) {
			if !h.Valid() || last != nil && last.Valid() {
				t.Errorf("hold %d: valid is %v, and %v for the one before; want the new one alone", i, h.Valid(), last.Valid())
			}
			if h.Owner() != first.Owner() {
				t.Errorf("hold %d has the owner %s, want %s as in Redis", i, h.Owner(), first.Owner())
			}
			order, last = append(order, i), h
			if i == 49 {
				wantState(t, k, first.Owner(), 1)
			}
			mustUnlock(t, h)
		})
		before := f.Total()
		mustUnlock(t, first)
		if cause := context.Cause(firstCtx); !errors.Is(cause, mortise.ErrReleased) {
			t.Errorf("the context of a hold that was handed on ended with %v, want ErrReleased", cause)
		}
		all.Wait()
		if !slices.IsSorted(order) || len(order) != 50 {
			t.Errorf("the order was %v, want first come, first served", order)
		}
		if n := f.Total() - before; n != 2 { // the last look at Redis, and the release
			t.Errorf("50 hand-overs took %d scripts, want one release and one look of this test", n)
		}
		wantState(t, k, "", 0)
		if err := first.Unlock(); !errors.Is(err, mortise.ErrReleased) {
			t.Errorf("a second Unlock of a hold that was handed on: %v, want ErrReleased", err)
		}
	})
}

// A waiter that gives up in the moment in which it is handed the lease must not
// take it away with it.
func TestLeaseHandedToOneThatGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.Lock("job")
		got, gaveUp := 0, 0
		for round := range 200 {
			first, _ := mustLock(t, k, t.Context())
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() {
				hold, _, err := k.Lock(ctx)
				if errors.Is(err, context.Canceled) {
					gaveUp++
					return
				}
				got++
				mustUnlock(t, hold)
			})
			synctest.Wait()
			unlock := func() { mustUnlock(t, first) }
			for _, f := range [][]func(){{cancel, unlock}, {unlock, cancel}, {func() { cancel(); unlock() }}, {func() { unlock(); cancel() }}}[round%4] {
				all.Go(f)
			}
			synctest.Wait()
			hold, _, err := k.TryLock(t.Context())
			if err != nil {
				t.Fatalf("after the waiter has gone: %v, want the lock at once", err)
			}
			mustUnlock(t, hold)
			all.Wait()
		}
		if got == 0 || gaveUp == 0 {
			t.Errorf("%d waiters got the lock and %d gave up, want some of both", got, gaveUp)
		}
		t.Logf("%d waiters got the lock and %d gave up", got, gaveUp)
		wantEmpty(t, s)
	})
}

// What was released, and nobody has taken, does not stay in Redis. The client is
// closed before the lease is handed on, or after that, as the scheduler has it; or
// when the waiter has it for sure.
func TestCloseWhileALeaseIsHandedOn(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		watcher, _ := open(t, s, nil)
		for round := range 300 {
			c := mortise.New(s.Driver(), nil)
			k := c.Lock(fmt.Sprint("job ", round))
			first, _ := mustLock(t, k, t.Context())
			var waiting, released error
			var all sync.WaitGroup
			all.Go(func() {
				var hold *mortise.Hold
				if hold, _, waiting = k.Lock(t.Context()); waiting == nil {
					_ = hold.Unlock() // tells that the client is closed, or not
				}
			})
			synctest.Wait()
			switch round % 3 {
			case 0:
				all.Go(func() { released = first.Unlock() })
			case 1:
				released = first.Unlock() // to a waiter that finds the client closed, or not
			case 2:
				released = first.Unlock()
				synctest.Wait()
			}
			all.Go(func() { _ = c.Close() })
			all.Wait()
			switch {
			case waiting == nil:
				continue
			case round%3 == 2:
				t.Errorf("the waiter: %v, want the lease", waiting)
			case !errors.Is(waiting, mortise.ErrClosed):
				t.Errorf("the waiter: %v, want ErrClosed", waiting)
			}
			if released == nil {
				wantState(t, watcher.Lock(k.Name()), "", 0)
			}
		}
	})
}

func TestLeaseWithoutMuchTrustIsNotHandedOn(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, &mortise.Options{TTL: 9 * time.Second})
		k := c.Lock("job")
		first, _ := mustLock(t, k, t.Context())
		var all sync.WaitGroup
		var until time.Time
		inLine(t, &all, 1, k, func(_ int, h *mortise.Hold) { until = h.Until(); mustUnlock(t, h) })
		f.Set(func(ctx context.Context, name string) error {
			if name == "lock_renew" {
				return hang(ctx, name)
			}
			return nil
		}, nil)
		time.Sleep(8 * time.Second) // of 8.9
		mustUnlock(t, first)
		all.Wait()
		if left := time.Until(until); left < time.Second { // what was left has 0.9s; a lease from Redis has a third of 3s at least
			t.Errorf("the next hold is trusted for %v, want it to have the lock from Redis", left)
		}
	})
}

func TestLeaseIsNotHandedToOneThatAsksForMore(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]mortise.LockOptions{
		"a fixed lease": {MaxHold: 5 * time.Second},
		"a margin":      {Margin: 10 * time.Second},
		"a TTL":         {TTL: 5 * time.Second},
		"a limit":       {MaxHold: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				k := c.Lock("job")
				for _, order := range [][2]*mortise.Lock{{k, k.With(options)}, {k.With(options), k}} {
					first, _ := mustLock(t, order[0], t.Context())
					var all sync.WaitGroup
					inLine(t, &all, 1, order[1], func(_ int, h *mortise.Hold) {
						if h.Owner() == first.Owner() {
							t.Error("the lease was handed on")
						}
						mustUnlock(t, h)
					})
					mustUnlock(t, first)
					all.Wait()
				}
			})
		})
	}
}

// A lease is not handed off to a waiter for a spin lock, whose release would wake no other client.
// It goes back to Redis, which grants the lock to the next client.
func TestLeaseIsNotHandedToASpinLock(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Lock", "FencedLock"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				other, _ := open(t, s, nil)
				first := mustTake(t, kinds[name].Open(c, "job", mortise.LockOptions{}))
				var spin sync.WaitGroup
				spin.Go(func() { mustUnlock(t, mustTake(t, c.SpinLock("job"))) })
				synctest.Wait()
				next := later(t, t.Context(), other.Lock("job"))
				mustUnlock(t, first)
				wantNow(t, next)
				spin.Wait()
			})
		})
	}
}

// The next one re-enters, is renewed and is told of a loss like anybody.
func TestLeaseThatWasHandedOn(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		k := c.Lock("job")
		first, _ := mustLock(t, k, t.Context())
		got := make(chan *mortise.Hold, 1)
		var ctx context.Context
		go func() {
			var hold *mortise.Hold
			var err error
			if hold, ctx, err = k.Lock(t.Context()); err != nil {
				t.Error(err)
			}
			got <- hold
		}()
		synctest.Wait()
		mustUnlock(t, first)
		hold := <-got
		inner, _ := mustLock(t, k, ctx)
		wantState(t, k, hold.Owner(), 2)
		mustUnlock(t, inner)
		wantState(t, k, hold.Owner(), 1)
		renewals := f.Count("lock_renew")
		time.Sleep(time.Minute)
		if n := f.Count("lock_renew") - renewals; n < 5 || n > 7 || !hold.Valid() {
			t.Errorf("%d renewals in a minute, valid: %v; want one every 10s", n, hold.Valid())
		}
		if by, err := other.Lock("job").ForceUnlock(t.Context()); err != nil || by.Owner != hold.Owner() {
			t.Errorf("ForceUnlock: %v, %v, want the owner %s", by, err, hold.Owner())
		}
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, mortise.ErrLost) {
			t.Errorf("the context ended with %v, want ErrLost", cause)
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
	})
}

func TestLeaseLostBeforeItIsReceived(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.Lock("job")
		for range 50 {
			first, _ := mustLock(t, k, t.Context())
			var all sync.WaitGroup
			inLine(t, &all, 1, k, func(_ int, h *mortise.Hold) { _ = h.Unlock() })
			all.Go(func() { _ = first.Unlock() })
			all.Go(func() {
				if _, err := k.ForceUnlock(t.Context()); err != nil {
					t.Error(err)
				}
			})
			all.Wait()
			wantState(t, k, "", 0)
		}
	})
}

// stalling is the context of a goroutine that stalls where it checks whether the context has ended.
type stalling struct {
	context.Context
	until atomic.Pointer[time.Time]
}

func (c *stalling) Err() error {
	if until := c.until.Load(); until != nil {
		time.Sleep(time.Until(*until))
	}
	return c.Context.Err()
}

// A lease is handed off to a goroutine that does not run just then, and is lost before the goroutine
// accepts it. Then the goroutine asks Redis.
func TestLeaseLostBeforeItIsAccepted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Lock", "FencedLock"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				k, plain := kinds[name].Open(c, "job", mortise.LockOptions{}), c.Lock("job")
				first := mustTake(t, k)
				ctx := &stalling{Context: t.Context()}
				got := later(t, ctx, k)
				runs := time.Now().Add(time.Second)
				ctx.until.Store(&runs)
				mustUnlock(t, first)
				synctest.Wait()
				wantState(t, plain, first.Owner(), 1) // it was handed off
				if _, err := plain.ForceUnlock(t.Context()); err != nil {
					t.Fatal(err)
				}
				hold := <-got
				if hold == nil {
					t.FailNow()
				}
				if !hold.Valid() || hold.Owner() == first.Owner() {
					t.Fatalf("the waiter has the lease %s, valid: %v; want one from Redis", hold.Owner(), hold.Valid())
				}
				wantState(t, plain, hold.Owner(), 1)
				mustUnlock(t, hold)
				wantState(t, plain, "", 0)
			})
		})
	}
}

func TestFencedLeaseIsHandedOnWithATokenOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		k := c.FencedLock("job")
		first, _, err := k.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tokens := []int64{first.Token()}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				hold, _, err := k.Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if now, err := k.CurrentToken(t.Context()); err != nil || hold.Token() != now {
					t.Errorf("the token is %d, the newest %d (%v); want the newest", hold.Token(), now, err)
				}
				tokens = append(tokens, hold.Token())
				if err := hold.Unlock(); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		before := f.Total()
		if err := first.Unlock(); err != nil {
			t.Error(err)
		}
		all.Wait()
		if n := f.Total() - before; n != 20+20+1 {
			t.Errorf("%d scripts, want one for each token, one for each look of this test, and a release", n)
		}
		if !slices.IsSorted(tokens) || len(slices.Compact(tokens)) != 21 {
			t.Errorf("the tokens are %v, want each larger than the one before", tokens)
		}
		if first.Token() != tokens[0] {
			t.Errorf("a hold that was handed on has the token %d now, want its own", first.Token())
		}
	})
}

// No token, no lock: it goes to the next.
func TestFencedLeaseHandedToOneThatGetsNoToken(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		k := c.FencedLock("job")
		first, _, err := k.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		denied := &driver.Error{Class: driver.Denied, Err: errors.New("denied by the test")}
		failures := make(chan error, 2)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				hold, _, err := k.Lock(t.Context())
				if err == nil {
					err = hold.Unlock()
				}
				failures <- err
			})
		}
		synctest.Wait()
		refusals := 1
		f.Set(func(_ context.Context, name string) error {
			if name == "fenced_reenter" && refusals > 0 {
				refusals--
				return denied
			}
			return nil
		}, nil)
		if err := first.Unlock(); err != nil {
			t.Error(err)
		}
		all.Wait()
		if a, b := <-failures, <-failures; (a == nil) == (b == nil) || !errors.Is(errors.Join(a, b), mortise.ErrDenied) {
			t.Errorf("the waiters ended with %v and %v, want the refusal and success", a, b)
		}
		synctest.Wait()
		wantState(t, c.Lock("job"), "", 0)
	})
}

// What is still on its way for the one before, or was asked of Redis for it, is
// not true for the next one: such a lease goes back to Redis.
func TestLeaseWithAReentryOfItsOwnIsNotHandedOn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script string // whose first copy is late
		lease  time.Duration
	}{
		"a late re-entry":                     {"lock_reenter", 0},
		"a late re-entry with a long lease":   {"lock_reenter", time.Hour},
		"a late half of an unlock":            {"lock_leave", 0},
		"a re-entry with a long lease before": {"", time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				d := &lateCopy{Driver: s.Driver(), script: test.script}
				c := mortise.New(d, nil)
				defer c.Close()
				k := c.Lock("job")
				first, ctx := mustLock(t, k, t.Context())
				var all sync.WaitGroup
				inLine(t, &all, 1, k, func(_ int, h *mortise.Hold) {
					if test.script != "" {
						d.deliver(t)
					}
					st, err := k.Inspect(t.Context())
					if err != nil || st.TTL > 30*time.Second || len(st.Holders) != 1 || st.Holders[0] != (mortise.Holder{Owner: h.Owner(), Count: 1}) {
						t.Errorf("the next one has %+v, %v; want a count of 1 and 30s", st, err)
					}
					mustUnlock(t, h)
				})
				inner, _ := mustLock(t, k.With(mortise.LockOptions{TTL: test.lease, MaxHold: test.lease}), ctx)
				mustUnlock(t, inner)
				mustUnlock(t, first)
				all.Wait()
				wantState(t, k, "", 0)
			})
		})
	}
}

// A waiter that is just asking Redis is handed nothing: it may be let in there,
// and then the lease of the holder is not what Redis has any more.
func TestLeaseIsNotHandedToOneThatAsksRedis(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		k := c.Lock("job")
		first, _ := mustLock(t, k, t.Context())
		got := make(chan *mortise.Hold, 1)
		go func() {
			hold, _, err := k.Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- hold
		}()
		synctest.Wait()
		asking := make(chan struct{}, 100)
		f.Set(nil, func(_ context.Context, name string) error {
			if name == "lock_acquire" {
				asking <- struct{}{}
				time.Sleep(100 * time.Millisecond) // the answer is under way
			}
			return nil
		})
		runScript(t, s, "return redis.call('del', KEYS[1])", "job")
		<-asking
		if err := first.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock of a lock that somebody deleted: %v, want ErrLost", err)
		}
		hold := <-got
		if hold.Owner() == first.Owner() || !hold.Valid() {
			t.Errorf("the waiter has the lease %s, valid: %v; want the one that Redis granted", hold.Owner(), hold.Valid())
		}
		wantState(t, k, hold.Owner(), 1)
		mustUnlock(t, hold)
		wantEmpty(t, s)
	})
}
