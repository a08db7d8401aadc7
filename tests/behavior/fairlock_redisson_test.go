package behavior

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/memredis"
)

// redisson does to a fair lock what Redisson's scripts do, by a clock that may be
// ahead of Redis'.
type redisson struct {
	t     *testing.T
	d     driver.Driver
	sub   driver.Subscriber // of its threads
	ahead time.Duration
}

func withRedisson(t *testing.T, s *memredis.Server) *redisson {
	d := s.Driver()
	sub := d.Subscriber(sinkFunc(func() {}))
	t.Cleanup(func() {
		_ = sub.Close()
		_ = d.Close()
	})
	return &redisson{t: t, d: d, sub: sub}
}

// run runs a script behind the one that all of Redisson's begin with: it drops
// the head while its deadline has passed.
func (r *redisson) run(body string, args ...string) driver.Value {
	r.t.Helper()
	v, err := r.d.Eval(r.t.Context(), driver.Call{
		Script: driver.NewScript("redisson", `
			local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
			local clock = redis.call('time')
			local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + `+millis(r.ahead)+`
			local dropped = 0
			while true do
				local head = redis.call('lindex', queue, 0)
				local score = head and redis.call('zscore', deadlines, head)
				if not score or tonumber(score) > now then break end
				redis.call('lpop', queue)
				redis.call('zrem', deadlines, head)
				dropped = dropped + 1
			end `+body),
		Keys: []string{"job", keyspace.FairQueue("job"), keyspace.FairDeadlines("job")}, Args: args,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// look returns how many it has dropped.
func (r *redisson) look() int {
	r.t.Helper()
	return int(r.run(`return dropped`).Int())
}

// queue has a thread wait that gives up after that time.
func (r *redisson) queue(thread string, wait time.Duration) {
	r.t.Helper()
	r.run(`
		local last = redis.call('lindex', queue, -1)
		local base = last and tonumber(redis.call('zscore', deadlines, last)) or now + math.max(0, redis.call('pttl', lock))
		redis.call('zadd', deadlines, string.format('%.0f', base + ARGV[2]), ARGV[1])
		return redis.call('rpush', queue, ARGV[1])`, thread, millis(wait))
	r.sub.Subscribe("redisson_lock__channel:{job}:"+thread, false)
	synctest.Wait()
}

// die has a thread listen no more.
func (r *redisson) die(thread string) {
	r.sub.Unsubscribe("redisson_lock__channel:{job}:"+thread, false)
	synctest.Wait()
}

// take reports whether the thread, which waits, has the lock now.
func (r *redisson) take(thread string, wait time.Duration) bool {
	r.t.Helper()
	return r.run(`
		if redis.call('exists', lock) == 1 or redis.call('lindex', queue, 0) ~= ARGV[1] then return 0 end
		redis.call('lpop', queue)
		redis.call('zrem', deadlines, ARGV[1])
		for _, other in ipairs(redis.call('zrange', deadlines, 0, -1)) do redis.call('zincrby', deadlines, -ARGV[2], other) end
		redis.call('hset', lock, ARGV[1], 1)
		redis.call('pexpire', lock, 30000)
		return 1`, thread, millis(wait)).Int() == 1
}

func (r *redisson) release(thread string) {
	r.t.Helper()
	r.run(`
		redis.call('del', lock)
		local head = redis.call('lindex', queue, 0)
		if head then redis.call('publish', 'redisson_lock__channel:{job}:' .. head, '0') end
		return 1`)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

const javaThread = "8d4f8a6e-2d1c-4f39-8f0b-3c1f5f2a7e90:"

// A waiter of ours keeps its place among Redisson's threads, whatever those before
// it take from its deadline, and those behind it keep theirs.
func TestFairPlacesAmongRedissonsThreads(t *testing.T) { fairPlaces(t, nil, 5*time.Minute, 30) }

// So it is where Redisson's fairLockWaitTimeout is another one, if we know it.
func TestFairPlacesAmongMorePatientThreads(t *testing.T) {
	fairPlaces(t, &mortise.Options{FairWait: 20 * time.Minute}, 20*time.Minute, 6)
}

func fairPlaces(t *testing.T, options *mortise.Options, wait time.Duration, looks int) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, options)
		other, _ := open(t, s, options)
		r := withRedisson(t, s)
		block := fairly(t, c)
		l := &line{t: t}
		r.queue(javaThread+"1", wait)
		l.join(t.Context(), other, 1, 0)
		r.queue(javaThread+"2", wait)
		l.join(t.Context(), c, 2, 0)
		r.queue(javaThread+"3", wait)
		queue := queueOf(t, c)
		for range looks { // Redisson's own deadlines end later
			time.Sleep(10 * time.Second)
			if n := r.look(); n != 0 {
				t.Fatalf("Redisson has dropped %d waiters that live, want 0", n)
			}
			if len(queueOf(t, c)) != len(queue) {
				t.Fatalf("the queue is %v, want %v", queueOf(t, c), queue)
			}
		}
		mustUnlock(t, block)
		for i, thread := range []string{"1", "2", "3"} {
			synctest.Wait()
			if !r.take(javaThread+thread, wait) {
				t.Fatalf("thread %s does not get the lock; the queue is %v", thread, queueOf(t, c))
			}
			if n := r.look(); n != 0 {
				t.Fatalf("Redisson has dropped %d waiters that live, want 0", n)
			}
			r.release(javaThread + thread)
			if n := r.look(); n != 0 {
				t.Fatalf("Redisson has dropped %d waiters that live, after the release, want 0", n)
			}
			time.Sleep(time.Second)
			l.mu.Lock()
			if i < 2 && len(l.order) != i+1 {
				t.Errorf("after thread %s the order is %v", thread, l.order)
			}
			l.mu.Unlock()
		}
		l.want(1, 2)
	})
}

// A waiter that died is in the way of Redisson's threads for ten seconds at most,
// where nobody of mortise's lives; and no longer than it would have waited.
func TestFairDeadWaiterBeforeRedissonsThreads(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ limit, most time.Duration }{
		"without a limit": {0, 10 * time.Second}, "with one": {6 * time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				victim, f := open(t, s, nil)
				r := withRedisson(t, s)
				r.queue(javaThread+"1", time.Minute)
				if !r.take(javaThread+"1", time.Minute) {
					t.Fatal("a thread does not get a free lock")
				}
				l := &line{t: t}
				ctx, cancel := context.WithCancel(t.Context())
				if test.limit > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), test.limit)
				}
				defer cancel()
				for range 60 { // more than are looked after at a time
					l.join(ctx, victim, -1, 0)
				}
				r.queue(javaThread+"2", time.Minute)
				time.Sleep(time.Second)
				f.Set(func(context.Context, string) error { return errCut }, nil)
				died := time.Now()
				if err := victim.Close(); err != nil {
					t.Error(err)
				}
				l.all.Wait()
				r.release(javaThread + "1")
				for !r.take(javaThread+"2", time.Minute) {
					time.Sleep(10 * time.Millisecond)
					if time.Since(died) > time.Minute {
						t.Fatal("the thread does not get the lock")
					}
				}
				d := time.Since(died)
				t.Logf("the thread had the lock %v after the death", d)
				if d > test.most+4*time.Second { // of those that come later, a little more
					t.Errorf("the thread had the lock %v after those before it had died, want %v at most", d, test.most)
				}
			})
		})
	}
}

// Redisson's threads count with their own clocks. Where one is ahead by more than
// a waiter's deadline, the waiter loses its place, and has a longer one then.
func TestFairClockOfRedissonThatIsAhead(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		r := withRedisson(t, s)
		r.ahead = 45 * time.Second
		block := fairly(t, c)
		other, _ := open(t, s, nil)
		l := &line{t: t}
		l.join(t.Context(), other, 1, 0)
		dropped := 0
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			dropped += r.look()
		}
		if dropped == 0 || dropped > 4 {
			t.Errorf("the waiter was dropped %d times in 10s, want a few times at first", dropped)
		}
		for range 300 {
			time.Sleep(100 * time.Millisecond)
			if n := r.look(); n != 0 {
				t.Fatal("the waiter is dropped again and again")
			}
		}
		mustUnlock(t, block)
		l.want(1)
	})
}

// A thread of Redisson's waits behind one that died just before a mortise process released the lock, or behind many of
// them, and nobody else of mortise's waits: the releaser looks again, and once more if that look is lost.
func TestFairReleaserLooksAgain(t *testing.T) {
	t.Parallel()
	type fault = func(context.Context, string) error
	for name, faulty := range map[string]func() (before, after fault){
		"":               func() (before, after fault) { return nil, nil },
		"a request lost": func() (before, after fault) { return loseReplies("fair_release", 1), nil },
		"a reply lost":   func() (before, after fault) { return nil, loseReplies("fair_release", 1) },
	} {
		for _, dead := range []int{1, 62, 63, 64, 65, 130} {
			t.Run(fmt.Sprint(dead, " dead, ", name), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					before, after := faulty()
					fairReleaserLooksAgain(t, s, dead, before, after)
				})
			})
		}
	}
}

func fairReleaserLooksAgain(t *testing.T, s *memredis.Server, dead int, before, after func(context.Context, string) error) {
	c, f := open(t, s, nil)
	r := withRedisson(t, s)
	block := fairly(t, c)
	for i := range dead {
		r.queue(fmt.Sprint(javaThread, 10+i), 5*time.Minute)
	}
	for i := range dead {
		r.die(fmt.Sprint(javaThread, 10+i))
	}
	r.queue(javaThread+"2", 5*time.Minute)
	woken := make(chan struct{}, 10)
	d := s.Driver()
	defer d.Close()
	sub := d.Subscriber(sinkFunc(func() { woken <- struct{}{} }))
	defer sub.Close()
	sub.Subscribe("redisson_lock__channel:{job}:"+javaThread+"2", false)
	synctest.Wait()
	for len(woken) > 0 {
		<-woken
	}
	start := time.Now()
	mustUnlock(t, block)
	f.Set(before, after)
	select {
	case <-woken:
	case <-time.After(10 * time.Second):
		t.Fatal("the thread behind a dead one is not woken")
	}
	if d, most := time.Since(start), time.Duration(2+(dead-1)/63)*time.Second; d > most {
		t.Errorf("the thread behind %d dead ones was woken after %v, want %v at most", dead, d, most)
	}
	if !r.take(javaThread+"2", 5*time.Minute) {
		t.Error("the thread does not get the lock")
	}
}

type sinkFunc func()

func (f sinkFunc) Message(string, string) { f() }

func (f sinkFunc) Subscribed(string) {}

func (f sinkFunc) Refused(string, error) {}
