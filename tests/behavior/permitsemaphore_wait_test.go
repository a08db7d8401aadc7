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

// A permit that is released is taken at once, by the goroutine of a client
// that asked first.
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
		if asked > 4 { // two of them because it began to listen, to both channels
			t.Errorf("%d questions to Redis, want those of the first goroutine only", asked)
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

// A waiter for many is not passed over by waiters for one, in its own process
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
				t.Errorf("the waiter for all waited for %v, while %d others were served", d, served.Load()-before)
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

// A waiter for more permits than there are does not keep others out.
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
			t.Errorf("more permits were noticed after %v, want 0", d)
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
			t.Errorf("got %v, want the deadline's error, and ErrNoPermits", err)
		}
		forging.Wait()
		if n := f.Count("permit_acquire"); n > 2200 { // a pacer admits 21 in each tenth of a second
			t.Errorf("%d attempts in 10s", n)
		}
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
		if d := time.Since(start); d < time.Second || d > 4100*time.Millisecond {
			t.Errorf("a dead waiter kept a permit from others for %v, want 3s and a poll of 1.1s at most", d)
		}
		mustUnlock(t, hold)
		mustUnlock(t, one)
		bury()
		all.Wait()
	})
}

// A waiter that gives up, or is closed, leaves nothing behind: others get what it
// claimed at once.
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
