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

// fairCrowd has so many goroutines of a client wait for a fair lock until ctx ends,
// or until they have had it.
func fairCrowd(ctx context.Context, t *testing.T, c *mortise.Client, n int) *sync.WaitGroup {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			hold, _, err := c.FairLock("job").Lock(ctx)
			switch {
			case err == nil:
				mustUnlock(t, hold)
			case !errors.Is(err, context.Canceled):
				t.Error(err)
			}
		})
	}
	return &all
}

// A crowd that stands in the queue gives up in one instant, while the lock is
// released. It leaves together: the next one does not wait for a script for each.
func TestFairCrowdLeavesTogether(t *testing.T) {
	const crowd = 1000
	eachProcs(t, func(t *testing.T) {
		bubble(t, func(t *testing.T, s *memredis.Server) {
			other, _ := open(t, s, nil)
			c, f := open(t, s, nil)
			held := fairly(t, other)
			ctx, cancel := context.WithCancel(t.Context())
			all := fairCrowd(ctx, t, c, crowd)
			synctest.Wait()
			if n := len(queueOf(t, other)); n != crowd {
				t.Fatalf("%d are in the queue, want %d", n, crowd)
			}
			f.Set(func(context.Context, string) error { time.Sleep(time.Millisecond); return nil }, nil)
			before := f.Count("fair_release")
			start := time.Now()
			cancel()
			mustUnlock(t, held)
			hold := fairly(t, other)
			if d := time.Since(start); d > crowd/20*time.Millisecond {
				t.Errorf("the next one had the lock after %v, where a script takes 1ms, want %v at most", d, crowd/20*time.Millisecond)
			}
			all.Wait()
			synctest.Wait()
			if n := f.Count("fair_release") - before; n > crowd/50 {
				t.Errorf("%d that gave up at once have left with %d scripts, want %v at most", crowd, n, crowd/50)
			}
			if queue := queueOf(t, other); len(queue) != 0 {
				t.Errorf("the queue is %v, want it empty", queue)
			}
			mustUnlock(t, hold)
		})
	})
}

// A crowd gives up while it is still queueing. Redis does not know most of its
// waiters, and never does: neither that they queue, nor that they leave.
func TestFairCrowdGivesUpWhileItQueues(t *testing.T) {
	const crowd, atOnce = 1000, 64
	eachProcs(t, func(t *testing.T) {
		bubble(t, func(t *testing.T, s *memredis.Server) {
			other, _ := open(t, s, nil)
			c, f := open(t, s, nil)
			held := fairly(t, other)
			f.DeliverLate(2 * time.Second) // what the crowd asks, after it has gone
			ctx, cancel := context.WithCancel(t.Context())
			all := fairCrowd(ctx, t, c, crowd)
			time.Sleep(900 * time.Millisecond)
			cancel()
			all.Wait()
			f.DeliverLate(0)
			if n := f.Count("fair_acquire"); n > atOnce {
				t.Errorf("%d of a crowd of %d have asked, want %d at most, where Redis does not answer", n, crowd, atOnce)
			}
			time.Sleep(900 * time.Millisecond)
			if n := f.Count("fair_release"); n > 6*atOnce { // each is looked for, at growing intervals
				t.Errorf("%d scripts, want nothing of those that have sent nothing", n)
			}
			// Others pass where they would have.
			all = fairCrowd(t.Context(), t, c, 3*atOnce)
			synctest.Wait()
			mustUnlock(t, held)
			all.Wait()
			f.InFlight.Wait()
			time.Sleep(8 * time.Second) // a quarter of a lease at most
			if queue := queueOf(t, other); len(queue) != 0 {
				t.Errorf("the queue is %v, want it empty", queue)
			}
			mustUnlock(t, fairly(t, other))
		})
	})
}

// An owner that has the lock enters, though the crowd that waits before it has not
// been answered.
func TestFairOwnerEntersPastACrowd(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		other, _ := open(t, s, nil)
		c, f := open(t, s, nil)
		held := fairly(t, other)
		owned := mortise.WithOwner(t.Context())
		got := make(chan *mortise.Hold, 2)
		enter := func() {
			hold, _, err := c.FairLock("job").Lock(owned)
			if err != nil {
				t.Error(err)
			}
			got <- hold
		}
		go enter() // it asks first, and has the lock first
		synctest.Wait()
		asking, answer := make(chan struct{}, 200), make(chan struct{})
		f.Set(func(_ context.Context, name string) error {
			if name == "fair_acquire" {
				asking <- struct{}{}
				<-answer
			}
			return nil
		}, nil)
		all := fairCrowd(t.Context(), t, c, 100)
		synctest.Wait()
		if n := len(asking); n != 64 {
			t.Errorf("%d ask for the first time, want 64", n)
		}
		go enter()
		synctest.Wait()
		mustUnlock(t, held)
		first, second := <-got, <-got
		close(answer)
		mustUnlock(t, first)
		mustUnlock(t, second)
		all.Wait()
	})
}

// Where Redis is away, all of a crowd know soon.
func TestFairCrowdWhereRedisIsAway(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, &mortise.Options{RetryFor: 5 * time.Second})
		mustUnlock(t, fairly(t, c))
		f.Set(func(context.Context, string) error { return errCut }, nil)
		start := time.Now()
		var all sync.WaitGroup
		for range 300 {
			all.Go(func() {
				if _, _, err := c.FairLock("job").Lock(t.Context()); !errors.Is(err, mortise.ErrUnreachable) {
					t.Errorf("got %v, want that Redis is not to be reached", err)
				}
			})
		}
		all.Wait()
		if d := time.Since(start); d > 7*time.Second {
			t.Errorf("the last one knew after %v, where 5s are the patience, want %v at most", d, 7*time.Second)
		}
	})
}
