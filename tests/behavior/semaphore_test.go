package behavior

import (
	"context"
	"errors"
	"math"
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
			t.Errorf("Name = %q, want %q", sem.Name(), "job")
		}
		wantAvailable(t, sem, 0)
		if err := sem.TryAcquire(ctx, 1); !errors.Is(err, mortise.ErrNoPermits) {
			t.Errorf("TryAcquire of a semaphore that nobody has set: %v, want ErrNoPermits", err)
		}
		wantSemaphoreSetOnce(t, sem)
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
		wantDrainedAndReduced(t, sem)
		wantErrorOfDo(t, sem)
		wantAvailable(t, sem, 2)
		for _, want := range []bool{true, false} {
			if deleted, err := sem.Delete(ctx); deleted != want || err != nil {
				t.Errorf("Delete = %v, %v, want %v", deleted, err, want)
			}
		}
		if set, err := sem.TrySetPermits(ctx, 0); !set || err != nil {
			t.Errorf("TrySetPermits = %v, %v, want true", set, err)
		}
	})
}

func wantSemaphoreSetOnce(t *testing.T, sem *mortise.Semaphore) {
	for n, want := range []bool{true, false} {
		if set, err := sem.TrySetPermits(t.Context(), 5+n); set != want || err != nil {
			t.Errorf("TrySetPermits = %v, %v, want %v", set, err, want)
		}
	}
}

// wantDrainedAndReduced takes all four permits, and then more than there are.
func wantDrainedAndReduced(t *testing.T, sem *mortise.Semaphore) {
	ctx := t.Context()
	if n, err := sem.Drain(ctx); n != 4 || err != nil {
		t.Errorf("Drain = %d, %v, want 4", n, err)
	}
	wantAvailable(t, sem, 0)
	if err := sem.AddPermits(ctx, -3); err != nil {
		t.Error(err)
	}
	wantAvailable(t, sem, -3)
	mustRelease(t, sem, 2)
	var short *mortise.PermitsError
	if err := sem.TryAcquire(ctx, 1); !errors.As(err, &short) || short.Available != -1 {
		t.Errorf("TryAcquire: %v, want a PermitsError with -1", err)
	}
	if err := sem.AddPermits(ctx, 3); err != nil {
		t.Error(err)
	}
}

// wantErrorOfDo checks that Do takes both permits, and returns the error of its function.
func wantErrorOfDo(t *testing.T, sem *mortise.Semaphore) {
	boom := errors.New("boom")
	if err := sem.Do(t.Context(), 2, func(ctx context.Context) error {
		wantAvailable(t, sem, 0)
		return boom
	}); !errors.Is(err, boom) {
		t.Errorf("Do = %v, want the error of the function", err)
	}
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
								t.Errorf("%d permits are out, want %v at most", now, permits)
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
			t.Errorf("clients that are gone kept the permits from others for %v, want 0", d)
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
			t.Errorf("%d scripts were sent, want 0", n)
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
					t.Errorf("the key is now %s, want %s as before", after, before)
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
