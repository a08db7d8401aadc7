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

// wantNoClaims checks that nobody waits for permits, as far as Redis knows.
func wantNoClaims(t *testing.T, s *memredis.Server) {
	t.Helper()
	if v := do(t, s, "HGETALL", "mortise:claim:{job}"); v.Len() != 0 {
		t.Errorf("there are still claims: %v", v)
	}
}

func TestPermitSemaphore(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		sem := c.PermitSemaphore("job")
		if _, _, err := sem.TryAcquire(t.Context()); !errors.Is(err, mortise.ErrNoPermits) {
			t.Errorf("TryAcquire before there are permits: %v, want ErrNoPermits", err)
		}
		for i, want := range []bool{true, false} {
			if ok, err := sem.TrySetPermits(t.Context(), 5+i); ok != want || err != nil {
				t.Errorf("TrySetPermits: %v, %v, want %v", ok, err, want)
			}
		}
		one, ctx1 := mustTakePermits(t, sem)
		three, ctx3, err := sem.With(atOnce(3)).TryAcquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantPermits(t, sem, 1, 4)
		_, _, err = sem.With(atOnce(2)).TryAcquire(t.Context())
		var lack *mortise.PermitsError
		if !errors.As(err, &lack) || *lack != (mortise.PermitsError{Wanted: 2, Available: 1, Next: 30 * time.Second}) {
			t.Errorf("TryAcquire of 2: %v", err)
		}
		if n := len(one.Permits()); n != 1 || one.Owner() != one.Permits()[0] || one.Token() != 0 || one.Name() != "job" {
			t.Errorf("a hold of %d permits, owner %q", n, one.Owner())
		}
		out := append(one.Permits(), three.Permits()...)
		list, err := sem.List(t.Context())
		if err != nil || len(list) != 4 {
			t.Fatalf("%v, %v, want 4 permits", list, err)
		}
		for _, p := range list {
			if !slices.Contains(out, p.ID) || len(p.ID) != 32 || p.Left != 30*time.Second {
				t.Errorf("listed is %+v, out are %q", p, out)
			}
		}
		if ctx1.Err() != nil || ctx3.Err() != nil || !one.Valid() || !three.Valid() {
			t.Error("a hold is not valid")
		}
		mustUnlock(t, three)
		if !errors.Is(context.Cause(ctx3), mortise.ErrReleased) || ctx1.Err() != nil || three.Valid() {
			t.Errorf("after Unlock: %v", context.Cause(ctx3))
		}
		wantPermits(t, sem, 4, 1)
		if err := three.Unlock(); !errors.Is(err, mortise.ErrReleased) {
			t.Errorf("a second Unlock: %v", err)
		}
		mustUnlock(t, one)
		wantPermits(t, sem, 5, 0)
		if lock, _ := mustLock(t, c.Lock("other"), t.Context()); lock.Permits() != nil {
			t.Error("a lock has permits")
		}
		for i, want := range []bool{true, false} {
			if ok, err := sem.Delete(t.Context()); ok != want || err != nil {
				t.Errorf("Delete %d: %v, %v, want %v", i, ok, err, want)
			}
		}
	})
}

// A permit does not change whom its holder acts for, and is not re-entered.
func TestPermitsHaveNoOwner(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		sem := permitsOf(t, c, 3)
		_, ctx := mustTakePermits(t, sem)
		if _, _, err := sem.Acquire(ctx); err != nil {
			t.Fatal(err)
		}
		wantPermits(t, sem, 1, 2)
		lock, _ := mustLock(t, c.Lock("lock"), ctx)
		if _, _, err := c.Lock("lock").TryLock(ctx); !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("two that have the permit's context and no owner share a lock: %v", err)
		}
		mustUnlock(t, lock)
		_, owner := mustLock(t, c.Lock("lock"), t.Context())
		_, both, err := sem.Acquire(owner)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Lock("lock").TryLock(both); err != nil {
			t.Errorf("an owner does not re-enter with the context of a permit: %v", err)
		}
		_, _, err = sem.TryAcquire(both)
		if !errors.Is(err, mortise.ErrNoPermits) {
			t.Errorf("TryAcquire: %v", err)
		}
	})
}

// Never are more inside than there are permits, and none is idle for long.
func TestPermitsAreNeverExceeded(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		var inside, got atomic.Int64
		var all sync.WaitGroup
		setter, _ := open(t, s, nil)
		sem := permitsOf(t, setter, 5)
		var clients []*mortise.Client
		for range 3 {
			c, _ := open(t, s, nil)
			clients = append(clients, c)
		}
		start := time.Now()
		for _, c := range clients {
			for g := range 6 {
				n := int64(g%3 + 1)
				all.Go(func() {
					for range 4 {
						err := c.PermitSemaphore("job").With(atOnce(int(n))).Do(t.Context(), func(ctx context.Context) error {
							if now := inside.Add(n); now > 5 {
								t.Errorf("%d are inside", now)
							}
							time.Sleep(10 * time.Millisecond)
							inside.Add(-n)
							got.Add(n)
							return ctx.Err()
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		if d := time.Since(start); got.Load() != 3*4*12 || d > 5*time.Second {
			t.Errorf("%d permits in %v, want %d", got.Load(), d, 3*4*12)
		}
		wantPermits(t, sem, 5, 0)
		wantNoClaims(t, s)
		if _, err := sem.Delete(t.Context()); err != nil {
			t.Error(err)
		}
		wantEmpty(t, s)
	})
}

// A permit that is given back is taken at once, by whoever asked first of one
// client's goroutines.
func TestPermitsWakeTheFirstWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a, _ := open(t, s, nil)
		b, f := open(t, s, nil)
		sem := permitsOf(t, a, 1)
		block, _ := mustTakePermits(t, sem)
		var mu sync.Mutex // guards order
		var order []int
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				hold, _, err := b.PermitSemaphore("job").Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				mustUnlock(t, hold)
			})
			synctest.Wait()
		}
		asked := f.Count("permit_acquire")
		if asked > 3 {
			t.Errorf("%d goroutines asked Redis, want the first one only", asked)
		}
		time.Sleep(1234 * time.Millisecond)
		start := time.Now()
		mustUnlock(t, block)
		all.Wait()
		if d := time.Since(start); d != 0 || !slices.Equal(order, []int{0, 1, 2, 3, 4}) {
			t.Errorf("order %v after %v, want the order of asking, at once", order, d)
		}
		wantNoClaims(t, s)
	})
}

// A waiter for many is not passed over by those who want one, in its own process
// or another one of mortise.
func TestWaiterForManyPermitsIsNotPassedOver(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		setter, _ := open(t, s, nil)
		sem := permitsOf(t, setter, 4)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var few sync.WaitGroup
		var served atomic.Int64
		for range 2 {
			c, _ := open(t, s, nil)
			for g := range 4 {
				few.Go(func() {
					time.Sleep(time.Duration(g) * 25 * time.Millisecond)
					for ctx.Err() == nil {
						hold, _, err := c.PermitSemaphore("job").Acquire(ctx)
						if err != nil {
							return
						}
						served.Add(1)
						time.Sleep(100 * time.Millisecond)
						mustUnlock(t, hold)
					}
				})
			}
		}
		time.Sleep(time.Second)
		for range 5 {
			many, _ := open(t, s, nil)
			start, before := time.Now(), served.Load()
			hold, _, err := many.PermitSemaphore("job").With(atOnce(4)).Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if d := time.Since(start); d > 2*time.Second || served.Load()-before > 50 {
				t.Errorf("who wanted all waited for %v, while %d others were served", d, served.Load()-before)
			}
			mustUnlock(t, hold)
			time.Sleep(time.Second)
		}
		stop()
		few.Wait()
		time.Sleep(time.Second)
		wantPermits(t, sem, 4, 0)
	})
}

// Who wants more than there are does not keep others out.
func TestWaiterForTooManyPermitsIsInNobodysWay(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a, _ := open(t, s, nil)
		b, _ := open(t, s, nil)
		sem := permitsOf(t, a, 2)
		var greedy sync.WaitGroup
		var hold *mortise.Hold
		greedy.Go(func() {
			var err error
			if hold, _, err = b.PermitSemaphore("job").With(atOnce(3)).Acquire(t.Context()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(5 * time.Second)
		for range 10 {
			h, _, err := sem.With(atOnce(2)).TryAcquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			mustUnlock(t, h)
		}
		start := time.Now()
		if err := sem.AddPermits(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		greedy.Wait()
		if d := time.Since(start); d != 0 {
			t.Errorf("more permits were noticed after %v", d)
		}
		mustUnlock(t, hold)
	})
}

// What nobody announces is noticed within about a second, and the end of a
// permit's lease at once.
func TestPermitsWithoutMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		sem := permitsOf(t, c, 0)
		wait := func() time.Duration {
			start := time.Now()
			hold, _ := mustTakePermits(t, sem)
			d := time.Since(start)
			mustUnlock(t, hold)
			if err := sem.SetPermits(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			return d
		}
		time.AfterFunc(10*time.Second, func() { do(t, s, "SET", "job", "1") })
		if d := wait(); d < 10*time.Second || d > 11200*time.Millisecond {
			t.Errorf("a permit that nobody announced was taken after %v", d)
		}
		raw := strings.Repeat("\xfe\x00", 8) // as Redisson's
		do(t, s, "ZADD", "{job}:timeout", fmt.Sprint(time.Now().Add(5500*time.Millisecond).UnixMilli()), raw)
		if d := wait(); d < 5500*time.Millisecond || d > 5510*time.Millisecond {
			t.Errorf("a permit whose lease was over was taken after %v, want 5.5s", d)
		}
		old := "fefefefefefefefefefefefefefefefe" // as Redisson's up to 3.16
		do(t, s, "ZADD", "{job}:timeout", fmt.Sprint(time.Now().Add(2500*time.Millisecond).UnixMilli()), old)
		if d := wait(); d < 2500*time.Millisecond || d > 2510*time.Millisecond {
			t.Errorf("an old permit whose lease was over was taken after %v, want 2.5s", d)
		}
	})
}

// Messages that mean nothing cause no storm.
func TestForgedPermitMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		sem := permitsOf(t, c, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var forging sync.WaitGroup
		forging.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				do(t, s, "PUBLISH", "redisson_sc:{job}", []string{"-1", "99999999999999999999", "", "x", "0"}[i%5])
				time.Sleep(time.Millisecond)
			}
		})
		if _, _, err := sem.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mortise.ErrNoPermits) {
			t.Errorf("%v, want the deadline's error, and ErrNoPermits", err)
		}
		forging.Wait()
		if n := f.Count("permit_acquire"); n > 2200 { // a pacer admits 21 in each tenth of a second
			t.Errorf("%d attempts in 10s", n)
		}
	})
}

// The permits of a process that has died come back when their lease is over, and
// not before; those of one that lives do not.
func TestPermitsOfTheDeadComeBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		dead := mortise.New(s.Driver(), &mortise.Options{Lease: 7 * time.Second})
		alive, f := open(t, s, &mortise.Options{Lease: 7 * time.Second})
		c, _ := open(t, s, nil)
		sem := permitsOf(t, c, 3)
		_, ctx := mustTakePermits(t, alive.PermitSemaphore("job"))
		mustTakePermits(t, dead.PermitSemaphore("job").With(atOnce(2)))
		time.Sleep(time.Hour)
		if ctx.Err() != nil {
			t.Fatalf("the permit of who lives was lost: %v", context.Cause(ctx))
		}
		wantPermits(t, sem, 0, 3)
		if n, most := f.Count("permit_renew"), int(time.Hour/(7*time.Second/3))+10; n > most {
			t.Errorf("%d renewals, want at most %d", n, most)
		}
		if err := dead.Close(); err != nil { // abandons the hold, as a crash does
			t.Fatal(err)
		}
		start := time.Now()
		both, _ := mustTakePermits(t, sem.With(atOnce(2)))
		if d := time.Since(start); d < 4*time.Second || d > 7010*time.Millisecond {
			t.Errorf("permits of the dead came back after %v, want 7s after the last renewal", d)
		}
		if _, _, err := sem.TryAcquire(t.Context()); !errors.Is(err, mortise.ErrNoPermits) {
			t.Errorf("the permit of who lives: %v", err)
		}
		mustUnlock(t, both)
	})
}

// A waiter that has died keeps permits from others for about three seconds.
func TestPermitWaiterThatDied(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		sem := permitsOf(t, c, 2)
		one, _ := mustTakePermits(t, sem)
		doomed, f := open(t, s, nil)
		var all sync.WaitGroup
		ctx, bury := context.WithCancel(t.Context())
		all.Go(func() { _, _, _ = doomed.PermitSemaphore("job").With(atOnce(2)).Acquire(ctx) })
		time.Sleep(5 * time.Second)
		f.Set(hang, nil) // killed
		if _, _, err := sem.TryAcquire(t.Context()); !errors.Is(err, mortise.ErrNoPermits) {
			t.Errorf("TryAcquire of what is claimed: %v, want ErrNoPermits", err)
		}
		start := time.Now()
		hold, _ := mustTakePermits(t, sem)
		if d := time.Since(start); d < time.Second || d > 4500*time.Millisecond {
			t.Errorf("who has died kept a permit from others for %v, want about 3s", d)
		}
		mustUnlock(t, hold)
		mustUnlock(t, one)
		bury()
		all.Wait()
	})
}

// Who gives up, or is closed, leaves nothing behind: what it claimed is others'
// at once.
func TestPermitWaiterThatGivesUp(t *testing.T) {
	t.Parallel()
	bored := errors.New("bored")
	for name, test := range map[string]struct {
		end  func(c *mortise.Client, cancel context.CancelCauseFunc)
		want error
	}{
		"context": {func(_ *mortise.Client, cancel context.CancelCauseFunc) { cancel(bored) }, bored},
		"client":  {func(c *mortise.Client, _ context.CancelCauseFunc) { _ = c.Close() }, mortise.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				a, _ := open(t, s, nil)
				b, _ := open(t, s, nil)
				sem := permitsOf(t, a, 3)
				one, _ := mustTakePermits(t, sem)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var all sync.WaitGroup
				for range 5 {
					all.Go(func() {
						_, after, err := b.PermitSemaphore("job").With(atOnce(3)).Acquire(ctx)
						if after != ctx {
							t.Error("a failed Acquire did not return the caller's context")
						}
						if !errors.Is(err, test.want) {
							t.Errorf("a wait that ended: %v, want %v", err, test.want)
						}
					})
				}
				time.Sleep(2500 * time.Millisecond)
				var next sync.WaitGroup
				var waited time.Duration
				start := time.Now()
				next.Go(func() {
					hold, _ := mustTakePermits(t, sem)
					waited = time.Since(start)
					mustUnlock(t, hold)
				})
				time.Sleep(100 * time.Millisecond)
				test.end(b, cancel)
				all.Wait()
				next.Wait()
				if waited != 100*time.Millisecond {
					t.Errorf("the next one had to wait for %v, want until the others gave up, 100ms", waited)
				}
				mustUnlock(t, one)
				wantPermits(t, sem, 3, 0)
				synctest.Wait()
				wantNoClaims(t, s)
			})
		})
	}
}

// Replies can be lost after a script ran, and requests before: no permit may be
// lost, or counted twice.
func TestPermitsSurviveLostRepliesAndRequests(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		sem := c.PermitSemaphore("job")
		for _, lost := range losses {
			within := func(op string, err error) {
				t.Helper()
				if err != nil {
					t.Fatalf("%s with %v: %v", op, lost, err)
				}
			}
			lost.Set(f, "permit_set")
			ok, err := sem.TrySetPermits(t.Context(), 5)
			if within("TrySetPermits", err); !ok {
				t.Errorf("TrySetPermits with %v did not say that it did it", lost)
			}
			lost.Set(f, "permit_set")
			within("AddPermits", sem.AddPermits(t.Context(), 2))
			wantPermits(t, sem, 7, 0)
			lost.Set(f, "permit_set")
			within("SetPermits", sem.SetPermits(t.Context(), 6))
			for _, n := range []int{1, 4} {
				lost.Set(f, "permit_acquire")
				hold, ctx, err := sem.With(atOnce(n)).TryAcquire(t.Context())
				within("TryAcquire", err)
				wantPermits(t, sem, 6-n, n)
				lost.Set(f, "permit_release")
				if err := hold.Unlock(); err != nil && (!errors.Is(err, mortise.ErrUnknownOutcome) || lost.What == "requests") {
					t.Errorf("Unlock with %v: %v", lost, err)
				}
				if ctx.Err() == nil {
					t.Error("the context outlived the hold")
				}
				wantPermits(t, sem, 6, 0)
			}
			f.Set(nil, nil)
			hold, _ := mustTakePermits(t, sem.With(atOnce(3)))
			lost.Set(f, "permit_extend")
			ok, err = sem.UpdateLease(t.Context(), hold.Permits()[0], time.Hour)
			if within("UpdateLease", err); !ok {
				t.Error("UpdateLease found no permit")
			}
			lost.Set(f, "permit_inspect")
			wantPermits(t, sem, 3, 3)
			lost.Set(f, "permit_release")
			n, err := sem.Release(t.Context(), hold.Permits()...)
			if within("Release", err); n != 3 {
				t.Errorf("Release with %v: %d permits, want 3", lost, n)
			}
			if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
				t.Errorf("Unlock of what was released: %v, want ErrLost", err)
			}
			wantPermits(t, sem, 6, 0)
			lost.Set(f, "permit_delete")
			ok, err = sem.Delete(t.Context())
			if within("Delete", err); !ok {
				t.Errorf("Delete with %v did not say that it did it", lost)
			}
			f.Set(nil, nil)
		}
		wantEmpty(t, s)
	})
}

// An operation that was in doubt for too long is not repeated: Redis may have
// forgotten it.
func TestPermitOperationInDoubtForLong(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, &mortise.Options{RetryFor: -1})
		sem := permitsOf(t, c, 5)
		f.Set(nil, func(_ context.Context, name string) error { // it runs, and nobody hears of it
			if name == "permit_set" {
				return errCut
			}
			return nil
		})
		start := time.Now()
		if err := sem.AddPermits(t.Context(), 2); !errors.Is(err, mortise.ErrUnknownOutcome) {
			t.Errorf("%v, want ErrUnknownOutcome", err)
		}
		if d := time.Since(start); d > 5*time.Minute {
			t.Errorf("it was repeated for %v", d)
		}
		wantPermits(t, sem, 7, 0)
	})
}

// A caller gives up while Redis has not answered; copies run then, or late.
func TestPermitsAreNotLeftBehind(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]time.Duration{"it runs": 0, "it runs later": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				other, _ := open(t, s, nil)
				sem := permitsOf(t, other, 3)
				if late == 0 {
					f.Set(nil, hang)
				} else {
					f.DeliverLate(late)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				start := time.Now()
				_, _, err := c.PermitSemaphore("job").With(atOnce(2)).Acquire(ctx)
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 300*time.Millisecond {
					t.Errorf("after %v: %v, want the deadline's error on time", time.Since(start), err)
				}
				f.Set(nil, nil)
				f.DeliverLate(0)
				f.InFlight.Wait()
				hold, _, err := sem.With(atOnce(3)).Acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if d := time.Since(start); d > 15*time.Second {
					t.Errorf("permits that nobody wants stayed for %v", d)
				}
				mustUnlock(t, hold)
				wantPermits(t, sem, 3, 0)
			})
		})
	}
}

// In every way in which a hold can be lost, its context ends and says so, and
// what is left of it comes back.
func TestPermitsAreLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options mortise.PermitOptions
		lose    func(t *testing.T, s *memredis.Server, f *faults, sem *mortise.PermitSemaphore, ids []string)
		reason  mortise.LostReason
		within  time.Duration
		left    int // permits available after Unlock
	}{
		"its time is over": {mortise.PermitOptions{Permits: 2, Lease: 5 * time.Second}, func(*testing.T, *memredis.Server, *faults, *mortise.PermitSemaphore, []string) {},
			mortise.LostExpired, 5 * time.Second, 5},
		"one is released": {atOnce(3), func(t *testing.T, _ *memredis.Server, _ *faults, sem *mortise.PermitSemaphore, ids []string) {
			if n, err := sem.Release(t.Context(), strings.ToUpper(ids[1])); n != 1 || err != nil {
				t.Error(n, err)
			}
		}, mortise.LostForced, 10 * time.Second, 5},
		"all are released": {atOnce(2), func(t *testing.T, _ *memredis.Server, _ *faults, sem *mortise.PermitSemaphore, ids []string) {
			if n, err := sem.Release(t.Context(), append(ids, strings.Repeat("0", 32))...); n != 2 || err != nil {
				t.Error(n, err)
			}
		}, mortise.LostForced, 10 * time.Second, 5},
		"its end came early": {atOnce(1), func(t *testing.T, _ *memredis.Server, _ *faults, sem *mortise.PermitSemaphore, ids []string) {
			if ok, err := sem.UpdateLease(t.Context(), ids[0], time.Millisecond); !ok || err != nil {
				t.Error(ok, err)
			}
		}, mortise.LostForced, 10 * time.Second, 5},
		"a client with a fast clock takes it back": {atOnce(1), func(t *testing.T, s *memredis.Server, _ *faults, _ *mortise.PermitSemaphore, _ []string) {
			do(t, s, "DEL", "{job}:timeout")
			do(t, s, "SET", "job", "5")
		}, mortise.LostForced, 10 * time.Second, 5},
		"it is deleted": {atOnce(1), func(t *testing.T, _ *memredis.Server, _ *faults, sem *mortise.PermitSemaphore, _ []string) {
			if ok, err := sem.Delete(t.Context()); !ok || err != nil {
				t.Error(ok, err)
			}
		}, mortise.LostForced, 10 * time.Second, 0},
		"the semaphore has a TTL": {atOnce(1), func(t *testing.T, s *memredis.Server, _ *faults, _ *mortise.PermitSemaphore, _ []string) {
			do(t, s, "PEXPIRE", "job", "1000") // as the TTL that the next acquisition copies
			do(t, s, "PEXPIRE", "{job}:timeout", "1000")
		}, mortise.LostForced, 10 * time.Second, 0},
		"another thing lies there": {atOnce(1), func(t *testing.T, s *memredis.Server, _ *faults, _ *mortise.PermitSemaphore, _ []string) {
			do(t, s, "DEL", "{job}:timeout")
			do(t, s, "RPUSH", "{job}:timeout", "x")
		}, mortise.LostForced, 10 * time.Second, -1},
		"Redis is not reached": {atOnce(2), func(t *testing.T, _ *memredis.Server, f *faults, _ *mortise.PermitSemaphore, _ []string) {
			f.Set(func(ctx context.Context, name string) error {
				if name == "permit_renew" {
					return hang(ctx, name)
				}
				return nil
			}, nil)
		}, mortise.LostUnreachable, 30 * time.Second, 5},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				other, _ := open(t, s, nil)
				sem := permitsOf(t, other, 5)
				hold, ctx := mustTakePermits(t, c.PermitSemaphore("job").With(test.options))
				keep, kept := mustTakePermits(t, other.PermitSemaphore("job"))
				start := time.Now()
				test.lose(t, s, f, sem, hold.Permits())
				<-ctx.Done()
				if d := time.Since(start); d > test.within {
					t.Errorf("it was told after %v, want within %v", d, test.within)
				}
				var lost *mortise.LostError
				if !errors.As(context.Cause(ctx), &lost) || lost.Reason != test.reason {
					t.Errorf("the cause is %v, want %s", context.Cause(ctx), test.reason)
				}
				if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
					t.Errorf("Unlock: %v, want ErrLost", err)
				}
				f.Set(nil, nil)
				if test.left < 0 {
					return
				}
				_ = keep.Unlock()           // it may be lost as well
				time.Sleep(5 * time.Second) // far less than the leases
				if got, err := sem.Available(t.Context()); err != nil || got != test.left {
					t.Errorf("%d are available then, want %d: %v", got, test.left, err)
				}
				if kept.Err() == nil {
					t.Error("the other hold's context did not end")
				}
			})
		})
	}
}

// Of what this client does itself, its holders learn at once.
func TestPermitsLostByTheSameClient(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(sem *mortise.PermitSemaphore, ids []string) error{
		"Release": func(sem *mortise.PermitSemaphore, ids []string) error {
			_, err := sem.Release(context.Background(), ids[0])
			return err
		},
		"Delete": func(sem *mortise.PermitSemaphore, _ []string) error {
			_, err := sem.Delete(context.Background())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				sem := permitsOf(t, c, 5)
				hold, ctx := mustTakePermits(t, sem.With(atOnce(2)))
				other, kept := mustTakePermits(t, sem)
				if err := lose(sem, hold.Permits()); err != nil {
					t.Fatal(err)
				}
				if !errors.Is(context.Cause(ctx), mortise.ErrLost) || hold.Valid() {
					t.Errorf("the cause is %v", context.Cause(ctx))
				}
				if (kept.Err() != nil) != (name == "Delete") {
					t.Errorf("the other hold: %v", context.Cause(kept))
				}
				_ = hold.Unlock()
				if err := other.Unlock(); errors.Is(err, mortise.ErrLost) != (name == "Delete") {
					t.Errorf("Unlock of the other hold: %v", err)
				}
			})
		})
	}
}

// A holder that was frozen past its lease is told before it does anything.
func TestPermitHolderThatWasFrozen(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, &mortise.Options{Lease: 5 * time.Second})
		other, _ := open(t, s, nil)
		sem := permitsOf(t, other, 1)
		hold, ctx := mustTakePermits(t, c.PermitSemaphore("job"))
		f.Set(hang, nil)
		taken, _ := mustTakePermits(t, sem)
		if ctx.Err() == nil || hold.Valid() {
			t.Error("two rely on one permit")
		}
		f.Set(nil, nil)
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		time.Sleep(time.Minute)
		wantPermits(t, sem, 0, 1)
		mustUnlock(t, taken)
	})
}

func TestPermitsOfAClosedClient(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		sem := permitsOf(t, c, 2)
		hold, ctx := mustTakePermits(t, sem)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(context.Cause(ctx), mortise.ErrClosed) {
			t.Errorf("the cause is %v, want ErrClosed", context.Cause(ctx))
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrClosed) {
			t.Errorf("Unlock: %v, want ErrClosed", err)
		}
		for op, err := range permitCalls(sem) {
			if !errors.Is(err, mortise.ErrClosed) {
				t.Errorf("%s: %v, want ErrClosed", op, err)
			}
		}
	})
}

// permitCalls calls everything that asks Redis.
func permitCalls(sem *mortise.PermitSemaphore) map[string]error {
	ctx := context.Background()
	id := strings.Repeat("ab", 16)
	err := func(_ any, err error) error { return err }
	acquire := func(_ *mortise.Hold, _ context.Context, err error) error { return err }
	return map[string]error{
		"Acquire":       acquire(sem.Acquire(ctx)),
		"TryAcquire":    acquire(sem.TryAcquire(ctx)),
		"Do":            sem.Do(ctx, func(context.Context) error { return nil }),
		"TrySetPermits": err(sem.TrySetPermits(ctx, 1)),
		"SetPermits":    sem.SetPermits(ctx, 1),
		"AddPermits":    sem.AddPermits(ctx, 1),
		"Available":     err(sem.Available(ctx)),
		"Acquired":      err(sem.Acquired(ctx)),
		"Permits":       err(sem.Permits(ctx)),
		"List":          err(sem.List(ctx)),
		"UpdateLease":   err(sem.UpdateLease(ctx, id, time.Second)),
		"Release":       err(sem.Release(ctx, id)),
		"Delete":        err(sem.Delete(ctx)),
	}
}

// A name that holds something else is left alone.
func TestPermitSemaphoreOfAnotherKind(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		sem := c.PermitSemaphore("job")
		lock, _ := mustLock(t, c.Lock("job"), t.Context())
		for op, err := range permitCalls(sem) {
			if !errors.Is(err, mortise.ErrWrongKind) {
				t.Errorf("%s on a lock: %v, want ErrWrongKind", op, err)
			}
		}
		wantState(t, c.Lock("job"), lock.Owner(), 1)
		mustUnlock(t, lock)
		do(t, s, "SET", "job", "hello")
		for op, err := range permitCalls(sem) {
			if !errors.Is(err, mortise.ErrWrongKind) {
				t.Errorf("%s on a text: %v, want ErrWrongKind", op, err)
			}
		}
		if v := do(t, s, "GET", "job"); v.Str() != "hello" {
			t.Errorf("the text is %v", v)
		}
	})
}

// What cannot be meant is refused before anything is sent.
func TestPermitSemaphoreBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		sem := c.PermitSemaphore("job")
		id := strings.Repeat("ab", 16)
		ctx := t.Context()
		acquire := func(o mortise.PermitOptions) func() error {
			return func() error { _, _, err := sem.With(o).Acquire(ctx); return err }
		}
		for name, call := range map[string]func() error{
			"fewer than no permits":      acquire(atOnce(-1)),
			"too many permits":           acquire(atOnce(1001)),
			"negative lease":             acquire(mortise.PermitOptions{Lease: -1}),
			"no lease":                   acquire(mortise.PermitOptions{Lease: time.Microsecond}),
			"endless lease":              acquire(mortise.PermitOptions{Lease: 1 << 62}),
			"margin beyond the lease":    acquire(mortise.PermitOptions{Lease: time.Second, Margin: time.Second}),
			"bad durability":             acquire(mortise.PermitOptions{Durability: mortise.Durability{Acks: -9}}),
			"set fewer than none":        func() error { return sem.SetPermits(ctx, -1) },
			"try to set fewer than none": func() error { _, err := sem.TrySetPermits(ctx, -1); return err },
			"set more than Java knows":   func() error { return sem.SetPermits(ctx, 1<<31) },
			"add more than Java knows":   func() error { return sem.AddPermits(ctx, 1<<31) },
			"take more than Java knows":  func() error { return sem.AddPermits(ctx, -1<<31) },
			"release of no id":           func() error { _, err := sem.Release(ctx, id, "x"); return err },
			"release of too many":        func() error { _, err := sem.Release(ctx, make([]string, 1001)...); return err },
			"lease of no id":             func() error { _, err := sem.UpdateLease(ctx, id+"0", time.Second); return err },
			"no lease at all":            func() error { _, err := sem.UpdateLease(ctx, id, 0); return err },
			"lease beyond a year":        func() error { _, err := sem.UpdateLease(ctx, id, 1<<62); return err },
			"a name in braces":           func() error { _, err := c.PermitSemaphore("{job}").Available(ctx); return err },
			"a permit of such a name":    func() error { _, _, err := c.PermitSemaphore("{job}").TryAcquire(ctx); return err },
			"a lease of such a name":     func() error { _, err := c.PermitSemaphore("{job}").UpdateLease(ctx, id, time.Second); return err },
			"reserved name":              func() error { _, err := c.PermitSemaphore("redisson_x").Available(ctx); return err },
		} {
			if err := call(); !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", name, err)
			}
		}
		if n, err := sem.Release(ctx); n != 0 || err != nil {
			t.Errorf("a release of nothing: %d, %v", n, err)
		}
		if n := f.Total(); n != 0 {
			t.Errorf("%d scripts were sent", n)
		}
		if err := sem.SetPermits(ctx, 1<<31-1); err != nil {
			t.Error(err)
		}
		if err := sem.AddPermits(ctx, 1); !errors.Is(err, mortise.ErrInvalid) {
			t.Errorf("one more than Java knows: %v", err)
		}
		wantPermits(t, sem, 1<<31-1, 0)
	})
}

// Fewer permits than are out: nobody loses one, and nobody gets one until enough
// have come back.
func TestFewerPermitsThanAreOut(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		sem := permitsOf(t, c, 4)
		var holds []*mortise.Hold
		for range 4 {
			hold, _ := mustTakePermits(t, sem)
			holds = append(holds, hold)
		}
		if err := sem.SetPermits(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		wantPermits(t, sem, -3, 4)
		for i, hold := range holds {
			if _, _, err := sem.TryAcquire(t.Context()); !errors.Is(err, mortise.ErrNoPermits) {
				t.Errorf("TryAcquire with %d out: %v", 4-i, err)
			}
			mustUnlock(t, hold)
		}
		wantPermits(t, sem, 1, 0)
	})
}

// UpdateLease is for permits of others, such as Redisson's.
func TestUpdateLeaseOfAPermit(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		sem := permitsOf(t, c, 1)
		hold, ctx := mustTakePermits(t, sem.With(mortise.PermitOptions{Lease: 10 * time.Second}))
		id := hold.Permits()[0]
		for _, lease := range []time.Duration{time.Hour, -1, time.Minute} {
			if ok, err := sem.UpdateLease(t.Context(), id, lease); !ok || err != nil {
				t.Errorf("UpdateLease to %v: %v, %v", lease, ok, err)
			}
			if list, err := sem.List(t.Context()); err != nil || len(list) != 1 || list[0] != (mortise.Permit{ID: id, Left: lease}) {
				t.Errorf("%v, %v, want a lease of %v", list, err, lease)
			}
		}
		if ok, err := sem.UpdateLease(t.Context(), strings.Repeat("00", 16), time.Hour); ok || err != nil {
			t.Errorf("UpdateLease of no permit: %v, %v", ok, err)
		}
		<-ctx.Done() // the hold keeps to its own
		wantPermits(t, sem, 0, 1)
		if n, err := sem.Release(t.Context(), id); n != 1 || err != nil {
			t.Error(n, err)
		}
		wantPermits(t, sem, 1, 0)
	})
}

// The embedded Redis has no replicas.
func TestPermitsThatAreNotDurable(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c := mortise.New(s.Driver(), nil)
		defer c.Close()
		sem := permitsOf(t, c, 3)
		durable := mortise.PermitOptions{Permits: 2, Durability: mortise.Durability{Acks: 1, Timeout: 10 * time.Millisecond}}
		if _, _, err := sem.With(durable).TryAcquire(t.Context()); !errors.Is(err, mortise.ErrNotDurable) {
			t.Errorf("%v, want ErrNotDurable", err)
		}
		wantPermits(t, sem, 3, 0)
	})
}
