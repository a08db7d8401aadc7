package behavior

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/locktest"
	"github.com/mortise-go/mortise/mortisetest"
)

// A failover forgets a release that has granted the lock to a waiter. The waiter learns that, and
// queues again; its former place in the queue, of which its client knows nothing, delays the
// others for as long as a silent head may.
func TestFairGrantThatAFailoverForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mortisetest.NewServer()
		defer s.Close()
		open := func() *mortise.FairLock {
			c := mortise.New(s.Link(), &mortise.Options{TTL: 6 * time.Second})
			t.Cleanup(func() { _ = c.Close() })
			return c.FairLock("job")
		}
		first, second, third := open(), open(), open()
		block := mustTake(t, first)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			hold, ctx, err := second.Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			wantLost(t, ctx, hold, mortise.LostTaken, 0, 2*time.Second)
			if hold, _, err = second.Lock(t.Context()); err != nil { // so its client lives on
				t.Error(err)
				return
			}
			mustUnlock(t, hold)
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		got := later(t, ctx, third)
		synctest.Wait()
		mustUnlock(t, block)
		synctest.Wait()
		s.FailOver(1)
		start := time.Now()
		mustUnlock(t, <-got)
		if d := time.Since(start); d > 17*time.Second { // the former lease, and ten seconds
			t.Errorf("the third waiter has the lock after %v", d)
		}
		waiting.Wait()
	})
}

// A failover forgets a release, and nobody holds the lock that comes back. The client that had
// released it does so again as soon as it is refused because of it.
func TestReleaseThatAFailoverForgets(t *testing.T) {
	t.Parallel()
	takers := map[string]locktest.Kind{
		"RWLock.Read": {Open: func(c *mortise.Client, name string, o mortise.LockOptions) locktest.Taker {
			return c.RWLock(name).Read().With(o)
		}},
		"MultiLock": {Open: func(c *mortise.Client, name string, o mortise.LockOptions) locktest.Taker {
			return mortise.NewMultiLock(c.Lock(name), c.Lock("{"+name+"}:more")).With(o)
		}},
	}
	for name, k := range locktest.Kinds {
		takers[name] = k
	}
	for name, k := range takers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := mortisetest.NewServer()
				defer s.Close()
				c := mortise.New(s.Link(), nil)
				defer c.Close()
				lock := k.Open(c, "job", mortise.LockOptions{})
				next := lock
				if name == "RWLock.Read" {
					next = c.RWLock("job").Write()
				}
				mustUnlock(t, mustTake(t, lock))
				time.Sleep(time.Millisecond)
				s.FailOver(1)
				start := time.Now()
				mustUnlock(t, mustTake(t, next))
				if d := time.Since(start); d > 100*time.Millisecond {
					t.Errorf("the lock was free after %v, want at once", d)
				}
			})
		})
	}
}

// A lock that MinHold keeps after its release is not free, also after a failover that forgets that
// release. Neither is one that another goroutine of the same client holds.
func TestFailoverFreesNothingElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mortisetest.NewServer()
		defer s.Close()
		c := mortise.New(s.Link(), nil)
		defer c.Close()
		lock := c.Lock("job")
		wantLocked := func(why string) {
			t.Helper()
			time.Sleep(time.Millisecond)
			s.FailOver(1)
			if _, _, err := lock.TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
				t.Errorf("%s: got %v, want ErrLocked", why, err)
			}
		}
		mustUnlock(t, mustTake(t, lock))
		held := mustTake(t, lock)
		mustUnlock(t, mustTake(t, c.Lock("another"))) // which the failover forgets
		wantLocked("held")
		mustUnlock(t, held)
		mustUnlock(t, mustTake(t, lock.With(mortise.LockOptions{MinHold: time.Minute})))
		wantLocked("kept")
	})
}
