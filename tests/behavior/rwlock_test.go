package behavior

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

func TestRWLockManyReadersOrOneWriter(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		var readers, writers, most atomic.Int32
		var all sync.WaitGroup
		for range 3 {
			c, _ := open(t, s, nil)
			k := c.RWLock("doc")
			for i := range 6 {
				all.Go(func() {
					for range 5 {
						time.Sleep(time.Duration(10*i) * time.Millisecond)
						err := k.Read().Do(t.Context(), func(ctx context.Context) error {
							n := readers.Add(1)
							defer readers.Add(-1)
							if writers.Load() != 0 {
								t.Error("a reader and a writer are inside")
							}
							most.Store(max(n, most.Load()))
							time.Sleep(20 * time.Millisecond)
							return ctx.Err()
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			for range 2 {
				all.Go(func() {
					for range 5 {
						err := k.Write().Do(t.Context(), func(ctx context.Context) error {
							if writers.Add(1) != 1 || readers.Load() != 0 {
								t.Error("a writer is not alone")
							}
							time.Sleep(20 * time.Millisecond)
							writers.Add(-1)
							return ctx.Err()
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		if most.Load() < 6 {
			t.Errorf("there were never more than %d readers at once", most.Load())
		}
		wantEmpty(t, s)
	})
}

// All who wait to read come in when the writer leaves, with one attempt each,
// none of them after another.
func TestRWLockReadersComeInTogether(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		const n = 50
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		writer, _ := must(t, other.RWLock("doc").Write(), t.Context())
		var all, inside sync.WaitGroup
		inside.Add(n)
		for range n {
			all.Go(func() {
				hold, _, err := c.RWLock("doc").Read().Lock(t.Context())
				if err != nil {
					t.Error(err)
				}
				inside.Done()
				inside.Wait() // all of them read at once
				mustUnlock(t, hold)
			})
		}
		synctest.Wait()
		before := f.Count("rw_read_acquire")
		f.Set(func(_ context.Context, name string) error { time.Sleep(time.Millisecond); return nil }, nil) // a round trip
		start := time.Now()
		mustUnlock(t, writer)
		inside.Wait()
		if d := time.Since(start); d > 3*time.Millisecond {
			t.Errorf("the last reader came in after %v, want two round trips of 1ms", d)
		}
		if got := f.Count("rw_read_acquire") - before; got > n+1 {
			t.Errorf("%d readers made %d attempts", n, got)
		}
		all.Wait()
		wantEmpty(t, s)
	})
}

// The release of the last reader wakes a writer, and that of a writer everybody.
func TestRWLockReleaseWakes(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a, _ := open(t, s, nil)
		b, _ := open(t, s, nil)
		one, _ := must(t, a.RWLock("doc").Read(), t.Context())
		two, _ := must(t, b.RWLock("doc").Read(), t.Context())
		wantHolders(t, a.RWLock("doc"), "read", one.Owner(), 1, two.Owner(), 1)
		got := make(chan *mortise.Hold)
		wait := func(k taker) {
			hold, _, err := k.Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- hold
		}
		go wait(b.RWLock("doc").Write())
		time.Sleep(3*time.Second + 50*time.Millisecond)
		mustUnlock(t, one)
		synctest.Wait()
		if len(got) != 0 {
			t.Error("a writer came in beside a reader")
		}
		time.Sleep(50 * time.Millisecond)
		start := time.Now()
		mustUnlock(t, two)
		writer := <-got
		if d := time.Since(start); d != 0 {
			t.Errorf("the writer came in %v after the last reader", d)
		}
		if want := writer.Owner(); !strings.HasSuffix(want, ":write") {
			t.Errorf("the writer is %s, want it to end with :write", want)
		}
		wantHolders(t, a.RWLock("doc"), "write", writer.Owner(), 1)
		wantRefused(t, a.RWLock("doc").Read(), writer.Owner())
		wantRefused(t, b.RWLock("doc").Read(), writer.Owner())
		for _, c := range []*mortise.Client{a, a, b, b} {
			go wait(c.RWLock("doc").Read())
		}
		time.Sleep(3*time.Second + 50*time.Millisecond)
		start = time.Now()
		mustUnlock(t, writer)
		for range 4 {
			hold := <-got
			defer mustUnlock(t, hold)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("the readers came in %v after the writer", d)
		}
	})
}

func TestRWLockReentry(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.RWLock("doc")
		outer, ctx := must(t, k.Read(), t.Context())
		inner, ctx2 := must(t, k.Read(), ctx)
		third, _ := must(t, k.Read(), ctx2)
		wantHolders(t, k, "read", outer.Owner(), 3)
		if n := do(t, s, "EXISTS", rwHold(outer, 1), rwHold(outer, 2), rwHold(outer, 3), rwHold(outer, 4)).Int(); n != 3 {
			t.Errorf("there are %d keys for three holds", n)
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
			t.Errorf("there are %d keys for one hold", n)
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
// however it asks, and whoever else waits.
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
				t.Errorf("%s it took %v", when, d)
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
		try("behind others who wait")
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

// Who writes may read, past all who wait for it to stop writing.
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
			t.Errorf("the writer waited %v to read", d)
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
		all.Go(func() { // a stranger, at the head of those who wait to read
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
			t.Errorf("another reader came in %v after the downgrade", d)
		}
		wantHolders(t, k, "read", reader.Owner(), 1, theirs.Owner(), 1)
		mustUnlock(t, theirs)
		time.Sleep(time.Hour)
		if ctx.Err() != nil || !reader.Valid() {
			t.Fatalf("the reader was lost: %v", context.Cause(ctx))
		}
		if n := f.Count("rw_read_renew"); n < 359 {
			t.Errorf("%d renewals in an hour, want one every 10s", n)
		}
		if _, _, err := k.Write().TryLock(owner); !errors.Is(err, mortise.ErrReentry) {
			t.Errorf("after the downgrade the owner wants to write: %v, want ErrReentry", err)
		}
		start = time.Now()
		mustUnlock(t, reader)
		mustUnlock(t, <-written)
		if d := time.Since(start); d != 0 {
			t.Errorf("the writer came in %v after the last reader", d)
		}
		wantEmpty(t, s)
	})
}

// No unlock shortens what another hold needs.
func TestRWLockUnlockLeavesOtherLeasesAlone(t *testing.T) {
	t.Parallel()
	left := func(t *testing.T, s *memredis.Server) time.Duration {
		return time.Duration(do(t, s, "PTTL", "doc").Int()) * time.Millisecond
	}
	lease := func(d time.Duration) mortise.LockOptions { return mortise.LockOptions{Lease: d} }
	t.Run("reader among readers", func(t *testing.T) {
		bubble(t, func(t *testing.T, s *memredis.Server) {
			a, _ := open(t, s, nil)
			b, _ := open(t, s, nil)
			hour, _ := must(t, a.RWLock("doc").Read().With(lease(time.Hour)), t.Context())
			day, _ := must(t, b.RWLock("doc").Read().With(lease(24*time.Hour)), t.Context())
			short, _ := must(t, b.RWLock("doc").Read().With(lease(time.Minute)), t.Context())
			if d := left(t, s); d != 24*time.Hour {
				t.Errorf("the lock lasts %v, want the longest lease", d)
			}
			mustUnlock(t, day)
			if d := left(t, s); d != time.Hour {
				t.Errorf("the lock lasts %v, want the longest lease that is left", d)
			}
			mustUnlock(t, short)
			if d := left(t, s); d != time.Hour {
				t.Errorf("the lock lasts %v, want an hour", d)
			}
			mustUnlock(t, hour)
			wantHolders(t, a.RWLock("doc"), "")
		})
	})
	t.Run("reader that also writes", func(t *testing.T) {
		bubble(t, func(t *testing.T, s *memredis.Server) {
			c, _ := open(t, s, nil)
			owner := mortise.WithOwner(t.Context())
			writer, _ := must(t, c.RWLock("doc").Write().With(lease(time.Hour)), owner)
			reader, _ := must(t, c.RWLock("doc").Read().With(lease(time.Second)), owner)
			inner, _ := must(t, c.RWLock("doc").Read().With(lease(time.Second)), owner)
			mustUnlock(t, inner)
			if d := left(t, s); d != time.Hour {
				t.Errorf("the lock lasts %v, want the writer's hour", d)
			}
			mustUnlock(t, reader)
			if d := left(t, s); d != time.Hour {
				t.Errorf("the lock lasts %v, want the writer's hour", d)
			}
			mustUnlock(t, writer)
		})
	})
	t.Run("writer that also reads", func(t *testing.T) {
		bubble(t, func(t *testing.T, s *memredis.Server) {
			c, _ := open(t, s, nil)
			owner := mortise.WithOwner(t.Context())
			writer, _ := must(t, c.RWLock("doc").Write().With(lease(time.Minute)), owner)
			reader, ctx := must(t, c.RWLock("doc").Read().With(lease(time.Hour)), owner)
			mustUnlock(t, writer)
			time.Sleep(59 * time.Minute)
			if ctx.Err() != nil {
				t.Errorf("the reader was lost: %v", context.Cause(ctx))
			}
			mustUnlock(t, reader)
		})
	})
	t.Run("outer and inner hold", func(t *testing.T) {
		bubble(t, func(t *testing.T, s *memredis.Server) {
			c, _ := open(t, s, nil)
			other, _ := open(t, s, nil)
			owner := mortise.WithOwner(t.Context())
			short, _ := must(t, c.RWLock("doc").Read().With(lease(10*time.Second)), owner)
			hour, ctx := must(t, c.RWLock("doc").Read().With(lease(time.Hour)), owner)
			third, _ := must(t, other.RWLock("doc").Read(), t.Context())
			mustUnlock(t, short) // the lease is the hour's now, though Redisson takes away the key of the second hold
			mustUnlock(t, third) // and sets the TTL by those that are left
			time.Sleep(59 * time.Minute)
			if ctx.Err() != nil {
				t.Errorf("the reader was lost: %v", context.Cause(ctx))
			}
			wantRefused(t, other.RWLock("doc").Write(), hour.Owner())
			mustUnlock(t, hour)
		})
	})
}

// A reader that died keeps writers out for its own lease, even if others who
// have died or renew the lock would make that last longer.
func TestRWLockDeadReaderKeepsNobodyOutBeyondItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		dead := mortise.New(s.Driver(), &mortise.Options{Lease: 7 * time.Second})
		must(t, dead.RWLock("doc").Read(), t.Context())
		if err := dead.Close(); err != nil { // abandons the hold, as a crash does
			t.Fatal(err)
		}
		do(t, s, "PEXPIRE", "doc", "1800000") // what a reader of Redisson leaves behind, whose own holds are over
		c, _ := open(t, s, nil)
		start := time.Now()
		hold, _ := must(t, c.RWLock("doc").Write(), t.Context())
		if d := time.Since(start); d < 7*time.Second || d > 8*time.Second {
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
		"a fixed lease":        {outer: mortise.LockOptions{Lease: 2 * time.Hour}, inner: mortise.LockOptions{Lease: time.Minute}},
		"a longer one inside":  {outer: mortise.LockOptions{Lease: 5 * time.Minute}, inner: mortise.LockOptions{Lease: 2 * time.Hour}},
		"a renewed one inside": {outer: mortise.LockOptions{Lease: 2 * time.Hour}},
		"a renewed lease":      {client: mortise.Options{Lease: 10 * time.Minute}},
		"the default":          {},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, &options.client)
				other, _ := open(t, s, nil)
				hold, ctx := must(t, c.RWLock("doc").Read().With(options.outer), t.Context())
				inner, _ := must(t, c.RWLock("doc").Read().With(options.inner), ctx)
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
				if ctx.Err() != nil {
					t.Errorf("the reader was lost: %v", context.Cause(ctx))
				}
				wantRefused(t, other.RWLock("doc").Write(), hold.Owner())
				mustUnlock(t, inner)
				mustUnlock(t, hold)
				wantHad(t, other.RWLock("doc").Write())
				wantEmpty(t, s)
			})
		})
	}
}

// Of a fixed lease nothing is renewed: it ends when it was to end.
func TestRWLockFixedReadLeaseEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		hold, ctx := must(t, c.RWLock("doc").Read().With(mortise.LockOptions{Lease: time.Minute, Margin: time.Second}), t.Context())
		start := time.Now()
		context.AfterFunc(ctx, func() {
			if d := time.Since(start); d != 59*time.Second {
				t.Errorf("the context ended after %v, want 59s", d)
			}
		})
		writer, _ := must(t, other.RWLock("doc").Write(), t.Context())
		if d := time.Since(start); d < time.Minute || d > 61*time.Second {
			t.Errorf("a writer came in after %v, want a minute", d)
		}
		if n := f.Count("rw_read_renew"); n > 5 {
			t.Errorf("a fixed lease of a minute was looked after %d times", n)
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
			c, _ := open(t, s, &mortise.Options{Lease: lease})
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
				t.Errorf("ForceUnlock: %v, %v", freed, err)
			}
		}, mortise.LostForced, 0, soon},
		"forced, and others read": {func(t *testing.T, _ *memredis.Server, _ *faults, k *mortise.RWLock) {
			if freed, err := k.Read().ForceUnlock(t.Context()); len(freed) != 1 || err != nil {
				t.Errorf("ForceUnlock: %v, %v", freed, err)
			}
			must(t, k.Read(), t.Context())
		}, mortise.LostForced, 0, soon},
		"forced, and another writes": {func(t *testing.T, _ *memredis.Server, _ *faults, k *mortise.RWLock) {
			if freed, err := k.Read().ForceUnlock(t.Context()); len(freed) != 1 || err != nil {
				t.Errorf("ForceUnlock: %v, %v", freed, err)
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
		time.Sleep(time.Hour)
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
		writer, _ := must(t, k.Write().With(mortise.LockOptions{Lease: time.Second}), owner)
		time.Sleep(time.Minute)
		for _, lock := range []taker{k.Read(), k.Write()} {
			if _, _, err := lock.Lock(owner); !errors.Is(err, mortise.ErrLost) {
				t.Errorf("%v, want ErrLost until the lost lease is unlocked", err)
			}
		}
		if err := writer.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		hold, _ := must(t, k.Read(), owner)
		mustUnlock(t, hold)
	})
}

func TestRWLockForceUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		k, o := c.RWLock("doc"), other.RWLock("doc")
		if freed, err := o.Read().ForceUnlock(t.Context()); freed != nil || err != nil {
			t.Errorf("ForceUnlock of a free read side: %v, %v", freed, err)
		}
		if freed, err := o.Write().ForceUnlock(t.Context()); freed != nil || err != nil {
			t.Errorf("ForceUnlock of a free write side: %v, %v", freed, err)
		}
		var want []string
		for range 3 {
			hold, _ := must(t, k.Read(), t.Context())
			want = append(want, hold.Owner())
		}
		if freed, err := o.Write().ForceUnlock(t.Context()); freed != nil || err != nil {
			t.Errorf("ForceUnlock of the write side while others read: %v, %v", freed, err)
		}
		if ok, err := o.Write().UnlockOwner(t.Context(), want[0]); ok || err != nil {
			t.Errorf("UnlockOwner of a reader on the write side: %v, %v", ok, err)
		}
		if ok, err := o.Read().UnlockOwner(t.Context(), want[0]); !ok || err != nil {
			t.Errorf("UnlockOwner of a reader: %v, %v", ok, err)
		}
		wantHolders(t, k, "read", want[1], 1, want[2], 1)
		got := make(chan *mortise.Hold)
		go func() {
			h, _ := must(t, o.Write(), t.Context())
			got <- h
		}()
		time.Sleep(1500 * time.Millisecond)
		start := time.Now()
		freed, err := o.Read().ForceUnlock(t.Context())
		if len(freed) != 2 || err != nil {
			t.Errorf("ForceUnlock: %v, %v, want two readers", freed, err)
		}
		writer := <-got
		if d := time.Since(start); d != 0 {
			t.Errorf("a writer came in %v after the readers were thrown out", d)
		}
		if freed, err := o.Read().ForceUnlock(t.Context()); len(freed) != 0 || err != nil {
			t.Errorf("ForceUnlock of the read side while another writes: %v, %v", freed, err)
		}
		if ok, err := k.Write().UnlockOwner(t.Context(), "nobody"); ok || err != nil {
			t.Errorf("UnlockOwner of nobody: %v, %v", ok, err)
		}
		if ok, err := k.Write().UnlockOwner(t.Context(), writer.Owner()); !ok || err != nil {
			t.Errorf("UnlockOwner of the writer: %v, %v", ok, err)
		}
		wantHolders(t, k, "")
		if err := writer.Unlock(); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
	})
}

// What goes wrong when somebody is thrown out is said, with those who were.
func TestRWLockForceUnlockThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		operator, f := open(t, s, &mortise.Options{RetryFor: time.Second})
		k, o := c.RWLock("doc"), operator.RWLock("doc")
		must(t, k.Read(), t.Context())
		must(t, k.Read(), t.Context())
		n := 0
		f.Set(func(_ context.Context, name string) error { // the second release is refused
			if name != "rw_read_release" {
				return nil
			}
			if n++; n == 1 {
				return nil
			}
			return &driver.Error{Class: driver.Denied, Err: errors.New("NOPERM")}
		}, nil)
		if freed, err := o.Read().ForceUnlock(t.Context()); len(freed) != 1 || !errors.Is(err, mortise.ErrDenied) {
			t.Errorf("%v, %v, want one reader and ErrDenied", freed, err)
		}
		f.Set(nil, nil)
		if freed, err := o.Read().ForceUnlock(t.Context()); len(freed) != 1 || err != nil {
			t.Errorf("%v, %v, want the other reader", freed, err)
		}
		must(t, k.Write(), t.Context())
		f.Set(nil, loseReplies("rw_write_release", 1))
		if by, err := o.Write().ForceUnlock(t.Context()); by != nil || !errors.Is(err, mortise.ErrUnknownOutcome) {
			t.Errorf("with a lost reply: %v, %v, want ErrUnknownOutcome", by, err)
		}
		wantHolders(t, k, "")
		f.Set(func(context.Context, string) error { return errCut }, nil)
		for _, err := range []error{
			second(o.Read().ForceUnlock(t.Context())), second(o.Write().ForceUnlock(t.Context())),
			second(o.Write().UnlockOwner(t.Context(), "x")),
		} {
			if !errors.Is(err, mortise.ErrUnreachable) {
				t.Errorf("%v, want ErrUnreachable", err)
			}
		}
	})
}

// In the same process, who is thrown out learns at once.
func TestRWLockForceUnlockInTheSameProcess(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		k := c.RWLock("doc")
		a, ctxA := must(t, k.Read(), t.Context())
		b, ctxB := must(t, k.Read(), t.Context())
		if freed, err := k.Read().ForceUnlock(t.Context()); len(freed) != 2 || err != nil {
			t.Errorf("ForceUnlock: %v, %v", freed, err)
		}
		wantLost(t, ctxA, a, mortise.LostForced, 0, 0)
		wantLost(t, ctxB, b, mortise.LostForced, 0, 0)
		w, ctx := must(t, k.Write(), t.Context())
		if by, err := k.Write().ForceUnlock(t.Context()); by == nil || err != nil {
			t.Errorf("ForceUnlock: %v, %v", by, err)
		}
		wantLost(t, ctx, w, mortise.LostForced, 0, 0)
	})
}

// A plain lock and a read/write lock under one name are told apart, in both
// directions, by each method; Redisson would let a writer in beside the plain
// lock's holder.
func TestRWLockAndLockOfOneName(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		rw := c.RWLock("name")
		plain, _ := mustLock(t, c.Lock("name"), t.Context())
		wrong := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, mortise.ErrWrongKind) {
				t.Errorf("%s: %v, want ErrWrongKind", what, err)
			}
		}
		_, _, err := rw.Read().TryLock(t.Context())
		wrong("read TryLock", err)
		_, _, err = rw.Read().Lock(t.Context())
		wrong("read Lock", err)
		_, _, err = rw.Write().TryLock(t.Context())
		wrong("write TryLock", err)
		_, _, err = rw.Write().Lock(t.Context())
		wrong("write Lock", err)
		_, err = rw.Read().ForceUnlock(t.Context())
		wrong("read ForceUnlock", err)
		_, err = rw.Write().ForceUnlock(t.Context())
		wrong("write ForceUnlock", err)
		_, err = rw.Read().UnlockOwner(t.Context(), plain.Owner())
		wrong("read UnlockOwner", err)
		_, err = rw.Write().UnlockOwner(t.Context(), plain.Owner())
		wrong("write UnlockOwner", err)
		wantState(t, c.Lock("name"), plain.Owner(), 1)
		mustUnlock(t, plain)

		for _, side := range []taker{rw.Read(), rw.Write()} {
			hold, _ := must(t, side, t.Context())
			_, _, err = c.Lock("name").TryLock(t.Context())
			wrong("TryLock", err)
			_, err = c.Lock("name").ForceUnlock(t.Context())
			wrong("ForceUnlock", err)
			_, err = c.Lock("name").UnlockOwner(t.Context(), hold.Owner())
			wrong("UnlockOwner", err)
			mustUnlock(t, hold)
		}
		wantEmpty(t, s)
	})
}

// Replies and requests of the reader's scripts that are lost; the writer's are
// tried with those of all kinds.
func TestRWLockReaderSurvivesLostRepliesAndRequests(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		k, rival := c.RWLock("doc"), other.RWLock("doc")
		for _, beside := range []bool{false, true} { // another reader
			for _, lost := range losses {
				var theirs *mortise.Hold
				others := []any{}
				if beside {
					theirs, _ = must(t, rival.Read(), t.Context())
					others = []any{theirs.Owner(), 1}
				}
				lost.Set(f, "rw_read_acquire")
				outer, ctx := must(t, k.Read(), t.Context())
				wantHolders(t, k, "read", append([]any{outer.Owner(), 1}, others...)...)
				lost.Set(f, "rw_read_reenter")
				inner, _ := must(t, k.Read(), ctx)
				wantHolders(t, k, "read", append([]any{outer.Owner(), 2}, others...)...)
				lost.Set(f, "rw_read_renew")
				time.Sleep(time.Minute)
				if ctx.Err() != nil {
					t.Errorf("lost with %v: %v", lost, context.Cause(ctx))
				}
				lost.Set(f, "rw_read_leave")
				mustUnlock(t, inner)
				wantHolders(t, k, "read", append([]any{outer.Owner(), 1}, others...)...)
				lost.Set(f, "rw_read_release")
				if err := outer.Unlock(); err != nil && !errors.Is(err, mortise.ErrUnknownOutcome) {
					t.Errorf("Unlock with %v: %v", lost, err)
				}
				f.Set(nil, nil)
				if beside {
					wantHolders(t, k, "read", others...)
					mustUnlock(t, theirs)
				}
				wantHolders(t, k, "")
			}
		}
		wantEmpty(t, s)
	})
}

// Callers that give up, in the queue and in the middle of an attempt, and a
// client that is closed, leave nothing behind.
func TestRWLockReaderGivesUp(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *mortise.Client, cancel func()) error{
		"context": func(_ *mortise.Client, cancel func()) error { cancel(); return context.Canceled },
		"client":  func(c *mortise.Client, _ func()) error { _ = c.Close(); return mortise.ErrClosed },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				other, _ := open(t, s, nil)
				writer, _ := must(t, other.RWLock("doc").Write(), t.Context())
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var all sync.WaitGroup
				errs := make(chan error, 20)
				for range 20 {
					all.Go(func() {
						_, _, err := c.RWLock("doc").Read().Lock(ctx)
						errs <- err
					})
				}
				time.Sleep(3 * time.Second)
				start := time.Now()
				want := end(c, cancel)
				all.Wait()
				if d := time.Since(start); d != 0 {
					t.Errorf("the waits ended after %v", d)
				}
				for range 20 {
					if err := <-errs; !errors.Is(err, want) {
						t.Errorf("%v, want %v", err, want)
					}
				}
				mustUnlock(t, writer)
				wantHad(t, other.RWLock("doc").Write())
				wantEmpty(t, s)
			})
		})
	}
	t.Run("attempt", func(t *testing.T) {
		bubble(t, func(t *testing.T, s *memredis.Server) {
			c, f := open(t, s, nil)
			other, _ := open(t, s, nil)
			f.Set(nil, hang) // it runs, but its answer does not come
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, _, err := c.RWLock("doc").Read().Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want the deadline's error", err)
			}
			f.Set(nil, nil)
			start := time.Now()
			hold, _ := must(t, other.RWLock("doc").Write(), t.Context())
			if d := time.Since(start); d > 2*time.Second {
				t.Errorf("a read lock nobody wants kept a writer out for %v", d)
			}
			mustUnlock(t, hold)
			wantEmpty(t, s)
		})
	})
}

// Without messages, and with readers that end one by one, every wait ends.
func TestRWLockWaitsWithoutMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c := mortise.New(deafDriver{s.Driver()}, nil)
		defer c.Close()
		other, _ := open(t, s, nil)
		for side, pair := range map[string][2]taker{
			"read":  {c.RWLock("doc").Read(), other.RWLock("doc").Write()},
			"write": {c.RWLock("doc").Write(), other.RWLock("doc").Read()},
		} {
			block, _ := must(t, pair[1], t.Context())
			got := make(chan *mortise.Hold)
			go func() {
				h, _ := must(t, pair[0], t.Context())
				got <- h
			}()
			time.Sleep(5 * time.Second)
			start := time.Now()
			mustUnlock(t, block)
			hold := <-got
			if d := time.Since(start); d > 1100*time.Millisecond {
				t.Errorf("without messages the %s side was had %v after the release, want about a second at most", side, d)
			}
			mustUnlock(t, hold)
		}
	})
}

// Bad input on the reader's side; the writer's is tried with all kinds.
func TestRWLockReaderRefusesBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		for _, k := range []*mortise.ReadLock{
			c.RWLock("").Read(), c.RWLock("{open").Read(), c.RWLock("a\x00b").Read(), c.RWLock("mortise:x").Read(),
			c.RWLock("doc").Read().With(mortise.LockOptions{Lease: -1}),
			c.RWLock("doc").Read().With(mortise.LockOptions{Margin: time.Hour}),
		} {
			_, _, err := k.Lock(t.Context())
			_, _, terr := k.TryLock(t.Context())
			if !errors.Is(err, mortise.ErrInvalid) || !errors.Is(terr, mortise.ErrInvalid) {
				t.Errorf("%q: %v and %v, want ErrInvalid", k.Name(), err, terr)
			}
		}
		for _, err := range []error{
			second(c.RWLock("").Read().ForceUnlock(t.Context())), second(c.RWLock("").Write().ForceUnlock(t.Context())),
			second(c.RWLock("").Read().UnlockOwner(t.Context(), "x")), second(c.RWLock("").Read().Inspect(t.Context())),
		} {
			if !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("%v, want ErrInvalid", err)
			}
		}
		if n := f.Total(); n != 0 {
			t.Errorf("%d scripts were sent for bad input", n)
		}
		if name := c.RWLock("doc").Name(); name != "doc" {
			t.Errorf("the name is %q", name)
		}
	})
}

func second[T any](_ T, err error) error { return err }

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
		if d := time.Since(start); d < 30*time.Second || d > 31*time.Second {
			t.Errorf("a writer came in after %v, want the 30s of the abandoned leases", d)
		}
		mustUnlock(t, hold)
	})
}
