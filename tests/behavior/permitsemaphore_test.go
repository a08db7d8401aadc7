package behavior

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
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
		wantSetOnce(t, sem)
		one, ctx1 := mustTakePermits(t, sem)
		three, ctx3, err := sem.With(atOnce(3)).TryAcquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantPermits(t, sem, 1, 4)
		wantTwoRefused(t, sem)
		if n := len(one.Permits()); n != 1 || one.Owner() != one.Permits()[0] || one.Token() != 0 || one.Name() != "job" {
			t.Errorf("a hold of %d permits, owner %q", n, one.Owner())
		}
		wantListed(t, sem, append(one.Permits(), three.Permits()...))
		if ctx1.Err() != nil || ctx3.Err() != nil || !one.Valid() || !three.Valid() {
			t.Error("a hold is not valid")
		}
		wantReleased(t, three, ctx3)
		if ctx1.Err() != nil {
			t.Errorf("after Unlock of another: %v", context.Cause(ctx1))
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
		wantDeletedOnce(t, sem)
	})
}

// wantSetOnce sets five permits of a semaphore that has none.
func wantSetOnce(t *testing.T, sem *mortise.PermitSemaphore) {
	if _, _, err := sem.TryAcquire(t.Context()); !errors.Is(err, mortise.ErrNoPermits) {
		t.Errorf("TryAcquire before there are permits: %v, want ErrNoPermits", err)
	}
	for i, want := range []bool{true, false} {
		if ok, err := sem.TrySetPermits(t.Context(), 5+i); ok != want || err != nil {
			t.Errorf("TrySetPermits: %v, %v, want %v", ok, err, want)
		}
	}
}

// wantTwoRefused checks that two permits are refused while there is one.
func wantTwoRefused(t *testing.T, sem *mortise.PermitSemaphore) {
	_, _, err := sem.With(atOnce(2)).TryAcquire(t.Context())
	var lack *mortise.PermitsError
	if !errors.As(err, &lack) || *lack != (mortise.PermitsError{Wanted: 2, Available: 1, Next: 30 * time.Second}) {
		t.Errorf("TryAcquire of 2: %v", err)
	}
}

// wantListed checks that List returns the four permits, each with a whole lease.
func wantListed(t *testing.T, sem *mortise.PermitSemaphore, out []string) {
	list, err := sem.List(t.Context())
	if err != nil || len(list) != 4 {
		t.Fatalf("got %v, %v, want 4 permits", list, err)
	}
	for _, p := range list {
		if !slices.Contains(out, p.ID) || len(p.ID) != 32 || p.TTL != 30*time.Second {
			t.Errorf("listed is %+v, out are %q", p, out)
		}
	}
}

// wantReleased unlocks hold, whose context is ctx.
func wantReleased(t *testing.T, hold *mortise.Hold, ctx context.Context) {
	t.Helper()
	mustUnlock(t, hold)
	if !errors.Is(context.Cause(ctx), mortise.ErrReleased) || hold.Valid() {
		t.Errorf("after Unlock: %v", context.Cause(ctx))
	}
}

func wantDeletedOnce(t *testing.T, sem *mortise.PermitSemaphore) {
	for i, want := range []bool{true, false} {
		if ok, err := sem.Delete(t.Context()); ok != want || err != nil {
			t.Errorf("Delete %d: %v, %v, want %v", i, ok, err, want)
		}
	}
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
								t.Errorf("%d are inside, want 5 at most", now)
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
			"negative lease":             acquire(mortise.PermitOptions{MaxHold: -1}),
			"no lease":                   acquire(mortise.PermitOptions{MaxHold: time.Microsecond}),
			"endless lease":              acquire(mortise.PermitOptions{MaxHold: 1 << 62}),
			"margin beyond the lease":    acquire(mortise.PermitOptions{MaxHold: time.Second, Margin: time.Second}),
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
			t.Errorf("a release of nothing: %d, %v, want 0", n, err)
		}
		if n := f.Total(); n != 0 {
			t.Errorf("%d scripts were sent, want 0", n)
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
		hold, ctx := mustTakePermits(t, sem.With(mortise.PermitOptions{MaxHold: 10 * time.Second}))
		id := hold.Permits()[0]
		for _, lease := range []time.Duration{time.Hour, -1, time.Minute} {
			if ok, err := sem.UpdateLease(t.Context(), id, lease); !ok || err != nil {
				t.Errorf("UpdateLease to %v: %v, %v, want true", lease, ok, err)
			}
			if list, err := sem.List(t.Context()); err != nil || len(list) != 1 || list[0] != (mortise.Permit{ID: id, TTL: lease}) {
				t.Errorf("got %v, %v, want a lease of %v", list, err, lease)
			}
		}
		if ok, err := sem.UpdateLease(t.Context(), strings.Repeat("00", 16), time.Hour); ok || err != nil {
			t.Errorf("UpdateLease of no permit: %v, %v, want false", ok, err)
		}
		<-ctx.Done() // the hold keeps to its own
		wantPermits(t, sem, 0, 1)
		if n, err := sem.Release(t.Context(), id); n != 1 || err != nil {
			t.Errorf("got %v, %v, want 1", n, err)
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
			t.Errorf("got %v, want ErrNotDurable", err)
		}
		wantPermits(t, sem, 3, 0)
	})
}
