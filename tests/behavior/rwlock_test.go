package behavior

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
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

// All waiting readers come in when the writer leaves, with one attempt each, none
// of them after another.
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
			t.Errorf("%d readers made %d attempts, want %v at most", n, got, n+1)
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
			t.Error("a writer came in while there was a reader")
		}
		time.Sleep(50 * time.Millisecond)
		start := time.Now()
		mustUnlock(t, two)
		writer := <-got
		if d := time.Since(start); d != 0 {
			t.Errorf("the writer came in %v after the last reader, want 0", d)
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
			t.Errorf("the readers came in %v after the writer, want 0", d)
		}
	})
}

// A plain lock and a read/write lock under one name are told apart, in both
// directions, by each method; Redisson would let a writer in next to the plain
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
			c.RWLock("doc").Read().With(mortise.LockOptions{MaxHold: -1}),
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
				t.Errorf("got %v, want ErrInvalid", err)
			}
		}
		if n := f.Total(); n != 0 {
			t.Errorf("%d scripts were sent for bad input, want 0", n)
		}
		if name := c.RWLock("doc").Name(); name != "doc" {
			t.Errorf("the name is %q, want %q", name, "doc")
		}
	})
}

func second[T any](_ T, err error) error { return err }
