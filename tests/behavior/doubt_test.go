package behavior

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// Redis is away for longer than it remembers what an operation did, but nothing
// was sent meanwhile: there is no doubt, and the operation goes on.
func TestOutageInWhichNothingWasSentLeavesNoDoubt(t *testing.T) {
	t.Parallel()
	for name, operate := range map[string]func(ctx context.Context, c, other *mortise.Client) error{
		"Semaphore.AddPermits": func(ctx context.Context, c, _ *mortise.Client) error { return c.Semaphore("job").AddPermits(ctx, 1) },
		"Semaphore.Acquire": func(ctx context.Context, c, other *mortise.Client) error {
			if err := other.Semaphore("job").AddPermits(ctx, 1); err != nil {
				return err
			}
			return c.Semaphore("job").Acquire(ctx, 1)
		},
		"CountDownLatch.TrySetCount": func(ctx context.Context, c, _ *mortise.Client) error {
			_, err := c.CountDownLatch("job").TrySetCount(ctx, 1)
			return err
		},
		"PermitSemaphore.AddPermits": func(ctx context.Context, c, _ *mortise.Client) error {
			return c.PermitSemaphore("job").AddPermits(ctx, 1)
		},
		"Barrier.Await": func(ctx context.Context, c, other *mortise.Client) error {
			there := arrive(ctx, other.Barrier("job", 2))
			_, err := c.Barrier("job", 2).Await(ctx)
			return errors.Join(err, (<-there).Err)
		},
		"DoubleBarrier.Enter": func(ctx context.Context, c, other *mortise.Client) error {
			there := enter(ctx, other.DoubleBarrier("job", 2))
			_, _, err := c.DoubleBarrier("job", 2).Enter(ctx)
			return errors.Join(err, (<-there).Err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, &mortise.Options{RetryFor: -1})
				other, _ := open(t, s, nil)
				f.Set(func(context.Context, string) error {
					return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
				}, nil)
				time.AfterFunc(10*time.Minute, func() { f.Set(nil, nil) })
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
				defer cancel()
				if err := operate(ctx, c, other); err != nil {
					t.Errorf("after %v: %v, want success", time.Since(start), err)
				}
				if time.Since(start) < 10*time.Minute {
					t.Error("there was no outage")
				}
				synctest.Wait()
			})
		})
	}
}

// An attempt in doubt is looked for even if a later one of the same request was refused: a copy
// of it may still be on its way.
func TestDoubtIsNotForgottenByARefusal(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		_, f := open(t, s, nil)
		holder, _ := open(t, s, nil)
		raw := s.Driver()
		defer raw.Close()
		var copied atomic.Bool
		var late sync.WaitGroup
		c := mortise.New(&hook{Driver: f, eval: func(_ context.Context, call driver.Call) (driver.Value, error, bool) {
			if call.Script.Name() != k.Acquire || !copied.CompareAndSwap(false, true) {
				return driver.Value{}, nil, false
			}
			late.Go(func() { time.Sleep(5 * time.Second); _, _ = raw.Eval(context.Background(), call) })
			return driver.Value{}, errCut, true
		}}, nil)
		defer c.Close()
		block, _ := must(t, k.Open(holder, "job", mortise.LockOptions{}), t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		got := later(t, ctx, k.Open(c, "job", mortise.LockOptions{}))
		time.Sleep(3 * time.Second) // it was refused, more than once
		cancel()
		if hold := <-got; hold != nil {
			t.Fatal("the waiter that was canceled has the lock")
		}
		mustUnlock(t, block)
		late.Wait()
		time.Sleep(10 * time.Second)
		next, _, err := k.Open(holder, "job", mortise.LockOptions{}).TryLock(t.Context())
		if err != nil {
			t.Fatalf("nobody wants the lock, and a late copy has it: %v", err)
		}
		mustUnlock(t, next)
	})
}
