package behavior

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// crowdKind is a kind of which several goroutines can be served at once.
type crowdKind struct {
	name  string
	shut  func(t *testing.T, c *mortise.Client) // by another client: nobody is served
	wait  func(ctx context.Context, c *mortise.Client) error
	serve map[string]func(t *testing.T, s *memredis.Server, own, other *mortise.Client, k int) // k of them, at once
	all   bool                                                                                 // serve serves all
}

var crowds = []crowdKind{
	{
		name: "Semaphore",
		shut: func(t *testing.T, c *mortise.Client) { permitted(t, c, "job", 0) },
		wait: func(ctx context.Context, c *mortise.Client) error { return c.Semaphore("job").Acquire(ctx, 1) },
		serve: map[string]func(t *testing.T, s *memredis.Server, own, other *mortise.Client, k int){
			"the client": func(t *testing.T, _ *memredis.Server, own, _ *mortise.Client, k int) {
				mustRelease(t, own.Semaphore("job"), k)
			},
			"another client": func(t *testing.T, _ *memredis.Server, _, other *mortise.Client, k int) {
				mustRelease(t, other.Semaphore("job"), k)
			},
			"one by one": func(t *testing.T, _ *memredis.Server, _, other *mortise.Client, k int) {
				for range k {
					mustRelease(t, other.Semaphore("job"), 1)
				}
			},
			"Redisson": func(t *testing.T, s *memredis.Server, _, _ *mortise.Client, k int) {
				command(t, s, "INCRBY", "job", fmt.Sprint(k))
				command(t, s, "PUBLISH", "redisson_sc:{job}", fmt.Sprint(k))
			},
		},
	},
	{
		name: "PermitSemaphore",
		shut: func(t *testing.T, c *mortise.Client) { permitsOf(t, c, 0) },
		wait: func(ctx context.Context, c *mortise.Client) error {
			_, _, err := c.PermitSemaphore("job").Acquire(ctx) //nolint:dogsled // held until the client is closed
			return err
		},
		serve: map[string]func(t *testing.T, s *memredis.Server, own, other *mortise.Client, k int){
			"the client":     func(t *testing.T, _ *memredis.Server, own, _ *mortise.Client, k int) { mustAddPermits(t, own, k) },
			"another client": func(t *testing.T, _ *memredis.Server, _, other *mortise.Client, k int) { mustAddPermits(t, other, k) },
			"one by one": func(t *testing.T, _ *memredis.Server, _, other *mortise.Client, k int) {
				for range k {
					mustAddPermits(t, other, 1)
				}
			},
			"Redisson": func(t *testing.T, s *memredis.Server, _, _ *mortise.Client, k int) {
				command(t, s, "INCRBY", "job", fmt.Sprint(k))
				command(t, s, "PUBLISH", "redisson_sc:{job}", fmt.Sprint(k))
			},
		},
	},
	{
		name: "RWLock", all: true,
		shut: func(t *testing.T, c *mortise.Client) {
			hold, _, err := c.RWLock("job").Write().Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			writers[c] = hold
		},
		wait: func(ctx context.Context, c *mortise.Client) error {
			_, _, err := c.RWLock("job").Read().Lock(ctx) //nolint:dogsled // held until the client is closed
			return err
		},
		serve: map[string]func(t *testing.T, s *memredis.Server, own, other *mortise.Client, k int){
			"another client": func(t *testing.T, _ *memredis.Server, _, other *mortise.Client, _ int) { mustUnlock(t, writers[other]) },
			"Redisson": func(t *testing.T, s *memredis.Server, _, _ *mortise.Client, _ int) {
				command(t, s, "DEL", "job")
				command(t, s, "PUBLISH", "redisson_rwlock:{job}", "1")
			},
		},
	},
	{
		name: "CountDownLatch", all: true,
		shut: func(t *testing.T, c *mortise.Client) { closedLatch(t, c, "job", 1) },
		wait: func(ctx context.Context, c *mortise.Client) error { return c.CountDownLatch("job").Wait(ctx) },
		serve: map[string]func(t *testing.T, s *memredis.Server, own, other *mortise.Client, k int){
			"the client": func(t *testing.T, _ *memredis.Server, own, _ *mortise.Client, _ int) {
				mustCountDown(t, own.CountDownLatch("job"))
			},
			"another client": func(t *testing.T, _ *memredis.Server, _, other *mortise.Client, _ int) {
				mustCountDown(t, other.CountDownLatch("job"))
			},
			"Redisson": func(t *testing.T, s *memredis.Server, _, _ *mortise.Client, _ int) {
				command(t, s, "DEL", "job")
				command(t, s, "PUBLISH", "redisson_countdownlatch__channel__{job}", "0")
			},
		},
	},
	{
		name: "Barrier", all: true,
		shut: func(*testing.T, *mortise.Client) {},
		wait: func(ctx context.Context, c *mortise.Client) error {
			_, err := c.Barrier("job", crowd+1).Await(ctx)
			return err
		},
		serve: map[string]func(t *testing.T, s *memredis.Server, own, other *mortise.Client, k int){
			"the client":     func(t *testing.T, _ *memredis.Server, own, _ *mortise.Client, _ int) { mustAwait(t, own) },
			"another client": func(t *testing.T, _ *memredis.Server, _, other *mortise.Client, _ int) { mustAwait(t, other) },
		},
	},
	{
		name: "DoubleBarrier", all: true,
		shut: func(*testing.T, *mortise.Client) {},
		wait: func(ctx context.Context, c *mortise.Client) error {
			_, _, err := c.DoubleBarrier("job", crowd+1).Enter(ctx) //nolint:dogsled // inside until the client is closed
			return err
		},
		serve: map[string]func(t *testing.T, s *memredis.Server, own, other *mortise.Client, k int){
			"the client":     func(t *testing.T, _ *memredis.Server, own, _ *mortise.Client, _ int) { mustEnter(t, own) },
			"another client": func(t *testing.T, _ *memredis.Server, _, other *mortise.Client, _ int) { mustEnter(t, other) },
		},
	},
}

// crowd is how many goroutines arrive at one instant.
const crowd = 12

// writers are the holds of those that shut an RWLock.
var writers = map[*mortise.Client]*mortise.Hold{}

func mustAddPermits(t *testing.T, c *mortise.Client, n int) {
	t.Helper()
	if err := c.PermitSemaphore("job").AddPermits(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

func mustAwait(t *testing.T, c *mortise.Client) {
	t.Helper()
	if _, err := c.Barrier("job", crowd+1).Await(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func mustEnter(t *testing.T, c *mortise.Client) {
	t.Helper()
	if _, _, err := c.DoubleBarrier("job", crowd+1).Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Many goroutines of one client arrive at one instant, and some of them can be
// served at a later one: they are, without any of them looking by itself.
func TestCrowdIsServedAtOnce(t *testing.T) {
	for _, kind := range crowds {
		t.Run(kind.name, func(t *testing.T) {
			eachProcs(t, func(t *testing.T) {
				for how, serve := range kind.serve {
					for _, after := range []time.Duration{0, time.Millisecond, 2500 * time.Millisecond} {
						for _, k := range []int{5, crowd} {
							if kind.all && k != crowd {
								continue
							}
							t.Run(fmt.Sprintf("%s serves %d after %v", how, k, after), func(t *testing.T) {
								alone(t, func(t *testing.T, s *memredis.Server) { kind.trial(t, s, serve, k, after, 0) })
							})
							t.Run(fmt.Sprintf("%s serves %d after %v, slowly", how, k, after), func(t *testing.T) {
								alone(t, func(t *testing.T, s *memredis.Server) { kind.trial(t, s, serve, k, after, 50*time.Millisecond) })
							})
						}
					}
				}
			})
		})
	}
}

// eachProcs runs f on one and on four processors, and, with -deep, on two.
func eachProcs(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for _, n := range []int{1, 2, 4} {
		if n == 2 && !*deep {
			continue
		}
		runtime.GOMAXPROCS(n)
		t.Run(fmt.Sprintf("GOMAXPROCS=%d", n), f)
	}
}

func (kind crowdKind) trial(t *testing.T, s *memredis.Server, serve func(t *testing.T, s *memredis.Server, own, other *mortise.Client, k int), k int, after, slow time.Duration) {
	own, f := open(t, s, nil)
	other, _ := open(t, s, nil)
	kind.shut(t, other)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, crowd)
	for range crowd {
		go func() { served <- kind.wait(ctx, own) }()
	}
	if after > 0 { // else they meet
		synctest.Wait()
		time.Sleep(after)
	}
	if slow > 0 { // what frees the next one comes while the first still asks
		pause := func(context.Context, string) error { time.Sleep(slow); return nil }
		f.Set(pause, pause)
	}
	start := time.Now()
	serve(t, s, own, other, k)
	for range k {
		if err := <-served; err != nil {
			t.Fatal(err)
		}
	}
	// The pace of messages may cost something, and the first asks before the others do.
	if d := time.Since(start); d > 150*time.Millisecond+8*slow {
		t.Errorf("the last of %d was served after %v, want at once", k, d)
	}
	cancel()
	for range crowd - k {
		if err := <-served; err == nil {
			t.Error("more were served than can be")
		}
	}
}

// One asks first, but has its answer last: another one is before it in the queue
// of the client, which Redis does not know.
func TestCrowdWhoseAnswersCrossIsServedAtOnce(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]struct {
		wait func(ctx context.Context, c *mortise.Client) error
		shut func(t *testing.T, c *mortise.Client) (serve func()) // there are two permits, and both are out
	}{
		"Semaphore": {
			func(ctx context.Context, c *mortise.Client) error { return c.Semaphore("job").Acquire(ctx, 1) },
			func(t *testing.T, c *mortise.Client) func() {
				mustAcquire(t, permitted(t, c, "job", 2), 2)
				return func() { mustRelease(t, c.Semaphore("job"), 1) }
			},
		},
		"PermitSemaphore": {
			func(ctx context.Context, c *mortise.Client) error {
				_, _, err := c.PermitSemaphore("job").Acquire(ctx) //nolint:dogsled // held until the client is closed
				return err
			},
			func(t *testing.T, c *mortise.Client) func() {
				sem := permitsOf(t, c, 2)
				one, _ := mustTakePermits(t, sem)
				two, _ := mustTakePermits(t, sem)
				return func() {
					mustUnlock(t, one)
					one = two
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				other, _ := open(t, s, nil)
				serve := kind.shut(t, other)
				if _, err := c.Semaphore("job").Available(t.Context()); err != nil { // it knows all else that it asks
					t.Fatal(err)
				}
				f.Set(nil, func(context.Context, string) error { time.Sleep(20 * time.Millisecond); return nil })
				served := make(chan error, 2)
				go func() { served <- kind.wait(t.Context(), c) }()
				time.Sleep(10 * time.Millisecond)
				f.Set(nil, nil)
				go func() { served <- kind.wait(t.Context(), c) }()
				for range 2 {
					time.Sleep(100 * time.Millisecond)
					start := time.Now()
					serve()
					if err := <-served; err != nil {
						t.Fatal(err)
					}
					if d := time.Since(start); d != 0 {
						t.Errorf("served after %v, want at once", d)
					}
				}
			})
		})
	}
}

// Many of one client receive what is forged: together they ask no more often than
// one may.
func TestCrowdIsCalmUnderForgery(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]struct {
		wait    func(ctx context.Context, c *mortise.Client) error
		channel string
	}{
		"Semaphore": {func(ctx context.Context, c *mortise.Client) error { return c.Semaphore("job").Acquire(ctx, 1) }, "redisson_sc:{job}"},
		"CountDownLatch": {func(ctx context.Context, c *mortise.Client) error {
			if _, err := c.CountDownLatch("job").TrySetCount(ctx, 1); err != nil {
				return err
			}
			return c.CountDownLatch("job").Wait(ctx)
		}, "redisson_countdownlatch__channel__{job}"},
		"Barrier": {func(ctx context.Context, c *mortise.Client) error {
			_, err := c.Barrier("job", 100).Await(ctx)
			return err
		}, "mortise:barrier_channel:{job}"},
		"DoubleBarrier": {func(ctx context.Context, c *mortise.Client) error {
			_, _, err := c.DoubleBarrier("job", 100).Enter(ctx) //nolint:dogsled // nobody is let in
			return err
		}, "mortise:barrier_channel:{job}"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, f := open(t, s, nil)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, crowd)
				for range crowd {
					go func() { ended <- kind.wait(ctx, c) }()
				}
				time.Sleep(10 * time.Second)
				wantCalmUnderForgery(t, s, f, kind.channel, "0", "1", "", "two")
				cancel()
				for range crowd {
					if err := <-ended; err == nil {
						t.Error("a waiter has what it waited for by a forged message")
					}
				}
			})
		})
	}
}

// A crowd of waiters that gives up in one instant leaves at most the claim of the first to be removed: Redis is
// not asked on behalf of the others, which never had anything there.
func TestCrowdThatGivesUpAsksLittle(t *testing.T) {
	t.Parallel()
	const many = 50
	for name, a := range waitedFor {
		if a.party { // each of which tells Redis that it has left
			continue
		}
		t.Run(name, func(t *testing.T) {
			several(t, 3, func(t *testing.T, servers []*memredis.Server) {
				waiters, fs := openProcess(t, servers)
				other, _ := openProcess(t, servers)
				_, free := a.occupy(t, other, "job")
				// All ask before the first is refused.
				slow := func(context.Context, string) error { time.Sleep(10 * time.Millisecond); return nil }
				for _, f := range fs {
					f.Set(slow, nil)
				}
				ended := make(chan error, many)
				for range many {
					go func() { ended <- a.wait(t.Context(), waiters, "job", waitFor) }()
				}
				time.Sleep(waitFor - time.Millisecond)
				var asked atomic.Int64
				count := func(context.Context, string) error { asked.Add(1); return nil }
				for _, f := range fs {
					f.Set(count, nil)
				}
				for range many {
					if err := <-ended; !errors.Is(err, a.busy) {
						t.Errorf("%v, want %v", err, a.busy)
					}
				}
				time.Sleep(time.Second)
				// A few for the record of the client.
				if n := asked.Load(); n > 10 {
					t.Errorf("%d waiters that give up send %d scripts", many, n)
				}
				free()
			})
		})
	}
}
