package behavior

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

func TestCloseEndsWaitsAndAbandonsHolds(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		other, _ := open(t, s, nil)
		c, _ := open(t, s, nil)
		hold, ctx := mustLock(t, c.Lock("mine"), t.Context())
		block, _ := mustLock(t, other.Lock("job"), t.Context())
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, _, err := c.Lock("job").Lock(t.Context()); !errors.Is(err, mortise.ErrClosed) {
					t.Errorf("a wait ended by Close: %v, want ErrClosed", err)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		all.Wait()
		if d := time.Since(start); d > time.Second {
			t.Errorf("Close took %v, want %v at most", d, time.Second)
		}
		if !errors.Is(context.Cause(ctx), mortise.ErrClosed) {
			t.Errorf("the cause of an abandoned hold's context is %v, want ErrClosed", context.Cause(ctx))
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrClosed) {
			t.Errorf("Unlock after Close: %v, want ErrClosed", err)
		}
		if err := c.Close(); !errors.Is(err, mortise.ErrClosed) {
			t.Errorf("second Close: %v, want ErrClosed", err)
		}
		k := c.Lock("job")
		_, _, err := k.Lock(t.Context())
		_, _, terr := k.TryLock(t.Context())
		_, ferr := k.ForceUnlock(t.Context())
		_, ierr := k.Inspect(t.Context())
		for op, err := range map[string]error{"Lock": err, "TryLock": terr, "ForceUnlock": ferr, "Inspect": ierr} {
			if !errors.Is(err, mortise.ErrClosed) {
				t.Errorf("%s after Close: %v, want ErrClosed", op, err)
			}
		}
		// The abandoned lock stays until its lease is over, and no longer.
		wantState(t, other.Lock("mine"), hold.Owner(), 1)
		time.Sleep(30 * time.Second)
		wantState(t, other.Lock("mine"), "", 0)
		mustUnlock(t, block)
	})
}

func TestCloseWhileRedisIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		_, _ = mustLock(t, c.Lock("mine"), t.Context())
		time.Sleep(9 * time.Second)
		f.Set(hang, nil) // the next renewal and all that follows hang
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			if _, _, err := c.Lock("job").Lock(ctx); err == nil {
				t.Error("Lock succeeded without Redis")
			}
		})
		time.Sleep(2 * time.Second)
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}()
		time.Sleep(2 * time.Second)
		cancel() // stands in for the driver, which fails its calls when it is closed
		all.Wait()
		<-closed
	})
}

func TestCloseDuringTheGrantGivesTheLockBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		other, _ := open(t, s, nil)
		c, f := open(t, s, nil)
		f.Set(nil, func(_ context.Context, name string) error {
			if name == "lock_acquire" {
				time.Sleep(500 * time.Millisecond) // Close comes in between
			}
			return nil
		})
		got := make(chan error)
		go func() {
			_, _, err := c.Lock("job").Lock(t.Context())
			got <- err
		}()
		time.Sleep(100 * time.Millisecond)
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-got; !errors.Is(err, mortise.ErrClosed) {
			t.Errorf("Lock: %v, want ErrClosed", err)
		}
		wantState(t, other.Lock("job"), "", 0)
	})
}
