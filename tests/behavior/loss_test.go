package behavior

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// wantLost waits for the end of a hold and checks why and when it came.
func wantLost(t *testing.T, ctx context.Context, h *mortise.Hold, reason mortise.LostReason, from, to time.Duration) {
	t.Helper()
	start := time.Now()
	<-ctx.Done()
	if d := time.Since(start); d < from || d > to {
		t.Errorf("the context ended after %v, want %v to %v", d, from, to)
	}
	var lost *mortise.LostError
	if cause := context.Cause(ctx); !errors.As(cause, &lost) || lost.Reason != reason || !errors.Is(cause, mortise.ErrLost) {
		t.Errorf("the cause is %v, want ErrLost because %s", cause, reason)
	}
	if h.Valid() {
		t.Error("a lost hold says it is valid")
	}
	if err := h.Unlock(); !errors.Is(err, mortise.ErrLost) {
		t.Errorf("Unlock: %v, want ErrLost", err)
	}
	if err := h.Unlock(); !errors.Is(err, mortise.ErrReleased) {
		t.Errorf("second Unlock: %v, want ErrReleased", err)
	}
}

func TestLossIsNoticedAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	lose := map[string]struct {
		how    func(t *testing.T, other *mortise.Client)
		reason mortise.LostReason
	}{
		"forced": {func(t *testing.T, other *mortise.Client) {
			if by, err := other.Lock("job").ForceUnlock(t.Context()); by == nil || err != nil {
				t.Fatalf("ForceUnlock = %v, %v, want the holder", by, err)
			}
		}, mortise.LostForced},
		"taken": {func(t *testing.T, other *mortise.Client) {
			if _, err := other.Lock("job").ForceUnlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			mustLock(t, other.Lock("job"), t.Context())
		}, mortise.LostTaken},
	}
	for name, test := range lose {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				other, _ := open(t, s, nil)
				hold, ctx := mustLock(t, c.Lock("job"), t.Context())
				time.Sleep(time.Second)
				test.how(t, other)
				wantLost(t, ctx, hold, test.reason, 9*time.Second, 9*time.Second)
			})
		})
	}
}

func TestForceUnlockInTheSameProcessIsNoticedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		hold, ctx := mustLock(t, c.Lock("job"), t.Context())
		by, err := c.Lock("job").ForceUnlock(t.Context())
		if err != nil || by == nil || by.Owner != hold.Owner() || by.Count != 1 {
			t.Errorf("ForceUnlock = %v, %v, want the holder", by, err)
		}
		wantLost(t, ctx, hold, mortise.LostForced, 0, 0)
		if by, err := c.Lock("job").ForceUnlock(t.Context()); by != nil || err != nil {
			t.Errorf("ForceUnlock of a free lock = %v, %v, want nothing", by, err)
		}
	})
}

func TestUnlockOwnerFreesOnlyThatOwner(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		hold, _ := mustLock(t, c.Lock("job"), t.Context())
		k := other.Lock("job")
		if freed, err := k.UnlockOwner(t.Context(), "somebody:1"); freed || err != nil {
			t.Errorf("UnlockOwner of another = %v, %v, want false", freed, err)
		}
		wantState(t, k, hold.Owner(), 1)
		if freed, err := k.UnlockOwner(t.Context(), hold.Owner()); !freed || err != nil {
			t.Errorf("UnlockOwner = %v, %v, want true", freed, err)
		}
		wantState(t, k, "", 0)
	})
}

func TestFixedLeaseEndsBeforeTheKeyExpires(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		k := c.Lock("job").With(mortise.LockOptions{MaxHold: 10 * time.Second})
		hold, ctx := mustLock(t, k, t.Context())
		<-ctx.Done()
		wantState(t, k, hold.Owner(), 1) // told before Redis let go
		wantLost(t, ctx, hold, mortise.LostExpired, 0, 0)
		if n := f.Count("lock_renew"); n != 0 {
			t.Errorf("a fixed lease was renewed %d times, want 0", n)
		}
	})
}

func TestMarginMovesTheEndOfTheContext(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		k := c.Lock("job").With(mortise.LockOptions{Margin: 12 * time.Second})
		hold, ctx := mustLock(t, k, t.Context())
		time.Sleep(time.Hour + time.Second) // a wide margin leaves time to renew
		if ctx.Err() != nil {
			t.Fatal(context.Cause(ctx))
		}
		f.Set(hang, nil)
		renewed := hold.Until().Add(-18 * time.Second)
		<-ctx.Done()
		if d := time.Since(renewed); d != 18*time.Second {
			t.Errorf("the context ended %v after the last renewal, want 18s", d)
		}
		f.Set(nil, nil)
		wantLost(t, ctx, hold, mortise.LostUnreachable, 0, 0)
	})
}

// A link can stall at any moment of a lease. Wherever it does, the context
// must end before the key can expire.
func TestContextEndsBeforeTheKeyWhereverTheLinkStalls(t *testing.T) {
	t.Parallel()
	for stall := time.Duration(0); stall < 31*time.Second; stall += 500 * time.Millisecond {
		t.Run(stall.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				reader, _ := open(t, s, nil)
				hold, ctx := mustLock(t, c.Lock("job"), t.Context())
				time.Sleep(stall)
				f.Set(hang, nil)
				<-ctx.Done()
				state, err := reader.Lock("job").Inspect(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if !state.Locked || state.TTL < 200*time.Millisecond {
					t.Errorf("stalled after %v: when the context ended the key had %v left, want some time", stall, state.TTL)
				}
				f.Set(nil, nil)
				wantLost(t, ctx, hold, mortise.LostUnreachable, 0, 0)
			})
		})
	}
}

func TestRenewalIsTriedAgainInsideTheTrustWindow(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		hold, ctx := mustLock(t, c.Lock("job"), t.Context())
		refuse := func(context.Context, string) error {
			return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
		}
		for range 20 {
			f.Set(refuse, nil)
			time.Sleep(19 * time.Second)
			f.Set(nil, nil)
			time.Sleep(2 * time.Second)
			if err := ctx.Err(); err != nil {
				t.Fatalf("lost in an outage shorter than the trust: %v", context.Cause(ctx))
			}
		}
		wantState(t, c.Lock("job"), hold.Owner(), 1)
		mustUnlock(t, hold)
	})
}

// A renewal that hangs is given up while there is time for another one.
func TestHungRenewalIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		hold, ctx := mustLock(t, c.Lock("job"), t.Context())
		for range 10 {
			first := make(chan struct{}, 1)
			first <- struct{}{}
			f.Set(func(ctx context.Context, name string) error {
				select {
				case <-first:
					return hang(ctx, name)
				default:
					return nil
				}
			}, nil)
			time.Sleep(time.Minute)
			if ctx.Err() != nil {
				t.Fatalf("lost by one renewal that hung: %v", context.Cause(ctx))
			}
		}
		mustUnlock(t, hold)
	})
}

func TestLostHoldIsReleasedInRedisOnceItsWorkHasStopped(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, &mortise.Options{TTL: time.Hour})
		reader, _ := open(t, s, nil)
		// Renewals succeed, but their replies are lost: the key outlives trust.
		f.Set(nil, func(ctx context.Context, name string) error {
			if name == "lock_renew" {
				return errCut
			}
			return nil
		})
		hold, ctx := mustLock(t, c.Lock("job"), t.Context())
		<-ctx.Done()
		wantState(t, reader.Lock("job"), hold.Owner(), 1) // its work may still run
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		time.Sleep(time.Second)
		wantState(t, reader.Lock("job"), "", 0)
	})
}

// The reply of an acquisition takes five seconds. The key's TTL began before it.
func TestTrustBeginsBeforeTheRequest(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]mortise.LockOptions{"renewed": {}, "fixed": {MaxHold: 20 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				f.Set(nil, func(_ context.Context, name string) error {
					if strings.HasSuffix(name, "_acquire") {
						time.Sleep(5 * time.Second)
					}
					return nil
				})
				hold := mustTake(t, c.Lock("job").With(options))
				wantTrusted(t, s, hold)
				mustUnlock(t, hold)
			})
		})
	}
}

// The time limit of a renewal, or of a release, is no deadline of the caller's.
func TestLossIsNoDeadlineOfTheCaller(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, f := open(t, s, nil)
		want := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v, want an error that matches %v, and not that of a context", what, err, want)
			}
		}
		take := func(name string, ttl time.Duration, ctx context.Context) (*mortise.Hold, context.Context) {
			t.Helper()
			hold, ctx, err := k.Open(c, name, mortise.LockOptions{TTL: ttl}).Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return hold, ctx
		}
		lost, ctx := take("lost", 6*time.Second, t.Context())
		released, _ := take("released", 3*time.Second, t.Context())
		kept, _ := take("kept", time.Minute, t.Context())
		_, owner := take("twice", 3*time.Second, t.Context())
		inner, _ := take("twice", 3*time.Second, owner)
		f.Set(hang, nil)
		want("Unlock whose lease ends meanwhile", released.Unlock(), mortise.ErrUnreachable)
		want("Unlock of an inner hold", inner.Unlock(), mortise.ErrLost)
		want("Unlock without a reply", kept.Unlock(), mortise.ErrUnreachable)
		<-ctx.Done()
		want("cause", context.Cause(ctx), mortise.ErrLost)
		want("Unlock of a lost lock", lost.Unlock(), mortise.ErrLost)
		f.Set(nil, nil)
	})
}
