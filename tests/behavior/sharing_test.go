package behavior

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/memredis"
)

// javaProcess is a process with threads that wait for a plain lock as Redisson's do:
// for the announcement, of which each wakes one of them, or for the TTL that they
// were told. A thread needs some milliseconds from a message to the attempt.
type javaProcess struct {
	d       driver.Driver
	sub     driver.Subscriber
	lock    string
	kind    javaKind
	permits chan struct{}
	react   func() time.Duration
}

// javaKind is how Redisson takes and frees a kind of lock, and where it announces that.
type javaKind struct {
	take, free *driver.Script
	channel    func(name string) string
}

var (
	javaLock = javaKind{javaTake, javaFree, keyspace.LockChannel}
	javaRW   = javaKind{driver.NewScript("java_write", `
		if redis.call('exists', KEYS[1]) == 1 then return redis.call('pttl', KEYS[1]) end
		redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1] .. ':write', 1)
		redis.call('pexpire', KEYS[1], 30000)
		return -1`), driver.NewScript("java_stop", `
		redis.call('del', KEYS[1])
		redis.call('publish', ARGV[1], '1')
		return 1`), keyspace.RWChannel}
	javaPermit = javaKind{driver.NewScript("java_acquire", `
		if tonumber(redis.call('get', KEYS[1]) or 0) < 1 then return 1000000 end
		redis.call('decr', KEYS[1])
		return -1`), driver.NewScript("java_release", `
		redis.call('publish', ARGV[1], redis.call('incr', KEYS[1]))
		return 1`), keyspace.SemaphoreChannel}
)

// listen has a process of Redisson's that listens as the lock's waiters do.
func (k javaKind) listen(t *testing.T, s *memredis.Server, lock string) *javaProcess {
	t.Helper()
	r := newJavaProcess(t, s, lock)
	r.kind = k
	r.sub.Subscribe(k.channel(lock), false)
	return r
}

func newJavaProcess(t *testing.T, s *memredis.Server, lock string) *javaProcess {
	t.Helper()
	r := &javaProcess{
		d: s.Driver(), lock: lock, kind: javaLock, permits: make(chan struct{}, 1000),
		react: func() time.Duration { return time.Millisecond + rand.N(3*time.Millisecond) },
	}
	r.sub = r.d.Subscriber(r)
	t.Cleanup(func() { _ = r.sub.Close(); _ = r.d.Close() })
	return r
}

func (r *javaProcess) Message(string, string) {
	select {
	case r.permits <- struct{}{}:
	default: // none of its threads asks
	}
}

func (r *javaProcess) Subscribed(string) {}

func (r *javaProcess) Refused(string, error) {}

var (
	javaTake = driver.NewScript("java_take", `
		if redis.call('exists', KEYS[1]) == 1 then return redis.call('pttl', KEYS[1]) end
		redis.call('hset', KEYS[1], ARGV[1], 1)
		redis.call('pexpire', KEYS[1], 30000)
		return -1`)
	javaFree = driver.NewScript("java_free", `
		redis.call('del', KEYS[1])
		redis.call('publish', ARGV[1], '0')
		return 1`)
)

// run has a thread take the lock and release it until ctx ends, and calls f while
// it has the lock.
func (r *javaProcess) run(ctx context.Context, t *testing.T, thread int, f func(waited time.Duration)) {
	owner := fmt.Sprintf("b2000000-0000-4000-8000-000000000002:%d", thread)
	for ctx.Err() == nil {
		start := time.Now()
		for {
			v, err := r.d.Eval(ctx, driver.Call{Script: r.kind.take, Keys: []string{r.lock}, Args: []string{owner}})
			if err != nil {
				return
			}
			if v.Int() == -1 {
				break
			}
			select {
			case <-r.permits:
			case <-time.After(time.Duration(v.Int()) * time.Millisecond):
			case <-ctx.Done():
				return
			}
			time.Sleep(r.react())
		}
		f(time.Since(start))
		if _, err := r.d.Eval(context.Background(), driver.Call{Script: r.kind.free, Keys: []string{r.lock}, Args: []string{r.kind.channel(r.lock)}}); err != nil {
			t.Error(err)
		}
		time.Sleep(200 * time.Microsecond) // the answer comes, and it asks again
	}
}

// A lock for which threads of Redisson's wait as well is theirs as often as they
// need it to be, and ours as often as we do, whatever the numbers.
func TestLockIsSharedWithRedisson(t *testing.T) {
	t.Parallel()
	for name, java := range map[string]javaKind{
		"Lock": javaLock, "FencedLock": javaLock, "RWLock.Write": javaRW, "Semaphore": javaPermit, "PermitSemaphore": javaPermit,
	} {
		take := takers[name]
		if k, ok := kinds[name]; ok {
			take = taking(k)
		}
		for _, n := range []int{1, 2, 4} {
			for _, m := range []int{1, 2, 4} {
				for _, hold := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond} {
					if name == "FencedLock" && (n != 2 || m != 1) && !*deep { // it shares as a Lock does
						continue
					}
					t.Run(fmt.Sprintf("%s, %d clients beside %d of Redisson's, held for %v", name, n, m, hold), func(t *testing.T) {
						bubble(t, func(t *testing.T, s *memredis.Server) { shareWithRedisson(t, s, take, java, n, m, hold) })
					})
				}
			}
		}
	}
}

// takeJob acquires what is called job, and returns what releases it.
type takeJob func(t *testing.T, c *mortise.Client, ctx context.Context) (give func(), err error)

func taking(k kind) takeJob {
	return func(t *testing.T, c *mortise.Client, ctx context.Context) (give func(), err error) {
		h, _, err := k.Open(c, "job", mortise.LockOptions{}).Lock(ctx)
		return func() { mustUnlock(t, h) }, err
	}
}

// takers acquire the only permit of a semaphore.
var takers = map[string]takeJob{
	"Semaphore": func(t *testing.T, c *mortise.Client, ctx context.Context) (give func(), err error) {
		return func() { mustRelease(t, c.Semaphore("job"), 1) }, c.Semaphore("job").Acquire(ctx, 1)
	},
	"PermitSemaphore": func(t *testing.T, c *mortise.Client, ctx context.Context) (give func(), err error) {
		h, _, err := c.PermitSemaphore("job").Acquire(ctx)
		return func() { mustUnlock(t, h) }, err
	},
}

// shareWithRedisson has goroutines of n clients contend for a lock with threads of m clients of Redisson's, and checks
// that each side gets its share.
func shareWithRedisson(t *testing.T, s *memredis.Server, take takeJob, kind javaKind, n, m int, hold time.Duration) {
	if kind.take == javaPermit.take {
		do(t, s, "SET", "job", "1")
	}
	const each, total = 4, 300
	threads := m * each
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var processes []*javaProcess
	for range m {
		processes = append(processes, kind.listen(t, s, "job"))
	}
	synctest.Wait()
	javas, gos, longest, inside := 0, 0, time.Duration(0), 0 // guarded by the lock
	have := func() {
		if inside++; inside != 1 {
			t.Errorf("%d are inside, want 1", inside)
		}
		// No hold ends at the very instant at which others who left the lock to Redisson's threads may ask again.
		time.Sleep(hold + rand.N(hold/20+1))
		if inside--; javas+gos >= total {
			cancel()
		}
	}
	var all sync.WaitGroup
	for i := range threads {
		all.Go(func() {
			processes[i%m].run(ctx, t, i, func(waited time.Duration) {
				javas++
				longest = max(longest, waited)
				have()
			})
		})
	}
	for _, c := range clients(t, s, n, nil) {
		for range each {
			all.Go(func() {
				for {
					give, err := take(t, c, ctx)
					if err != nil {
						return
					}
					gos++
					have()
					give()
					time.Sleep(200 * time.Microsecond)
				}
			})
		}
	}
	all.Wait()
	share, even := float64(javas)/float64(javas+gos), float64(threads)/float64(threads+n*each)
	t.Logf("Redisson's %d threads had it %d times, %d goroutines %d times; the longest wait of a thread was %v", threads, javas, n*each, gos, longest)
	wantShares(t, share, even, hold)
	// In turn each would wait for all others, and for the pause in between. Where there are several clients of Redisson.s, they have the
	// lock several times in a row; which of their threads has it is a race between them. So it is behind writers.
	if most := 3 * time.Duration(threads+n*each) * (hold + 5*time.Millisecond); m == 1 && kind.channel("") == keyspace.LockChannel("") && longest > most {
		t.Errorf("a thread waited for %v, want %v at most", longest, most)
	}
}

// wantShares checks the part of Redisson's threads. One hold of nothing is over before others learn of it, and releases that
// come faster than 200 a second are not all heeded.
func wantShares(t *testing.T, share, even float64, hold time.Duration) {
	t.Helper()
	theirs, ours := share/even, (1-share)/(1-even)
	switch {
	case hold >= 20*time.Millisecond && (max(theirs, ours) > 1.2 || min(theirs, ours) < 1/1.2):
		t.Errorf("Redisson's share is %.2f of an even one, mortise's %.2f", theirs, ours)
	case hold >= time.Millisecond && (theirs < 0.5 || ours < 0.25):
		t.Errorf("Redisson's share is %.2f of an even one, mortise's %.2f; want half and a quarter at least", theirs, ours)
	}
}

// Threads that listen, and do not come, cost a bounded part of the time: their
// process may be frozen.
func TestLockIsNotKeptForThoseWhoDoNotCome(t *testing.T) {
	t.Parallel()
	for name, java := range map[string]javaKind{"Lock": javaLock, "FencedLock": javaLock, "Semaphore": javaPermit, "PermitSemaphore": javaPermit} {
		take := takers[name]
		if k, ok := kinds[name]; ok {
			take = taking(k)
		}
		for _, fleet := range chosen([]struct {
			n    int
			hold time.Duration
		}{{1, time.Millisecond}, {2, time.Millisecond}, {1, 5 * time.Millisecond}, {2, 5 * time.Millisecond}, {16, time.Millisecond}, {16, 5 * time.Millisecond}, {40, 5 * time.Millisecond}, {40, time.Millisecond}}, 3, 5, 7) {
			n, hold := fleet.n, fleet.hold
			switch {
			case java.take == javaPermit.take && (n > 2 || hold < 5*time.Millisecond):
				continue // each client finds out for itself: who has permits is not known
			case name == "FencedLock" && n != 16 && !*deep: // as a Lock
				continue
			}
			t.Run(fmt.Sprintf("%s, %d clients, held for %v", name, n, hold), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) { wantBusy(t, s, take, java, n, hold, "job") })
			})
		}
	}
	for _, n := range chosen([]int{1, 2, 8}, 1, 2) {
		t.Run(fmt.Sprintf("MultiLock, %d clients", n), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				wantBusy(t, s, func(t *testing.T, c *mortise.Client, ctx context.Context) (func(), error) {
					h, _, err := mortise.NewMultiLock(c.Lock("a"), c.Lock("b")).Lock(ctx)
					return func() { mustUnlock(t, h) }, err
				}, javaLock, n, 5*time.Millisecond, "a", "b")
			})
		})
	}
}

// wantBusy has goroutines of n clients contend for locks for each of which a process of Redisson's listens without asking.
func wantBusy(t *testing.T, s *memredis.Server, take takeJob, java javaKind, n int, hold time.Duration, names ...string) {
	for _, name := range names {
		java.listen(t, s, name)
	}
	if java.take == javaPermit.take {
		do(t, s, "SET", "job", "1")
	}
	synctest.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var busy time.Duration // guarded by the lock
	var all sync.WaitGroup
	for _, c := range clients(t, s, n, nil) {
		for range max(1, 6/n) {
			all.Go(func() {
				for {
					give, err := take(t, c, ctx)
					if err != nil {
						return
					}
					time.Sleep(hold)
					busy += hold
					give()
				}
			})
		}
	}
	long := time.Duration(5*len(names)) * time.Second
	time.Sleep(long)
	cancel()
	all.Wait()
	if busy < long*8/10 {
		t.Errorf("the lock was in use for %v of %v, want 80 %% at least", busy, long)
	}
	time.Sleep(10 * time.Second)
	if java.take == javaPermit.take {
		do(t, s, "DEL", "job")
	}
	wantEmpty(t, s)
}

// A goroutine that has no rival in its own client, and so does not queue, leaves a semaphore to a thread of Redisson's as others do.
func TestLoneLoopSharesPermits(t *testing.T) {
	t.Parallel()
	for name, take := range takers {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				const total = 200
				do(t, s, "SET", "job", "1")
				java := javaPermit.listen(t, s, "job")
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				javas, gos := 0, 0 // guarded by the permit
				have := func() {
					time.Sleep(2 * time.Millisecond)
					if javas+gos >= total {
						cancel()
					}
				}
				var all sync.WaitGroup
				all.Go(func() { java.run(ctx, t, 1, func(time.Duration) { javas++; have() }) })
				c, _ := open(t, s, nil)
				for {
					give, err := take(t, c, ctx)
					if err != nil {
						break
					}
					gos++
					have()
					give()
				}
				all.Wait()
				if share := float64(javas) / total; share < 0.4 || share > 0.6 {
					t.Errorf("the thread had it %d times of %d, want about half", javas, total)
				}
			})
		})
	}
}

// While Redisson's threads listen, a client that is frozen is not granted the lock.
// If it was granted the lock before they came, they are told when the grant ends.
func TestFrozenClientDoesNotKeepRedissonWaiting(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{true, false} {
		t.Run(fmt.Sprintf("waits before the release: %v", early), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				java := newJavaProcess(t, s, "job")
				holder, _ := open(t, s, nil)
				c, f, p := openPost(t, s)
				block, _ := mustLock(t, holder.Lock("job"), t.Context())
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				got := later(t, ctx, c.Lock("job"))
				time.Sleep(1500 * time.Millisecond)
				f.Set(hang, nil) // frozen, as far as others can see
				p.set(func(string, string) (time.Duration, bool) { return 0, true })
				wait, end := context.WithCancel(t.Context())
				defer end()
				var all sync.WaitGroup
				var waited time.Duration
				start := func() {
					java.sub.Subscribe(keyspace.LockChannel("job"), false)
					synctest.Wait()
					all.Go(func() {
						java.run(wait, t, 1, func(d time.Duration) { waited = d; end() })
					})
					synctest.Wait()
				}
				released := time.Now()
				if early {
					start()
					time.Sleep(time.Second)
					released = time.Now()
					mustUnlock(t, block)
				} else {
					mustUnlock(t, block)
					time.Sleep(time.Second)
					start()
				}
				all.Wait()
				if d := time.Since(released); waited == 0 || d > 3100*time.Millisecond || early && d > 50*time.Millisecond {
					t.Errorf("a thread had the lock %v after the release, want it at once if it listened before, and else within three seconds", d)
				}
				cancel()
				<-got
			})
		})
	}
}

// What is said on Redisson's channel may be of another lock, whose name has the same
// channel, or of another database. Threads that want this one have their share all
// the same.
func TestNoiseTakesNoLockFromRedisson(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{time.Millisecond, 10 * time.Millisecond} {
		for _, hold := range []time.Duration{time.Millisecond, 20 * time.Millisecond} {
			t.Run(fmt.Sprintf("a message every %v, held for %v", every, hold), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					const threads, each, n, total = 4, 4, 2, 150
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					java := newJavaProcess(t, s, "job")
					java.sub.Subscribe(keyspace.LockChannel("job"), false)
					synctest.Wait()
					javas, gos := 0, 0 // guarded by the lock
					have := func() {
						time.Sleep(hold)
						if javas+gos >= total {
							cancel()
						}
					}
					var all sync.WaitGroup
					// Where no message takes time, one at the very moment of a release would decide each time who has the lock next.
					r := rand.New(rand.NewPCG(1, uint64(every)))
					all.Go(func() {
						for ctx.Err() == nil {
							do(t, s, "PUBLISH", keyspace.LockChannel("job"), "0")
							time.Sleep(every/2 + time.Duration(r.Int64N(int64(every))))
						}
					})
					for i := range threads {
						all.Go(func() { java.run(ctx, t, i, func(time.Duration) { javas++; have() }) })
					}
					for _, c := range clients(t, s, n, nil) {
						for range each {
							all.Go(func() {
								for {
									h, _, err := c.Lock("job").Lock(ctx)
									if err != nil {
										return
									}
									gos++
									have()
									mustUnlock(t, h)
									time.Sleep(200 * time.Microsecond)
								}
							})
						}
					}
					all.Wait()
					share, even := float64(javas)/float64(javas+gos), float64(threads)/float64(threads+n*each)
					t.Logf("Redisson's %d threads had it %d times, %d goroutines %d times", threads, javas, n*each, gos)
					if share < even/2 {
						t.Errorf("Redisson's share is %.2f of an even one, want half at least", share/even)
					}
				})
			})
		}
	}
}

// deafened is a driver whose client receives no message on its own channels.
type deafened struct{ driver.Driver }

func (d deafened) Subscriber(sink driver.Sink) driver.Subscriber {
	return d.Driver.Subscriber(deafenedSink{sink})
}

type deafenedSink struct{ driver.Sink }

func (s deafenedSink) Message(channel, payload string) {
	if channel == keyspace.LockChannel("job") {
		s.Sink.Message(channel, payload)
	}
}

// A waiter that asks by itself in the moment in which it is granted the lock counts on in the row of grants: otherwise Redisson's
// threads, which come after so many of them, would never have their turn.
func TestGrantsAreCountedThoughTheirMessagesAreLate(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		// Six to eight clients listen when the first and the second of them release the lock, and four or five processes of Redisson's:
		// it is their turn after two.
		const clients, processes = 8, 5
		for range processes {
			newJavaProcess(t, s, "job").sub.Subscribe(keyspace.LockChannel("job"), false)
		}
		do(t, s, "HSET", "job", "b2000000-0000-4000-8000-000000000002:1", "1")
		had := make(chan *mortise.Hold, clients)
		for range clients {
			c := mortise.New(deafened{s.Driver()}, nil)
			defer c.Close()
			go func() {
				if h, _, err := c.Lock("job").Lock(t.Context()); err != nil {
					t.Error(err)
				} else {
					had <- h
				}
			}()
		}
		time.Sleep(2 * time.Second) // until all of them listen to what Redisson announces
		do(t, s, "DEL", "job")
		do(t, s, "PUBLISH", keyspace.LockChannel("job"), "0")
		for i, want := range []string{"1", "0"} { // it is granted to the next, and then left to the thread
			mustUnlock(t, <-had)
			if got := fmt.Sprint(do(t, s, "EXISTS", "job")); got != want {
				t.Errorf("after release %d the lock has %s holders, want %s", i+1, got, want)
			}
		}
		for range clients - 2 {
			mustUnlock(t, <-had)
		}
	})
}
