package behavior

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// meet is a call with which a party of a barrier of two waits for the other one.
type meet func(ctx context.Context, c *mortise.Client, limit time.Duration) error

func awaitOther(ctx context.Context, c *mortise.Client, limit time.Duration) error {
	_, err := c.Barrier("job", 2).With(mortise.WaitOptions{Wait: limit}).Await(ctx)
	return err
}

func enterWithOther(ctx context.Context, c *mortise.Client, limit time.Duration) error {
	_, _, err := c.DoubleBarrier("job", 2).With(mortise.WaitOptions{Wait: limit}).Enter(ctx)
	return err
}

// givings are the ways in which a party gives up after a second. Each returns what the error matches.
var givings = map[string]func(ctx context.Context, c *mortise.Client, call meet) (err, match error){
	"its limit is over": func(ctx context.Context, c *mortise.Client, call meet) (err, match error) {
		return call(ctx, c, time.Second), mortise.ErrMissing
	},
	"its deadline is over": func(ctx context.Context, c *mortise.Client, call meet) (err, match error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return call(ctx, c, 0), context.DeadlineExceeded
	},
	"its context is canceled": func(ctx context.Context, c *mortise.Client, call meet) (err, match error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		time.AfterFunc(time.Second, cancel)
		return call(ctx, c, time.Hour), context.Canceled
	},
}

// eachGiving runs f for each way of giving up.
func eachGiving(t *testing.T, f func(t *testing.T, s *memredis.Server, give func(ctx context.Context, c *mortise.Client, call meet) (err, match error))) {
	t.Parallel()
	for name, give := range givings {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) { f(t, s, give) })
		})
	}
}

// A lone party that tries again at once, with its own client or another one, never passes: it
// has broken the barrier, and finds it so.
func TestBarrierNobodyPassesWithOneThatGaveUp(t *testing.T) {
	eachGiving(t, func(t *testing.T, s *memredis.Server, give func(context.Context, *mortise.Client, meet) (error, error)) {
		cs := clients(t, s, 2, &mortise.Options{TTL: 10 * time.Second})
		for round := range 20 {
			start := time.Now()
			err, match := give(t.Context(), cs[round%2], awaitOther)
			if !errors.Is(err, match) || !errors.Is(err, mortise.ErrMissing) || time.Since(start) != time.Second {
				t.Fatalf("round %d: %v after %v, want %v and ErrMissing after 1s", round, err, time.Since(start), match)
			}
			for _, c := range cs {
				wantBroken(t, awaitOther(t.Context(), c, time.Second), mortise.BrokenAbandoned)
			}
			if err := cs[1].Barrier("job", 2).Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		wantEmpty(t, s)
	})
}

// The place of one that gave up is free before its Enter returns, so that a lone party that tries
// again is not let in with it.
func TestDoubleBarrierNobodyEntersWithOneThatGaveUp(t *testing.T) {
	eachGiving(t, func(t *testing.T, s *memredis.Server, give func(context.Context, *mortise.Client, meet) (error, error)) {
		cs := clients(t, s, 2, nil)
		for round := range 20 { // twice in a row with each client
			err, match := give(t.Context(), cs[round/2%2], enterWithOther)
			if !errors.Is(err, match) || !errors.Is(err, mortise.ErrMissing) {
				t.Fatalf("round %d: %v, want %v and ErrMissing", round, err, match)
			}
			if n := do(t, s, "EXISTS", "job").Int(); n != 0 {
				t.Fatalf("round %d: its place was taken when it had given up", round)
			}
		}
		wantEmpty(t, s)
	})
}

// deafTo returns a fault: the script of that name has run, but its reply does not come as long as ctx lasts.
func deafTo(script string) func(ctx context.Context, name string) error {
	return func(ctx context.Context, name string) error {
		if name == script {
			return hang(ctx, name)
		}
		return nil
	}
}

// One that gives up before it knows whether it has arrived leaves in time as well.
func TestBarriersOfOneThatGivesUpInFlight(t *testing.T) {
	t.Parallel()
	for script, call := range map[string]meet{"barrier_await": awaitOther, "double_enter": enterWithOther} {
		t.Run(script, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				other, _ := open(t, s, nil)
				f.Set(nil, deafTo(script))
				start := time.Now()
				if err := call(t.Context(), c, time.Second); !errors.Is(err, mortise.ErrUnreachable) || time.Since(start) != time.Second {
					t.Errorf("%v after %v, want ErrUnreachable after 1s", err, time.Since(start))
				}
				if err := call(t.Context(), other, time.Second); !errors.Is(err, mortise.ErrBroken) && !errors.Is(err, mortise.ErrMissing) {
					t.Errorf("the next one: %v, want not to pass", err)
				}
			})
		})
	}
}

// barrierFaults are how Redis stays away from one that gives up.
var barrierFaults = map[string]func(ctx context.Context, name string) error{
	"silent": hang,
	"down": func(context.Context, string) error {
		return &driver.Error{Class: driver.NotSent, Err: errors.New("connection refused")}
	},
}

// While Redis does not answer, one that gives up returns when UnlockFor is over, or its lease,
// and leaves in the background. The next party of the same client does not overtake it.
func TestBarriersOfOneThatCannotLeave(t *testing.T) {
	t.Parallel()
	bounds := map[time.Duration]time.Duration{0: 5 * time.Second, time.Second: time.Second, -1: 10 * time.Second, time.Hour: 10 * time.Second}
	for kind, call := range map[string]meet{"Barrier": awaitOther, "DoubleBarrier": enterWithOther} {
		for how, fault := range barrierFaults {
			for set, bound := range bounds {
				t.Run(kind+", "+how+", "+set.String(), func(t *testing.T) {
					bubble(t, func(t *testing.T, s *memredis.Server) {
						c, f := open(t, s, &mortise.Options{TTL: 10 * time.Second, UnlockFor: set})
						time.AfterFunc(500*time.Millisecond, func() { f.Set(fault, nil) })
						start := time.Now()
						err := call(t.Context(), c, 700*time.Millisecond)
						if took := time.Since(start) - 700*time.Millisecond; took < bound || took > bound+200*time.Millisecond {
							t.Errorf("it returned %v after its limit, want %v", took, bound)
						}
						if !errors.Is(err, mortise.ErrMissing) || errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("%v, want ErrMissing, and not the error of a context", err)
						}
						if bound == 10*time.Second {
							return // its lease is over
						}
						wantNotOvertaken(t, c, f, call)
					})
				})
			}
		}
	}
}

// wantNotOvertaken checks that a party of c does not pass with an earlier one of c that could not leave.
func wantNotOvertaken(t *testing.T, c *mortise.Client, f *faults, call meet) {
	t.Helper()
	start := time.Now()
	if err := call(t.Context(), c, time.Second); !errors.Is(err, mortise.ErrUnreachable) || time.Since(start) != time.Second {
		t.Errorf("the next one: %v after %v, want ErrUnreachable after 1s", err, time.Since(start))
	}
	f.Set(nil, nil)
	if err := call(t.Context(), c, time.Second); !errors.Is(err, mortise.ErrBroken) && !errors.Is(err, mortise.ErrMissing) {
		t.Errorf("when Redis is back: %v, want not to pass", err)
	}
}

// What goes on in the background ends with the lease, and with the client.
func TestBarrierLeftInTheBackgroundEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, &mortise.Options{TTL: 10 * time.Second, UnlockFor: time.Second})
		first := arrive(t.Context(), c.Barrier("job", 2).With(mortise.WaitOptions{Wait: time.Second}))
		synctest.Wait()
		f.Set(barrierFaults["down"], nil)
		<-first
		before := f.Count("barrier_leave")
		time.Sleep(time.Second)
		if n := f.Count("barrier_leave"); n == before {
			t.Error("it did not go on in the background")
		}
		time.Sleep(time.Minute)
		before = f.Count("barrier_leave")
		time.Sleep(time.Hour)
		if n := f.Count("barrier_leave"); n > before {
			t.Errorf("%d more scripts after the end of the lease, want none", n-before)
		}
		f.Set(nil, nil)
		a, b := arrive(t.Context(), c.Barrier("job", 2)), arrive(t.Context(), c.Barrier("job", 2))
		if a, b := <-a, <-b; a.Err != nil || b.Err != nil {
			t.Errorf("%v and %v, want both to pass", a.Err, b.Err)
		}
	})
}
