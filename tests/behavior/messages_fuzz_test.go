package behavior

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// keptBusy is something for which a client waits, while another keeps it busy.
type keptBusy struct {
	keep func(t *testing.T, ctx context.Context, c *mortise.Client) (free func() error)
	wait func(ctx context.Context, c *mortise.Client) error // and gives it back
}

// waits are those that have messages, besides the kinds of lock.
var waits = map[string]keptBusy{
	"RWLock.Read": {
		func(t *testing.T, ctx context.Context, c *mortise.Client) func() error {
			return mustTake(t, c.RWLock("job").Write()).Unlock
		},
		func(ctx context.Context, c *mortise.Client) error { return taken(c.RWLock("job").Read().Lock(ctx)) },
	},
	"Election": {
		func(t *testing.T, ctx context.Context, c *mortise.Client) func() error {
			term, _, err := c.Election("job").Campaign(ctx, "first")
			if err != nil {
				t.Fatal(err)
			}
			return term.Resign
		},
		func(ctx context.Context, c *mortise.Client) error {
			term, _, err := c.Election("job").Campaign(ctx, "second")
			if err != nil {
				return err
			}
			return term.Resign()
		},
	},
	"Semaphore": {
		func(t *testing.T, ctx context.Context, c *mortise.Client) func() error {
			if _, err := c.Semaphore("job").TrySetPermits(ctx, 0); err != nil {
				t.Fatal(err)
			}
			return func() error { return c.Semaphore("job").Release(ctx, 2) }
		},
		func(ctx context.Context, c *mortise.Client) error { return c.Semaphore("job").Acquire(ctx, 2) },
	},
	"PermitSemaphore": {
		func(t *testing.T, ctx context.Context, c *mortise.Client) func() error {
			if err := c.PermitSemaphore("job").SetPermits(ctx, 1); err != nil {
				t.Fatal(err)
			}
			hold, _, err := c.PermitSemaphore("job").Acquire(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return hold.Unlock
		},
		func(ctx context.Context, c *mortise.Client) error {
			return taken(c.PermitSemaphore("job").Acquire(ctx))
		},
	},
	"CountDownLatch": {
		func(t *testing.T, ctx context.Context, c *mortise.Client) func() error {
			if _, err := c.CountDownLatch("job").TrySetCount(ctx, 1); err != nil {
				t.Fatal(err)
			}
			return func() error { return c.CountDownLatch("job").CountDown(ctx) }
		},
		func(ctx context.Context, c *mortise.Client) error { return c.CountDownLatch("job").Wait(ctx) },
	},
	"Barrier": {
		func(t *testing.T, ctx context.Context, c *mortise.Client) func() error {
			return func() error { _, err := c.Barrier("job", 2).Await(ctx); return err }
		},
		func(ctx context.Context, c *mortise.Client) error {
			_, err := c.Barrier("job", 2).Await(ctx)
			return err
		},
	},
}

func lockWait(k kind) keptBusy {
	return keptBusy{
		func(t *testing.T, ctx context.Context, c *mortise.Client) func() error {
			return mustTake(t, k.Open(c, "job", mortise.LockOptions{})).Unlock
		},
		func(ctx context.Context, c *mortise.Client) error {
			return taken(k.Open(c, "job", mortise.LockOptions{}).Lock(ctx))
		},
	}
}

func taken(hold *mortise.Hold, _ context.Context, err error) error {
	if err != nil {
		return err
	}
	return hold.Unlock()
}

// Whatever is published on the channels of a name, a waiter neither ends its wait nor misses its
// turn, and asks at a bounded rate; and nobody panics. In a message %c is the id of the client
// whose channel it is, and %o the owner that keeps what is waited for.
func FuzzMessages(f *testing.F) {
	all := maps.Clone(waits)
	for name, k := range kinds {
		all[name] = lockWait(k)
	}
	names := slices.Sorted(maps.Keys(all))
	messages := "0\n1\n00\n000\n?\n~\n%o 1\n%c:1 1\n%c:2 9223372036854775808\n?%c:1\n%c:1 \n \n1 1\n\nbroken died x\npassed 1\n%o"
	for i := range names {
		f.Add(uint8(i), messages)
	}
	f.Add(uint8(0), strings.Repeat("0\n", 300))
	f.Add(uint8(3), strings.Repeat("x", 5000)+" \xff\n-1")
	f.Fuzz(func(t *testing.T, kind uint8, messages string) {
		k := all[names[int(kind)%len(names)]]
		alone(t, func(t *testing.T, s *memredis.Server) {
			holder, _ := open(t, s, nil)
			c, f := open(t, s, nil)
			free := k.keep(t, t.Context(), holder)
			done := make(chan error, 1)
			go func() { done <- k.wait(t.Context(), c) }()
			time.Sleep(1500 * time.Millisecond)
			owner := ""
			if v := do(t, s, "TYPE", "job"); v.Str() == "hash" {
				owner = do(t, s, "HKEYS", "job").At(0).Str()
			}
			before := f.Total()
			channels := do(t, s, "PUBSUB", "CHANNELS", "*")
			lines := strings.Split(messages, "\n")
			for _, message := range lines[:min(len(lines), 400)] {
				for i := range channels.Len() {
					channel := channels.At(i).Str()
					client := channel[strings.LastIndexByte(channel, ':')+1:]
					do(t, s, "PUBLISH", channel, strings.NewReplacer("%c", client, "%o", owner).Replace(message))
				}
			}
			synctest.Wait()
			time.Sleep(500 * time.Millisecond)
			select {
			case err := <-done:
				t.Fatalf("the wait has ended with %v before anything was free", err)
			default:
			}
			if n := f.Total() - before; n > 130 {
				t.Errorf("%d scripts in half a second, want 200 a second at most", n)
			}
			if err := free(); err != nil {
				t.Fatalf("what was kept is not there any more: %v", err)
			}
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(5 * time.Second):
				t.Error("it is free, and the waiter does not notice")
			}
		})
	})
}
