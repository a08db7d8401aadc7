package behavior

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/resp"
	"github.com/mortise-go/mortise/memredis"
)

// A reply can be lost after the script ran. Whatever it was, counts stay exact
// and nothing stays behind.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for _, lost := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				other, _ := open(t, s, nil)
				k, reader := c.Lock("job"), other.Lock("job")

				start := time.Now()
				f.Set(nil, loseReplies("lock_acquire", lost))
				outer, ctx := mustLock(t, k, t.Context())
				wantState(t, reader, outer.Owner(), 1)

				f.Set(nil, loseReplies("lock_reenter", lost))
				inner, _ := mustLock(t, k, ctx)
				wantState(t, reader, outer.Owner(), 2)

				f.Set(nil, loseReplies("lock_leave", lost))
				mustUnlock(t, inner)
				wantState(t, reader, outer.Owner(), 1)

				// Nobody had to wait for a lease of his own to end.
				if d := time.Since(start); d > time.Second {
					t.Errorf("lost replies took %v to be made good, want %v at most", d, time.Second)
				}

				f.Set(nil, loseReplies("lock_renew", lost))
				time.Sleep(5 * time.Minute)
				if ctx.Err() != nil {
					t.Fatalf("lost by lost replies of renewals: %v", context.Cause(ctx))
				}

				// The first copy has released the lock. Asked again, Redis can only
				// say that it is not held.
				f.Set(nil, loseReplies("lock_release", lost))
				if err := outer.Unlock(); !errors.Is(err, mortise.ErrUnknownOutcome) {
					t.Errorf("Unlock with a lost reply: %v, want ErrUnknownOutcome", err)
				}
				wantState(t, reader, "", 0)

				hold, _ := mustLock(t, reader, t.Context())
				f.Set(nil, loseReplies("lock_release", lost))
				if _, err := k.ForceUnlock(t.Context()); !errors.Is(err, mortise.ErrUnknownOutcome) {
					t.Errorf("ForceUnlock with a lost reply: %v, want ErrUnknownOutcome", err)
				}
				wantState(t, k, "", 0)
				if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
					t.Errorf("Unlock of a freed lock: %v, want ErrLost", err)
				}
			})
		})
	}
}

func TestLostReplyOfABusyLockIsNoHold(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		hold, _ := mustLock(t, other.Lock("job"), t.Context())
		f.Set(nil, loseReplies("lock_acquire", 2))
		if _, _, err := c.Lock("job").TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("TryLock: %v, want ErrLocked", err)
		}
		wantState(t, c.Lock("job"), hold.Owner(), 1)
		mustUnlock(t, hold)
	})
}

// A caller that gives up while its attempt is under way must not leave a lock
// behind, whether the script runs before or after.
func TestCancelledInFlightLeavesNoGhost(t *testing.T) {
	t.Parallel()
	for _, try := range []bool{false, true} {
		for name, late := range map[string]time.Duration{"ran before": 0, "runs late": 700 * time.Millisecond} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					c, f := open(t, s, nil)
					other, _ := open(t, s, nil)
					if late > 0 {
						f.DeliverLate(late)
					} else {
						f.Set(nil, func(ctx context.Context, name string) error {
							if name == "lock_acquire" {
								return hang(ctx, name)
							}
							return nil
						})
					}
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					start := time.Now()
					lock := c.Lock("job").Lock
					if try {
						lock = c.Lock("job").TryLock
					}
					_, _, err := lock(ctx)
					if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 100*time.Millisecond {
						t.Errorf("after %v: %v, want the deadline's error after 100ms", time.Since(start), err)
					}
					f.InFlight.Wait()
					time.Sleep(5 * time.Second) // the longest pause between two looks at a lease of 30s
					wantState(t, other.Lock("job"), "", 0)
				})
			})
		}
	}
}

// A re-entry that was given up may have raised the count. Others must not read
// a hold that nobody has.
func TestReentryGivenUpInFlightLeavesTheTrueCount(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		k := c.Lock("job")
		hold, held := mustLock(t, k, t.Context())
		f.Set(nil, func(ctx context.Context, name string) error {
			if name == "lock_reenter" {
				return hang(ctx, name)
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(held, 100*time.Millisecond)
		defer cancel()
		if _, _, err := k.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("re-entry without an answer: %v, want the deadline's error", err)
		}
		synctest.Wait()
		wantState(t, other.Lock("job"), hold.Owner(), 1)
		mustUnlock(t, hold)
		wantState(t, other.Lock("job"), "", 0)
	})
}

func TestReplyThatComesTooLateIsNoHold(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		f.Set(nil, func(_ context.Context, name string) error {
			if name == "lock_acquire" {
				time.Sleep(150 * time.Millisecond)
			}
			return nil
		})
		k := c.Lock("job").With(mortise.LockOptions{MaxHold: 100 * time.Millisecond})
		if _, _, err := k.Lock(t.Context()); !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, mortise.ErrLost) {
			t.Errorf("Lock whose answer took longer than the lease: %v, want ErrUnreachable, for nothing was held", err)
		}
		wantState(t, other.Lock("job"), "", 0)
	})
}

func TestSlowRepliesAreNoObstacle(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{20, 60, 200, 500} {
		t.Run(fmt.Sprint(int(delay)), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				f.Set(nil, func(context.Context, string) error {
					time.Sleep(delay * time.Millisecond)
					return nil
				})
				hold, ctx := mustLock(t, c.Lock("job"), t.Context())
				time.Sleep(time.Minute)
				if ctx.Err() != nil {
					t.Errorf("lost with replies taking %v: %v", delay*time.Millisecond, context.Cause(ctx))
				}
				mustUnlock(t, hold)
			})
		})
	}
}

func TestOutageIsWaitedOutOrReported(t *testing.T) {
	refused := func(class driver.Class, text string) func(context.Context, string) error {
		return func(context.Context, string) error { return &driver.Error{Class: class, Err: errors.New(text)} }
	}
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, &mortise.Options{RetryFor: 5 * time.Second})
		k := c.Lock("job")
		outage := func(f *faults, d time.Duration, fault func(context.Context, string) error) {
			f.Set(fault, nil)
			time.AfterFunc(d, func() { f.Set(nil, nil) })
		}
		// Shorter than RetryFor: not noticed.
		for _, fault := range []func(context.Context, string) error{
			refused(driver.NotSent, "connection refused"),
			refused(driver.Passing, "LOADING Redis is loading the dataset in memory"),
			refused(driver.Unknown, "EOF"),
		} {
			outage(f, 4*time.Second, fault)
			hold, _, err := k.TryLock(t.Context())
			if err != nil {
				t.Fatalf("TryLock during a short outage: %v", err)
			}
			outage(f, 4*time.Second, fault)
			mustUnlock(t, hold)
		}
		// Longer: reported.
		outage(f, 10*time.Second, refused(driver.NotSent, "connection refused"))
		start := time.Now()
		_, _, err := k.Lock(t.Context())
		if !errors.Is(err, mortise.ErrUnreachable) {
			t.Errorf("Lock during a long outage: %v, want ErrUnreachable", err)
		}
		if d := time.Since(start); d < 5*time.Second || d > 6*time.Second {
			t.Errorf("reported after %v, want about 5s", d)
		}
		// A refusal that does not pass is reported at once.
		for class, want := range map[driver.Class]error{
			driver.Denied: mortise.ErrDenied, driver.WrongType: mortise.ErrWrongKind,
		} {
			f.Set(refused(class, "no"), nil)
			start := time.Now()
			if _, _, err := k.Lock(t.Context()); !errors.Is(err, want) || time.Since(start) != 0 {
				t.Errorf("Lock refused with class %v: %v after %v, want %v at once", class, err, time.Since(start), want)
			}
		}
	})
}

func TestUnlockStopsTryingWhenTheLeaseIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, &mortise.Options{UnlockFor: -1})
		hold, ctx := mustLock(t, c.Lock("job"), t.Context())
		f.Set(hang, nil)
		start := time.Now()
		err := hold.Unlock()
		if !errors.Is(err, mortise.ErrUnreachable) {
			t.Errorf("Unlock with Redis silent: %v, want ErrUnreachable", err)
		}
		if d := time.Since(start); d < 29*time.Second || d > 30*time.Second {
			t.Errorf("Unlock gave up after %v, want just before the lease of 30s was over", d)
		}
		if ctx.Err() == nil {
			t.Error("the context of a released hold has not ended")
		}
		f.Set(nil, nil)
		time.Sleep(time.Second)
		wantState(t, c.Lock("job"), "", 0)
	})
}

func TestScriptFlushIsNotNoticed(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		conn, err := s.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		replies := bufio.NewReader(conn)
		flush := func() {
			if _, err := conn.Write(resp.Append(nil, "SCRIPT", "FLUSH")); err != nil {
				t.Fatal(err)
			}
			if _, err := resp.Read(replies); err != nil {
				t.Fatalf("SCRIPT FLUSH: %v", err)
			}
		}
		k := c.Lock("job")
		flush()
		hold, ctx := mustLock(t, k, t.Context())
		flush()
		inner, _ := mustLock(t, k, ctx)
		flush()
		time.Sleep(time.Minute)
		flush()
		mustUnlock(t, inner)
		flush()
		mustUnlock(t, hold)
		flush()
		if _, err := k.ForceUnlock(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}
