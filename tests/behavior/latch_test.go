package behavior

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

func TestLatchOperations(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		l, ctx := c.CountDownLatch("job"), t.Context()
		if l.Name() != "job" {
			t.Errorf("Name = %q, want %q", l.Name(), "job")
		}
		wantCount(t, l, 0)
		if err := l.Wait(ctx); err != nil {
			t.Errorf("Wait for a latch that nobody has set: %v", err)
		}
		mustCountDown(t, l)
		wantCount(t, l, 0)
		for n, want := range []bool{true, false} {
			if set, err := l.TrySetCount(ctx, 2+n); set != want || err != nil {
				t.Errorf("TrySetCount = %v, %v, want %v", set, err, want)
			}
		}
		mustCountDown(t, l)
		wantCount(t, l, 1)
		mustCountDown(t, l)
		wantCount(t, l, 0)
		if err := l.Wait(ctx); err != nil {
			t.Error(err)
		}
		closedLatch(t, c, "job", 7)
		for _, want := range []bool{true, false} {
			if closed, err := l.Delete(ctx); closed != want || err != nil {
				t.Errorf("Delete = %v, %v, want %v", closed, err, want)
			}
		}
		wantCount(t, l, 0)
		for _, odd := range []string{"0", "-3"} { // as Redisson may set it
			command(t, s, "SET", "job", odd)
			wantCount(t, l, 0)
			if err := l.Wait(ctx); err != nil {
				t.Error(err)
			}
			mustCountDown(t, l)
			if n := command(t, s, "EXISTS", "job").Int(); n != 0 {
				t.Error("a latch that is open is still there")
			}
		}
		time.Sleep(time.Hour)
		if keys := command(t, s, "KEYS", "*"); keys.Len() != 0 {
			t.Errorf("the keys %v are left", keys)
		}
	})
}

// Whatever opens a latch wakes all waiters, at once.
func TestLatchWakesAll(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(ctx context.Context, l *mortise.CountDownLatch) error{
		"CountDown": func(ctx context.Context, l *mortise.CountDownLatch) error { return l.CountDown(ctx) },
		"Delete": func(ctx context.Context, l *mortise.CountDownLatch) error {
			_, err := l.Delete(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				const waiters = 1000
				c, f := open(t, s, nil)
				other, _ := open(t, s, nil)
				l := closedLatch(t, other, "job", 1)
				var all sync.WaitGroup
				for range waiters {
					all.Go(func() {
						if err := c.CountDownLatch("job").Wait(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				time.Sleep(10500 * time.Millisecond)
				if n := f.Total(); n > 15 {
					t.Errorf("%d waiters sent %d scripts in 10s, want one a second", waiters, n)
				}
				before, start := f.Total(), time.Now()
				if err := free(t.Context(), l); err != nil {
					t.Fatal(err)
				}
				all.Wait()
				if d := time.Since(start); d != 0 {
					t.Errorf("they were woken after %v, want at once", d)
				}
				if n := f.Total() - before; n > 3 {
					t.Errorf("waking %d took %d scripts, want 3 at most", waiters, n)
				}
			})
		})
	}
}

// A look that found a latch open lets no waiter through that came after it, and
// after the latch was closed again.
func TestLatchLooksAgainForThoseWhoComeLater(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		l := closedLatch(t, other, "job", 1)
		f.Set(nil, func(_ context.Context, name string) error {
			if name == "number_read" {
				time.Sleep(100 * time.Millisecond) // between the look and its answer
			}
			return nil
		})
		mine := c.CountDownLatch("job")
		first := waitLater(t.Context(), mine)
		time.Sleep(50 * time.Millisecond)
		second := waitLater(t.Context(), mine)
		time.Sleep(5 * time.Second)
		mustCountDown(t, l) // they look, and find it open
		time.Sleep(50 * time.Millisecond)
		closedLatch(t, other, "job", 1)
		third := waitLater(t.Context(), mine)
		for _, w := range []<-chan error{first, second} {
			if err := <-w; err != nil {
				t.Error(err)
			}
		}
		time.Sleep(10 * time.Second)
		if len(third) > 0 {
			t.Errorf("a waiter that came after the latch was closed again passed: %v", <-third)
		}
		mustCountDown(t, l)
		if err := <-third; err != nil {
			t.Error(err)
		}
	})
}

// Redis tells nobody that a key has expired, was evicted or deleted by hand.
func TestLatchThatVanishesOpens(t *testing.T) {
	t.Parallel()
	for name, vanish := range map[string][]string{
		"expires": {"PEXPIRE", "job", "5000"}, "deleted by hand": {"DEL", "job"}, "flushed": {"FLUSHALL"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				waiting := waitLater(t.Context(), closedLatch(t, c, "job", 3))
				time.Sleep(3 * time.Second)
				command(t, s, vanish...)
				start := time.Now()
				if err := <-waiting; err != nil {
					t.Error(err)
				}
				most := 1100 * time.Millisecond
				if name == "expires" {
					most += 5 * time.Second
				}
				if d := time.Since(start); d > most {
					t.Errorf("noticed after %v, want %v at most", d, most)
				}
			})
		})
	}
}

func TestLatchLostMessageCostsAMoment(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c := mortise.New(deafDriver{s.Driver()}, nil)
		defer c.Close()
		other, _ := open(t, s, nil)
		for range 10 {
			l := closedLatch(t, other, "job", 1)
			waiting := waitLater(t.Context(), c.CountDownLatch("job"))
			time.Sleep(5 * time.Second)
			start := time.Now()
			mustCountDown(t, l)
			if err := <-waiting; err != nil {
				t.Error(err)
			}
			if d := time.Since(start); d > 1100*time.Millisecond {
				t.Errorf("without messages the waiter noticed after %v, want %v at most", d, 1100*time.Millisecond)
			}
		}
	})
}

func TestLatchForgedMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		l := closedLatch(t, c, "job", 1)
		waiting := waitLater(t.Context(), l)
		synctest.Wait()
		wantCalmUnderForgery(t, s, f, "redisson_countdownlatch__channel__{job}", "0", "1", "-5", "99999999999999999999", "", "zero")
		if len(waiting) > 0 {
			t.Errorf("a forged message let one through: %v", <-waiting)
		}
		mustCountDown(t, l)
		if err := <-waiting; err != nil {
			t.Error(err)
		}
	})
}

// The wait ends with its context; those behind go on waiting.
func TestLatchWaitEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		l := closedLatch(t, c, "job", 1)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		first := waitLater(ctx, l)
		synctest.Wait()
		second := waitLater(t.Context(), l)
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("after %v: %v, want the deadline's error on time", time.Since(start), err)
		}
		time.Sleep(2500 * time.Millisecond)
		start = time.Now()
		mustCountDown(t, l)
		if err := <-second; err != nil || time.Since(start) != 0 {
			t.Errorf("after %v: %v, want to be woken", time.Since(start), err)
		}
	})
}

// Each operation counts once, whatever is lost, and even if its context has ended.
func TestLatchSurvivesLostRepliesAndRequests(t *testing.T) {
	t.Parallel()
	for _, lost := range losses {
		t.Run(lost.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				l := c.CountDownLatch("job")
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				lost.Set(f, "number_set")
				closedLatch(t, c, "job", 3)
				lost.Set(f, "number_read")
				wantCount(t, l, 3)
				lost.Set(f, "latch_count_down")
				mustCountDown(t, l)
				wantCount(t, l, 2)
				lost.Set(f, "latch_count_down")
				if err := l.CountDown(ended); err != nil {
					t.Errorf("CountDown with a context that has ended: %v", err)
				}
				wantCount(t, l, 1)
				waiting := waitLater(t.Context(), l)
				synctest.Wait()
				lost.Set(f, "latch_count_down")
				mustCountDown(t, l)
				if err := <-waiting; err != nil {
					t.Error(err)
				}
				closedLatch(t, c, "job", 3)
				lost.Set(f, "number_delete")
				if closed, err := l.Delete(t.Context()); !closed || err != nil {
					t.Errorf("Delete = %v, %v, want true", closed, err)
				}
			})
		})
	}
}

// A copy that arrives late, after its caller was told that the outcome is
// unknown, counts at most once with all others.
func TestLatchLateCopies(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		other, _ := open(t, s, nil)
		l := closedLatch(t, other, "job", 5)
		d := &lateCopies{Driver: s.Driver(), script: "latch_count_down", late: 20 * time.Second, server: s}
		c := mortise.New(ioTimeout{d, 3 * time.Second}, nil)
		defer c.Close()
		if err := c.CountDownLatch("job").CountDown(t.Context()); !errors.Is(err, mortise.ErrUnknownOutcome) {
			t.Errorf("CountDown without any reply: %v, want ErrUnknownOutcome", err)
		}
		d.copies.Wait()
		wantCount(t, l, 4)
	})
}

// ioTimeout is a driver that gives up each call after a while.
type ioTimeout struct {
	driver.Driver
	after time.Duration
}

func (d ioTimeout) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, d.after)
	defer cancel()
	return d.Driver.Eval(ctx, call)
}

func TestLatchClose(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		l := closedLatch(t, c, "job", 1)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := l.Wait(t.Context()); !errors.Is(err, mortise.ErrClosed) {
					t.Errorf("a wait ended by Close: %v, want ErrClosed", err)
				}
			})
		}
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
		_, set := l.TrySetCount(t.Context(), 1)
		_, count := l.Count(t.Context())
		_, deleted := l.Delete(t.Context())
		for op, err := range map[string]error{
			"Wait": l.Wait(t.Context()), "CountDown": l.CountDown(t.Context()), "TrySetCount": set, "Count": count, "Delete": deleted,
		} {
			if !errors.Is(err, mortise.ErrClosed) {
				t.Errorf("%s after Close: %v, want ErrClosed", op, err)
			}
		}
	})
}

func TestLatchRefusesBadInputAndSendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		for _, n := range []int{0, -1, math.MinInt, math.MaxInt32 + 1, math.MaxInt} {
			if _, err := c.CountDownLatch("job").TrySetCount(t.Context(), n); !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("TrySetCount(%d): %v, want ErrInvalid", n, err)
			}
		}
		for _, name := range []string{"", "a}b", "redisson_sc:{x}", "mortise:op:{x}", "a\nb"} {
			l := c.CountDownLatch(name)
			_, set := l.TrySetCount(t.Context(), 1)
			for op, err := range map[string]error{"TrySetCount": set, "CountDown": l.CountDown(t.Context()), "Wait": l.Wait(t.Context())} {
				if !errors.Is(err, mortise.ErrInvalid) {
					t.Errorf("%s on %q: %v, want ErrInvalid", op, name, err)
				}
			}
		}
		if n := f.Total(); n != 0 {
			t.Errorf("%d scripts were sent, want 0", n)
		}
	})
}

func TestLatchLeavesForeignDataAlone(t *testing.T) {
	wantForeignDataLeftAlone(t, func(ctx context.Context, c *mortise.Client) map[string]error {
		l := c.CountDownLatch("job")
		_, set := l.TrySetCount(ctx, 1)
		_, deleted := l.Delete(ctx)
		_, count := l.Count(ctx)
		return map[string]error{
			"Wait": l.Wait(ctx), "CountDown": l.CountDown(ctx), "TrySetCount": set, "Delete": deleted, "Count": count,
		}
	})
}

// Without the right to subscribe a waiter is told so.
func TestWaitingWithoutTheRightToSubscribe(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		other, _ := open(t, s, nil)
		closedLatch(t, other, "latch", 1)
		c := mortise.New(refusingDriver{s.Driver()}, nil)
		defer c.Close()
		for op, err := range map[string]error{
			"Wait":    c.CountDownLatch("latch").Wait(t.Context()),
			"Acquire": c.Semaphore("semaphore").Acquire(t.Context(), 1),
		} {
			if !errors.Is(err, mortise.ErrDenied) {
				t.Errorf("%s without the right to subscribe: %v, want ErrDenied", op, err)
			}
		}
	})
}
