package behavior

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

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
				wantTakenAndReturned(t, f, sem, n, lost)
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

// wantTakenAndReturned takes n of the six permits and returns them, each with a loss.
func wantTakenAndReturned(t *testing.T, f *faults, sem *mortise.PermitSemaphore, n int, lost loss) {
	lost.Set(f, "permit_acquire")
	hold, ctx, err := sem.With(atOnce(n)).TryAcquire(t.Context())
	if err != nil {
		t.Fatalf("TryAcquire with %v: %v", lost, err)
	}
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

// An operation that was in doubt for too long is not repeated: Redis may have
// forgotten it.
func TestPermitOperationInDoubtForLong(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, &mortise.Options{RetryFor: -1})
		sem := permitsOf(t, c, 5)
		f.Set(nil, func(_ context.Context, name string) error { // it runs, and nobody learns of it
			if name == "permit_set" {
				return errCut
			}
			return nil
		})
		start := time.Now()
		if err := sem.AddPermits(t.Context(), 2); !errors.Is(err, mortise.ErrUnknownOutcome) {
			t.Errorf("got %v, want ErrUnknownOutcome", err)
		}
		if d := time.Since(start); d > 5*time.Minute {
			t.Errorf("it was repeated for %v, want %v at most", d, 5*time.Minute)
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
