package behavior

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// withdrawals are the kinds whose waiters reserve permits, each with the script that ends that.
var withdrawals = map[string]struct {
	script  string
	set     func(c *mortise.Client, n int) error
	acquire func(ctx context.Context, c *mortise.Client, n int) error
}{
	"Semaphore": {
		"semaphore_undo",
		func(c *mortise.Client, n int) error {
			_, err := c.Semaphore("job").TrySetPermits(context.Background(), n)
			return err
		},
		func(ctx context.Context, c *mortise.Client, n int) error { return c.Semaphore("job").Acquire(ctx, n) },
	},
	"PermitSemaphore": {
		"permit_release",
		func(c *mortise.Client, n int) error {
			_, err := c.PermitSemaphore("job").TrySetPermits(context.Background(), n)
			return err
		},
		func(ctx context.Context, c *mortise.Client, n int) error {
			_, _, err := c.PermitSemaphore("job").With(atOnce(n)).Acquire(ctx)
			return err
		},
	},
}

// endsOfAWait are how a waiter gives up.
var endsOfAWait = map[string]func(c *mortise.Client, cancel func()){
	"the context ends":     func(_ *mortise.Client, cancel func()) { cancel() },
	"the client is closed": func(c *mortise.Client, _ func()) { _ = c.Close() },
}

// A waiter gives up, or its client is closed, and what tells Redis so is lost. The permits that were
// reserved for it are free for another client all the same, long before its claim ends.
func TestWithdrawalIsRepeated(t *testing.T) {
	t.Parallel()
	cuts := map[string]func(f *faults, script string){
		"the server refuses a connection": func(f *faults, script string) {
			lost := loseReplies(script, 1)
			f.Set(func(ctx context.Context, name string) error {
				if lost(ctx, name) != nil {
					return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
				}
				return nil
			}, nil)
		},
	}
	for _, lost := range losses {
		cuts[lost.String()] = func(f *faults, script string) { lost.Set(f, script) }
	}
	for kind, k := range withdrawals {
		for cut, set := range cuts {
			for how, end := range endsOfAWait {
				t.Run(kind+"/"+cut+"/"+how, func(t *testing.T) {
					bubble(t, func(t *testing.T, s *memredis.Server) {
						holder, _ := open(t, s, nil)
						other, _ := open(t, s, nil)
						c, f := open(t, s, nil)
						if err := errors.Join(k.set(holder, 2), k.acquire(t.Context(), holder, 1)); err != nil {
							t.Fatal(err)
						}
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						greedy := make(chan error, 1)
						go func() { greedy <- k.acquire(ctx, c, 2) }()
						synctest.Wait()
						modest := make(chan error, 1)
						go func() { modest <- k.acquire(t.Context(), other, 1) }()
						time.Sleep(100 * time.Millisecond)
						if len(modest) != 0 {
							t.Fatal("nothing is reserved for the first waiter")
						}
						set(f, k.script)
						start := time.Now()
						var ending sync.WaitGroup
						ending.Go(func() { end(c, cancel) })
						if err := <-greedy; err == nil {
							t.Fatal("a waiter for more permits than there are has them")
						}
						if d := time.Since(start); d != 0 && how == "the context ends" {
							t.Errorf("the waiter that gave up returned %v later, want at once", d)
						}
						if err := <-modest; err != nil {
							t.Fatal(err)
						}
						if d := time.Since(start); d > 200*time.Millisecond {
							t.Errorf("another client had the free permit after %v, want at once", d)
						}
						ending.Wait()
						wantNoClaims(t, s)
					})
				})
			}
		}
	}
}

// A claim of permits ends after three seconds by itself: nobody goes on to withdraw it.
func TestWithdrawalEndsWithTheClaim(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		holder, _ := open(t, s, nil)
		c, f := open(t, s, nil)
		hold, _ := mustTakePermits(t, permitsOf(t, holder, 1))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := make(chan error, 1)
		go func() { got <- withdrawals["PermitSemaphore"].acquire(ctx, c, 1) }()
		time.Sleep(100 * time.Millisecond)
		f.Set(func(context.Context, string) error { return errCut }, nil)
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that it was canceled", err)
		}
		time.Sleep(3 * time.Second)
		n := f.Count("permit_release")
		if n < 3 || n > 50 {
			t.Errorf("the claim was withdrawn %d times in 3s, want some", n)
		}
		time.Sleep(time.Minute)
		if later := f.Count("permit_release"); later != n {
			t.Errorf("the claim was withdrawn %d times when it was over, want never", later-n)
		}
		wantNoClaims(t, s)
		mustUnlock(t, hold)
	})
}
