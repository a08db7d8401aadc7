package behavior

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// The permits of a process that has died come back when their lease is over, and
// not before; those of one that lives do not.
func TestPermitsOfTheDeadComeBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		dead := mortise.New(s.Driver(), &mortise.Options{TTL: 7 * time.Second})
		alive, f := open(t, s, &mortise.Options{TTL: 7 * time.Second})
		c, _ := open(t, s, nil)
		sem := permitsOf(t, c, 3)
		_, ctx := mustTakePermits(t, alive.PermitSemaphore("job"))
		mustTakePermits(t, dead.PermitSemaphore("job").With(atOnce(2)))
		time.Sleep(5 * time.Minute)
		if ctx.Err() != nil {
			t.Fatalf("the permit of a live holder was lost: %v", context.Cause(ctx))
		}
		wantPermits(t, sem, 0, 3)
		if n, most := f.Count("permit_renew"), int(5*time.Minute/(7*time.Second/3))+10; n > most {
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
			t.Errorf("the permit of a live holder: %v", err)
		}
		mustUnlock(t, both)
	})
}

// In every way in which a hold can be lost, its context ends and says so, and
// what is left of it comes back.
func TestPermitsAreLost(t *testing.T) {
	t.Parallel()
	for name, test := range permitLosses {
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

// permitLoss is a way to lose permits, and what the holder learns of it.
type permitLoss struct {
	options mortise.PermitOptions
	lose    func(t *testing.T, s *memredis.Server, f *faults, sem *mortise.PermitSemaphore, ids []string)
	reason  mortise.LostReason
	within  time.Duration
	left    int // permits available after Unlock
}

var permitLosses = map[string]permitLoss{
	"its time is over": {mortise.PermitOptions{Permits: 2, MaxHold: 5 * time.Second}, func(*testing.T, *memredis.Server, *faults, *mortise.PermitSemaphore, []string) {},
		mortise.LostExpired, 5 * time.Second, 5},
	"one is released": {atOnce(3), func(t *testing.T, _ *memredis.Server, _ *faults, sem *mortise.PermitSemaphore, ids []string) {
		if n, err := sem.Release(t.Context(), strings.ToUpper(ids[1])); n != 1 || err != nil {
			t.Errorf("got %v, %v, want 1", n, err)
		}
	}, mortise.LostForced, 10 * time.Second, 5},
	"all are released": {atOnce(2), func(t *testing.T, _ *memredis.Server, _ *faults, sem *mortise.PermitSemaphore, ids []string) {
		if n, err := sem.Release(t.Context(), append(ids, strings.Repeat("0", 32))...); n != 2 || err != nil {
			t.Errorf("got %v, %v, want 2", n, err)
		}
	}, mortise.LostForced, 10 * time.Second, 5},
	"its end came early": {atOnce(1), func(t *testing.T, _ *memredis.Server, _ *faults, sem *mortise.PermitSemaphore, ids []string) {
		if ok, err := sem.UpdateLease(t.Context(), ids[0], time.Millisecond); !ok || err != nil {
			t.Errorf("got %v, %v, want true", ok, err)
		}
	}, mortise.LostForced, 10 * time.Second, 5},
	"a client with a fast clock takes it back": {atOnce(1), func(t *testing.T, s *memredis.Server, _ *faults, _ *mortise.PermitSemaphore, _ []string) {
		do(t, s, "DEL", "{job}:timeout")
		do(t, s, "SET", "job", "5")
	}, mortise.LostForced, 10 * time.Second, 5},
	"it is deleted": {atOnce(1), func(t *testing.T, _ *memredis.Server, _ *faults, sem *mortise.PermitSemaphore, _ []string) {
		if ok, err := sem.Delete(t.Context()); !ok || err != nil {
			t.Errorf("got %v, %v, want true", ok, err)
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
}

// Holders learn at once what their own client does.
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
		c, f := open(t, s, &mortise.Options{TTL: 5 * time.Second})
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
