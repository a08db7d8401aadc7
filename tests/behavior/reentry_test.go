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

func TestReturnedContextReenters(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.Lock("job")
		outer, ctx := mustLock(t, k, t.Context())
		inner, ctx2 := mustLock(t, k, ctx)
		third, _, err := k.TryLock(ctx2)
		if err != nil {
			t.Fatal(err)
		}
		if inner.Owner() != outer.Owner() || third.Owner() != outer.Owner() {
			t.Errorf("owners %s, %s, %s, want the same", outer.Owner(), inner.Owner(), third.Owner())
		}
		wantState(t, k, outer.Owner(), 3)
		if s, _ := k.Inspect(ctx); !s.Mine {
			t.Error("Inspect with the owner's context does not say Mine")
		}
		if s, _ := k.Inspect(t.Context()); s.Mine {
			t.Error("Inspect with another context says Mine")
		}

		// In any order, the lock stays held until the last hold is released.
		mustUnlock(t, outer)
		wantState(t, k, outer.Owner(), 2)
		mustUnlock(t, third)
		wantState(t, k, outer.Owner(), 1)
		mustUnlock(t, inner)
		wantState(t, k, "", 0)
		if err := inner.Unlock(); !errors.Is(err, mortise.ErrReleased) {
			t.Errorf("second Unlock: %v, want ErrReleased", err)
		}
	})
}

func TestOtherContextContends(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.Lock("job")
		hold, ctx := mustLock(t, k, t.Context())
		for name, other := range map[string]context.Context{
			"the original context":  t.Context(),
			"a detached context":    mortise.Detach(ctx),
			"a context of an owner": mortise.WithOwner(ctx),
		} {
			if _, _, err := k.TryLock(other); !errors.Is(err, mortise.ErrLocked) {
				t.Errorf("TryLock with %s: %v, want ErrLocked", name, err)
			}
		}
		mustUnlock(t, hold)
	})
}

func TestOwnerMayHoldOverlapping(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.Lock("job")
		owner := mortise.WithOwner(t.Context())
		a, ctxA := mustLock(t, k, owner)
		b, ctxB := mustLock(t, k, owner)
		mustUnlock(t, a)
		if ctxA.Err() == nil || ctxB.Err() != nil {
			t.Errorf("after the first Unlock the contexts say %v and %v, want only the first to have ended", ctxA.Err(), ctxB.Err())
		}
		wantState(t, k, b.Owner(), 1)
		mustUnlock(t, b)

		// A new lease of the same owner has an id of its own, so that a late
		// copy of an earlier script cannot touch it.
		again, _ := mustLock(t, k, owner)
		if again.Owner() == a.Owner() {
			t.Errorf("the id %s was used for two leases", a.Owner())
		}
		mustUnlock(t, again)
	})
}

func TestSiblingsOfOneOwnerShareTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		k := c.Lock("job")
		block, _ := mustLock(t, other.Lock("job"), t.Context())
		owner := mortise.WithOwner(t.Context())
		var all, held sync.WaitGroup
		held.Add(10)
		for range 10 {
			all.Go(func() {
				h, _, err := k.Lock(owner)
				if err != nil {
					t.Error(err)
					return
				}
				held.Done()
				held.Wait() // all ten hold it at once
				mustUnlock(t, h)
			})
		}
		synctest.Wait()
		mustUnlock(t, block)
		all.Wait()
		wantState(t, k, "", 0)
	})
}

// A sibling that queues behind a stranger must not wait for him.
func TestSiblingReentersPastAStrangerInTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		k := c.Lock("job")
		block, _ := mustLock(t, other.Lock("job"), t.Context())
		owner := mortise.WithOwner(t.Context())
		both := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			h, _ := mustLock(t, k, owner)
			<-both // the stranger cannot have it before
			mustUnlock(t, h)
		})
		synctest.Wait()
		all.Go(func() {
			h, _ := mustLock(t, k, t.Context())
			mustUnlock(t, h)
		})
		synctest.Wait()
		all.Go(func() {
			h, _ := mustLock(t, k, owner)
			close(both)
			mustUnlock(t, h)
		})
		synctest.Wait()
		mustUnlock(t, block)
		all.Wait()
		wantState(t, k, "", 0)
	})
}

func TestNonReentrant(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.Lock("job").With(mortise.LockOptions{NonReentrant: true})
		hold, ctx := mustLock(t, k, t.Context())
		if _, _, err := k.Lock(ctx); !errors.Is(err, mortise.ErrReentry) {
			t.Errorf("Lock again: %v, want ErrReentry", err)
		}
		if _, _, err := k.TryLock(ctx); !errors.Is(err, mortise.ErrReentry) {
			t.Errorf("TryLock again: %v, want ErrReentry", err)
		}
		wantState(t, k, hold.Owner(), 1)
		mustUnlock(t, hold)
	})
}

func TestReentryIntoALostLeaseDoesNotResurrectIt(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		k := c.Lock("job")
		owner := mortise.WithOwner(t.Context())
		hold, ctx := mustLock(t, k, owner)
		if _, err := other.Lock("job").ForceUnlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Not known to the holder yet: the script must find out.
		if _, _, err := k.Lock(owner); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("re-entry: %v, want ErrLost", err)
		}
		wantState(t, k, "", 0)
		if !errors.Is(context.Cause(ctx), mortise.ErrLost) {
			t.Errorf("the context's cause is %v, want ErrLost", context.Cause(ctx))
		}
		// As long as the lost hold is not released, the owner gets no other.
		if _, _, err := k.TryLock(owner); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("TryLock with a lost hold: %v, want ErrLost", err)
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock of the lost hold: %v, want ErrLost", err)
		}
		again, _ := mustLock(t, k, owner)
		mustUnlock(t, again)
	})
}

func TestReentryNeverShortensALease(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.Lock("job")
		long, ctx := mustLock(t, k.With(mortise.LockOptions{TTL: time.Hour, MaxHold: time.Hour}), t.Context())
		short, ctx2 := mustLock(t, k.With(mortise.LockOptions{MaxHold: time.Second}), ctx)
		time.Sleep(30 * time.Minute)
		if ctx.Err() != nil {
			t.Error("the lease was lost before its hour was over")
		}
		wantExpired(t, ctx2, short)
		mustUnlock(t, long)
	})
}

// wantExpired fails unless a hold was lost because its time was over.
func wantExpired(t *testing.T, ctx context.Context, hold *mortise.Hold) {
	t.Helper()
	for what, err := range map[string]error{"the context's cause": context.Cause(ctx), "Unlock": hold.Unlock()} {
		if lost := (*mortise.LostError)(nil); !errors.As(err, &lost) || lost.Reason != mortise.LostExpired {
			t.Errorf("%s: %v, want that the hold has expired", what, err)
		}
	}
}

// A lease that is not trusted any more is left as it is in Redis, where it may still be: a
// re-entry must not extend it.
func TestReentryIntoALeaseThatIsOverSendsNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, s *memredis.Server, k kind) {
		c, f := open(t, s, nil)
		owner := mortise.WithOwner(t.Context())
		hold, ctx := must(t, k.Open(c, "job", mortise.LockOptions{Margin: 10 * time.Second}), owner)
		f.Set(hang, nil)
		<-ctx.Done()
		f.Set(nil, nil)
		if _, _, err := k.Open(c, "job", mortise.LockOptions{}).TryLock(owner); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("re-entry into a lost lease: %v, want ErrLost", err)
		}
		if n := f.Count(k.Reenter); n != 0 {
			t.Errorf("it sent %d scripts, want none", n)
		}
		if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock of the lost hold: %v, want ErrLost", err)
		}
	})
}

// The scripts set absolute counts. So those of siblings must not cross on their way.
func TestSiblingsChangeTheCountOneByOne(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		k := c.Lock("job")
		outer, ctx := mustLock(t, k, t.Context())
		f.Set(func(context.Context, string) error { time.Sleep(100 * time.Millisecond); return nil }, nil)
		const siblings = 3
		var all sync.WaitGroup
		holds := make(chan *mortise.Hold, siblings)
		for range siblings {
			all.Go(func() {
				hold, _, err := k.Lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				holds <- hold
			})
		}
		all.Wait()
		wantState(t, k, outer.Owner(), 1+siblings)
		for range siblings {
			all.Go(func() { mustUnlock(t, <-holds) })
		}
		all.Wait()
		wantState(t, k, outer.Owner(), 1)
		mustUnlock(t, outer)
	})
}
