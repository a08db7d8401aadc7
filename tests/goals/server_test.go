package goals

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/driver/goredis"
	"github.com/mortise-go/mortise/driver/rueidis"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"
)

// dialers opens a driver of each kind, for one server or a cluster.
var dialers = map[string]func(t *testing.T, addrs ...string) driver.Driver{
	"goredis": func(t *testing.T, addrs ...string) driver.Driver {
		rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs, IsClusterMode: len(addrs) > 1, DialerRetries: 1})
		t.Cleanup(func() { _ = rdb.Close() })
		return goredis.Wrap(rdb.(goredis.Client))
	},
	"rueidis": func(t *testing.T, addrs ...string) driver.Driver {
		rdb, err := rueidisclient.NewClient(rueidisclient.ClientOption{
			InitAddress: addrs, ForceSingleClient: len(addrs) == 1, ConnWriteTimeout: 3 * time.Second, DisableCache: true,
			RingScaleEachConn: 7, ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10,
			ClusterOption: rueidisclient.ClusterOption{MaxMovedRedirections: 16},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(rdb.Close)
		return rueidis.Wrap(rdb)
	},
}

// each runs f with each driver.
func each(t *testing.T, f func(t *testing.T, dial func(addrs ...string) *mortise.Client)) {
	for name, open := range dialers {
		t.Run(name, func(t *testing.T) {
			f(t, func(addrs ...string) *mortise.Client {
				c := mortise.New(open(t, addrs...), nil)
				t.Cleanup(func() { _ = c.Close() })
				return c
			})
		})
	}
}

// took is a sample of durations.
type took struct {
	mu  sync.Mutex
	all []time.Duration
}

func (k *took) add(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, d)
}

// want says how long the longest but one of a hundred, and the longest of all, may take.
func (k *took) want(t *testing.T, b *canary.Bounds, what string, p99, most time.Duration) {
	t.Helper()
	slices.Sort(k.all)
	n := len(k.all)
	at, last := k.all[(n-1)*99/100], k.all[n-1]
	t.Logf("%d: p50 %v, p99 %v, max %v", n, k.all[n/2], at, last)
	if *deep { // of a few the p99 is the maximum
		b.Within(what+", 99 of a hundred", at, p99)
	}
	b.Within(what+", at most", last, most)
}

// wakes has a waiter of each kind that a message wakes, with how to let it go.
var wakes = map[string]func(t *testing.T, holder, waiter *mortise.Client, name string) (free func() error, wait func() error){
	"Lock": func(t *testing.T, holder, waiter *mortise.Client, name string) (func() error, func() error) {
		return heldUp(t, holder.Lock(name), waiter.Lock(name))
	},
	"FairLock": func(t *testing.T, holder, waiter *mortise.Client, name string) (func() error, func() error) {
		return heldUp(t, holder.FairLock(name), waiter.FairLock(name))
	},
	"RWLock": func(t *testing.T, holder, waiter *mortise.Client, name string) (func() error, func() error) {
		return heldUp(t, holder.RWLock(name).Write(), waiter.RWLock(name).Read())
	},
	"PermitSemaphore": func(t *testing.T, holder, waiter *mortise.Client, name string) (func() error, func() error) {
		must(t, holder.PermitSemaphore(name).SetPermits(t.Context(), 1))
		hold, _, err := holder.PermitSemaphore(name).Acquire(t.Context())
		must(t, err)
		return hold.Unlock, func() error {
			hold, _, err := waiter.PermitSemaphore(name).Acquire(t.Context())
			if err != nil {
				return err
			}
			return hold.Unlock()
		}
	},
	"Semaphore": func(t *testing.T, holder, waiter *mortise.Client, name string) (func() error, func() error) {
		_, err := holder.Semaphore(name).TrySetPermits(t.Context(), 1)
		must(t, err)
		must(t, holder.Semaphore(name).Acquire(t.Context(), 1))
		return func() error { return holder.Semaphore(name).Release(t.Context(), 1) }, func() error { return waiter.Semaphore(name).Acquire(t.Context(), 1) }
	},
	"CountDownLatch": func(t *testing.T, holder, waiter *mortise.Client, name string) (func() error, func() error) {
		_, err := holder.CountDownLatch(name).TrySetCount(t.Context(), 1)
		must(t, err)
		return func() error { return holder.CountDownLatch(name).CountDown(t.Context()) }, func() error { return waiter.CountDownLatch(name).Wait(t.Context()) }
	},
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func heldUp(t *testing.T, holder, waiter mortise.Locker) (free func() error, wait func() error) {
	hold, _, err := holder.Lock(t.Context())
	must(t, err)
	return hold.Unlock, func() error {
		hold, _, err := waiter.Lock(t.Context())
		if err != nil {
			return err
		}
		return hold.Unlock()
	}
}

// The connection of a waiter's subscription is killed at the moment of the release: it does not wait
// for a lease, nor for the moment at which it asks anyway.
func TestKilledSubscriptions(t *testing.T) {
	kills := times(6, 500)
	each(t, func(t *testing.T, dial func(addrs ...string) *mortise.Client) {
		for kind := range wakes {
			t.Run(kind, func(t *testing.T) {
				canary.Judge(t, func(t *testing.T, b *canary.Bounds) { killedSubscriptions(t, b, kind, kills, dial) })
			})
		}
	})
}

func killedSubscriptions(t *testing.T, b *canary.Bounds, kind string, kills int, dial func(addrs ...string) *mortise.Client) {
	s := redistest.Single(t)
	holder, waiter := dial(s.Addr()), dial(s.Addr())
	n := kills
	if kind != "Lock" {
		n = (kills + 4) / 5
	}
	var k took
	for i := range n {
		free, wait := wakes[kind](t, holder, waiter, fmt.Sprint("job ", i))
		got := make(chan error, 1)
		go func() { got <- wait() }()
		redistest.Eventually(t, "a waiter is subscribed", func() error {
			if n := s.Subscribers(t); n != 1 {
				return fmt.Errorf("%d subscribers", n)
			}
			return nil
		})
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		var both sync.WaitGroup
		both.Go(func() { s.Must(t, "CLIENT", "KILL", "TYPE", "pubsub") })
		must(t, free())
		begin := time.Now()
		must(t, <-got)
		k.add(time.Since(begin))
		both.Wait()
	}
	if kind == "Lock" {
		k.want(t, b, "the hand-over", 50*time.Millisecond, 500*time.Millisecond)
	} else {
		k.want(t, b, "the hand-over", time.Second, time.Second)
	}
}

// A caller that gives up has its answer at once, whatever its call was waiting for.
func TestCancelsReturnSoon(t *testing.T) {
	cancels := times(200, 10_000)
	each(t, func(t *testing.T, dial func(addrs ...string) *mortise.Client) {
		canary.Judge(t, func(t *testing.T, b *canary.Bounds) { cancelsReturnSoon(t, b, cancels, dial) })
	})
}

func cancelsReturnSoon(t *testing.T, b *canary.Bounds, cancels int, dial func(addrs ...string) *mortise.Client) {
	s := redistest.Single(t)
	holder, c := dial(s.Addr()), dial(s.Addr())
	block, _, err := holder.Lock("job").Lock(t.Context())
	must(t, err)
	var k took
	var done atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for done.Add(1) <= int64(cancels) {
				ctx, cancel := context.WithCancel(t.Context())
				var at time.Time
				ended := make(chan struct{})
				time.AfterFunc(time.Duration(rand.IntN(8000))*time.Microsecond, func() { at = time.Now(); cancel(); close(ended) })
				_, _, err := c.Lock("job").Lock(ctx)
				now := time.Now()
				<-ended
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%v, want Canceled", err)
				}
				k.add(now.Sub(at))
			}
		})
	}
	all.Wait()
	k.want(t, b, "a call that is cancelled", 10*time.Millisecond, time.Second)
	must(t, block.Unlock())
	redistest.Eventually(t, "nothing is left", func() error {
		if keys := s.Must(t, "KEYS", "*").([]any); len(keys) > 0 {
			return fmt.Errorf("%v", keys)
		}
		return nil
	})
}

// Redis forgets its scripts, again and again, while they are used.
func TestFlushedScripts(t *testing.T) {
	flushes := times(30, 1000)
	each(t, func(t *testing.T, dial func(addrs ...string) *mortise.Client) {
		s := redistest.Single(t)
		var stop atomic.Bool
		var held atomic.Int64
		var all sync.WaitGroup
		for i := range 3 {
			c := dial(s.Addr())
			for range 3 {
				all.Go(func() {
					for !stop.Load() {
						for _, k := range []mortise.Locker{c.Lock("job"), c.FairLock("fair"), c.RWLock("rw").Read(), c.FencedLock(fmt.Sprint("fenced ", i))} {
							hold, _, err := k.Lock(t.Context())
							if err == nil {
								held.Add(1)
								err = hold.Unlock()
							}
							if err != nil {
								t.Errorf("%T: %v", k, err)
							}
						}
					}
				})
			}
		}
		for range flushes {
			s.Must(t, "SCRIPT", "FLUSH")
			time.Sleep(time.Millisecond)
		}
		stop.Store(true)
		all.Wait()
		t.Logf("%d flushes, %d acquisitions", flushes, held.Load())
		if held.Load() < int64(flushes) {
			t.Errorf("%d acquisitions, want %d at least", held.Load(), flushes)
		}
	})
}

// A process with many waiters has one connection for their messages, and those of its pool.
func TestManyWaiters(t *testing.T) {
	waiters, names := times(500, 10_000), times(50, 1000)
	each(t, func(t *testing.T, dial func(addrs ...string) *mortise.Client) {
		s := redistest.Single(t)
		holder := dial(s.Addr())
		var blocks []*mortise.Hold
		for i := range names {
			block, _, err := holder.Lock(fmt.Sprint("job ", i)).Lock(t.Context())
			must(t, err)
			blocks = append(blocks, block)
		}
		redistest.Eventually(t, "the holder listens for requests to release", func() error {
			if n := s.Subscribers(t); n != 1 {
				return fmt.Errorf("%d connections for messages", n)
			}
			return nil
		})
		before := connections(t, s)
		c := dial(s.Addr())
		var all sync.WaitGroup
		var got atomic.Int64
		for i := range waiters {
			all.Go(func() {
				hold, _, err := c.Lock(fmt.Sprint("job ", i%names)).Lock(t.Context())
				if err == nil {
					got.Add(1)
					err = hold.Unlock()
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		channels := 0
		redistest.Eventually(t, "all names are listened to", func() error {
			v, _ := s.Must(t, "PUBSUB", "CHANNELS", "mortise:turn:*").([]any)
			if channels = len(v); channels < names {
				return fmt.Errorf("%d of %d", channels, names)
			}
			return nil
		})
		time.Sleep(1500 * time.Millisecond) // they ask now and then
		more, subscribers := connections(t, s)-before, s.Subscribers(t)-1
		t.Logf("%d waiters on %d names: %d connections, %d of them for messages", waiters, names, more, subscribers)
		if subscribers != 1 {
			t.Errorf("%d connections for messages, want 1", subscribers)
		}
		for _, block := range blocks {
			must(t, block.Unlock())
		}
		all.Wait()
		if got.Load() != int64(waiters) {
			t.Errorf("%d of %d waiters had it", got.Load(), waiters)
		}
	})
}

func connections(t *testing.T, s *redistest.Server) int {
	return strings.Count(s.Str(t, "CLIENT", "LIST"), "id=")
}
