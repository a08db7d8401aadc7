package behavior

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

func TestRWLockReentry(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.RWLock("doc")
		outer, ctx := must(t, k.Read(), t.Context())
		inner, ctx2 := must(t, k.Read(), ctx)
		third, _ := must(t, k.Read(), ctx2)
		wantHolders(t, k, "read", outer.Owner(), 3)
		if n := do(t, s, "EXISTS", rwHold(outer, 1), rwHold(outer, 2), rwHold(outer, 3), rwHold(outer, 4)).Int(); n != 3 {
			t.Errorf("there are %d keys for three holds, want 3", n)
		}
		if st, _ := k.Read().Inspect(ctx); !st.Mine || st.Kind != mortise.KindRWLock {
			t.Errorf("Inspect says %+v, want an RWLock that is mine", st)
		}
		if st, _ := k.Write().Inspect(ctx); st.Mine {
			t.Error("Inspect of the write side says Mine to a reader")
		}
		mustUnlock(t, outer) // in any order
		mustUnlock(t, third)
		wantHolders(t, k, "read", inner.Owner(), 1)
		if n := do(t, s, "EXISTS", rwHold(outer, 1), rwHold(outer, 2), rwHold(outer, 3)).Int(); n != 1 {
			t.Errorf("there are %d keys for one hold, want 1", n)
		}
		mustUnlock(t, inner)
		wantHolders(t, k, "")

		// A writer may write again and read, and write again inside.
		w1, ctx := must(t, k.Write(), t.Context())
		w2, ctx2 := must(t, k.Write(), ctx)
		r, ctx3 := must(t, k.Read(), ctx2)
		w3, _ := must(t, k.Write(), ctx3)
		wantHolders(t, k, "write", w1.Owner(), 3, r.Owner(), 1)
		for _, h := range []*mortise.Hold{w3, r, w2, w1} {
			mustUnlock(t, h)
		}
		wantHolders(t, k, "")
		wantEmpty(t, s)
	})
}

// rwHold is the key of the i-th hold of a reader.
func rwHold(h *mortise.Hold, i int) string {
	return fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", h.Name(), h.Owner(), i)
}

// A reader that wants to write would wait for itself. It is told at once,
// however it asks, and whatever others wait for.
func TestRWLockUpgradeIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.RWLock("doc")
		owner := mortise.WithOwner(t.Context())
		hold, ctx := must(t, k.Read(), owner)
		var all sync.WaitGroup
		wait, cancel := context.WithCancel(t.Context())
		try := func(when string) {
			t.Helper()
			start := time.Now()
			for name, ctx := range map[string]context.Context{"its context": ctx, "its owner": owner, "a child": context.WithValue(ctx, t, 1)} {
				for how, lock := range map[string]func(context.Context) (*mortise.Hold, context.Context, error){
					"Lock": k.Write().Lock, "TryLock": k.Write().TryLock,
				} {
					if _, _, err := lock(ctx); !errors.Is(err, mortise.ErrReentry) || !strings.Contains(err.Error(), "a reader cannot become a writer") {
						t.Errorf("%s with %s, %s: %v, want ErrReentry", how, name, when, err)
					}
				}
			}
			if d := time.Since(start); d != 0 {
				t.Errorf("%s it took %v, want 0", when, d)
			}
		}
		try("alone")
		for range 3 {
			all.Go(func() {
				if _, _, err := k.Write().Lock(wait); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		try("behind other waiters")
		if hold.Valid() != true {
			t.Error("the read hold did not survive it")
		}
		cancel()
		all.Wait()
		mustUnlock(t, hold)
		wantHad(t, k.Write())
		wantEmpty(t, s)
	})
}

// An owner that waits to write, and comes to read meanwhile, would wait for
// itself from then on.
func TestRWLockUpgradeByASibling(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		k := c.RWLock("doc")
		owner := mortise.WithOwner(t.Context())
		block, _ := must(t, other.RWLock("doc").Read(), t.Context())
		failed := make(chan error)
		for range 2 { // the first one asks Redis, the second one queues behind it
			go func() {
				_, _, err := k.Write().Lock(owner)
				failed <- err
			}()
		}
		time.Sleep(5*time.Second + 50*time.Millisecond)
		start := time.Now()
		hold, _ := must(t, k.Read(), owner)
		for range 2 {
			if err := <-failed; !errors.Is(err, mortise.ErrReentry) || time.Since(start) != 0 {
				t.Errorf("after %v: %v, want ErrReentry at once", time.Since(start), err)
			}
		}
		mustUnlock(t, hold)
		mustUnlock(t, block)
	})
}

// A writer may read, past all waiters for its release.
func TestRWLockWriterReadsPastThoseWhoWait(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.RWLock("doc")
		owner := mortise.WithOwner(t.Context())
		writer, ctx := must(t, k.Write(), owner)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				hold, _ := must(t, k.Read(), t.Context())
				mustUnlock(t, hold)
			})
		}
		synctest.Wait()
		start := time.Now()
		one, _ := must(t, k.Read(), ctx)
		two, _, err := k.Read().TryLock(owner)
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("the writer waited %v to read, want 0", d)
		}
		wantHolders(t, k, "write", writer.Owner(), 1, one.Owner(), 2)
		mustUnlock(t, two)
		mustUnlock(t, one)
		wantHolders(t, k, "write", writer.Owner(), 1)
		mustUnlock(t, writer)
		all.Wait()
		wantEmpty(t, s)
	})
}

// One that waits to read behind strangers comes in as soon as a sibling writes.
func TestRWLockReaderComesInBehindItsSibling(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		k := c.RWLock("doc")
		owner := mortise.WithOwner(t.Context())
		block, _ := must(t, other.RWLock("doc").Write(), t.Context())
		got := make(chan *mortise.Hold)
		stop, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { // a stranger, at the head of the waiting readers
			if h, _, err := k.Read().Lock(stop); err == nil {
				mustUnlock(t, h)
			}
		})
		synctest.Wait()
		all.Go(func() {
			h, _ := must(t, k.Read(), owner)
			got <- h
		})
		synctest.Wait()
		// The lock changes hands without the readers having a chance.
		do(t, s, "DEL", "doc")
		writer, _, err := k.Write().TryLock(owner)
		if err != nil {
			t.Fatal(err)
		}
		reader := <-got
		wantHolders(t, k, "write", writer.Owner(), 1, reader.Owner(), 1)
		mustUnlock(t, reader)
		mustUnlock(t, writer)
		cancel()
		all.Wait()
		if err := block.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock of what was deleted: %v, want ErrLost", err)
		}
	})
}

// A writer that goes on as a reader lets other readers in at once and writers
// not before it is done, however long that takes.
func TestRWLockDowngrade(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a, f := open(t, s, nil)
		b, _ := open(t, s, nil)
		k := a.RWLock("doc")
		owner := mortise.WithOwner(t.Context())
		writer, _ := must(t, k.Write(), owner)
		reader, ctx := must(t, k.Read(), owner)
		readers, written := make(chan *mortise.Hold), make(chan *mortise.Hold)
		wait := func(k taker, got chan *mortise.Hold) {
			h, _, err := k.Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- h
		}
		go wait(b.RWLock("doc").Read(), readers)
		go wait(b.RWLock("doc").Write(), written)
		time.Sleep(5*time.Second + 50*time.Millisecond)
		start := time.Now()
		mustUnlock(t, writer)
		theirs := <-readers
		if d := time.Since(start); d != 0 {
			t.Errorf("another reader came in %v after the downgrade, want 0", d)
		}
		wantHolders(t, k, "read", reader.Owner(), 1, theirs.Owner(), 1)
		mustUnlock(t, theirs)
		time.Sleep(5 * time.Minute)
		if ctx.Err() != nil || !reader.Valid() {
			t.Fatalf("the reader was lost: %v", context.Cause(ctx))
		}
		if n := f.Count("rw_read_renew"); n < 29 {
			t.Errorf("%d renewals in five minutes, want one every 10s", n)
		}
		if _, _, err := k.Write().TryLock(owner); !errors.Is(err, mortise.ErrReentry) {
			t.Errorf("after the downgrade the owner wants to write: %v, want ErrReentry", err)
		}
		start = time.Now()
		mustUnlock(t, reader)
		mustUnlock(t, <-written)
		if d := time.Since(start); d != 0 {
			t.Errorf("the writer came in %v after the last reader, want 0", d)
		}
		wantEmpty(t, s)
	})
}

// No unlock shortens what another hold needs.
func TestRWLockUnlockLeavesOtherLeasesAlone(t *testing.T) {
	t.Parallel()
	t.Run("reader among readers", func(t *testing.T) { bubble(t, unlockAmongReaders) })
	t.Run("reader that also writes", func(t *testing.T) { bubble(t, unlockReadOfWriter) })
	t.Run("writer that also reads", func(t *testing.T) { bubble(t, unlockWriteOfReader) })
	t.Run("outer and inner hold", func(t *testing.T) { bubble(t, unlockOuterHold) })
}

func unlockAmongReaders(t *testing.T, s *memredis.Server) {
	a, _ := open(t, s, nil)
	b, _ := open(t, s, nil)
	hour, _ := must(t, a.RWLock("doc").Read().With(leased(time.Hour)), t.Context())
	day, _ := must(t, b.RWLock("doc").Read().With(leased(24*time.Hour)), t.Context())
	short, _ := must(t, b.RWLock("doc").Read().With(leased(time.Minute)), t.Context())
	if d := rwLeft(t, s); d != 24*time.Hour {
		t.Errorf("the lock lasts %v, want the longest lease", d)
	}
	mustUnlock(t, day)
	if d := rwLeft(t, s); d != time.Hour {
		t.Errorf("the lock lasts %v, want the longest lease that is left", d)
	}
	mustUnlock(t, short)
	if d := rwLeft(t, s); d != time.Hour {
		t.Errorf("the lock lasts %v, want an hour", d)
	}
	mustUnlock(t, hour)
	wantHolders(t, a.RWLock("doc"), "")
}

func unlockReadOfWriter(t *testing.T, s *memredis.Server) {
	c, _ := open(t, s, nil)
	owner := mortise.WithOwner(t.Context())
	writer, _ := must(t, c.RWLock("doc").Write().With(leased(time.Hour)), owner)
	reader, _ := must(t, c.RWLock("doc").Read().With(leased(time.Second)), owner)
	inner, _ := must(t, c.RWLock("doc").Read().With(leased(time.Second)), owner)
	mustUnlock(t, inner)
	if d := rwLeft(t, s); d != time.Hour {
		t.Errorf("the lock lasts %v, want the writer's hour", d)
	}
	mustUnlock(t, reader)
	if d := rwLeft(t, s); d != time.Hour {
		t.Errorf("the lock lasts %v, want the writer's hour", d)
	}
	mustUnlock(t, writer)
}

func unlockWriteOfReader(t *testing.T, s *memredis.Server) {
	c, _ := open(t, s, nil)
	owner := mortise.WithOwner(t.Context())
	writer, _ := must(t, c.RWLock("doc").Write().With(leased(time.Minute)), owner)
	reader, ctx := must(t, c.RWLock("doc").Read().With(leased(time.Hour)), owner)
	mustUnlock(t, writer)
	time.Sleep(59 * time.Minute)
	if ctx.Err() != nil {
		t.Errorf("the reader was lost: %v", context.Cause(ctx))
	}
	mustUnlock(t, reader)
}

func unlockOuterHold(t *testing.T, s *memredis.Server) {
	c, _ := open(t, s, nil)
	other, _ := open(t, s, nil)
	owner := mortise.WithOwner(t.Context())
	short, _ := must(t, c.RWLock("doc").Read().With(leased(10*time.Second)), owner)
	hour, ctx := must(t, c.RWLock("doc").Read().With(leased(time.Hour)), owner)
	third, _ := must(t, other.RWLock("doc").Read(), t.Context())
	mustUnlock(t, short) // the lease is the hour's now, though Redisson takes away the key of the second hold
	mustUnlock(t, third) // and sets the TTL by those that are left
	time.Sleep(59 * time.Minute)
	if ctx.Err() != nil {
		t.Errorf("the reader was lost: %v", context.Cause(ctx))
	}
	wantRefused(t, other.RWLock("doc").Write(), hour.Owner())
	mustUnlock(t, hour)
}

// leased returns the options of a lease of d that is not renewed.
func leased(d time.Duration) mortise.LockOptions { return mortise.LockOptions{TTL: d, MaxHold: d} }

// rwLeft returns the TTL of the lock.
func rwLeft(t *testing.T, s *memredis.Server) time.Duration {
	return time.Duration(do(t, s, "PTTL", "doc").Int()) * time.Millisecond
}
