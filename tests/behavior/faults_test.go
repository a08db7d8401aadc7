package behavior

// Rare interleavings, each in the smallest form that shows it.

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
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/memredis"
)

// A client to which Redis grants a lock that it thinks it holds knows that the
// former lease is over, and does not forget to end it.
func TestSupersededLeaseEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		k := c.Lock("job")
		h1, ctx1 := mustLock(t, k, t.Context())
		do(t, s, "DEL", "job") // evicted, flushed, forced by another process
		h2, _, err := k.TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if h1.Valid() {
			t.Log("note: the client granted itself the lock anew and still calls the first hold valid")
		}
		_ = h2
		_ = c.Close()
		time.Sleep(time.Hour)
		theirs, _ := mustLock(t, other.Lock("job"), t.Context())
		if h1.Valid() || ctx1.Err() == nil {
			t.Errorf("an hour after Close and with another client holding the lock: Valid=%v, ctx.Err()=%v", h1.Valid(), ctx1.Err())
		}
		mustUnlock(t, theirs)
	})
}

// While Redis refuses a sibling's re-entry, Unlock of another hold goes through.
func TestUnlockBehindAHangingReentry(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, &mortise.Options{RetryFor: -1})
		other, _ := open(t, s, nil)
		k := c.Lock("job")
		owner := mortise.WithOwner(t.Context())
		h1, _ := mustLock(t, k, owner)
		h2, ctx2 := mustLock(t, k, owner)
		f.Set(func(ctx context.Context, name string) error { // as while Redis is out of memory: HSET is refused, PEXPIRE is not
			if name == "lock_reenter" {
				return &driver.Error{Class: driver.Passing, Err: errors.New("OOM command not allowed")}
			}
			return nil
		}, nil)
		ctx, cancel := context.WithCancel(owner)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { _, _, _ = k.Lock(ctx) })
		synctest.Wait()
		err := h1.Unlock()
		if errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v; want nil: Redis answers, every renewal was confirmed, nobody freed the lock", err)
		}
		if ctx2.Err() != nil {
			t.Errorf("the other hold was ended: %v", context.Cause(ctx2))
		}
		st, _ := other.Lock("job").Inspect(t.Context())
		t.Logf("in Redis: %+v", st)
		cancel()
		wg.Wait()
		_ = h2.Unlock()
		_, _ = other.Lock("job").ForceUnlock(t.Context())
	})
}

// A re-entry whose reply hangs delays an Unlock, but nothing stays behind.
func TestNoGhostAfterUnlockBehindAHangingReentry(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		k := c.Lock("job")
		owner := mortise.WithOwner(t.Context())
		h1, _ := mustLock(t, k, owner)
		f.Set(nil, func(ctx context.Context, name string) error { // ran, but the reply hangs
			if name == "lock_reenter" {
				return hang(ctx, name)
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(owner, 40*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if h, _, err := k.With(mortise.LockOptions{TTL: time.Hour, MaxHold: time.Hour}).Lock(ctx); err == nil {
				_ = h.Unlock()
			}
		})
		time.Sleep(time.Second)
		t.Logf("Unlock: %v", h1.Unlock())
		wg.Wait()
		f.Set(nil, nil)
		time.Sleep(5 * time.Minute) // every hold was released, every call has returned, Redis is well
		if st, _ := other.Lock("job").Inspect(t.Context()); st.Locked {
			t.Errorf("nobody holds the lock, and it is still locked in Redis for %v", st.TTL)
		}
		_, _ = other.Lock("job").ForceUnlock(t.Context())
	})
}

// A margin wider than the renewed lease does not spoil the renewals that a
// re-entry asks for.
func TestWideMarginOfAFixedLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		f.Set(func(_ context.Context, name string) error { time.Sleep(time.Millisecond); return nil }, nil)
		k := c.Lock("job")
		owner := mortise.WithOwner(t.Context())
		outer, _ := mustLock(t, k.With(mortise.LockOptions{TTL: 2 * time.Minute, MaxHold: 2 * time.Minute, Margin: time.Minute}), owner)
		inner, ctx2 := mustLock(t, k, owner)
		time.Sleep(10 * time.Second)
		if n := f.Count("lock_renew"); n > 10 {
			t.Errorf("%d renewals in 10s, want one each 10s", n)
		}
		time.Sleep(2 * time.Minute)
		if ctx2.Err() != nil {
			t.Errorf("a renewed hold was lost while Redis confirmed %d renewals: %v", f.Count("lock_renew"), context.Cause(ctx2))
		}
		_ = inner.Unlock()
		_ = outer.Unlock()
	})
}

// Two copies of an acquisition are late. Both are found.
func TestSecondLateCopyIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		_, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		late := []time.Duration{200 * time.Millisecond, 2 * time.Second}
		var mu sync.Mutex
		raw := s.Driver()
		defer raw.Close()
		var wg sync.WaitGroup
		var n int
		d := &hook{Driver: f, eval: func(ctx context.Context, call driver.Call) (driver.Value, error, bool) {
			mu.Lock()
			defer mu.Unlock()
			if call.Script.Name() == "lock_acquire" && n < len(late) {
				delay := late[n]
				n++
				wg.Go(func() { time.Sleep(delay); _, _ = raw.Eval(context.Background(), call) })
				return driver.Value{}, errCut, true
			}
			return driver.Value{}, nil, false
		}}
		c := mortise.New(d, nil)
		defer c.Close()
		hold, _ := mustLock(t, c.Lock("job"), t.Context()) // the third copy succeeds
		mustUnlock(t, hold)
		wg.Wait()
		time.Sleep(8 * time.Second) // the longest pause between two looks
		if st, _ := other.Lock("job").Inspect(t.Context()); st.Locked {
			t.Errorf("a second late copy of a released lock lasts for another %v, and nobody looks for it", st.TTL)
		}
	})
}

// hook is a driver with a hook before Eval.
type hook struct {
	driver.Driver
	eval func(ctx context.Context, call driver.Call) (driver.Value, error, bool)
}

func (h *hook) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	if v, err, done := h.eval(ctx, call); done {
		return v, err
	}
	return h.Driver.Eval(ctx, call)
}

// An attempt in doubt is looked for even if the call then succeeds by re-entry.
func TestDoubtIsNotForgottenByReentry(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		_, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		raw := s.Driver()
		defer raw.Close()
		owner := mortise.WithOwner(t.Context())
		var c *mortise.Client
		var sibling *mortise.Hold
		var busy, done atomic.Bool
		var wg sync.WaitGroup
		d := &hook{Driver: f, eval: func(ctx context.Context, call driver.Call) (driver.Value, error, bool) {
			if call.Script.Name() != "lock_acquire" || busy.Load() || !done.CompareAndSwap(false, true) {
				return driver.Value{}, nil, false
			}
			// The copy is delayed by the network; a sibling is faster meanwhile.
			wg.Go(func() { time.Sleep(3 * time.Second); _, _ = raw.Eval(context.Background(), call) })
			busy.Store(true)
			var err error
			if sibling, _, err = c.Lock("job").TryLock(owner); err != nil {
				t.Error(err)
			}
			return driver.Value{}, errCut, true
		}}
		c = mortise.New(d, nil)
		defer c.Close()
		hold, _, err := c.Lock("job").TryLock(owner)
		if err != nil {
			t.Fatal(err)
		}
		if hold.Owner() != sibling.Owner() {
			t.Fatal("not the schedule intended")
		}
		mustUnlock(t, hold)
		mustUnlock(t, sibling)
		wg.Wait()
		time.Sleep(10 * time.Second)
		if st, _ := other.Lock("job").Inspect(t.Context()); st.Locked {
			t.Errorf("the late copy lasts for another %v, and nobody looks for it", st.TTL)
		}
	})
}

// UnlockOwner leaves a read/write lock and its readers alone.
func TestUnlockOwnerLeavesForeignKindsAlone(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		a, b := "8ac3f8e1-55bb-4ba3-9d3c-2f1a7c7f0001:1", "8ac3f8e1-55bb-4ba3-9d3c-2f1a7c7f0002:1"
		do(t, s, "HSET", "job", "mode", "read", a, "1", b, "1")
		do(t, s, "PEXPIRE", "job", "30000")
		freed, err := c.Lock("job").UnlockOwner(t.Context(), a)
		if !errors.Is(err, mortise.ErrWrongKind) {
			t.Errorf("UnlockOwner on a read/write lock: %v, %v; want ErrWrongKind", freed, err)
		}
		if do(t, s, "HGET", "job", b).Str() != "1" {
			t.Error("the read lock of another client was deleted")
		}
	})
}

// A wait that Close ends says so, also while Redis is away.
func TestCloseDuringAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		for name, fault := range map[string]func(context.Context, string) error{
			"refused": func(context.Context, string) error {
				return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
			},
		} {
			c, f := open(t, s, nil)
			f.Set(fault, nil)
			var err error
			var wg sync.WaitGroup
			wg.Go(func() { _, _, err = c.Lock("job").Lock(t.Context()) })
			time.Sleep(time.Second)
			_ = c.Close()
			wg.Wait()
			if !errors.Is(err, mortise.ErrClosed) {
				t.Errorf("%s: a wait ended by Close: %v, want ErrClosed", name, err)
			}
		}
	})
}

// A forced release whose reply was lost tells the holder in the same process:
// the lock is certainly free of it.
func TestForceWithALostReply(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		k := c.Lock("job")
		hold, ctx := mustLock(t, k.With(mortise.LockOptions{TTL: time.Hour, MaxHold: time.Hour}), t.Context())
		f.Set(nil, loseReplies("lock_release", 1))
		_, err := k.ForceUnlock(t.Context())
		time.Sleep(30 * time.Minute)
		if ctx.Err() == nil {
			t.Errorf("ForceUnlock: %v; half an hour later the holder in the same client was not told", err)
		}
		_ = hold.Unlock()
	})
}

// A lost lease is reported before a re-entry that is not allowed.
func TestNonReentrantOnALostLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		owner := mortise.WithOwner(t.Context())
		k := c.Lock("job").With(mortise.LockOptions{NonReentrant: true, MaxHold: time.Second})
		hold, _ := mustLock(t, k, owner)
		time.Sleep(time.Minute)
		if _, _, err := k.TryLock(owner); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("got %v, want ErrLost: the lease was lost and not yet unlocked", err)
		}
		_ = hold.Unlock()
	})
}

// blind is a cluster whose driver does not know (yet, or any more) which node
// serves which slot, as driver/rueidis without a map of slots and driver/goredis
// whose MasterForKey fails.
type blind struct{ driver.Driver }

func (b blind) Topology(context.Context) (driver.Topology, error) {
	return driver.Topology{Cluster: true}, nil
}

func (b blind) Shard(string) string { return "" }

func (b blind) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	for _, c := range calls {
		for _, k := range c.Keys {
			if keyspace.Slot(k) != keyspace.Slot(c.Keys[0]) {
				return []driver.Result{{Err: &driver.Error{Class: driver.CrossSlot, Err: errors.New("CROSSSLOT")}}}
			}
		}
	}
	return b.Driver.Batch(ctx, calls)
}

// Renewals keep to slots all the same.
func TestClusterWithoutAMapOfSlots(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c := mortise.New(blind{s.Driver()}, nil)
		defer c.Close()
		_, a := mustLock(t, c.Lock("a"), t.Context())
		_, b := mustLock(t, c.Lock("b"), t.Context())
		time.Sleep(time.Minute)
		if a.Err() != nil || b.Err() != nil {
			t.Errorf("lost although every server answers: %v, %v", context.Cause(a), context.Cause(b))
		}
	})
}
