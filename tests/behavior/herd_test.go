package behavior

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/locktest"
	"github.com/mortise-go/mortise/memredis"
)

// permitOf takes one permit of a semaphore called job, and returns what gives it back.
type permitOf func(ctx context.Context, c *mortise.Client) (back func() error, err error)

// permitKinds are both kinds of semaphore, and what sets the number of permits.
var permitKinds = map[string]struct {
	take permitOf
	set  func(t *testing.T, c *mortise.Client, n int)
}{
	"Semaphore": {
		func(ctx context.Context, c *mortise.Client) (func() error, error) {
			s := c.Semaphore("job")
			return func() error { return s.Release(context.Background(), 1) }, s.Acquire(ctx, 1)
		},
		func(t *testing.T, c *mortise.Client, n int) {
			if _, err := c.Semaphore("job").TrySetPermits(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		},
	},
	"PermitSemaphore": {
		func(ctx context.Context, c *mortise.Client) (func() error, error) {
			hold, _, err := c.PermitSemaphore("job").Acquire(ctx)
			if err != nil {
				return nil, err
			}
			return hold.Unlock, nil
		},
		func(t *testing.T, c *mortise.Client, n int) { permitsOf(t, c, n) },
	},
}

// A permit goes from client to client with three commands: a refusal, an acquisition and a release,
// however many clients and goroutines wait, and whether or not threads of Redisson's wait as well.
func TestPermitsAreHandedOverWithoutAHerd(t *testing.T) {
	t.Parallel()
	for name, kind := range permitKinds {
		for _, permits := range []int{1, 4} {
			for _, each := range []int{1, 4} {
				for _, java := range []bool{false, true} {
					if java != (permits != each) && !*deep { // each two of the three meet
						continue
					}
					t.Run(fmt.Sprintf("%s of %d, %d goroutines, Redisson listens: %v", name, permits, each, java), func(t *testing.T) {
						bubble(t, func(t *testing.T, s *memredis.Server) {
							setter, _ := open(t, s, nil)
							kind.set(t, setter, permits)
							handOver(t, s, kind.take, each, java)
						})
					})
				}
			}
		}
	}
}

// handOver has goroutines of many clients take a permit again and again, and checks how often they ask.
func handOver(t *testing.T, s *memredis.Server, take permitOf, each int, java bool) {
	const clients = 16
	rounds := 16
	if each > 1 && !*deep {
		rounds = 16 / each * 2
	}
	var faults []*locktest.Faults
	var heard *listener
	if java {
		heard = listen(t, s, keyspace.SemaphoreChannel("job"))
	}
	var all sync.WaitGroup
	for range clients {
		c, f := open(t, s, nil)
		faults = append(faults, f)
		for range each {
			all.Go(func() { takeTurns(t, c, take, rounds) })
		}
	}
	all.Wait()
	asked, acquisitions := 0, clients*each*rounds
	for _, f := range faults {
		asked += f.Total()
	}
	// At the beginning each goroutine asks before it queues, and the first one of each client again when it listens; it also
	// asks once a second.
	if most := 3*acquisitions + (7+each)*clients; asked > most {
		t.Errorf("%d acquisitions took %d commands, want %d at most", acquisitions, asked, most)
	}
	if java {
		wantNumbers(t, heard, acquisitions)
	}
	wantNoClaims(t, s)
}

// takeTurns takes a permit again and again, and has it for a millisecond.
func takeTurns(t *testing.T, c *mortise.Client, take permitOf, rounds int) {
	for range rounds {
		back, err := take(t.Context(), c)
		if err != nil {
			t.Error(err)
			return
		}
		time.Sleep(time.Millisecond)
		if err := back(); err != nil {
			t.Error(err)
		}
	}
}

// far makes each script take a round trip.
func far(f *locktest.Faults, rtt time.Duration) {
	way := func(context.Context, string) error { time.Sleep(rtt / 2); return nil }
	f.Set(way, way)
}

// Goroutines that ask for free permits get them together, also if the client has just waited for some, and
// listens: a queue in the client does not cost each of them a round trip of its own.
func TestFreePermitsAreTakenTogether(t *testing.T) {
	t.Parallel()
	const crowd, rtt = 100, 50 * time.Millisecond
	for name, kind := range permitKinds {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				setter, _ := open(t, s, nil)
				kind.set(t, setter, crowd)
				c, f := open(t, s, nil)
				for range 2 {
					start := time.Now()
					taken := takeTogether(t, c, kind.take, crowd)
					if d := time.Since(start); d > 4*rtt {
						t.Errorf("%d free permits were taken after %v, with a round trip of %v", crowd, d, rtt)
					}
					far(f, 0)
					giveBack(t, taken)
					waitForAPermit(t, c, setter, kind.take, crowd) // from here on it listens
					far(f, rtt)
				}
			})
		})
	}
}

// When some permits come back and many goroutines wait, a client asks once for each, and not for those whose turn has
// not come; and as many as there are permits are served.
func TestNoMoreAreToldThanPermits(t *testing.T) {
	t.Parallel()
	const waiting, permits, rtt = 200, 50, 10 * time.Millisecond
	for name, kind := range permitKinds {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				setter, _ := open(t, s, nil)
				kind.set(t, setter, permits)
				taken := takeTogether(t, setter, kind.take, permits)
				c, f := open(t, s, nil)
				ctx, cancel := context.WithCancel(t.Context())
				served := make(chan struct{}, waiting)
				var all sync.WaitGroup
				for range waiting {
					all.Go(func() {
						if _, err := kind.take(ctx, c); err == nil {
							served <- struct{}{}
						}
					})
				}
				synctest.Wait()
				far(f, rtt)
				before := f.Total()
				giveBack(t, taken)
				time.Sleep(500 * time.Millisecond) // less than a poll
				if n := len(served); n != permits {
					t.Errorf("%d of %d permits were taken", n, permits)
				}
				// Each release may come between a look and the next one.
				if asked := f.Total() - before; asked > permits+8 {
					t.Errorf("%d permits took %d questions", permits, asked)
				}
				cancel()
				all.Wait()
			})
		})
	}
}

// takeTogether takes n permits in as many goroutines, and returns what gives them back.
func takeTogether(t *testing.T, c *mortise.Client, take permitOf, n int) (back []func() error) {
	t.Helper()
	var all sync.WaitGroup
	back = make([]func() error, n)
	for i := range back {
		all.Go(func() {
			var err error
			if back[i], err = take(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return back
}

// waitForAPermit has the client wait for one of all permits.
func waitForAPermit(t *testing.T, c, other *mortise.Client, take permitOf, all int) {
	t.Helper()
	taken := takeTogether(t, other, take, all)
	var waits sync.WaitGroup
	waits.Go(func() { _ = takeTogether(t, c, take, 1)[0]() })
	synctest.Wait()
	giveBack(t, taken)
	waits.Wait()
}

// giveBack gives back permits.
func giveBack(t *testing.T, taken []func() error) {
	t.Helper()
	for _, back := range taken {
		if err := back(); err != nil {
			t.Error(err)
		}
	}
}

// Calls that come faster than one in each round trip do not pile up behind each other once a burst has made some wait:
// permits are free, and each caller has one after a few round trips.
func TestCallsForPermitsDoNotPileUp(t *testing.T) {
	t.Parallel()
	const permits, burst, rtt, every, hold = 60, 120, 5 * time.Millisecond, 2500 * time.Microsecond, 50 * time.Millisecond
	for name, kind := range permitKinds {
		for _, clients := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d clients", name, clients), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					setter, _ := open(t, s, nil)
					kind.set(t, setter, permits)
					var of []*mortise.Client
					for range clients {
						c, f := open(t, s, nil)
						far(f, rtt)
						of = append(of, c)
					}
					var all sync.WaitGroup
					var mu sync.Mutex
					var longest time.Duration // of the later calls
					call := func(i int, late bool) {
						all.Go(func() {
							start := time.Now()
							back, err := kind.take(t.Context(), of[i%clients])
							if err != nil {
								t.Error(err)
								return
							}
							if late {
								mu.Lock()
								longest = max(longest, time.Since(start))
								mu.Unlock()
							}
							time.Sleep(hold)
							if err := back(); err != nil {
								t.Error(err)
							}
						})
					}
					for i := range burst {
						call(i, false)
					}
					calls := 600 // where they pile up, waits grow by 0.6 s in each second
					if *deep {
						calls = 2000
					}
					for i := range calls {
						time.Sleep(every)
						call(i, i > calls/2)
					}
					all.Wait()
					if longest > 20*rtt {
						t.Errorf("a caller waited for %v, with a round trip of %v, and about %d of %d permits taken", longest, rtt, (hold+2*rtt)/every, permits)
					}
				})
			})
		}
	}
}

// wantNumbers checks that Redisson's threads heard of every release, in words that they can read.
func wantNumbers(t *testing.T, heard *listener, releases int) {
	t.Helper()
	synctest.Wait()
	messages := strings.Fields(heard.all())
	if len(messages) < releases {
		t.Errorf("Redisson's threads heard of %d releases, want %d", len(messages), releases)
	}
	for _, message := range messages {
		if n, err := strconv.Atoi(message); err != nil || n < 1 || n > 4 {
			t.Fatalf("Redisson's threads heard %q, want numbers of permits", message)
		}
	}
}

// A release by a thread of Redisson's, which knows of no claims, wakes all clients.
func TestPermitsThatRedissonReleasesWakeAll(t *testing.T) {
	t.Parallel()
	for name, kind := range permitKinds {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				setter, _ := open(t, s, nil)
				kind.set(t, setter, 1)
				if _, err := kind.take(t.Context(), setter); err != nil { // as a thread of Redisson's
					t.Fatal(err)
				}
				const clients = 4
				served := make(chan func() error, clients)
				for range clients {
					c, _ := open(t, s, nil)
					go func() {
						back, err := kind.take(t.Context(), c)
						if err != nil {
							t.Error(err)
						}
						served <- back
					}()
					synctest.Wait()
				}
				time.Sleep(300 * time.Millisecond)
				start := time.Now()
				do(t, s, "INCRBY", "job", "2")
				do(t, s, "PUBLISH", keyspace.SemaphoreChannel("job"), "2")
				synctest.Wait()
				if n := len(served); n != 2 {
					t.Errorf("%d waiters have permits, want two", n)
				}
				for range clients {
					if err := (<-served)(); err != nil {
						t.Error(err)
					}
				}
				if d := time.Since(start); d != 0 {
					t.Errorf("the last waiter was served after %v, want at once", d)
				}
			})
		})
	}
}

// A client that may not listen to a channel of its own is woken by the message for all.
func TestPermitsForAClientWithoutItsOwnChannel(t *testing.T) {
	t.Parallel()
	for name, kind := range permitKinds {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				holder, _ := open(t, s, nil)
				kind.set(t, holder, 1)
				back, err := kind.take(t.Context(), holder)
				if err != nil {
					t.Fatal(err)
				}
				deaf := mortise.New(withoutOwn{s.Driver()}, nil)
				defer deaf.Close()
				other, _ := open(t, s, nil)
				served := make(chan func() error, 2)
				for _, c := range []*mortise.Client{deaf, other} {
					go func() {
						back, err := kind.take(t.Context(), c)
						if err != nil {
							t.Error(err)
						}
						served <- back
					}()
					synctest.Wait()
				}
				time.Sleep(300 * time.Millisecond)
				start := time.Now()
				for range 2 {
					if err := back(); err != nil {
						t.Error(err)
					}
					back = <-served
				}
				if d := time.Since(start); d != 0 {
					t.Errorf("both were served after %v, want at once", d)
				}
				if err := back(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Such a client does not try again for each waiter that comes.
func TestPermitsWithoutTheRightToAChannelCostNoMore(t *testing.T) {
	t.Parallel()
	for name, kind := range permitKinds {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				setter, _ := open(t, s, nil)
				kind.set(t, setter, 0)
				f := &locktest.Faults{Driver: withoutOwn{s.Driver()}}
				c := mortise.New(f, nil)
				defer c.Close()
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() {
						if _, err := kind.take(ctx, c); err == nil {
							t.Error("there is no permit")
						}
					})
					synctest.Wait()
				}
				if n := f.Total(); n > 5 {
					t.Errorf("20 goroutines that began to wait asked %d times, want 5 at most", n)
				}
				cancel()
				all.Wait()
			})
		})
	}
}

// withoutOwn is a driver whose user may not subscribe to the channels of clients.
type withoutOwn struct{ driver.Driver }

func (d withoutOwn) Subscriber(s driver.Sink) driver.Subscriber {
	return sharedOnly{d.Driver.Subscriber(s), refusingSubscriber{s}}
}

type sharedOnly struct {
	driver.Subscriber
	refuses refusingSubscriber
}

func (s sharedOnly) Subscribe(channel string, sharded bool) {
	if strings.HasPrefix(channel, "mortise:turn:") {
		s.refuses.Subscribe(channel, sharded)
		return
	}
	s.Subscriber.Subscribe(channel, sharded)
}
