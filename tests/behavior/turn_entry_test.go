package behavior

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/memredis"
)

// A client has one entry in the turns of a lock, also where the first of its waiters
// gives up and the next one asks in another way: neither entry is left to take a
// turn for nobody.
func TestTurnHasOneEntry(t *testing.T) {
	t.Parallel()
	ways := map[string]func(c *mortise.Client) taker{
		"Lock":              func(c *mortise.Client) taker { return c.Lock("job") },
		"Lock with a lease": func(c *mortise.Client) taker { return c.Lock("job").With(mortise.LockOptions{MaxHold: time.Minute}) },
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

// A client that does not listen has no entry in the turns. Otherwise such clients could be the first
// two, and only those are notified when one of Redisson's threads releases the lock.
func TestTurnIsThatOfAClientThatListens(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		holder, _ := open(t, s, nil)
		block := mustTake(t, holder.Lock("job"))
		var others sync.WaitGroup
		for range 2 {
			c := mortise.New(deafDriver{s.Driver()}, nil)
			defer c.Close()
			others.Go(func() { mustUnlock(t, mustTake(t, c.Lock("job"))) })
		}
		time.Sleep(1500 * time.Millisecond) // they have asked as the first of their clients
		c, _ := open(t, s, nil)
		got := later(t, t.Context(), c.Lock("job"))
		if n := do(t, s, "ZCARD", "mortise:turns:{job}").Int(); n != 1 {
			t.Errorf("there are %d entries in the turns, want that of the client that listens", n)
		}
		const thread = "6b0a3e86-3a1c-4c1f-9d55-0d2c8c1f7a10:42"
		runScript(t, s, `redis.call('del', KEYS[1]) return redis.call('hset', KEYS[1], '`+thread+`', 1)`, "job")
		time.Sleep(1500 * time.Millisecond) // all of them have asked again
		runScript(t, s, `redis.call('del', KEYS[1]) return redis.call('publish', KEYS[2], '0')`, "job", keyspace.LockChannel("job"))
		wantNow(t, got)
		others.Wait()
		_ = block.Unlock()
		wantEmpty(t, s)
	})
}
