package behavior

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// A reader's lease counts in whole milliseconds, as Redisson counts it: in the last one, which
// has begun, a writer that happens to ask is let in. No holder trusts its lease for that long.
const wholeMillisecond = time.Millisecond

// A reader that died keeps writers out for its own lease, even if others that
// have died or renew the lock would make that last longer.
func TestRWLockDeadReaderKeepsNobodyOutBeyondItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		dead := mortise.New(s.Driver(), &mortise.Options{TTL: 7 * time.Second})
		must(t, dead.RWLock("doc").Read(), t.Context())
		if err := dead.Close(); err != nil { // abandons the hold, as a crash does
			t.Fatal(err)
		}
		do(t, s, "PEXPIRE", "doc", "1800000") // what a reader of Redisson leaves behind, whose own holds are over
		c, _ := open(t, s, nil)
		start := time.Now()
		hold, _ := must(t, c.RWLock("doc").Write(), t.Context())
		if d := time.Since(start); d < 7*time.Second-wholeMillisecond || d > 8*time.Second {
			t.Errorf("a dead reader kept a writer out for %v, want 7s", d)
		}
		mustUnlock(t, hold)
	})
}

// Redisson's readers set the TTL of the lock when they renew, and up to 4.3 that
// of all holds, to 30 s. Then they die.
func TestRWLockOutlivesRedissonsRenewals(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]struct {
		client       mortise.Options
		outer, inner mortise.LockOptions
	}{
		"a fixed lease":        {outer: leased(2 * time.Hour), inner: leased(time.Minute)},
		"a longer one inside":  {outer: leased(5 * time.Minute), inner: leased(2 * time.Hour)},
		"a renewed one inside": {outer: leased(2 * time.Hour)},
		"a limited lease":      {outer: mortise.LockOptions{MaxHold: 2 * time.Hour}},
		"a renewed lease":      {client: mortise.Options{TTL: 10 * time.Minute}},
		"the default":          {},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, &options.client)
				other, _ := open(t, s, nil)
				owner := mortise.WithOwner(t.Context())
				hold, ctx := must(t, c.RWLock("doc").Read().With(options.outer), owner)
				inner, ctx2 := must(t, c.RWLock("doc").Read().With(options.inner), owner)
				java := "8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:57"
				do(t, s, "HSET", "doc", java, "1")
				do(t, s, "SET", "{doc}:"+java+":rwlock_timeout:1", "1", "PX", "30000")
				for i := range 12 { // two minutes
					if i > 0 {
						time.Sleep(10 * time.Second)
					}
					for _, key := range []string{"doc", "{doc}:" + java + ":rwlock_timeout:1", rwHold(hold, 1), rwHold(hold, 2)} {
						do(t, s, "PEXPIRE", key, "30000")
					}
				}
				time.Sleep(time.Hour) // it has died
				for of, ctx := range map[mortise.LockOptions]context.Context{options.outer: ctx, options.inner: ctx2} {
					if over := of.MaxHold != 0 && of.MaxHold < time.Hour; (ctx.Err() != nil) != over {
						t.Errorf("the reader with a MaxHold of %v: %v", of.MaxHold, context.Cause(ctx))
					}
				}
				wantRefused(t, other.RWLock("doc").Write(), hold.Owner())
				if ctx2.Err() == nil {
					mustUnlock(t, inner)
				} else if err := inner.Unlock(); !errors.Is(err, mortise.ErrLost) {
					t.Errorf("Unlock of the inner reader: %v, want ErrLost", err)
				}
				if ctx.Err() == nil {
					mustUnlock(t, hold)
				} else if err := hold.Unlock(); !errors.Is(err, mortise.ErrLost) {
					t.Errorf("Unlock of the outer reader: %v, want ErrLost", err)
				}
				wantHad(t, other.RWLock("doc").Write())
				wantEmpty(t, s)
			})
		})
	}
}

// A fixed lease is not renewed: it ends at its time.
func TestRWLockFixedReadLeaseEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		hold, ctx := must(t, c.RWLock("doc").Read().With(mortise.LockOptions{MaxHold: time.Minute, Margin: time.Second}), t.Context())
		start := time.Now()
		context.AfterFunc(ctx, func() {
			if d := time.Since(start); d != 59*time.Second {
				t.Errorf("the context ended after %v, want 59s", d)
			}
		})
		writer, _ := must(t, other.RWLock("doc").Write(), t.Context())
		if d := time.Since(start); d < time.Minute-wholeMillisecond || d > 61*time.Second {
			t.Errorf("a writer came in after %v, want a minute", d)
		}
		if n := f.Count("rw_read_renew"); n > 5 {
			t.Errorf("a fixed lease of a minute was looked after %d times, want 5 at most", n)
		}
		wantLost(t, ctx, hold, mortise.LostExpired, 0, 0)
		mustUnlock(t, writer)
	})
}

// A reader is renewed as any lock, also with a lease shorter than the intervals
// at which its lock is looked after.
func TestRWLockReaderIsRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		for _, lease := range []time.Duration{100 * time.Millisecond, 3 * time.Second, 30 * time.Second, 10 * time.Minute} {
			c, _ := open(t, s, &mortise.Options{TTL: lease})
			other, _ := open(t, s, nil)
			hold, ctx := must(t, c.RWLock("doc").Read(), t.Context())
			for range 50 {
				time.Sleep(lease / 4)
				wantRefused(t, other.RWLock("doc").Write(), hold.Owner())
			}
			if ctx.Err() != nil {
				t.Errorf("with a lease of %v: %v", lease, context.Cause(ctx))
			}
			mustUnlock(t, hold)
		}
	})
}

// A reader learns that it was lost, whatever the way, and a late unlock harms
// nobody.
func TestRWLockReaderIsLost(t *testing.T) {
	t.Parallel()
	const soon = 10*time.Second + time.Millisecond // the next renewal
	for name, test := range map[string]struct {
		lose   func(t *testing.T, s *memredis.Server, f *faults, k *mortise.RWLock)
		reason mortise.LostReason
		from   time.Duration
		to     time.Duration
	}{
		"deleted": {func(t *testing.T, s *memredis.Server, _ *faults, _ *mortise.RWLock) {
			do(t, s, "DEL", "doc")
		}, mortise.LostForced, 0, soon},
		"forced": {func(t *testing.T, _ *memredis.Server, _ *faults, k *mortise.RWLock) {
			if freed, err := k.Read().ForceUnlock(t.Context()); len(freed) != 1 || err != nil {
				t.Errorf("ForceUnlock: %v, %v, want one reader", freed, err)
			}
		}, mortise.LostForced, 0, soon},
		"forced, and others read": {func(t *testing.T, _ *memredis.Server, _ *faults, k *mortise.RWLock) {
			if freed, err := k.Read().ForceUnlock(t.Context()); len(freed) != 1 || err != nil {
				t.Errorf("ForceUnlock: %v, %v, want one reader", freed, err)
			}
			must(t, k.Read(), t.Context())
		}, mortise.LostForced, 0, soon},
		"forced, and another writes": {func(t *testing.T, _ *memredis.Server, _ *faults, k *mortise.RWLock) {
			if freed, err := k.Read().ForceUnlock(t.Context()); len(freed) != 1 || err != nil {
				t.Errorf("ForceUnlock: %v, %v, want one reader", freed, err)
			}
			must(t, k.Write(), t.Context())
		}, mortise.LostTaken, 0, soon},
		"its hold evicted": {func(t *testing.T, s *memredis.Server, _ *faults, k *mortise.RWLock) {
			must(t, k.Read(), t.Context())
			for _, key := range elements(do(t, s, "KEYS", "*rwlock_timeout*")) {
				do(t, s, "DEL", key.Str())
			}
		}, mortise.LostForced, 0, soon},
		"unreachable": {func(t *testing.T, _ *memredis.Server, f *faults, _ *mortise.RWLock) {
			f.Set(hang, nil)
		}, mortise.LostUnreachable, 29 * time.Second, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				other, _ := open(t, s, nil)
				hold, ctx := must(t, c.RWLock("doc").Read(), t.Context())
				test.lose(t, s, f, other.RWLock("doc"))
				wantLost(t, ctx, hold, test.reason, test.from, test.to)
			})
		})
	}
}

func elements(v driver.Value) (vs []driver.Value) {
	for i := range v.Len() {
		vs = append(vs, v.At(i))
	}
	return vs
}

// A writer is lost like any lock; the other tests of losing cover the rest.
func TestRWLockWriterIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		owner := mortise.WithOwner(t.Context())
		writer, ctx := must(t, c.RWLock("doc").Write(), owner)
		reader, rctx := must(t, c.RWLock("doc").Read(), owner)
		by, err := other.RWLock("doc").Write().ForceUnlock(t.Context())
		if err != nil || by == nil || by.Owner != writer.Owner() || by.Count != 1 {
			t.Fatalf("ForceUnlock: %v, %v, want %s", by, err, writer.Owner())
		}
		wantHolders(t, c.RWLock("doc"), "read", reader.Owner(), 1)
		wantLost(t, ctx, writer, mortise.LostTaken, 0, 10*time.Second+time.Millisecond)
		time.Sleep(5 * time.Minute)
		if rctx.Err() != nil {
			t.Errorf("the read side was lost with the write side: %v", context.Cause(rctx))
		}
		mustUnlock(t, reader)
	})
}

// With its write lease lost an owner cannot begin to read in its name.
func TestRWLockReadAfterALostWrite(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.RWLock("doc")
		owner := mortise.WithOwner(t.Context())
		writer, _ := must(t, k.Write().With(mortise.LockOptions{MaxHold: time.Second}), owner)
		time.Sleep(time.Minute)
		for _, lock := range []taker{k.Read(), k.Write()} {
			if _, _, err := lock.Lock(owner); !errors.Is(err, mortise.ErrLost) {
				t.Errorf("got %v, want ErrLost until the lost lease is unlocked", err)
			}
		}
		if err := writer.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		hold, _ := must(t, k.Read(), owner)
		mustUnlock(t, hold)
	})
}

// A reader that is closed under its holds tells them, and ends by itself.
func TestRWLockCloseAbandonsReaders(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		var ctxs []context.Context
		start := time.Now()
		for range 3 {
			_, ctx := must(t, c.RWLock("doc").Read(), t.Context())
			ctxs = append(ctxs, ctx)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for _, ctx := range ctxs {
			if !errors.Is(context.Cause(ctx), mortise.ErrClosed) {
				t.Errorf("the cause is %v, want ErrClosed", context.Cause(ctx))
			}
		}
		hold, _ := must(t, other.RWLock("doc").Write(), t.Context())
		if d := time.Since(start); d < 30*time.Second-wholeMillisecond || d > 31*time.Second {
			t.Errorf("a writer came in after %v, want the 30s of the abandoned leases", d)
		}
		mustUnlock(t, hold)
	})
}
