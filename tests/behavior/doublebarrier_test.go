package behavior

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// together lets one party of each client enter.
func together(t *testing.T, cs []*mortise.Client) (all []entry) {
	t.Helper()
	var parties []<-chan entry
	for _, c := range cs {
		parties = append(parties, enter(t.Context(), c.DoubleBarrier("job", len(cs))))
	}
	for _, p := range parties {
		got := <-p
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		all = append(all, got)
	}
	return all
}

func TestDoubleBarrierBeginsAndEndsTogether(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		cs := clients(t, s, 3, nil)
		for round := range 3 {
			members := enterOneByOne(t, cs, round)
			time.Sleep(5 * time.Minute) // renewed
			next := enter(t.Context(), cs[0].DoubleBarrier("job", 6))
			leaveOneByOne(t, members, round)
			enterAndLeave(t, cs, next)
		}
		wantEmpty(t, s)
	})
}

// enterOneByOne returns the six members once the last of them, 100 s after the first, has come.
func enterOneByOne(t *testing.T, cs []*mortise.Client, round int) []entry {
	var entering []<-chan entry
	for i := range 6 { // two of each client
		time.Sleep(20 * time.Second)
		for _, p := range entering {
			if len(p) != 0 {
				t.Fatalf("round %d: one went on before all were inside", round)
			}
		}
		entering = append(entering, enter(t.Context(), cs[i%3].DoubleBarrier("job", 6)))
		synctest.Wait()
	}
	var members []entry
	for i, p := range entering {
		got := <-p
		if want := time.Duration(5-i) * 20 * time.Second; got.Err != nil || got.After != want || got.Ctx.Err() != nil {
			t.Fatalf("round %d: party %d: %v after %v, want to go on after %v", round, i, got.Err, got.After, want)
		}
		members = append(members, got)
	}
	return members
}

// leaveOneByOne checks that no member goes on before the last of them leaves.
func leaveOneByOne(t *testing.T, members []entry, round int) {
	var leaving []<-chan error
	for i, m := range members {
		if m.Ctx.Err() != nil {
			t.Fatalf("round %d: the lease of party %d was lost: %v", round, i, context.Cause(m.Ctx))
		}
		for _, l := range leaving {
			if len(l) != 0 {
				t.Fatalf("round %d: one went on before all had left: %v", round, <-l)
			}
		}
		leaving = append(leaving, leave(t.Context(), m.Member))
		synctest.Wait()
		if !errors.Is(context.Cause(m.Ctx), mortise.ErrReleased) {
			t.Errorf("the context of a member that leaves ended with %v, want ErrReleased", context.Cause(m.Ctx))
		}
		if i < 5 {
			time.Sleep(20 * time.Second)
		}
	}
	for _, l := range leaving {
		if len(l) == 0 {
			t.Fatalf("round %d: one still waits although all have left", round)
		}
		if err := <-l; err != nil {
			t.Errorf("round %d: Leave: %v", round, err)
		}
	}
}

// enterAndLeave has five more enter with next, which came while others were inside: it is the first of
// the next round.
func enterAndLeave(t *testing.T, cs []*mortise.Client, next <-chan entry) {
	var rest []<-chan entry
	for i := range 5 {
		rest = append(rest, enter(t.Context(), cs[i%3].DoubleBarrier("job", 6)))
	}
	var members []entry
	for _, p := range append(rest, next) {
		got := <-p
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		members = append(members, got)
	}
	var leaving []<-chan error
	for _, m := range members {
		leaving = append(leaving, leave(t.Context(), m.Member))
	}
	for _, l := range leaving {
		if err := <-l; err != nil {
			t.Error(err)
		}
	}
	if err := members[0].Member.Leave(t.Context()); err != nil {
		t.Errorf("Leave once more: %v", err)
	}
}

// One that waits for the others and gives up, or dies, gives its place to another
// one; the others go on waiting.
func TestDoubleBarrierFreesThePlaceOfWhoNeverWasInside(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		how    func(cancel func(), c *mortise.Client, f *faults)
		want   error // or ErrLost, if that comes first
		within time.Duration
	}{
		"its context ends":     {func(cancel func(), _ *mortise.Client, _ *faults) { cancel() }, context.Canceled, 0},
		"its client is closed": {func(_ func(), c *mortise.Client, _ *faults) { _ = c.Close() }, mortise.ErrClosed, 0},
		"it is cut off":        {func(_ func(), _ *mortise.Client, f *faults) { f.Set(silent, nil) }, mortise.ErrUnreachable, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				options := &mortise.Options{TTL: 10 * time.Second, RetryFor: 5 * time.Second}
				cs := clients(t, s, 2, options)
				c, f := open(t, s, options)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				quitter := enter(ctx, c.DoubleBarrier("job", 3))
				first := enter(t.Context(), cs[0].DoubleBarrier("job", 3))
				time.Sleep(time.Minute)
				test.how(cancel, c, f)
				got := <-quitter
				if (!errors.Is(got.Err, test.want) && !errors.Is(got.Err, mortise.ErrLost)) || got.Ctx != ctx || got.Member != nil {
					t.Errorf("the party that gave up: %v, want %v or ErrLost", got.Err, test.want)
				}
				if errors.Is(got.Err, context.Canceled) != (ctx.Err() != nil) {
					t.Errorf("the error is %v, and that of the context %v", got.Err, ctx.Err())
				}
				time.Sleep(test.within + time.Millisecond)
				second := enter(t.Context(), cs[1].DoubleBarrier("job", 3))
				time.Sleep(2 * time.Minute)
				if len(first) != 0 || len(second) != 0 {
					t.Fatal("one went on although two were inside, not three")
				}
				third := <-enter(t.Context(), cs[0].DoubleBarrier("job", 3))
				a, b := <-first, <-second
				if a.Err != nil || b.Err != nil || third.Err != nil {
					t.Fatalf("got %v, %v, %v, want all three to enter", a.Err, b.Err, third.Err)
				}
				left := []<-chan error{leave(t.Context(), a.Member), leave(t.Context(), b.Member), leave(t.Context(), third.Member)}
				for _, l := range left {
					if err := <-l; err != nil {
						t.Error(err)
					}
				}
				f.Set(nil, nil)
				wantEmpty(t, s)
			})
		})
	}
}

// One that is lost inside: the others wait no longer than its lease, and are
// told.
func TestDoubleBarrierTellsWhoDiedInside(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		options := &mortise.Options{TTL: 10 * time.Second}
		dead := mortise.New(s.Driver(), options)
		cs := clients(t, s, 2, options)
		members := together(t, append(cs, dead))
		first := leave(t.Context(), members[0].Member)
		time.Sleep(time.Minute)
		if len(first) != 0 {
			t.Fatalf("Leave: %v, want it to wait for those inside", <-first)
		}
		start := time.Now()
		_ = dead.Close() // as a crash does
		if !errors.Is(context.Cause(members[2].Ctx), mortise.ErrClosed) {
			t.Errorf("the context of a member that is inside ended: %v", context.Cause(members[2].Ctx))
		}
		second := leave(t.Context(), members[1].Member)
		a, b := wantBroken(t, <-first, mortise.BrokenDied), wantBroken(t, <-second, mortise.BrokenDied)
		if d := time.Since(start); d > 11100*time.Millisecond {
			t.Errorf("told after %v, want the lease and a second at most", d)
		}
		if a != b {
			t.Errorf("%s died, and %s is the dead one, want one name for it", a, b)
		}
		if err := members[0].Member.Leave(t.Context()); !errors.Is(err, mortise.ErrBroken) {
			t.Errorf("Leave once more: %v, want the same", err)
		}
		if err := members[2].Member.Leave(t.Context()); !errors.Is(err, mortise.ErrClosed) {
			t.Errorf("Leave with a closed client: %v, want ErrClosed", err)
		}
		wantEmpty(t, s)
	})
}

// A member that is cut off is told before the others can take it for gone.
func TestDoubleBarrierMemberThatIsCutOff(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		options := &mortise.Options{TTL: 10 * time.Second}
		c, f := open(t, s, options)
		cs := clients(t, s, 1, options)
		members := together(t, append(cs, c))
		other := leave(t.Context(), members[0].Member)
		time.Sleep(time.Minute)
		f.Set(hang, nil)
		<-members[1].Ctx.Done()
		if len(other) != 0 {
			t.Error("the other was told first")
		}
		if !errors.Is(context.Cause(members[1].Ctx), mortise.ErrLost) {
			t.Errorf("the cause is %v, want ErrLost", context.Cause(members[1].Ctx))
		}
		wantBroken(t, <-other, mortise.BrokenDied)
		f.Set(nil, nil)
		for range 2 {
			if err := members[1].Member.Leave(t.Context()); !errors.Is(err, mortise.ErrLost) {
				t.Errorf("Leave of a member that was cut off: %v, want ErrLost", err)
			}
		}
		wantEmpty(t, s)
	})
}

// A member that does not wait to the end has left all the same, even if Redis could not be
// told at once.
func TestDoubleBarrierLeaveThatDoesNotWait(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		cs := clients(t, s, 1, nil)
		members := together(t, append(cs, c))
		f.Set(silent, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := members[1].Member.Leave(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Leave: %v after %v, want the deadline's error on time", err, time.Since(start))
		}
		f.Set(nil, nil)
		time.Sleep(5 * time.Second)
		again := leave(t.Context(), members[1].Member)
		if err := members[0].Member.Leave(t.Context()); err != nil {
			t.Errorf("Leave of the other: %v", err)
		}
		if err := <-again; err != nil {
			t.Errorf("Leave once more: %v", err)
		}
		wantEmpty(t, s)
	})
}

// A member that does not wait to the end leaves in the background, while its Leave returns: with
// the race detector, this test shows that the two share nothing.
func TestDoubleBarrierLeaveGoesOnInTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		cs := clients(t, s, 1, nil)
		members := together(t, append(cs, c))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		f.Set(func(attempt context.Context, name string) error {
			if ctx.Err() == nil {
				return hang(attempt, name)
			}
			return nil
		}, nil)
		if err := members[1].Member.Leave(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Leave: %v, want the deadline's error", err)
		}
		time.Sleep(time.Second) // a mutex locked here would order the two
		start := time.Now()
		if err := members[0].Member.Leave(t.Context()); err != nil || time.Since(start) > 0 {
			t.Errorf("Leave of the other: %v after %v, want nil at once", err, time.Since(start))
		}
		wantEmpty(t, s)
	})
}

func TestDoubleBarrierEndsItsWaitForOthersInside(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		cs := clients(t, s, 2, nil)
		c, _ := open(t, s, nil)
		members := together(t, cs)
		ctx, cancel := context.WithCancel(t.Context())
		late, closed := enter(ctx, cs[0].DoubleBarrier("job", 2)), enter(t.Context(), c.DoubleBarrier("job", 2))
		time.Sleep(time.Minute)
		cancel()
		if got := <-late; !errors.Is(got.Err, context.Canceled) || !errors.Is(got.Err, mortise.ErrLocked) || got.Ctx != ctx {
			t.Errorf("the late party that gave up: %v", got.Err)
		}
		_ = c.Close()
		if got := <-closed; !errors.Is(got.Err, mortise.ErrClosed) {
			t.Errorf("the late party with a closed client: %v", got.Err)
		}
		a, b := leave(t.Context(), members[0].Member), leave(t.Context(), members[1].Member)
		if x, y := <-a, <-b; x != nil || y != nil {
			t.Errorf("got %v, %v, want no error", x, y)
		}
		wantEmpty(t, s)
	})
}

func TestDoubleBarrierWithoutMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		deaf := mortise.New(deafDriver{s.Driver()}, nil)
		defer deaf.Close()
		other, _ := open(t, s, nil)
		const second = 1100 * time.Millisecond
		a := enter(t.Context(), deaf.DoubleBarrier("job", 2))
		time.Sleep(10 * time.Second)
		b := <-enter(t.Context(), other.DoubleBarrier("job", 2))
		x := <-a
		if b.Err != nil || x.Err != nil || x.After > 10*time.Second+second {
			t.Fatalf("%v, and %v after %v", b.Err, x.Err, x.After)
		}
		next := enter(t.Context(), deaf.DoubleBarrier("job", 1+1))
		time.Sleep(10 * time.Second)
		left := leave(t.Context(), x.Member)
		time.Sleep(10 * time.Second)
		start := time.Now()
		if err := b.Member.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-left; err != nil || time.Since(start) > second {
			t.Errorf("without messages: %v after %v, want about a second", err, time.Since(start))
		}
		time.Sleep(second)
		if got := <-enter(t.Context(), other.DoubleBarrier("job", 2)); got.Err != nil || got.After != 0 {
			t.Errorf("the next round: %v after %v, want the other to be inside already", got.Err, got.After)
		}
		if got := <-next; got.Err != nil {
			t.Error(got.Err)
		}
	})
}

func TestDoubleBarrierSurvivesLostRepliesAndRequests(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, g := open(t, s, nil)
		for _, lost := range losses {
			start := time.Now()
			lost.Set(f, "double_enter")
			lost.Set(g, "double_enter")
			members := together(t, []*mortise.Client{c, other})
			if d := time.Since(start); d > 3*time.Second {
				t.Errorf("with %v of an entry it took %v, want %v at most", lost, d, 3*time.Second)
			}
			lost.Set(f, "double_renew")
			time.Sleep(time.Minute)
			lost.Set(f, "double_leave")
			lost.Set(g, "double_leave")
			start = time.Now()
			a, b := leave(t.Context(), members[0].Member), leave(t.Context(), members[1].Member)
			if x, y := <-a, <-b; x != nil || y != nil || time.Since(start) > 3*time.Second {
				t.Errorf("with %v: %v, %v after %v, want no error within 3s", lost, x, y, time.Since(start))
			}

			ctx, cancel := context.WithCancel(t.Context())
			lost.Set(f, "double_quit")
			quitter := enter(ctx, c.DoubleBarrier("job", 2))
			synctest.Wait()
			cancel()
			if got := <-quitter; !errors.Is(got.Err, context.Canceled) {
				t.Error(got.Err)
			}
			time.Sleep(3 * time.Second)
			f.Set(nil, nil)
			g.Set(nil, nil)
			if n := do(t, s, "EXISTS", "job").Int(); n != 0 {
				t.Errorf("with %v of giving up, a place is still taken", lost)
			}
		}
		wantEmpty(t, s)
	})
}

// Late copies of an entry let nobody in, neither for a party that gave up nor for one that
// has left.
func TestDoubleBarrierLateEntryLetsNobodyIn(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		raw := s.Driver()
		defer raw.Close()
		var late sync.WaitGroup
		copies := 0
		c := mortise.New(&hook{Driver: s.Driver(), eval: func(ctx context.Context, call driver.Call) (driver.Value, error, bool) {
			if call.Script.Name() != "double_enter" || call.Args[6] == "1" {
				return driver.Value{}, nil, false
			}
			copies++
			late.Go(func() {
				time.Sleep(10 * time.Second)
				_, _ = raw.Eval(context.Background(), call)
			})
			if copies == 1 { // of the one that gives up
				<-ctx.Done()
				return driver.Value{}, driver.ContextError(ctx, driver.Unknown), true
			}
			return driver.Value{}, nil, false
		}}, nil)
		defer c.Close()
		other, _ := open(t, s, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := <-enter(ctx, c.DoubleBarrier("job", 2)); !errors.Is(got.Err, context.DeadlineExceeded) {
			t.Error(got.Err)
		}
		members := together(t, []*mortise.Client{c, other})
		a, b := leave(t.Context(), members[0].Member), leave(t.Context(), members[1].Member)
		if x, y := <-a, <-b; x != nil || y != nil {
			t.Errorf("got %v, %v, want no error", x, y)
		}
		waiting := enter(t.Context(), other.DoubleBarrier("job", 2))
		late.Wait()
		if copies != 2 {
			t.Fatalf("%d copies were late, want 2", copies)
		}
		time.Sleep(time.Minute)
		if len(waiting) != 0 {
			t.Fatal("one went on although nobody else was there")
		}
		if got := <-enter(t.Context(), other.DoubleBarrier("job", 2)); got.Err != nil {
			t.Error(got.Err)
		}
	})
}

// Whatever happens to the keys, nobody waits forever.
func TestDoubleBarrierWhoseKeysAreLost(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		cs := clients(t, s, 2, nil)
		waiting := enter(t.Context(), cs[0].DoubleBarrier("job", 2))
		time.Sleep(10 * time.Second)
		do(t, s, "DEL", "job")
		if got := <-waiting; !errors.Is(got.Err, mortise.ErrLost) || got.After > 11100*time.Millisecond {
			t.Errorf("%v after %v, want ErrLost within a second", got.Err, got.After)
		}
		members := together(t, cs)
		left := leave(t.Context(), members[0].Member)
		time.Sleep(20 * time.Second)
		do(t, s, "DEL", "job")
		start := time.Now()
		wantBroken(t, <-left, mortise.BrokenLost)
		<-members[1].Ctx.Done()
		if d := time.Since(start); d > 11*time.Second || !errors.Is(context.Cause(members[1].Ctx), mortise.ErrLost) {
			t.Errorf("the member that was inside was told after %v: %v", d, context.Cause(members[1].Ctx))
		}
		if err := members[1].Member.Leave(t.Context()); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Leave: %v, want ErrLost", err)
		}
		wantEmpty(t, s)
	})
}

// One that was taken for dead while Redis did not answer its entry is told.
func TestDoubleBarrierEntryThatOutlastsTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		options := &mortise.Options{TTL: time.Second}
		c, f := open(t, s, options)
		other, _ := open(t, s, options)
		first := enter(t.Context(), other.DoubleBarrier("job", 2))
		synctest.Wait()
		begin := time.Now()
		f.Set(nil, func(context.Context, string) error { // runs, but its replies are lost for three leases
			if time.Since(begin) < 3*time.Second {
				return errCut
			}
			return nil
		})
		f.Set(func(context.Context, string) error { // and after the first nothing gets through
			if d := time.Since(begin); d > 0 && d < 3*time.Second {
				return errCut
			}
			return nil
		}, func(context.Context, string) error {
			if time.Since(begin) < 3*time.Second {
				return errCut
			}
			return nil
		})
		second := enter(t.Context(), c.DoubleBarrier("job", 2))
		got := <-first
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		left := leave(t.Context(), got.Member)
		wantBroken(t, <-left, mortise.BrokenDied)
		if got := <-second; !errors.Is(got.Err, mortise.ErrLost) {
			t.Errorf("got %v, want ErrLost", got.Err)
		}
		f.Set(nil, nil)
		wantEmpty(t, s)
	})
}

// The same if all parties are cut off, so that Redis forgets the round: the party was inside when
// another was let in, so it is not in the next round as well.
func TestDoubleBarrierEntryIsOfOneRound(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		options := &mortise.Options{TTL: time.Second}
		c, f := open(t, s, options)
		other, g := open(t, s, options)
		waiting := enter(t.Context(), other.DoubleBarrier("job", 2))
		synctest.Wait()
		begin, cut := time.Now(), func(context.Context, string) error { return errCut }
		f.Set(func(context.Context, string) error { // its entry runs, and no reply comes back
			if time.Since(begin) > 0 {
				return errCut
			}
			return nil
		}, cut)
		second := enter(t.Context(), c.DoubleBarrier("job", 2))
		first := <-waiting
		if first.Err != nil {
			t.Fatal(first.Err)
		}
		g.Set(cut, nil)
		time.Sleep(3 * time.Second) // three leases
		f.Set(nil, nil)
		g.Set(nil, nil)
		third := enter(t.Context(), other.DoubleBarrier("job", 2))
		if got := <-second; !errors.Is(got.Err, mortise.ErrLost) {
			t.Errorf("the party of the first round: %v, want ErrLost", got.Err)
		}
		time.Sleep(time.Minute)
		if len(third) != 0 {
			t.Fatal("one party is in two rounds")
		}
		if got := <-enter(t.Context(), c.DoubleBarrier("job", 2)); got.Err != nil {
			t.Error(got.Err)
		}
		if got := <-third; got.Err != nil {
			t.Error(got.Err)
		}
		if err := first.Member.Leave(t.Context()); !errors.Is(err, mortise.ErrLost) {
			t.Errorf("Leave of the party that was cut off: %v, want ErrLost", err)
		}
	})
}

// The context that Enter returns carries the owner of its argument.
func TestDoubleBarrierKeepsTheOwner(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		hold, ctx := mustLock(t, c.Lock("outer"), t.Context())
		a, b := enter(ctx, c.DoubleBarrier("job", 2)), enter(ctx, c.DoubleBarrier("job", 2)) // two parties of one owner
		x, y := <-a, <-b
		if x.Err != nil || y.Err != nil {
			t.Fatal(x.Err, y.Err)
		}
		inner, _, err := c.Lock("outer").TryLock(x.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		mustUnlock(t, inner)
		p, q := leave(t.Context(), x.Member), leave(t.Context(), y.Member)
		if err := errors.Join(<-p, <-q); err != nil {
			t.Error(err)
		}
		mustUnlock(t, hold)
	})
}
