//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// taker is what all kinds of lock have in common.
type taker interface {
	Name() string
	Lock(ctx context.Context) (*mortise.Hold, context.Context, error)
	TryLock(ctx context.Context) (*mortise.Hold, context.Context, error)
	ForceUnlock(ctx context.Context) (*mortise.Holder, error)
	Inspect(ctx context.Context) (mortise.State, error)
}

// waiter is what can be waited for: a lock of any kind, or several.
type waiter interface {
	Lock(ctx context.Context) (*mortise.Hold, context.Context, error)
}

// gained is the outcome of a Go attempt that ran in the background.
type gained struct {
	hold *mortise.Hold
	ctx  context.Context
	err  error
	at   time.Time
}

// lockLater starts to wait for lock and returns where the outcome will come.
func lockLater(ctx context.Context, lock waiter) <-chan gained {
	outcome := make(chan gained, 1)
	go func() {
		hold, ctx, err := lock.Lock(ctx)
		outcome <- gained{hold, ctx, err, time.Now()}
	}()
	return outcome
}

// goWaits has Go wait for a lock that somebody else holds, and returns when it
// relies on being woken: it listens, and has been refused after that. Nobody
// else may run scripts meanwhile, or it may return early.
func (w *world) goWaits(t testing.TB, lock taker) <-chan gained {
	t.Helper()
	// The first use of a script may take two calls; let that be this one.
	if _, _, err := lock.TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
		t.Fatalf("TryLock %s = %v, want ErrLocked", lock.Name(), err)
	}
	before := w.scripts(t)
	waiting := lockLater(t.Context(), lock)
	w.awaitWaiters(t, lock.Name(), 1)
	w.awaitTries(t, before, 2)
	if len(waiting) > 0 {
		t.Fatalf("Go does not wait for %s, which somebody else holds: %v", lock.Name(), (<-waiting).err)
	}
	return waiting
}

// awaitTries waits until the waiters of both sides have tried n times since
// before, which scripts returned. Nobody else may run scripts meanwhile, or it
// may return early.
func (w *world) awaitTries(t testing.TB, before, n int) {
	t.Helper()
	redistest.Eventually(t, fmt.Sprintf("%d tries", n), func() error {
		if got := w.scripts(t) - before; got < n {
			return fmt.Errorf("there were %d", got)
		}
		return nil
	})
}

// awaitRenewals waits until hold, of a client that renews shortLease, was renewed
// by a request that was sent later than after from now.
func awaitRenewals(t testing.TB, hold *mortise.Hold, after time.Duration) {
	t.Helper()
	until := time.Now().Add(after + shortLease) // is trusted less long than it lasts
	redistest.Eventually(t, "a renewal", func() error {
		if !hold.Valid() {
			t.Fatalf("the hold was lost: %v", hold.Unlock())
		}
		if until.After(hold.Until()) {
			return fmt.Errorf("the lease lacks %v", until.Sub(hold.Until()))
		}
		return nil
	})
}

// receive takes what the channel brings, within patience.
func receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("%s did not come within a minute", what)
		panic("unreachable")
	}
}

// mustLock takes the lock or fails the test.
func mustLock(t testing.TB, lock waiter) (*mortise.Hold, context.Context) {
	t.Helper()
	got := mustGain(t, lockLater(t.Context(), lock))
	return got.hold, got.ctx
}

// mustReenter takes the lock again with the context of a hold.
func mustReenter(t testing.TB, held context.Context, lock taker) *mortise.Hold {
	t.Helper()
	return mustGain(t, lockLater(held, lock)).hold
}

// mustGain waits for a background attempt, which must succeed.
func mustGain(t testing.TB, outcome <-chan gained) gained {
	t.Helper()
	got := receive(t, outcome, "the lock")
	if got.err != nil {
		t.Fatal(got.err)
	}
	return got
}

func mustUnlock(t testing.TB, hold *mortise.Hold) {
	t.Helper()
	if err := hold.Unlock(); err != nil {
		t.Fatalf("unlock: %v", err)
	}
}

// wantLost checks that a holder was told that it lost its lock, both ways: by
// its context and by its unlock.
func wantLost(t testing.TB, hold *mortise.Hold, held context.Context) {
	t.Helper()
	receive(t, held.Done(), "the end of the holder's context")
	if cause := context.Cause(held); !errors.Is(cause, mortise.ErrLost) {
		t.Errorf("cause of the holder's context = %v, want ErrLost", cause)
	}
	if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
		t.Errorf("unlock of the lost hold = %v, want ErrLost", err)
	}
}
