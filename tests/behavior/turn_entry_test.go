package behavior

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// A client has one entry in the turns of a lock, also where the first of its waiters
// gives up and the next one asks in another way: neither entry is left to take a
// turn for nobody.
func TestTurnHasOneEntry(t *testing.T) {
	t.Parallel()
	ways := map[string]func(c *mortise.Client) taker{
		"Lock":              func(c *mortise.Client) taker { return c.Lock("job") },
		"Lock with a lease": func(c *mortise.Client) taker { return c.Lock("job").With(mortise.LockOptions{Lease: time.Minute}) },
		"FencedLock":        func(c *mortise.Client) taker { return c.FencedLock("job") },
	}
	for first, former := range ways {
		for second, next := range ways {
			for _, way := range []string{"it is released", "its holder has died"} {
				t.Run(first+" then "+second+", "+way, func(t *testing.T) {
					bubble(t, func(t *testing.T, s *memredis.Server) {
						holder, _ := open(t, s, nil)
						c, _ := open(t, s, nil)
						other, _ := open(t, s, nil)
						block := mustTake(t, holder.Lock("job"))
						ctx, cancel := context.WithCancel(t.Context())
						gaveUp := make(chan error, 1)
						go func() {
							_, _, err := former(c).Lock(ctx)
							gaveUp <- err
						}()
						time.Sleep(1500 * time.Millisecond) // it has its turn
						got := later(t, t.Context(), next(c))
						synctest.Wait()
						cancel()
						if err := <-gaveUp; !errors.Is(err, context.Canceled) {
							t.Fatalf("the first waiter: %v, want that it gave up", err)
						}
						time.Sleep(1500 * time.Millisecond) // the next one has the turn
						if n := do(t, s, "ZCARD", "mortise:turns:{job}").Int(); n != 1 {
							t.Errorf("the client has %d entries in the turns, want one", n)
						}
						if way == "it is released" {
							mustUnlock(t, block)
						} else {
							do(t, s, "DEL", "job")
						}
						hold := <-got
						third := later(t, t.Context(), other.Lock("job"))
						time.Sleep(1500 * time.Millisecond)
						released := time.Now()
						mustUnlock(t, hold)
						mustUnlock(t, <-third)
						if d := time.Since(released); d > 10*time.Millisecond {
							t.Errorf("another client had the lock %v after it was released, want at once", d)
						}
						_ = block.Unlock()
						wantEmpty(t, s)
					})
				})
			}
		}
	}
}
