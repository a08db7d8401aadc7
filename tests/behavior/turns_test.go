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
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/memredis"
)

// However many wait in one process, those of others have their turns.
func TestRelayIsBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		work time.Duration
		most int // acquisitions of one client between two turns of another
	}{
		"in number": {100 * time.Microsecond, 1 + 64},
		"in time":   {3 * time.Millisecond, 1 + 4},
		"by one":    {time.Second, 1 + 1},
	} {
		for _, n := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s, %d clients", name, n), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					const rounds = 20
					holder, _ := open(t, s, nil)
					first, _ := mustLock(t, holder.Lock("job"), t.Context())
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var all sync.WaitGroup
					had := make([]int, n) // guarded by the lock, as are the following
					row, last, turns, longest := 0, -1, 0, 0
					for i, c := range clients(t, s, n, nil) {
						for range 100 {
							all.Go(func() {
								for {
									hold, _, err := c.Lock("job").Lock(ctx)
									if err != nil {
										return
									}
									had[i]++
									if i != last {
										last, row, turns = i, 0, turns+1
									}
									if row++; ctx.Err() == nil {
										longest = max(longest, row)
									}
									if turns > rounds*n {
										cancel()
									}
									time.Sleep(test.work)
									mustUnlock(t, hold)
								}
							})
						}
						synctest.Wait()
						time.Sleep(time.Millisecond)
					}
					mustUnlock(t, first)
					all.Wait()
					if longest > test.most {
						t.Errorf("one process had the lock %d times in a row, want %d at most", longest, test.most)
					}
					sum, squares := 0., 0.
					for _, k := range had {
						sum, squares = sum+float64(k), squares+float64(k*k)
					}
					if jain := sum * sum / float64(n) / squares; jain < 0.95 {
						t.Errorf("the clients had the lock %v times, an index of Jain's of %.3f, want 0.95 at least", had, jain)
					}
				})
			})
		}
	}
}

// Two goroutines of one client want a lock all the time, and are the first to know when one of them
// has released it. Waiters of other clients have their turns all the same, whatever their options, also if
// it asks again at once.
func TestBusyClientDoesNotPassOverOthers(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{0, 25 * time.Millisecond} {
		t.Run(pause.String(), func(t *testing.T) { busyClientDoesNotPassOverOthers(t, pause) })
	}
}

func busyClientDoesNotPassOverOthers(t *testing.T, pause time.Duration) {
	const hold, rounds = 50 * time.Millisecond, 100
	for _, name := range []string{"Lock", "FairLock", "FencedLock"} {
		for what, options := range map[string]mortise.LockOptions{
			"by default": {}, "at most": {MaxHold: time.Hour}, "a short lease": {TTL: 500 * time.Millisecond}, "a margin": {Margin: time.Second},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var all sync.WaitGroup
					longest := 0 // guarded by the lock
					var holds atomic.Int64
					work := func(c *mortise.Client) {
						k := kinds[name].Open(c, "job", options)
						for ctx.Err() == nil {
							since := int(holds.Load())
							err := k.Do(ctx, func(context.Context) error {
								nth := int(holds.Add(1))
								if longest = max(longest, nth-1-since); nth == rounds {
									cancel()
								}
								time.Sleep(hold)
								return nil
							})
							if err != nil && !errors.Is(err, context.Canceled) {
								t.Error(err)
								return
							}
							time.Sleep(pause)
						}
					}
					for _, c := range clients(t, s, 3, nil) {
						all.Go(func() { work(c) })
					}
					busy, _ := open(t, s, nil)
					for range 2 {
						all.Go(func() { work(busy) })
					}
					all.Wait()
					if longest > 8 { // twice the number of the others
						t.Errorf("a waiter was passed over %d times, want 8 at most", longest)
					}
				})
			})
		}
	}
}

// A waiter has the lock in Redis for no longer than it wants, also if it was granted the lock.
func TestShortLeaseOfAWaiterStaysShort(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Lock", "FencedLock"} {
		for what, options := range map[string]mortise.LockOptions{"at most": {MaxHold: 200 * time.Millisecond}, "a short lease": {TTL: 200 * time.Millisecond}} {
			t.Run(name+", "+what, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					cs := clients(t, s, 3, nil)
					block := mustTake(t, kinds[name].Open(cs[0], "job", mortise.LockOptions{}))
					got := later(t, t.Context(), kinds[name].Open(cs[1], "job", options))
					mustUnlock(t, block)
					hold := <-got
					state, err := cs[2].Inspect(t.Context(), "job")
					if err != nil || len(state.Holders) != 1 || state.Holders[0].Count != 1 || state.TTL <= 0 || state.TTL > 200*time.Millisecond {
						t.Errorf("in Redis there is %+v (%v), want one holder for 200ms at most", state, err)
					}
					mustUnlock(t, hold)
				})
			})
		}
	}
}

// One that gives up in the moment in which it is given the lock, or told of it:
// the next has it at once.
func TestTurnOfOneThatGivesUp(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]mortise.LockOptions{"granted": {}, "told": {MaxHold: time.Minute}} {
		t.Run(name, func(t *testing.T) {
			takesTurns(t, func(t *testing.T, s *memredis.Server, k kind) {
				cs := clients(t, s, 3, nil)
				got, gaveUp := 0, 0
				for round := range 100 {
					block := mustTake(t, k.Open(cs[0], "job", mortise.LockOptions{}))
					ctx, cancel := context.WithCancel(t.Context())
					first := later(t, ctx, k.Open(cs[1], "job", options))
					second := later(t, t.Context(), k.Open(cs[2], "job", mortise.LockOptions{}))
					start := time.Now()
					var all sync.WaitGroup
					at := []func(){cancel, func() { mustUnlock(t, block) }}
					all.Go(at[round%2]) // a scheduler with one CPU may have a favourite
					all.Go(at[1-round%2])
					all.Wait()
					if hold := <-first; hold != nil {
						got++
						mustUnlock(t, hold)
					} else {
						gaveUp++
					}
					hold := <-second
					if d := time.Since(start); d > 10*time.Millisecond {
						t.Fatalf("the next had the lock after %v, want at once", d)
					}
					mustUnlock(t, hold)
				}
				if gaveUp == 0 {
					t.Errorf("%d had the lock and none gave up, want some", got)
				}
				wantEmpty(t, s)
			})
		})
	}
}

// A client that is closed, or cut off, in the moment in which it is granted the
// lock.
func TestTurnOfAClientThatEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cut  bool
		most time.Duration
	}{
		"closed": {false, 10 * time.Millisecond},
		// Its grant lasts for three seconds; a waiter looks every second.
		"cut off": {true, 4100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			takesTurns(t, func(t *testing.T, s *memredis.Server, k kind) {
				cs := clients(t, s, 2, nil)
				for range 20 {
					gone := &faults{Driver: s.Driver()}
					c := mortise.New(gone, nil)
					block := mustTake(t, k.Open(cs[0], "job", mortise.LockOptions{}))
					var all sync.WaitGroup
					all.Go(func() {
						if hold, _, err := k.Open(c, "job", mortise.LockOptions{}).Lock(t.Context()); err == nil {
							_ = hold.Unlock() // the client may be closed
						} else if !errors.Is(err, mortise.ErrClosed) {
							t.Error(err)
						}
					})
					synctest.Wait()
					time.Sleep(time.Millisecond)
					next := later(t, t.Context(), k.Open(cs[1], "job", mortise.LockOptions{}))
					if test.cut {
						gone.Set(func(context.Context, string) error { return errCut }, nil)
					}
					start := time.Now()
					all.Go(func() { mustUnlock(t, block) })
					all.Go(func() { _ = c.Close() })
					hold := <-next
					if d := time.Since(start); d > test.most {
						t.Errorf("the next had the lock after %v, want %v at most", d, test.most)
					}
					wantTrusted(t, s, hold)
					mustUnlock(t, hold)
					all.Wait()
				}
				wantEmpty(t, s)
			})
		})
	}
}

// The message of a grant is lost: the waiter finds out.
func TestMessageOfATurnIsLost(t *testing.T) {
	takesTurns(t, func(t *testing.T, s *memredis.Server, k kind) {
		holder, _ := open(t, s, nil)
		c, _, p := openPost(t, s)
		p.set(func(string, string) (time.Duration, bool) { return 0, true })
		for range 20 {
			block := mustTake(t, k.Open(holder, "job", mortise.LockOptions{}))
			got := later(t, t.Context(), k.Open(c, "job", mortise.LockOptions{}))
			time.Sleep(5 * time.Second)
			start := time.Now()
			mustUnlock(t, block)
			hold := <-got
			if d := time.Since(start); d > 1100*time.Millisecond {
				t.Errorf("the waiter has the lock after %v, want it to look within about a second", d)
			}
			wantTrusted(t, s, hold)
			mustUnlock(t, hold)
		}
	})
}

// The message comes late, and Redis receives nothing from the client meanwhile. What
// it has then, it has in Redis, too.
func TestMessageOfATurnIsLate(t *testing.T) {
	t.Parallel()
	for _, delay := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 2900 * time.Millisecond, 3500 * time.Millisecond} {
		t.Run(delay.String(), func(t *testing.T) {
			takesTurns(t, func(t *testing.T, s *memredis.Server, k kind) {
				holder, _ := open(t, s, nil)
				c, f, p := openPost(t, s)
				block := mustTake(t, k.Open(holder, "job", mortise.LockOptions{}))
				got := later(t, t.Context(), k.Open(c, "job", mortise.LockOptions{}))
				time.Sleep(5*time.Second + 300*time.Millisecond)
				thaw := time.Now().Add(delay)
				unsent := &driver.Error{Class: driver.NotSent, Err: errors.New("frozen by the test")}
				f.Set(func(context.Context, string) error {
					if time.Now().Before(thaw) {
						return unsent
					}
					return nil
				}, nil)
				p.set(func(string, string) (time.Duration, bool) { return max(0, time.Until(thaw)), false })
				mustUnlock(t, block)
				hold := <-got
				if time.Now().Before(thaw) {
					t.Errorf("it has the lock %v before it could know", time.Until(thaw))
				}
				for range 100 {
					wantTrusted(t, s, hold)
					time.Sleep(100 * time.Millisecond)
				}
				mustUnlock(t, hold)
			})
		})
	}
}

// The release grants the lock to the next, and its reply is lost.
func TestReplyOfAReleaseThatGivesIsLost(t *testing.T) {
	t.Parallel()
	for _, loss := range losses {
		t.Run(loss.String(), func(t *testing.T) {
			takesTurns(t, func(t *testing.T, s *memredis.Server, k kind) {
				holder, f := open(t, s, nil)
				c, _ := open(t, s, nil)
				block := mustTake(t, k.Open(holder, "job", mortise.LockOptions{}))
				got := later(t, t.Context(), k.Open(c, "job", mortise.LockOptions{}))
				loss.Set(f, k.Release)
				err := block.Unlock()
				if want := loss.What == "replies"; errors.Is(err, mortise.ErrUnknownOutcome) != want || !want && err != nil {
					t.Errorf("unlock: %v, want the unknown outcome to be told: %v", err, want)
				}
				hold := <-got
				for range 100 {
					wantTrusted(t, s, hold)
					time.Sleep(100 * time.Millisecond)
				}
				mustUnlock(t, hold)
				wantEmpty(t, s)
			})
		})
	}
}

// The waiter for which the client has its turn gives up, and another one is first,
// which wants something else of the lock.
func TestTurnOfAnother(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]func(c *mortise.Client) taker{
		"fixed lease": func(c *mortise.Client) taker { return c.Lock("job").With(mortise.LockOptions{MaxHold: time.Minute}) },
		"margin": func(c *mortise.Client) taker {
			return c.Lock("job").With(mortise.LockOptions{Margin: 20 * time.Second})
		},
		"fenced": func(c *mortise.Client) taker { return c.FencedLock("job") },
		"spin":   func(c *mortise.Client) taker { return c.SpinLock("job") },
		"multi": func(c *mortise.Client) taker {
			return mortise.NewMultiLock(c.Lock("job"), c.Lock("{job}2"))
		},
	} {
		for _, silent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, silent: %v", name, silent), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					holder, _ := open(t, s, nil)
					c, f, p := openPost(t, s)
					block, _ := mustLock(t, holder.Lock("job"), t.Context())
					ctx, cancel := context.WithCancel(t.Context())
					first := later(t, ctx, c.Lock("job"))
					bound, end := context.WithCancel(t.Context())
					defer end()
					second := later(t, bound, other(c))
					// It is granted to the first, which has gone when the message comes.
					p.set(func(string, string) (time.Duration, bool) { return 100 * time.Millisecond, false })
					mustUnlock(t, block)
					if silent { // before the second one can ask
						f.Set(hang, nil)
					}
					cancel()
					if hold := <-first; hold != nil {
						t.Fatal("one that gave up has the lock")
					}
					if silent {
						time.Sleep(200 * time.Millisecond)
						start := time.Now()
						end()
						if hold := <-second; hold != nil || time.Since(start) > 0 {
							t.Errorf("while Redis is silent the wait ended %v after its context with %v", time.Since(start), hold)
						}
						f.Set(nil, nil)
						return
					}
					hold := <-second
					if name != "multi" {
						wantTrusted(t, s, hold)
					}
					mustUnlock(t, hold)
					synctest.Wait()
					wantState(t, holder.Lock("job"), "", 0)
				})
			})
		}
	}
}

// A client goes on listening for a second after the last has stopped to wait, and
// leaves nothing behind.
func TestEarIsClosedAfterAMoment(t *testing.T) {
	takesTurns(t, func(t *testing.T, s *memredis.Server, k kind) {
		listening := func() int64 {
			return runScript(t, s, `return #redis.call('pubsub', 'channels', '*turn*')`).Int()
		}
		cs := clients(t, s, 2, nil)
		block := mustTake(t, k.Open(cs[0], "job", mortise.LockOptions{}))
		got := later(t, t.Context(), k.Open(cs[1], "job", mortise.LockOptions{}))
		mustUnlock(t, block)
		mustUnlock(t, <-got)
		time.Sleep(900 * time.Millisecond)
		if n := listening(); n != 1 {
			t.Errorf("clients listen to %d channels a moment after the wait, want 1", n)
		}
		time.Sleep(200 * time.Millisecond)
		if n := listening(); n != 0 {
			t.Errorf("clients listen to %d channels more than a second after the wait, want none", n)
		}
		wantEmpty(t, s)
	})
}

// What a turn costs, whatever the number of clients and of waiters.
func TestTurnsCostTheSameHoweverManyWait(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]float64{"Lock": 3, "FairLock": 2.1} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{3, 40} {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					bubble(t, func(t *testing.T, s *memredis.Server) {
						holder, _ := open(t, s, nil)
						k := kinds[name]
						block := mustTake(t, k.Open(holder, "job", mortise.LockOptions{}))
						var all sync.WaitGroup
						var drivers []*faults
						const each = 10
						for range n {
							c, f := open(t, s, nil)
							drivers = append(drivers, f)
							for range each {
								all.Go(func() {
									mustUnlock(t, mustTake(t, k.Open(c, "job", mortise.LockOptions{})))
								})
								synctest.Wait()
							}
						}
						channels := runScript(t, s, `return redis.call('pubsub', 'channels', '*')`)
						for i := range channels.Len() {
							if channel := channels.At(i).Str(); !strings.HasPrefix(channel, keyspace.TurnChannel("job", "")) &&
								!strings.HasPrefix(channel, keyspace.FairTurnChannel("job", "")) {
								t.Errorf("somebody listens to %s", channel)
							}
						}
						if channels.Len() != n {
							t.Errorf("%d clients listen to %d channels, want one each", n, channels.Len())
						}
						mustUnlock(t, block)
						all.Wait()
						total := 0
						for _, f := range drivers {
							total += f.Total()
						}
						// A client that begins to wait asks before it listens, and after.
						if cost := float64(total-2*n) / float64(n*each); cost > most {
							t.Errorf("%d clients: an acquisition took %.2f scripts, want %.1f at most", n, cost, most)
						}
					})
				})
			}
		})
	}
}
