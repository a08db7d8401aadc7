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
	"github.com/mortise-go/mortise/memredis"
)

// A release, permits that are added, and a semaphore that is set wake at once
// the waiters that can have them.
func TestSemaphoreWakes(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(ctx context.Context, s *mortise.Semaphore) error{
		"Release":    func(ctx context.Context, s *mortise.Semaphore) error { return s.Release(ctx, 3) },
		"AddPermits": func(ctx context.Context, s *mortise.Semaphore) error { return s.AddPermits(ctx, 3) },
		"TrySetPermits": func(ctx context.Context, s *mortise.Semaphore) error {
			_, err := s.TrySetPermits(ctx, 3)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				releaser, _ := open(t, s, nil)
				var waiting []<-chan error
				for range 3 {
					c, _ := open(t, s, nil)
					waiting = append(waiting, acquireLater(t.Context(), c.Semaphore("job"), 1))
				}
				time.Sleep(10500 * time.Millisecond)
				start := time.Now()
				if err := release(t.Context(), releaser.Semaphore("job")); err != nil {
					t.Fatal(err)
				}
				for _, w := range waiting {
					if err := <-w; err != nil {
						t.Error(err)
					}
				}
				if d := time.Since(start); d != 0 {
					t.Errorf("they were served after %v, want at once", d)
				}
				wantAvailable(t, releaser.Semaphore("job"), 0)
			})
		})
	}
}

// The deadline is the wait limit. A waiter that gives up leaves no claim, and
// wakes those that it held up.
func TestSemaphoreWaiterThatGivesUpLetsOthersThrough(t *testing.T) {
	t.Parallel()
	for _, sameClient := range []bool{false, true} {
		t.Run(fmt.Sprint("same client ", sameClient), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				sem := permitted(t, c, "job", 2)
				later := sem
				if !sameClient {
					o, _ := open(t, s, nil)
					later = o.Semaphore("job")
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				start := time.Now()
				greedy := acquireLater(ctx, sem, 3)
				synctest.Wait()
				modest := acquireLater(t.Context(), later, 2)
				err := <-greedy
				var short *mortise.PermitsError
				if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &short) || short.Available != 2 || time.Since(start) != 10*time.Second {
					t.Errorf("after %v: %v, want the deadline's error and ErrNoPermits", time.Since(start), err)
				}
				if err := <-modest; err != nil {
					t.Error(err)
				}
				if d := time.Since(start) - 10*time.Second; d != 0 {
					t.Errorf("the one behind had its permits %v later, want at once", d)
				}
				wantAvailable(t, sem, 0)
				if n := command(t, s, "EXISTS", "mortise:claim:{job}").Int(); n != 0 {
					t.Error("a claim is left")
				}
			})
		})
	}
}

// A waiter for all permits gets them, however many others come and go with
// one each, in its process and in others.
func TestSemaphoreDoesNotStarveWhoWaitsForMany(t *testing.T) {
	t.Parallel()
	for _, sameClient := range []bool{false, true} {
		t.Run(fmt.Sprint("same client ", sameClient), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				const permits = 4
				c, _ := open(t, s, nil)
				sem := permitted(t, c, "job", permits)
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				var turns atomic.Int32
				for i := range 8 {
					of := c
					if !sameClient {
						of, _ = open(t, s, nil)
					}
					all.Go(func() {
						time.Sleep(time.Duration(i) * 7 * time.Millisecond)
						for ctx.Err() == nil {
							_ = of.Semaphore("job").Do(ctx, 1, func(context.Context) error {
								turns.Add(1)
								time.Sleep(30 * time.Millisecond)
								return nil
							})
						}
					})
				}
				time.Sleep(2 * time.Second)
				if turns.Load() < 120 {
					t.Fatalf("the others had %d turns, too few to starve anybody", turns.Load())
				}
				for range 3 {
					start := time.Now()
					mustAcquire(t, sem, permits)
					if d := time.Since(start); d > 2*time.Second {
						t.Errorf("it had to wait %v for all permits, want %v at most", d, 2*time.Second)
					}
					mustRelease(t, sem, permits)
				}
				cancel()
				all.Wait()
				time.Sleep(time.Second) // undone in the background
				wantAvailable(t, sem, permits)
			})
		})
	}
}

// Waiters do not wait for one that has died.
func TestSemaphoreClaimOfADeadWaiterEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		dead, f := open(t, s, nil)
		sem := permitted(t, c, "job", 2)
		ctx, cancel := context.WithCancel(t.Context())
		doomed := acquireLater(ctx, dead.Semaphore("job"), 3)
		time.Sleep(1500 * time.Millisecond)
		f.Set(hang, nil) // as good as dead
		if err := sem.TryAcquire(t.Context(), 1); !errors.Is(err, mortise.ErrNoPermits) {
			t.Errorf("TryAcquire past one that waits: %v, want ErrNoPermits", err)
		}
		start := time.Now()
		mustAcquire(t, sem, 1)
		if d := time.Since(start); d < time.Second || d > 4*time.Second {
			t.Errorf("acquired after %v, want as soon as the claim of the dead is over", d)
		}
		cancel()
		if err := <-doomed; !errors.Is(err, context.Canceled) {
			t.Errorf("the one that was cut off: %v, want the context's error", err)
		}
	})
}

func TestSemaphoreGoroutinesComeInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		sem := permitted(t, c, "job", 0)
		var order []int
		var mu sync.Mutex // guards order
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				if err := sem.Acquire(t.Context(), 1+i%3); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
			})
			synctest.Wait()
		}
		before := f.Total()
		time.Sleep(20 * time.Second)
		if n := f.Total() - before; n > 25 {
			t.Errorf("50 waiters sent %d scripts in 20s, want one a second", n)
		}
		start := time.Now()
		for range 99 { // enough for all; one of them goes on at a time
			mustRelease(t, sem, 1)
			synctest.Wait()
		}
		all.Wait()
		if d := time.Since(start); d > time.Second {
			t.Errorf("it took them %v, want %v at most", d, time.Second)
		}
		if !slices.IsSorted(order) || len(order) != 50 {
			t.Errorf("the order was %v, want first come, first served", order)
		}
		wantAvailable(t, sem, 0)
	})
}

func TestSemaphoreLostMessageCostsAMoment(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c := mortise.New(deafDriver{s.Driver()}, nil)
		defer c.Close()
		other, _ := open(t, s, nil)
		sem := permitted(t, other, "job", 0)
		for range 10 {
			waiting := acquireLater(t.Context(), c.Semaphore("job"), 1)
			time.Sleep(5 * time.Second)
			start := time.Now()
			mustRelease(t, sem, 1)
			if err := <-waiting; err != nil {
				t.Error(err)
			}
			if d := time.Since(start); d > 1100*time.Millisecond {
				t.Errorf("without messages the waiter noticed the release after %v, want %v at most", d, 1100*time.Millisecond)
			}
		}
	})
}

// Anybody may publish anything: it wakes, but not too often, and gets nobody a
// permit.
func TestSemaphoreForgedMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		sem := permitted(t, c, "job", 1)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		waiting := acquireLater(ctx, sem, 2)
		synctest.Wait()
		wantCalmUnderForgery(t, s, f, "redisson_sc:{job}", "2", "-5", "0", "99999999999999999999", "", "two")
		if err := <-waiting; !errors.Is(err, mortise.ErrNoPermits) {
			t.Errorf("the waiter got %v, want ErrNoPermits", err)
		}
		wantAvailable(t, sem, 1)
	})
}
