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

// semaphoreOf is the operations of a semaphore of either kind, for one permit.
type semaphoreOf struct {
	acquire, try func(ctx context.Context) error
	set          func(ctx context.Context, n int) (bool, error)
	remove       func(ctx context.Context) (bool, error)
}

func plainSemaphore(c *mortise.Client) semaphoreOf {
	s := c.Semaphore("s")
	return semaphoreOf{
		acquire: func(ctx context.Context) error { return s.Acquire(ctx, 1) },
		try:     func(ctx context.Context) error { return s.TryAcquire(ctx, 1) },
		set:     s.TrySetPermits, remove: s.Delete,
	}
}

func permitSemaphore(c *mortise.Client) semaphoreOf {
	s := c.PermitSemaphore("s")
	return semaphoreOf{
		acquire: func(ctx context.Context) error { _, _, err := s.Acquire(ctx); return err },
		try:     func(ctx context.Context) error { _, _, err := s.TryAcquire(ctx); return err },
		set:     s.TrySetPermits, remove: s.Delete,
	}
}

// wantLack checks the error for a lack of permits.
func wantLack(t *testing.T, what string, err error, unset bool) {
	t.Helper()
	var lack *mortise.PermitsError
	if !errors.As(err, &lack) || !errors.Is(err, mortise.ErrNoPermits) {
		t.Fatalf("%s: %v, want a PermitsError", what, err)
	}
	if lack.Unset != unset || errors.Is(err, mortise.ErrNotSet) != unset || strings.Contains(err.Error(), "never set") != unset {
		t.Errorf("%s: %v, Unset %v; want %v", what, err, lack.Unset, unset)
	}
}

// A semaphore that was never set is told from one without available permits, by callers that
// do not wait, and at the end of a wait.
func TestSemaphoreThatWasNeverSet(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(c *mortise.Client) semaphoreOf{"Semaphore": plainSemaphore, "PermitSemaphore": permitSemaphore} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				k := of(c)
				waited := func() error {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					return k.acquire(ctx)
				}
				wantLack(t, "never set, not waiting", k.try(t.Context()), true)
				wantLack(t, "never set, waiting", waited(), true)
				if set, err := k.set(t.Context(), 1); !set || err != nil {
					t.Fatal(set, err)
				}
				if err := k.acquire(t.Context()); err != nil {
					t.Fatal(err)
				}
				wantLack(t, "none left, not waiting", k.try(t.Context()), false)
				wantLack(t, "none left, waiting", waited(), false)
				if there, err := k.remove(t.Context()); !there || err != nil {
					t.Fatal(there, err)
				}
				wantLack(t, "deleted", k.try(t.Context()), true)
				if set, err := k.set(t.Context(), 0); !set || err != nil {
					t.Fatal(set, err)
				}
				wantLack(t, "set to none", k.try(t.Context()), false)
			})
		})
	}
}

// A latch that was never set is open, and keeps no count.
func TestLatchThatWasNeverSet(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		l := c.CountDownLatch("l")
		start := time.Now()
		if err := l.Wait(t.Context()); err != nil || time.Since(start) != 0 {
			t.Errorf("Wait returned %v after %v, want no error at once", err, time.Since(start))
		}
		mustCountDown(t, l)
		if set, err := l.TrySetCount(t.Context(), 1); !set || err != nil {
			t.Fatal(set, err)
		}
		wantCount(t, l, 1)
	})
}

// A limit that is changed in the program changes nothing: the number stays as it was set
// first, until it is set or added to.
func TestChangedLimitOfASemaphore(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		permits, plain := c.PermitSemaphore("permits"), c.Semaphore("plain")
		for _, n := range []int{3, 5} {
			first, err := permits.TrySetPermits(t.Context(), n)
			firstPlain, perr := plain.TrySetPermits(t.Context(), n)
			if err != nil || perr != nil || first != (n == 3) || firstPlain != (n == 3) {
				t.Errorf("TrySetPermits(%d) = %v, %v and %v, %v, want %v", n, first, err, firstPlain, perr, n == 3)
			}
		}
		wantAvailable(t, plain, 3)
		if n, err := permits.Permits(t.Context()); n != 3 || err != nil {
			t.Errorf("there are %d permits, %v, want 3", n, err)
		}
		hold, _ := mustTakePermits(t, permits)
		if err := permits.SetPermits(t.Context(), 5); err != nil {
			t.Error(err)
		}
		if err := plain.AddPermits(t.Context(), 5-3); err != nil {
			t.Error(err)
		}
		wantAvailable(t, plain, 5)
		if n, err := permits.Available(t.Context()); n != 4 || err != nil {
			t.Errorf("%d permits are available, %v, want 4: one is held", n, err)
		}
		mustUnlock(t, hold)
	})
}
