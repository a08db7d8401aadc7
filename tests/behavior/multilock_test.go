package behavior

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// wantFree checks that each of the locks can be had by a stranger.
func wantFree(t *testing.T, s *memredis.Server, names ...string) {
	t.Helper()
	c := mortise.New(s.Driver(), nil)
	defer c.Close()
	for _, name := range names {
		hold, _, err := c.Lock(name).TryLock(t.Context())
		if err != nil {
			t.Errorf("TryLock %s: %v, want it free", name, err)
			continue
		}
		mustUnlock(t, hold)
	}
}

// wantHeld checks that a stranger is refused each of the locks.
func wantHeld(t *testing.T, s *memredis.Server, names ...string) {
	t.Helper()
	c := mortise.New(s.Driver(), nil)
	defer c.Close()
	for _, name := range names {
		if _, _, err := c.Lock(name).TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("TryLock %s: %v, want ErrLocked", name, err)
		}
	}
}

// Plain locks of one server are taken with one round trip, and released with
// one.
func TestMultiLockTakesOneRoundTrip(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		for _, take := range []func(context.Context) (*mortise.Hold, context.Context, error){
			multi(c, "a", "b", "c").Lock, multi(c, "c", "b", "a", "b").TryLock,
		} {
			before := f.Total()
			hold, ctx, err := take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			wantHeld(t, s, "a", "b", "c")
			if !hold.Valid() || ctx.Err() != nil || hold.Owner() == "" || hold.Token() != 0 {
				t.Errorf("Valid %v, context %v, owner %q", hold.Valid(), ctx.Err(), hold.Owner())
			}
			for _, name := range []string{"a", "b", "c"} {
				wantState(t, c.Lock(name), hold.Owner(), 1)
			}
			inspected := f.Count("inspect")
			mustUnlock(t, hold)
			if n := f.Total() - before - 3; n != 2 {
				t.Errorf("%d round trips, want one to acquire and one to release; %d inspections", n, inspected)
			}
			if ctx.Err() == nil || hold.Valid() {
				t.Error("the hold outlived its release")
			}
			if err := hold.Unlock(); !errors.Is(err, mortise.ErrReleased) {
				t.Errorf("a second Unlock: %v, want ErrReleased", err)
			}
			wantFree(t, s, "a", "b", "c")
		}
		wantEmpty(t, s)
	})
}

func TestMultiLockIsAllOrNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		d, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		for what, m := range map[string]*mortise.MultiLock{
			"at once":   multi(c, "a", "b", "c"),
			"of kinds":  mortise.NewMultiLock(c.FairLock("a"), c.RWLock("b").Write(), c.Lock("c"), c.FencedLock("d")),
			"of two":    mortise.NewMultiLock(c.Lock("a"), d.Lock("b"), c.Lock("c")),
			"a lease":   multi(c, "a", "b", "c").With(mortise.LockOptions{MaxHold: time.Minute}),
			"two, with": mortise.NewMultiLock(c.Lock("a"), d.Lock("b"), c.Lock("c")).With(mortise.LockOptions{MaxHold: time.Minute}),
		} {
			block, _ := mustLock(t, other.Lock("c"), t.Context())
			wantMultiLocked(t, m, what, block)
			synctest.Wait()
			for _, name := range []string{"a", "b", "d"} {
				if n := do(t, s, "EXISTS", name).Int(); n != 0 {
					t.Errorf("%s: %s was left behind", what, name)
				}
			}
			mustUnlock(t, block)
			hold, ctx := mustMulti(t, m, t.Context())
			wantHeld(t, s, "c")
			time.Sleep(30 * time.Second)
			if ctx.Err() != nil || !hold.Valid() || time.Until(hold.Until()) < 10*time.Second {
				t.Errorf("%s: after 30s: %v, until %v", what, context.Cause(ctx), time.Until(hold.Until()))
			}
			mustUnlock(t, hold)
			for _, name := range []string{"a", "b", "c", "d"} {
				if n := do(t, s, "EXISTS", name).Int(); n != 0 {
					t.Errorf("%s: %s was left behind", what, name)
				}
			}
		}
		wantEmpty(t, s)
	})
}

// wantMultiLocked checks that m is refused because of block, the holder of c.
func wantMultiLocked(t *testing.T, m *mortise.MultiLock, what string, block *mortise.Hold) {
	_, after, err := m.TryLock(t.Context())
	var e *mortise.Error
	if !errors.Is(err, mortise.ErrLocked) || !errors.As(err, &e) || e.Name != "c" || e.Op != "try lock" {
		t.Errorf("%s: TryLock: %v, want ErrLocked of c", what, err)
	}
	var held *mortise.HeldError
	if !errors.As(err, &held) || held.Owner != block.Owner() {
		t.Errorf("%s: TryLock does not name the holder: %v", what, err)
	}
	if after != t.Context() {
		t.Errorf("%s: a failed TryLock did not return the caller's context", what)
	}
}

func TestMultiLockReenters(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		alone, ctx := mustLock(t, c.Lock("b"), mortise.WithOwner(t.Context()))
		all, ctx := mustMulti(t, multi(c, "a", "b", "c"), ctx)
		again, _ := mustMulti(t, multi(c, "c", "b"), ctx)
		inner, _ := mustLock(t, c.Lock("a"), ctx)
		wantState(t, c.Lock("b"), alone.Owner(), 3)
		if !strings.Contains(all.Owner(), alone.Owner()) {
			t.Errorf("the owner is %q, without the member's %q", all.Owner(), alone.Owner())
		}
		if _, _, err := multi(c, "a", "b").With(mortise.LockOptions{NonReentrant: true}).Lock(ctx); !errors.Is(err, mortise.ErrReentry) {
			t.Errorf("without re-entry: %v, want ErrReentry", err)
		}
		if _, _, err := multi(c, "a", "b").TryLock(mortise.Detach(ctx)); !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("detached: %v, want ErrLocked", err)
		}
		mustUnlock(t, all)
		wantHeld(t, s, "a", "b", "c")
		mustUnlock(t, again)
		wantFree(t, s, "c")
		mustUnlock(t, inner)
		wantFree(t, s, "a")
		wantHeld(t, s, "b")
		if !alone.Valid() {
			t.Error("what was held before is not held any more")
		}
		mustUnlock(t, alone)
		wantEmpty(t, s)
	})
}

// Siblings that act for one owner take overlapping sets at the same time, and
// never wait for each other.
func TestMultiLockOfSiblings(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		d, _ := open(t, s, nil)
		owner := mortise.WithOwner(t.Context())
		for round := range 20 {
			var all, inside sync.WaitGroup
			inside.Add(6)
			for i := range 6 {
				all.Go(func() {
					m := []*mortise.MultiLock{multi(c, "a", "b", "c"), multi(c, "b", "c"), mortise.NewMultiLock(c.Lock("c"), d.FairLock("z"))}[i%3]
					hold, _, err := m.Lock(owner)
					inside.Done()
					if err != nil {
						t.Error(err)
						return
					}
					inside.Wait() // all hold at the same time
					time.Sleep(rand.N(time.Duration(round+1) * time.Millisecond))
					mustUnlock(t, hold)
				})
			}
			all.Wait()
			wantFree(t, s, "a", "b", "c")
		}
		wantEmpty(t, s)
	})
}

func TestMultiLockRefusesBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		bad, _ := open(t, s, &mortise.Options{TTL: 1})
		a := c.Lock("a")
		for what, m := range map[string]*mortise.MultiLock{
			"none":         mortise.NewMultiLock(),
			"nil":          mortise.NewMultiLock(a, nil),
			"a name":       mortise.NewMultiLock(a, c.Lock("")),
			"another name": mortise.NewMultiLock(a, c.FairLock("x{}y")),
			"a lease":      mortise.NewMultiLock(a, c.Lock("b").With(mortise.LockOptions{MaxHold: -1})),
			"a margin":     multi(c, "a", "b").With(mortise.LockOptions{Margin: time.Hour}),
			"a client":     mortise.NewMultiLock(a, bad.Lock("b")),
			"two kinds":    mortise.NewMultiLock(a, c.FairLock("a")),
			"twice":        mortise.NewMultiLock(a, c.Lock("b"), a.With(mortise.LockOptions{MaxHold: time.Minute})),
		} {
			_, _, err := m.Lock(t.Context())
			_, _, terr := m.TryLock(t.Context())
			derr := m.Do(t.Context(), func(context.Context) error { t.Error("it ran"); return nil })
			if !errors.Is(err, mortise.ErrInvalid) || !errors.Is(terr, mortise.ErrInvalid) || !errors.Is(derr, mortise.ErrInvalid) {
				t.Errorf("%s: %v, %v, %v, want ErrInvalid", what, err, terr, derr)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := multi(c, "a", "b").Lock(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a dead context: %v", err)
		}
		if n := f.Total(); n != 0 {
			t.Errorf("%d scripts were sent, want 0", n)
		}
	})
}

// A name that holds something else is named, and nothing is taken.
func TestMultiLockRefusesAnotherKind(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		d, _ := open(t, s, nil)
		do(t, s, "RPUSH", "b", "x")
		for _, m := range []*mortise.MultiLock{multi(c, "a", "b", "c"), mortise.NewMultiLock(c.Lock("a"), d.Lock("b"), c.Lock("c"))} {
			if _, _, err := m.Lock(t.Context()); !errors.Is(err, mortise.ErrWrongKind) || !strings.Contains(err.Error(), `"b"`) {
				t.Errorf("got %v, want ErrWrongKind of b", err)
			}
			synctest.Wait()
			wantFree(t, s, "a", "c")
		}
		do(t, s, "DEL", "b")
		wantEmpty(t, s)
	})
}

// Both sides of a read/write lock can be members: the write side is taken first.
func TestMultiLockOfBothSides(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		rw := c.RWLock("doc")
		hold, _ := mustMulti(t, mortise.NewMultiLock(rw.Read(), c.Lock("a"), rw.Write()), t.Context())
		mustUnlock(t, hold)
		nested := mortise.NewMultiLock(multi(c, "a", "b"), multi(c, "b", "c"))
		hold, _ = mustMulti(t, nested, t.Context())
		wantHeld(t, s, "a", "b", "c")
		mustUnlock(t, hold)
		wantEmpty(t, s)
	})
}

// Locks of one name on two servers have no order between them.
func TestMultiLockOfOneNameOnTwoServers(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		s2 := memredis.New()
		defer s2.Close()
		inside := 0
		var all sync.WaitGroup
		start := time.Now()
		for i := range 6 {
			a, _ := open(t, s, nil)
			b, _ := open(t, s2, nil)
			locks := []mortise.Locker{a.Lock("x"), b.Lock("x")}
			if i%2 == 1 {
				locks[0], locks[1] = locks[1], locks[0]
			}
			all.Go(func() {
				for range 5 {
					err := mortise.NewMultiLock(locks...).Do(t.Context(), func(context.Context) error {
						if inside++; inside != 1 {
							t.Errorf("%d are inside, want 1", inside)
						}
						time.Sleep(10 * time.Millisecond)
						inside--
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("30 turns of 10ms took %v, want %v at most", d, 20*time.Second)
		}
		wantEmpty(t, s)
		wantEmpty(t, s2)
	})
}

// A fenced lock among others: a re-entry has its token.
func TestMultiLockWithAFencedLock(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		fenced := c.FencedLock("f")
		last := int64(0)
		for range 3 {
			hold, ctx := mustMulti(t, mortise.NewMultiLock(c.Lock("a"), fenced), t.Context())
			inner, _, err := fenced.Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if inner.Token() <= last || hold.Token() != 0 {
				t.Errorf("the token is %d after %d; the whole has %d, want none", inner.Token(), last, hold.Token())
			}
			last = inner.Token()
			mustUnlock(t, inner)
			mustUnlock(t, hold)
		}
	})
}

// Whatever the order in which locks are named, all processes acquire them in the same one.
func TestMultiLocksAgreeOnTheOrder(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		locks := []mortise.Locker{c.Lock("a"), c.Lock("b"), c.FairLock("c"), c.RWLock("d").Write(), c.RWLock("d").Read(), c.SpinLock("{a}e")}
		want := mortise.NewMultiLock(locks...).Name()
		for range 20 {
			rand.Shuffle(len(locks), func(i, j int) { locks[i], locks[j] = locks[j], locks[i] })
			if got := mortise.NewMultiLock(locks...).Name(); got != want {
				t.Fatalf("the order is %s, and in another process %s", got, want)
			}
		}
	})
}
