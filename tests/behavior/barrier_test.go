package behavior

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// silent is a fault: no answer until the client's I/O timeout.
func silent(ctx context.Context, _ string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return hang(ctx, "")
}

// clients opens n clients on s.
func clients(t *testing.T, s *memredis.Server, n int, options *mortise.Options) (all []*mortise.Client) {
	for range n {
		c, _ := open(t, s, options)
		all = append(all, c)
	}
	return all
}

func TestBarrierLetsAllPassTogether(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		cs := clients(t, s, 3, nil)
		for round := range 5 {
			var parties []<-chan arrival
			for i := range 6 { // two of each client
				time.Sleep(5 * time.Second)
				for _, p := range parties {
					if len(p) != 0 {
						t.Fatalf("round %d: one passed before all had come: %+v", round, <-p)
					}
				}
				parties = append(parties, arrive(t.Context(), cs[i%3].Barrier("job", 6)))
				synctest.Wait()
			}
			for i, p := range parties {
				got := <-p
				if got.Err != nil || got.Index != i {
					t.Errorf("round %d: party %d passed as %d, %v, want %d", round, i, got.Index, got.Err, i)
				}
				if want := time.Duration(5-i) * 5 * time.Second; got.After != want {
					t.Errorf("round %d: party %d passed after %v, want %v", round, i, got.After, want)
				}
			}
		}
		wantEmpty(t, s)
	})
}

// What a party may do so that the others never pass, and what they and later
// parties are told.
func TestBarrierBreaks(t *testing.T) {
	t.Parallel()
	for name, test := range barrierBreaks {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				options := &mortise.Options{TTL: 10 * time.Second, RetryFor: 5 * time.Second}
				c, f := open(t, s, options)
				others := clients(t, s, 3, options)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				party := arrive(ctx, c.Barrier("job", 5))
				var waiting []<-chan arrival
				for _, o := range others {
					waiting = append(waiting, arrive(t.Context(), o.Barrier("job", 5)))
				}
				time.Sleep(time.Minute)
				start := time.Now()
				test.how(t, cancel, c, f, others[0])
				var by string
				for _, w := range waiting {
					got := <-w
					breaker := wantBroken(t, got.Err, test.reason)
					if d := time.Since(start); d > test.within {
						t.Errorf("another was told after %v, want %v at most", d, test.within)
					}
					if by != "" && by != breaker {
						t.Errorf("broken by %s and by %s", by, breaker)
					}
					by = breaker
				}
				f.Set(nil, nil)
				got := <-party
				if !errors.Is(got.Err, test.party) {
					t.Errorf("the party itself: %v, want %v", got.Err, test.party)
				}
				if test.reason != mortise.BrokenReset {
					_, err := others[0].Barrier("job", 5).Await(t.Context()) // a late party
					if late := wantBroken(t, err, test.reason); late != by {
						t.Errorf("a later party is told that %s broke it, want %s", late, by)
					}
					if err := others[1].Barrier("job", 5).Reset(t.Context()); err != nil {
						t.Error(err)
					}
				}
				wantPassage(t, others)
				wantEmpty(t, s)
			})
		})
	}
}

// wantPassage checks that five parties of three clients pass the barrier.
func wantPassage(t *testing.T, others []*mortise.Client) {
	var again []<-chan arrival
	for i := range 5 {
		again = append(again, arrive(t.Context(), others[i%3].Barrier("job", 5)))
	}
	for _, p := range again {
		if got := <-p; got.Err != nil || got.After != 0 {
			t.Errorf("after a reset: %v after %v, want to pass at once", got.Err, got.After)
		}
	}
}

// barrierBreak is a way for a party to break the barrier.
type barrierBreak struct {
	how    func(t *testing.T, ctx context.CancelFunc, c *mortise.Client, f *faults, other *mortise.Client)
	party  error // what itself is told
	reason mortise.BrokenReason
	within time.Duration
}

var barrierBreaks = map[string]barrierBreak{
	"its context ends": {func(_ *testing.T, cancel context.CancelFunc, _ *mortise.Client, _ *faults, _ *mortise.Client) {
		cancel()
	},
		context.Canceled, mortise.BrokenAbandoned, 0},
	"its client is closed": {func(_ *testing.T, _ context.CancelFunc, c *mortise.Client, _ *faults, _ *mortise.Client) {
		_ = c.Close()
	},
		mortise.ErrClosed, mortise.BrokenAbandoned, 0},
	"it is cut off": {func(_ *testing.T, _ context.CancelFunc, _ *mortise.Client, f *faults, _ *mortise.Client) {
		f.Set(silent, nil)
	},
		mortise.ErrUnreachable, mortise.BrokenDied, 10*time.Second + 1100*time.Millisecond},
	"it is cut off for writing only": {func(_ *testing.T, _ context.CancelFunc, _ *mortise.Client, f *faults, _ *mortise.Client) {
		f.Set(func(context.Context, string) error {
			return &driver.Error{Class: driver.Passing, Err: errors.New("OOM command not allowed")}
		}, nil)
	}, mortise.ErrUnreachable, mortise.BrokenDied, 10*time.Second + 1100*time.Millisecond},
	"reset": {func(t *testing.T, _ context.CancelFunc, _ *mortise.Client, _ *faults, other *mortise.Client) {
		if err := other.Barrier("job", 5).Reset(t.Context()); err != nil {
			t.Error(err)
		}
	}, mortise.ErrBroken, mortise.BrokenReset, 0},
}

// A broken barrier nobody resets is as new after a lease.
func TestBarrierForgetsThatItIsBroken(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, &mortise.Options{TTL: 5 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Barrier("job", 2).Await(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.Sleep(4 * time.Second)
		_, err := c.Barrier("job", 2).Await(t.Context())
		_ = wantBroken(t, err, mortise.BrokenAbandoned)
		time.Sleep(1001 * time.Millisecond)
		a, b := arrive(t.Context(), c.Barrier("job", 2)), arrive(t.Context(), c.Barrier("job", 2))
		if a, b := <-a, <-b; a.Err != nil || b.Err != nil || a.Index+b.Index != 1 {
			t.Errorf("%+v and %+v, want both to pass", a, b)
		}
	})
}

func TestBarrierWithoutMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		deaf := mortise.New(deafDriver{s.Driver()}, nil)
		defer deaf.Close()
		other, _ := open(t, s, nil)
		for range 3 {
			a := arrive(t.Context(), deaf.Barrier("job", 2))
			time.Sleep(10 * time.Second)
			if got := <-arrive(t.Context(), other.Barrier("job", 2)); got.Err != nil || got.After != 0 {
				t.Errorf("the last: %+v", got)
			}
			if got := <-a; got.Err != nil || got.After > 11100*time.Millisecond {
				t.Errorf("without messages: %v after %v, want to pass about a second later", got.Err, got.After)
			}
		}
	})
}

func TestBarrierSurvivesLostRepliesAndRequests(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, g := open(t, s, nil)
		for _, lost := range losses {
			lost.Set(f, "barrier_await")
			a := arrive(t.Context(), c.Barrier("job", 2))
			synctest.Wait()
			lost.Set(g, "barrier_await")
			b := arrive(t.Context(), other.Barrier("job", 2))
			x, y := <-a, <-b
			if x.Err != nil || y.Err != nil || x.Index+y.Index != 1 || x.After+y.After > 3*time.Second {
				t.Errorf("with %v: %+v and %+v, want both to pass", lost, x, y)
			}

			f.Set(nil, nil)
			g.Set(nil, nil)
			a = arrive(t.Context(), c.Barrier("job", 2))
			synctest.Wait()
			lost.Set(g, "barrier_reset")
			if err := other.Barrier("job", 2).Reset(t.Context()); err != nil {
				t.Errorf("Reset with %v: %v", lost, err)
			}
			_ = wantBroken(t, (<-a).Err, mortise.BrokenReset)

			lost.Set(f, "barrier_leave")
			ctx, cancel := context.WithCancel(t.Context())
			a, b = arrive(ctx, c.Barrier("job", 3)), arrive(t.Context(), other.Barrier("job", 3))
			synctest.Wait()
			cancel()
			if got := <-a; !errors.Is(got.Err, context.Canceled) {
				t.Error(got.Err)
			}
			_ = wantBroken(t, (<-b).Err, mortise.BrokenAbandoned)
			if err := other.Barrier("job", 3).Reset(t.Context()); err != nil {
				t.Error(err)
			}
		}
		wantEmpty(t, s)
	})
}

// A party gives up while Redis has not answered. Its arrival, delivered late,
// must not let others pass.
func TestBarrierLateArrivalLetsNobodyPass(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		raw := s.Driver()
		defer raw.Close()
		var late sync.WaitGroup
		c := mortise.New(&hook{Driver: s.Driver(), eval: func(ctx context.Context, call driver.Call) (driver.Value, error, bool) {
			if call.Script.Name() != "barrier_await" {
				return driver.Value{}, nil, false
			}
			late.Go(func() {
				time.Sleep(5 * time.Second)
				_, _ = raw.Eval(context.Background(), call)
			})
			<-ctx.Done()
			return driver.Value{}, driver.ContextError(ctx, driver.Unknown), true
		}}, nil)
		defer c.Close()
		other, _ := open(t, s, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := <-arrive(ctx, c.Barrier("job", 2)); !errors.Is(got.Err, context.DeadlineExceeded) || got.After != time.Second {
			t.Errorf("got %+v, want the deadline's error on time", got)
		}
		waiting := arrive(t.Context(), other.Barrier("job", 2))
		late.Wait()
		time.Sleep(time.Minute)
		if len(waiting) != 0 {
			t.Fatalf("one passed although nobody else was there: %+v", <-waiting)
		}
		if got := <-arrive(t.Context(), other.Barrier("job", 2)); got.Err != nil || got.Index != 1 {
			t.Errorf("got %+v, want to be the last", got)
		}
		if got := <-waiting; got.Err != nil {
			t.Error(got.Err)
		}
	})
}

// Whatever happens to the keys, nobody waits forever, and nobody passes alone.
func TestBarrierWhoseKeysAreLost(t *testing.T) {
	t.Parallel()
	for _, delete := range [][]string{{"DEL", "job"}, {"FLUSHALL"}} {
		t.Run(delete[0], func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				a, b := arrive(t.Context(), c.Barrier("job", 3)), arrive(t.Context(), c.Barrier("job", 3))
				time.Sleep(10 * time.Second)
				do(t, s, delete...)
				for _, p := range []<-chan arrival{a, b} {
					got := <-p
					wantBroken(t, got.Err, mortise.BrokenLost)
					if got.After > 11100*time.Millisecond {
						t.Errorf("told after %v, want about a second", got.After-10*time.Second)
					}
				}
				wantEmpty(t, s)
			})
		})
	}
}

// An outage that all outlive is waited out; one that is longer than the lease
// lets nobody pass on one side only.
func TestBarrierDuringAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		refuse := func(context.Context, string) error {
			return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
		}
		c, f := open(t, s, &mortise.Options{RetryFor: -1})
		other, g := open(t, s, &mortise.Options{RetryFor: -1})
		for _, outage := range []time.Duration{20 * time.Second, 40 * time.Second} {
			a, b := arrive(t.Context(), c.Barrier("job", 3)), arrive(t.Context(), other.Barrier("job", 3))
			time.Sleep(10 * time.Second)
			f.Set(refuse, nil)
			g.Set(refuse, nil)
			time.Sleep(outage)
			f.Set(nil, nil)
			g.Set(nil, nil)
			time.Sleep(2 * time.Second)
			if outage > 30*time.Second {
				for _, p := range []<-chan arrival{a, b} {
					if got := <-p; !errors.Is(got.Err, mortise.ErrBroken) {
						t.Errorf("after an outage longer than the lease: %+v, want ErrBroken", got)
					}
				}
				return
			}
			last := <-arrive(t.Context(), c.Barrier("job", 3))
			x, y := <-a, <-b
			if x.Err != nil || y.Err != nil || last.Err != nil {
				t.Errorf("after an outage shorter than the lease: %v, %v, %v, want all to pass", x.Err, y.Err, last.Err)
			}
		}
	})
}

func TestBarriersRefuseOtherKindsAndNumbers(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		await := func(n int) error { _, err := c.Barrier("job", n).Await(t.Context()); return err }
		enter := func(n int) error { _, _, err := c.DoubleBarrier("job", n).Enter(t.Context()); return err }
		lock := func() error { return refusal(c.Lock("job").TryLock(t.Context())) }
		campaign := func() error { _, _, err := c.Election("job").Campaign(t.Context(), ""); return err }
		want := func(what string, err error, text string) {
			t.Helper()
			if !errors.Is(err, mortise.ErrWrongKind) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want ErrWrongKind that says %q", what, err, text)
			}
		}
		first := arrive(ctx, c.Barrier("job", 3))
		synctest.Wait()
		want("Await of another number", await(2), "a barrier for 3 parties, not for 2")
		want("Enter of a barrier", enter(3), "")
		want("Lock of a barrier", lock(), "")
		want("Campaign of a barrier", campaign(), "")
		want("a read lock of a barrier", refusal(c.RWLock("job").Read().TryLock(t.Context())), "")
		before := do(t, s, "DBSIZE").Int()
		if err := await(2); err == nil || do(t, s, "DBSIZE").Int() != before {
			t.Errorf("a refused party (%v) left %d keys, before %d", err, do(t, s, "DBSIZE").Int(), before)
		}
		cancel()
		<-first
		time.Sleep(time.Minute)

		ctx, cancel = context.WithCancel(t.Context())
		entered := make(chan error)
		go func() { _, _, err := c.DoubleBarrier("job", 3).Enter(ctx); entered <- err }()
		synctest.Wait()
		want("Enter of another number", enter(4), "a barrier for 3 parties, not for 4")
		want("Await of a double barrier", await(3), "")
		want("Lock of a double barrier", lock(), "")
		want("Reset of a double barrier", c.Barrier("job", 3).Reset(t.Context()), "")
		cancel()
		if err := <-entered; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		time.Sleep(time.Minute)

		for _, put := range [][]string{{"SET", "job", "5"}, {"HSET", "job", "8ac3f8e1-55bb-4ba3-9d3c-2f1a7c7f0001:1", "1"}} {
			do(t, s, put...)
			want("Await", await(2), "")
			want("Enter", enter(2), "")
			want("Reset", c.Barrier("job", 3).Reset(t.Context()), "")
			do(t, s, "DEL", "job")
		}
		wantBadBarriersRefused(t, c, f)
	})
}

// wantBadBarriersRefused checks that bad input is refused, and that no script is sent for it.
func wantBadBarriersRefused(t *testing.T, c *mortise.Client, f *faults) {
	n := f.Total()
	for _, name := range []string{"", "a\x00b", "{open", "mortise:x"} {
		for _, parties := range []int{0, -1, 1001, 2} {
			if _, err := c.Barrier(name, parties).Await(t.Context()); !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("Await of %q for %d: %v, want ErrInvalid", name, parties, err)
			}
			if _, _, err := c.DoubleBarrier(name, parties).Enter(t.Context()); !errors.Is(err, mortise.ErrInvalid) {
				t.Errorf("Enter of %q for %d: %v, want ErrInvalid", name, parties, err)
			}
		}
	}
	if _, err := c.Barrier("job", 0).Await(t.Context()); !errors.Is(err, mortise.ErrInvalid) {
		t.Errorf("Await for nobody: %v, want ErrInvalid", err)
	}
	if err := c.Barrier("job", 0).Reset(t.Context()); !errors.Is(err, mortise.ErrInvalid) {
		t.Errorf("Reset for nobody: %v, want ErrInvalid", err)
	}
	if got := f.Total(); got != n {
		t.Errorf("%d scripts were sent for bad input, want 0", got-n)
	}
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Barrier("job", 2).Await(dead); !errors.Is(err, context.Canceled) || f.Total() != n {
		t.Errorf("Await with a dead context: %v, and %d scripts", err, f.Total()-n)
	}
}

// A party's waiting costs about one script a second.
func TestBarrierCosts(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		a := arrive(ctx, c.Barrier("job", 2))
		time.Sleep(100 * time.Second)
		if n := f.Total(); n < 90 || n > 115 {
			t.Errorf("%d scripts in 100s, want about one a second", n)
		}
		before := f.Total()
		for range 1000 {
			do(t, s, "PUBLISH", "mortise:barrier_channel:{job}", "x")
			time.Sleep(time.Millisecond)
		}
		if n := f.Total() - before; n > 250 {
			t.Errorf("a thousand forged messages in a second caused %d scripts, want 200 or so at most", n)
		}
		cancel()
		<-a
	})
}

// A thousand parties, the most there can be.
func TestBarrierForManyParties(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		cs := clients(t, s, 4, nil)
		var parties []<-chan arrival
		for i := range 400 {
			parties = append(parties, arrive(t.Context(), cs[i%4].Barrier("job", 400)))
		}
		seen := make([]bool, 400)
		for _, p := range parties {
			got := <-p
			if got.Err != nil {
				t.Fatal(got.Err)
			}
			seen[got.Index] = true
		}
		if slices.Contains(seen, false) {
			t.Error("two parties passed with one number")
		}
		wantEmpty(t, s)
	})
}

// The reply to an arrival is lost, and all that follows fails for longer than a
// lease, or for so long that Redis has forgotten. A party that asks again passes
// with the others, or is told that nobody knows; it is not taken for a new one.
func TestBarrierWhoseAnswerComesLate(t *testing.T) {
	t.Parallel()
	for outage, passes := range map[time.Duration]bool{5 * time.Second: true, 29 * time.Second: true, 2 * time.Minute: false} {
		t.Run(outage.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				options := &mortise.Options{TTL: time.Second, RetryFor: -1}
				c, f := open(t, s, options)
				other, _ := open(t, s, options)
				start := time.Now()
				f.Set(func(context.Context, string) error {
					if d := time.Since(start); d > 0 && d < outage {
						return errCut
					}
					return nil
				}, func(context.Context, string) error {
					if time.Since(start) < outage {
						return errCut
					}
					return nil
				})
				first := arrive(t.Context(), c.Barrier("job", 2))
				synctest.Wait()
				if got := <-arrive(t.Context(), other.Barrier("job", 2)); got.Err != nil {
					t.Fatal(got.Err)
				}
				time.Sleep(outage + time.Second)
				if len(first) == 0 {
					t.Fatalf("after %v without answers it still waits", outage)
				}
				got := <-first
				if passes && (got.Err != nil || got.Index != 0) {
					t.Errorf("after %v without answers: %+v, want to pass as the others did", outage, got)
				}
				if !passes {
					wantBroken(t, got.Err, mortise.BrokenLost)
				}
			})
		})
	}
}
