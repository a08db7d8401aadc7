package behavior

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// user is something that uses a name, and what it looks like in Redis: those of
// one form cannot be told apart, all others can.
type user struct {
	form string
	take func(ctx context.Context, c *mortise.Client) error
}

func locking(form string, open func(c *mortise.Client) taker) user {
	return user{form, func(ctx context.Context, c *mortise.Client) error {
		_, _, err := open(c).TryLock(ctx)
		return err
	}}
}

var users = map[string]user{
	"Lock":         locking("holder", func(c *mortise.Client) taker { return c.Lock("job") }),
	"FairLock":     locking("holder", func(c *mortise.Client) taker { return c.FairLock("job") }),
	"FencedLock":   locking("holder", func(c *mortise.Client) taker { return c.FencedLock("job") }),
	"SpinLock":     locking("holder", func(c *mortise.Client) taker { return c.SpinLock("job") }),
	"RWLock.Read":  locking("mode", func(c *mortise.Client) taker { return c.RWLock("job").Read() }),
	"RWLock.Write": locking("mode", func(c *mortise.Client) taker { return c.RWLock("job").Write() }),
	"GroupLock":    locking("group", func(c *mortise.Client) taker { return c.GroupLock("job", "a", "b") }),
	"Election": {"election", func(ctx context.Context, c *mortise.Client) error {
		ctx, cancel := context.WithCancel(ctx)
		_, _, err := c.Election("job").Campaign(ctx, "me")
		cancel()
		return err
	}},
	"Barrier": {"barrier", func(ctx context.Context, c *mortise.Client) error {
		ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if _, err := c.Barrier("job", 2).Await(ctx); !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return nil // it stays broken for a while
	}},
	"DoubleBarrier": {"double barrier", func(ctx context.Context, c *mortise.Client) error {
		_, _, err := c.DoubleBarrier("job", 1).Enter(ctx)
		return err
	}},
	"Semaphore": {"number", func(ctx context.Context, c *mortise.Client) error {
		if _, err := c.Semaphore("job").TrySetPermits(ctx, 3); err != nil {
			return err
		}
		return c.Semaphore("job").TryAcquire(ctx, 1)
	}},
	"PermitSemaphore": {"number", func(ctx context.Context, c *mortise.Client) error {
		if _, err := c.PermitSemaphore("job").TrySetPermits(ctx, 3); err != nil {
			return err
		}
		_, _, err := c.PermitSemaphore("job").TryAcquire(ctx)
		return err
	}},
	"CountDownLatch": {"number", func(ctx context.Context, c *mortise.Client) error {
		_, err := c.CountDownLatch("job").TrySetCount(ctx, 3)
		return err
	}},
}

// Two objects of different kinds under one name are refused, whichever was first,
// wherever the data show it.
func TestTwoKindsUnderOneNameAreRefused(t *testing.T) {
	t.Parallel()
	for first, a := range users {
		for second, b := range users {
			if a.form == b.form {
				continue
			}
			t.Run(first+" then "+second, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					c, _ := open(t, s, nil)
					other, _ := open(t, s, nil)
					if err := a.take(t.Context(), c); err != nil {
						t.Fatal(err)
					}
					before, err := c.Inspect(t.Context(), "job")
					if err != nil {
						t.Fatal(err)
					}
					for _, by := range []*mortise.Client{c, other} {
						if err := b.take(t.Context(), by); !errors.Is(err, mortise.ErrWrongKind) {
							t.Errorf("%s under a name that a %s uses: %v, want ErrWrongKind", second, first, err)
						}
					}
					after, err := c.Inspect(t.Context(), "job")
					if err != nil || fmt.Sprintf("%+v", after) != fmt.Sprintf("%+v", before) {
						t.Errorf("there lay %+v, and now %+v, %v, want no change", before, after, err)
					}
				})
			})
		}
	}
}
