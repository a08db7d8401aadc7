package behavior

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// command runs a Redis command, as somebody with redis-cli would.
func command(t *testing.T, s *memredis.Server, words ...string) driver.Value {
	t.Helper()
	d := s.Driver()
	defer d.Close()
	v, err := d.Eval(t.Context(), driver.Call{
		Script: driver.NewScript("command", "return redis.call(unpack(ARGV))"), Keys: []string{"any"}, Args: words,
	})
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return v
}

func TestSemaphoreOperations(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		sem, ctx := c.Semaphore("job"), t.Context()
		if sem.Name() != "job" {
			t.Errorf("Name = %q", sem.Name())
		}
		wantAvailable(t, sem, 0)
		if err := sem.TryAcquire(ctx, 1); !errors.Is(err, mortise.ErrNoPermits) {
			t.Errorf("TryAcquire of a semaphore that nobody has set: %v, want ErrNoPermits", err)
		}
		for n, want := range []bool{true, false} {
			if set, err := sem.TrySetPermits(ctx, 5+n); set != want || err != nil {
				t.Errorf("TrySetPermits = %v, %v, want %v", set, err, want)
			}
		}
		mustAcquire(t, sem, 2)
		if err := sem.TryAcquire(ctx, 3); err != nil {
			t.Error(err)
		}
		wantAvailable(t, sem, 0)
		var short *mortise.PermitsError
		if err := sem.TryAcquire(ctx, 1); !errors.As(err, &short) || short.Wanted != 1 || short.Available != 0 || short.Next != -1 {
			t.Errorf("TryAcquire: %v, want a PermitsError", err)
		}
		mustRelease(t, sem, 4)
		wantAvailable(t, sem, 4)
		if n, err := sem.Drain(ctx); n != 4 || err != nil {
			t.Errorf("Drain = %d, %v, want 4", n, err)
		}
		wantAvailable(t, sem, 0)
		if err := sem.AddPermits(ctx, -3); err != nil {
			t.Error(err)
		}
		wantAvailable(t, sem, -3)
		mustRelease(t, sem, 2)
		if err := sem.TryAcquire(ctx, 1); !errors.As(err, &short) || short.Available != -1 {
			t.Errorf("TryAcquire: %v, want a PermitsError with -1", err)
		}
		if err := sem.AddPermits(ctx, 3); err != nil {
			t.Error(err)
		}
		boom := errors.New("boom")
		if err := sem.Do(ctx, 2, func(ctx context.Context) error {
			wantAvailable(t, sem, 0)
			return boom
		}); !errors.Is(err, boom) {
			t.Errorf("Do = %v, want the error of the function", err)
		}
		wantAvailable(t, sem, 2)
		for _, want := range []bool{true, false} {
			if deleted, err := sem.Delete(ctx); deleted != want || err != nil {
				t.Errorf("Delete = %v, %v, want %v", deleted, err, want)
			}
		}
		if set, err := sem.TrySetPermits(ctx, 0); !set || err != nil {
			t.Errorf("TrySetPermits = %v, %v", set, err)
		}
	})
}

func TestSemaphoreReleasesIfTheWorkPanics(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		sem := permitted(t, c, "job", 1)
		func() {
			defer func() {
				if got := recover(); got != "boom" {
					t.Errorf("Do panics with %v, want what the work did", got)
				}
			}()
			_ = sem.Do(t.Context(), 1, func(context.Context) error { panic("boom") })
			t.Error("the panic was swallowed")
		}()
		wantAvailable(t, sem, 1)
	})
}

// Never more are out than there are, and in the end all are back.
func TestSemaphoreKeepsItsNumber(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		const permits = 5
		var out atomic.Int32
		var all sync.WaitGroup
		first, _ := open(t, s, nil)
		sem := permitted(t, first, "job", permits)
		for range 3 {
			c, _ := open(t, s, nil)
			for i := range 6 {
				all.Go(func() {
					n := 1 + i%permits
					for range 5 {
						err := c.Semaphore("job").Do(t.Context(), n, func(context.Context) error {
							if now := out.Add(int32(n)); now > permits {
								t.Errorf("%d permits are out", now)
							}
							time.Sleep(10 * time.Millisecond)
							out.Add(int32(-n))
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		start := time.Now()
		all.Wait()
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("it took %v, want little more than the 900ms of the work", d)
		}
		wantAvailable(t, sem, permits)
		time.Sleep(time.Hour)
		if keys := command(t, s, "KEYS", "*"); keys.Len() != 1 {
			t.Errorf("the keys %v are left, want the semaphore alone", keys)
		}
	})
}

// A release, permits that are added, and a semaphore that is set wake at once
// whoever can have them.
func TestSemaphoreWakes(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(ctx context.Context, s *mortise.Semaphore) error{
		"Release":    func(ctx context.Context, s *mortise.Semaphore) error { return s.Release(ctx, 3) },
		"AddPermits": func(ctx context.Context, s *mortise.Semaphore) error { return s.AddPermits(ctx, 3) },
		"TrySetPermits": func(ctx context.Context, s *mortise.Semaphore) error {
			_, err := s.TrySetPermits(ctx, 3)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				giver, _ := open(t, s, nil)
				var waiting []<-chan error
				for range 3 {
					c, _ := open(t, s, nil)
					waiting = append(waiting, acquireLater(t.Context(), c.Semaphore("job"), 1))
				}
				time.Sleep(10500 * time.Millisecond)
				start := time.Now()
				if err := give(t.Context(), giver.Semaphore("job")); err != nil {
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
				wantAvailable(t, giver.Semaphore("job"), 0)
			})
		})
	}
}

// The deadline is the wait limit. Who gives up leaves no claim, and wakes those
// it held up.
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

// One who waits for all permits gets them, however many others come and go with
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
						t.Errorf("it had to wait %v for all permits", d)
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

// Those who wait do not wait for one that has died.
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
			t.Errorf("it took them %v", d)
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
				t.Errorf("without messages the waiter noticed the release after %v", d)
			}
		}
	})
}

// Anybody may publish anything: it wakes, but not too often, and gives nobody a
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

// Replies and requests are lost, of every script: each operation has its effect
// once.
func TestSemaphoreSurvivesLostRepliesAndRequests(t *testing.T) {
	t.Parallel()
	for _, lost := range losses {
		t.Run(lost.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				sem, ctx := c.Semaphore("job"), t.Context()
				lost.Set(f, "number_set")
				if ok, err := sem.TrySetPermits(ctx, 5); !ok || err != nil {
					t.Errorf("TrySetPermits = %v, %v, want true", ok, err)
				}
				lost.Set(f, "semaphore_acquire")
				mustAcquire(t, sem, 2)
				lost.Set(f, "semaphore_acquire")
				if err := sem.TryAcquire(ctx, 1); err != nil {
					t.Error(err)
				}
				lost.Set(f, "number_read")
				wantAvailable(t, sem, 2)
				lost.Set(f, "semaphore_acquire")
				if err := sem.TryAcquire(ctx, 3); !errors.Is(err, mortise.ErrNoPermits) {
					t.Errorf("TryAcquire of too many: %v", err)
				}
				lost.Set(f, "semaphore_release")
				mustRelease(t, sem, 4)
				wantAvailable(t, sem, 6)
				lost.Set(f, "semaphore_add")
				if err := sem.AddPermits(ctx, -2); err != nil {
					t.Error(err)
				}
				wantAvailable(t, sem, 4)
				lost.Set(f, "semaphore_drain")
				if n, err := sem.Drain(ctx); n != 4 || err != nil {
					t.Errorf("Drain = %d, %v, want 4", n, err)
				}
				wantAvailable(t, sem, 0)

				lost.Set(f, "semaphore_undo")
				short, cancel := context.WithTimeout(ctx, 3*time.Second)
				defer cancel()
				if err := sem.Acquire(short, 2); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Acquire of too many: %v", err)
				}
				time.Sleep(time.Second)
				if n := command(t, s, "EXISTS", "mortise:claim:{job}").Int(); n != 0 {
					t.Error("a claim is left")
				}
				lost.Set(f, "number_delete")
				if ok, err := sem.Delete(ctx); !ok || err != nil {
					t.Errorf("Delete = %v, %v, want true", ok, err)
				}
			})
		})
	}
}

// lateCopies is a driver whose calls of one script get no answer and arrive only
// after some time, if ever the caller is gone.
type lateCopies struct {
	driver.Driver
	script string
	late   time.Duration
	copies sync.WaitGroup
	server *memredis.Server
}

func (l *lateCopies) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if call.Script.Name() != l.script {
		return l.Driver.Eval(ctx, call)
	}
	l.copies.Go(func() {
		time.Sleep(l.late)
		d := l.server.Driver() // the client may be closed by then
		defer d.Close()
		_, _ = d.Eval(context.Background(), call)
	})
	<-ctx.Done()
	return driver.Value{}, driver.ContextError(ctx, driver.Unknown)
}

// A caller gives up while Redis has not answered. Its copy may have run, or may
// arrive any time later: the permits must not leak, and must not multiply.
func TestSemaphoreGivesUpWithoutLeakingPermits(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{0, 50 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second, time.Minute, 4 * time.Minute} {
		for _, try := range []bool{false, true} {
			t.Run(fmt.Sprint(late, " try ", try), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					other, _ := open(t, s, nil)
					sem := permitted(t, other, "job", 5)
					d := &lateCopies{Driver: s.Driver(), script: "semaphore_acquire", late: late, server: s}
					c := mortise.New(d, nil)
					defer c.Close()
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					start := time.Now()
					acquire := c.Semaphore("job").Acquire
					if try {
						acquire = c.Semaphore("job").TryAcquire
					}
					if err := acquire(ctx, 3); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 100*time.Millisecond {
						t.Errorf("after %v: %v, want the deadline's error on time", time.Since(start), err)
					}
					time.Sleep(time.Second)
					wantAvailable(t, sem, 5)
					d.copies.Wait()
					wantAvailable(t, sem, 5)
				})
			})
		}
	}
}

// A release that is answered by nobody is not done twice, and says that its
// outcome is unknown. The end of the caller's context does not stop it.
func TestSemaphoreReleaseAfterTheContext(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		sem := permitted(t, c, "job", 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := sem.Release(ctx, 1); err != nil {
			t.Errorf("Release with a context that has ended: %v", err)
		}
		wantAvailable(t, sem, 2)

		f.Set(func(context.Context, string) error {
			return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
		}, nil)
		start := time.Now()
		if err := sem.Release(ctx, 1); !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, mortise.ErrUnknownOutcome) {
			t.Errorf("Release without Redis: %v, want ErrUnreachable", err)
		}
		if d := time.Since(start); d < 10*time.Second || d > 11*time.Second {
			t.Errorf("it gave up after %v, want RetryFor", d)
		}
		f.Set(nil, func(_ context.Context, name string) error {
			if name == "semaphore_release" {
				return errCut
			}
			return nil
		})
		if err := sem.Release(ctx, 1); !errors.Is(err, mortise.ErrUnreachable) || !errors.Is(err, mortise.ErrUnknownOutcome) {
			t.Errorf("Release without any reply: %v, want ErrUnknownOutcome", err)
		}
		f.Set(nil, nil)
		wantAvailable(t, sem, 3) // it was added, once
	})
}

// Without a limit of time nobody asks for longer than Redis remembers.
func TestSemaphoreDoesNotAskForLongerThanRedisRemembers(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]func(ctx context.Context, s *mortise.Semaphore) error{
		"semaphore_release": func(ctx context.Context, s *mortise.Semaphore) error { return s.Release(ctx, 1) },
		"semaphore_add":     func(ctx context.Context, s *mortise.Semaphore) error { return s.AddPermits(ctx, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, &mortise.Options{RetryFor: -1})
				other, _ := open(t, s, nil)
				sem := permitted(t, other, "job", 1)
				ran := false
				f.Set(func(context.Context, string) error { // one copy runs, the others get lost
					if ran {
						return errCut
					}
					return nil
				}, func(context.Context, string) error {
					ran = true
					return errCut
				})
				time.AfterFunc(6*time.Minute, func() { f.Set(nil, nil) }) // Redis has forgotten it by then
				start := time.Now()
				if err := add(t.Context(), c.Semaphore("job")); !errors.Is(err, mortise.ErrUnknownOutcome) || !errors.Is(err, mortise.ErrUnreachable) {
					t.Errorf("%v, want ErrUnknownOutcome and ErrUnreachable", err)
				}
				if d := time.Since(start); d < 2*time.Minute || d > 3*time.Minute {
					t.Errorf("it gave up after %v, want half of what Redis remembers", d)
				}
				wantAvailable(t, sem, 2)
			})
		})
	}
}

// An acquisition that nobody answers for that long is given up, and undone when
// Redis answers again.
func TestSemaphoreAcquisitionInDoubtForLong(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, &mortise.Options{RetryFor: -1})
		other, _ := open(t, s, nil)
		sem := permitted(t, other, "job", 3)
		f.Set(nil, func(context.Context, string) error { return errCut })
		start := time.Now()
		if err := c.Semaphore("job").Acquire(t.Context(), 2); !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, mortise.ErrUnknownOutcome) {
			t.Errorf("Acquire: %v, want ErrUnreachable", err)
		}
		if d := time.Since(start); d > 3*time.Minute {
			t.Errorf("it gave up after %v", d)
		}
		f.Set(nil, nil)
		time.Sleep(2 * time.Second)
		wantAvailable(t, sem, 3)
	})
}

func TestSemaphoreClose(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		other, _ := open(t, s, nil)
		c, _ := open(t, s, nil)
		sem := permitted(t, other, "job", 2)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := c.Semaphore("job").Acquire(t.Context(), 3); !errors.Is(err, mortise.ErrClosed) {
					t.Errorf("a wait ended by Close: %v, want ErrClosed", err)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
		mustAcquire(t, sem, 2)
		if d := time.Since(start); d > 0 {
			t.Errorf("those who are gone kept the permits from others for %v", d)
		}
		closed := c.Semaphore("job")
		_, set := closed.TrySetPermits(t.Context(), 1)
		_, drained := closed.Drain(t.Context())
		_, deleted := closed.Delete(t.Context())
		_, available := closed.Available(t.Context())
		for op, err := range map[string]error{
			"Acquire": closed.Acquire(t.Context(), 1), "TryAcquire": closed.TryAcquire(t.Context(), 1),
			"Release": closed.Release(t.Context(), 1), "AddPermits": closed.AddPermits(t.Context(), 1),
			"TrySetPermits": set, "Drain": drained, "Delete": deleted, "Available": available,
		} {
			if !errors.Is(err, mortise.ErrClosed) {
				t.Errorf("%s after Close: %v, want ErrClosed", op, err)
			}
		}
		wantAvailable(t, sem, 0)
	})
}

// Close comes while the answer to an acquisition is on its way: nobody could
// release the permits.
func TestSemaphoreCloseDuringTheGrantGivesThePermitsBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		other, _ := open(t, s, nil)
		c, f := open(t, s, nil)
		sem := permitted(t, other, "job", 2)
		f.Set(nil, func(_ context.Context, name string) error {
			if name == "semaphore_acquire" {
				time.Sleep(500 * time.Millisecond)
			}
			return nil
		})
		got := acquireLater(t.Context(), c.Semaphore("job"), 2)
		time.Sleep(100 * time.Millisecond)
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-got; !errors.Is(err, mortise.ErrClosed) {
			t.Errorf("Acquire: %v, want ErrClosed", err)
		}
		wantAvailable(t, sem, 2)
	})
}

func TestSemaphoreRefusesBadInputAndSendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		ctx := t.Context()
		calls := map[string]func(sem *mortise.Semaphore, n int) error{
			"Acquire":    func(sem *mortise.Semaphore, n int) error { return sem.Acquire(ctx, n) },
			"TryAcquire": func(sem *mortise.Semaphore, n int) error { return sem.TryAcquire(ctx, n) },
			"Release":    func(sem *mortise.Semaphore, n int) error { return sem.Release(ctx, n) },
			"Do": func(sem *mortise.Semaphore, n int) error {
				return sem.Do(ctx, n, func(context.Context) error { t.Error("it was let in"); return nil })
			},
			"AddPermits": func(sem *mortise.Semaphore, n int) error { return sem.AddPermits(ctx, n) },
			"TrySetPermits": func(sem *mortise.Semaphore, n int) error {
				_, err := sem.TrySetPermits(ctx, n)
				return err
			},
		}
		for op, call := range calls {
			for _, n := range []int{0, -1, math.MinInt32, math.MinInt, math.MaxInt32 + 1, math.MaxInt} {
				if op == "AddPermits" && n == -1 || op == "TrySetPermits" && n == 0 {
					continue
				}
				if err := call(c.Semaphore("job"), n); !errors.Is(err, mortise.ErrInvalid) {
					t.Errorf("%s(%d): %v, want ErrInvalid", op, n, err)
				}
			}
			for _, name := range []string{"", "a}b", "redisson_sc:{x}", "mortise:claim:{x}", "a\nb"} {
				if err := call(c.Semaphore(name), 1); !errors.Is(err, mortise.ErrInvalid) {
					t.Errorf("%s on %q: %v, want ErrInvalid", op, name, err)
				}
			}
		}
		if n := f.Total(); n != 0 {
			t.Errorf("%d scripts were sent", n)
		}
	})
}

// What would be more than Redisson can count is refused, and what is there
// stays as it is.
func TestSemaphoreWithinJavasRange(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		sem := permitted(t, c, "job", math.MaxInt32-1)
		mustRelease(t, sem, 1)
		if err := sem.Release(t.Context(), 1); !errors.Is(err, mortise.ErrInvalid) {
			t.Errorf("Release beyond 2^31-1: %v, want ErrInvalid", err)
		}
		if err := sem.AddPermits(t.Context(), math.MaxInt32); !errors.Is(err, mortise.ErrInvalid) {
			t.Errorf("AddPermits beyond 2^31-1: %v, want ErrInvalid", err)
		}
		wantAvailable(t, sem, math.MaxInt32)
		mustAcquire(t, sem, math.MaxInt32)
		wantAvailable(t, sem, 0)
	})
}

// wantForeignDataLeftAlone checks that all operations on "job" say ErrWrongKind of
// data that are no number, and do not change them.
func wantForeignDataLeftAlone(t *testing.T, operate func(ctx context.Context, c *mortise.Client) map[string]error) {
	for name, data := range map[string]struct{ write, read []string }{
		"lock": {[]string{"HSET", "job", "8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:57", "1"}, []string{"HGETALL", "job"}},
		"list": {[]string{"RPUSH", "job", "a"}, []string{"LRANGE", "job", "0", "-1"}},
		"text": {[]string{"SET", "job", "five"}, []string{"GET", "job"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				command(t, s, data.write...)
				before := command(t, s, data.read...).String()
				for op, err := range operate(t.Context(), c) {
					if !errors.Is(err, mortise.ErrWrongKind) {
						t.Errorf("%s: %v, want ErrWrongKind", op, err)
					}
				}
				if after := command(t, s, data.read...).String(); after != before {
					t.Errorf("it was changed from %s to %s", before, after)
				}
			})
		})
	}
}

// What lies under the name is no semaphore.
func TestSemaphoreLeavesForeignDataAlone(t *testing.T) {
	wantForeignDataLeftAlone(t, func(ctx context.Context, c *mortise.Client) map[string]error {
		sem := c.Semaphore("job")
		_, set := sem.TrySetPermits(ctx, 1)
		_, drained := sem.Drain(ctx)
		_, deleted := sem.Delete(ctx)
		_, available := sem.Available(ctx)
		return map[string]error{
			"Acquire": sem.Acquire(ctx, 1), "TryAcquire": sem.TryAcquire(ctx, 1), "Release": sem.Release(ctx, 1),
			"AddPermits": sem.AddPermits(ctx, 1), "TrySetPermits": set, "Drain": drained, "Delete": deleted, "Available": available,
		}
	})
}
