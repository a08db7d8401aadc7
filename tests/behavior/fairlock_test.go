package behavior

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// line is a line of waiters for one fair lock, each of which waits for ctx.
type line struct {
	t   *testing.T
	all sync.WaitGroup

	mu    sync.Mutex // guards order
	order []int      // in which they had the lock
}

// join has waiter n of c wait for the lock, and returns when it is in the
// queue.
func (l *line) join(ctx context.Context, c *mortise.Client, n int, inside time.Duration) {
	l.all.Go(func() {
		hold, _, err := c.FairLock("job").Lock(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, mortise.ErrClosed) {
				l.t.Error(err)
			}
			return
		}
		l.mu.Lock()
		l.order = append(l.order, n)
		l.mu.Unlock()
		time.Sleep(inside)
		mustUnlock(l.t, hold)
	})
	synctest.Wait()
}

func (l *line) want(order ...int) {
	l.t.Helper()
	l.all.Wait()
	if !slices.Equal(l.order, order) {
		l.t.Errorf("they had the lock in the order %v, want %v", l.order, order)
	}
}

func fairly(t *testing.T, c *mortise.Client) *mortise.Hold {
	t.Helper()
	hold, _, err := c.FairLock("job").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

func queueOf(t *testing.T, c *mortise.Client) (owners []string) {
	t.Helper()
	queue, err := c.FairLock("job").Queue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range queue {
		owners = append(owners, w.Owner)
	}
	return owners
}

// run runs a script as a foreign client would.
func runScript(t *testing.T, s *memredis.Server, source string, keys ...string) driver.Value {
	t.Helper()
	d := s.Driver()
	defer d.Close()
	v, err := d.Eval(t.Context(), driver.Call{Script: driver.NewScript("foreign", source), Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// absentRedissonWaiter puts java:1 into the queue, which does not come.
func absentRedissonWaiter(t *testing.T, s *memredis.Server) {
	t.Helper()
	runScript(t, s, `redis.call('rpush', KEYS[1], 'java:1') redis.call('zadd', KEYS[2], 9e12, 'java:1') return 1`,
		keyspace.FairQueue("job"), keyspace.FairDeadlines("job"))
}

func TestFairOrderOverProcesses(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		const waiters = 300
		cs := clients(t, s, 4, nil)
		block := fairly(t, cs[0])
		l := &line{t: t}
		var want []int
		for i := range waiters {
			l.join(t.Context(), cs[i*7%4], i, time.Millisecond)
			want = append(want, i)
		}
		if n := len(queueOf(t, cs[0])); n != waiters {
			t.Errorf("%d are in the queue, want %d", n, waiters)
		}
		start := time.Now()
		mustUnlock(t, block)
		l.want(want...)
		if d := time.Since(start); d != waiters*time.Millisecond {
			t.Errorf("%d turns of 1ms took %v, want no time between them", waiters, d)
		}
		wantEmpty(t, s)
	})
}

func TestFairTryLockDoesNotQueueAndDoesNotOvertake(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		block := fairly(t, c)
		if _, _, err := other.FairLock("job").TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("TryLock: %v, want ErrLocked", err)
		}
		if queue := queueOf(t, c); len(queue) != 0 {
			t.Errorf("TryLock queued: %v", queue)
		}
		mustUnlock(t, block)
		absentRedissonWaiter(t, s)
		_, _, err := other.FairLock("job").TryLock(t.Context())
		var held *mortise.HeldError
		if !errors.Is(err, mortise.ErrLocked) || !errors.As(err, &held) || held.Owner != "java:1" || held.Count != 0 ||
			!strings.Contains(err.Error(), "next to have it") {
			t.Errorf("TryLock of a lock that is free for another: %v, want ErrLocked and the next one", err)
		}
	})
}

// However long it waits, a waiter keeps its place; Redisson would have dropped
// it after five minutes.
func TestFairWaiterKeepsItsPlace(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, f := open(t, s, nil)
		block := fairly(t, c)
		l := &line{t: t}
		for i := range 60 { // more than one heartbeat refreshes
			l.join(t.Context(), other, i, 0)
		}
		before := queueOf(t, c)
		start := f.Total()
		const minutes = 6 // Redisson's patience is five
		for range minutes / 2 {
			time.Sleep(2 * time.Minute)
			// What every script of Redisson does first.
			runScript(t, s, `
				local now = redis.call('time')[1] * 1000
				while true do
					local head = redis.call('lindex', KEYS[1], 0)
					local score = head and redis.call('zscore', KEYS[2], head)
					if not score or tonumber(score) > now then return 0 end
					redis.call('lpop', KEYS[1])
					redis.call('zrem', KEYS[2], head)
				end`, keyspace.FairQueue("job"), keyspace.FairDeadlines("job"))
		}
		if after := queueOf(t, c); !slices.Equal(before, after) {
			t.Errorf("the queue has changed from %d to %d waiters", len(before), len(after))
		}
		if n, most := f.Total()-start, minutes*60*3/2+100; n > most {
			t.Errorf("waiting for %d minutes took %d scripts, want %d at most, whatever the number of waiters", minutes, n, most)
		}
		mustUnlock(t, block)
		l.all.Wait()
		if !slices.IsSorted(l.order) || len(l.order) != 60 {
			t.Errorf("they had the lock in the order %v", l.order)
		}
	})
}

// A live waiter that is dropped, by either side, queues again.
func TestFairWaiterThatWasDroppedQueuesAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		block := fairly(t, c)
		l := &line{t: t}
		for i := range 3 {
			l.join(t.Context(), other, i, 0)
		}
		first := queueOf(t, c)[0]
		runScript(t, s, `redis.call('lpop', KEYS[1]) redis.call('zrem', KEYS[2], '`+first+`') return 1`,
			keyspace.FairQueue("job"), keyspace.FairDeadlines("job"))
		time.Sleep(time.Second)
		if queue := queueOf(t, c); len(queue) != 3 || queue[2] != first {
			t.Errorf("the queue is %v, want %s at its end", queue, first)
		}
		runScript(t, s, `return redis.call('del', KEYS[1])`, keyspace.FairQueue("job"))
		time.Sleep(time.Second)
		if queue := queueOf(t, c); len(queue) != 3 {
			t.Errorf("the queue is %v, want all three again", queue)
		}
		mustUnlock(t, block)
		l.all.Wait()
		if len(l.order) != 3 {
			t.Errorf("%d of 3 had the lock", len(l.order))
		}
	})
}

func TestFairWaiterThatGivesUpLeavesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		block := fairly(t, c)
		l := &line{t: t}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 9 {
			if i%3 == 1 {
				l.join(t.Context(), other, i, time.Second)
			} else {
				l.join(ctx, c, i, time.Second)
			}
		}
		cancel()
		synctest.Wait()
		if n := len(queueOf(t, c)); n != 3 {
			t.Errorf("%d are in the queue after 6 of 9 gave up, want 3", n)
		}
		start := time.Now()
		mustUnlock(t, block)
		l.want(1, 4, 7)
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("three turns of a second took %v, want %v", d, 3*time.Second)
		}
	})
}

// A process dies while it waits. Those behind are delayed by two seconds at
// most, however many died, and keep their order.
func TestFairDeadWaiters(t *testing.T) {
	t.Parallel()
	for _, dead := range []int{1, 8} {
		t.Run(fmt.Sprint(dead), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				block := fairly(t, c)
				l := &line{t: t}
				var victims []*mortise.Client
				for i := range dead {
					// Its requests are lost from here on, that to leave included.
					victim, f := open(t, s, nil)
					for range 2 {
						l.join(t.Context(), victim, -1, 0)
					}
					f.Set(func(context.Context, string) error { return errCut }, nil)
					victims = append(victims, victim)
					l.join(t.Context(), c, i, 0)
				}
				for _, victim := range victims {
					if err := victim.Close(); err != nil {
						t.Error(err)
					}
				}
				synctest.Wait() // until Redis knows that their connections have ended: else it grants them the lock
				var want []int
				for i := range dead {
					want = append(want, i)
				}
				if n := len(queueOf(t, c)); n != 3*dead {
					t.Errorf("%d are in the queue, want the %d dead and the %d living", n, 2*dead, dead)
				}
				start := time.Now()
				mustUnlock(t, block)
				l.want(want...)
				if d := time.Since(start); d > 2*time.Second {
					t.Errorf("the dead delayed the living by %v, want 2s at most", d)
				}
				wantEmpty(t, s)
			})
		})
	}
}

// A waiter whose process is frozen keeps its connection, so only its silence
// tells.
func TestFairFrozenWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		frozen, f := open(t, s, nil)
		block := fairly(t, c)
		l := &line{t: t}
		ctx, cancel := context.WithCancel(t.Context())
		l.join(ctx, frozen, -1, 0)
		l.join(t.Context(), c, 1, 0)
		f.Set(hang, nil)
		time.Sleep(5 * time.Second)
		start := time.Now()
		mustUnlock(t, block)
		// The other's goroutine is not done, so do not wait for it.
		for time.Since(start) < time.Minute {
			time.Sleep(100 * time.Millisecond)
			if len(queueOf(t, c)) == 0 {
				break
			}
		}
		if d := time.Since(start); d > 11*time.Second {
			t.Errorf("a frozen waiter delayed the next by %v, want about ten seconds at most", d)
		}
		f.Set(nil, nil)
		cancel()
		l.want(1)
		wantEmpty(t, s)
	})
}

// Several are frozen, one behind the other. Each is granted the lock for three
// seconds until its silence tells, and that is so for all at the same time.
func TestFairFrozenWaitersInARow(t *testing.T) {
	t.Parallel()
	for _, frozen := range []int{3, 5} {
		t.Run(fmt.Sprint(frozen), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				block := fairly(t, c)
				l := &line{t: t}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var drivers []*faults
				for range frozen {
					other, f := open(t, s, nil)
					l.all.Go(func() {
						if hold, _, err := other.FairLock("job").Lock(ctx); err == nil {
							_ = hold.Unlock() // it cannot, while it is frozen
						}
					})
					synctest.Wait()
					drivers = append(drivers, f)
				}
				got := make(chan time.Time, 1)
				l.all.Go(func() {
					hold := fairly(t, c)
					got <- time.Now()
					mustUnlock(t, hold)
				})
				synctest.Wait()
				for _, f := range drivers {
					f.Set(hang, nil)
				}
				start := time.Now()
				mustUnlock(t, block)
				d := (<-got).Sub(start)
				if d > 11*time.Second {
					t.Errorf("%d frozen waiters delayed the next by %v, want 11s at most", frozen, d)
				}
				t.Logf("%d frozen waiters delayed the next by %v", frozen, d)
				for _, f := range drivers {
					f.Set(nil, nil)
				}
				cancel()
				l.all.Wait()
			})
		})
	}
}

// A lease that ends without being released, as that of a holder that died: nobody
// publishes that, and yet it is noticed sooner than by the next heartbeat.
func TestFairLeaseThatEnds(t *testing.T) {
	t.Parallel()
	for seed := range 100 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				other, _ := open(t, s, nil)
				lease := 3*time.Second + time.Duration(seed)*37*time.Millisecond
				start := time.Now()
				if _, _, err := c.FairLock("job").With(mortise.LockOptions{MaxHold: lease}).Lock(t.Context()); err != nil {
					t.Fatal(err)
				}
				hold := fairly(t, other)
				if late := time.Since(start) - lease; late < 0 || late > 3*time.Millisecond {
					t.Errorf("the next one had the lock %v after the end of a lease of %v", late, lease)
				}
				mustUnlock(t, hold)
			})
		})
	}
}

// A Redisson waiter that died (no subscriber), and one that queues and
// subscribes a moment later.
func TestFairDeadAndLateRedissonWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		block := fairly(t, c)
		absentRedissonWaiter(t, s)
		l := &line{t: t}
		l.join(t.Context(), c, 1, 0)
		start := time.Now()
		mustUnlock(t, block)
		time.Sleep(900 * time.Millisecond)
		if queue := queueOf(t, c); len(queue) != 2 || queue[0] != "java:1" {
			t.Errorf("the queue is %v after 0.9s, want the Redisson waiter still first", queue)
		}
		l.want(1)
		if d := time.Since(start); d < time.Second || d > 2*time.Second {
			t.Errorf("a dead Redisson waiter delayed the next by %v, want one to two seconds", d)
		}
	})
}

func TestFairCloseLeavesTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		gone, _ := open(t, s, nil)
		block := fairly(t, c)
		l := &line{t: t}
		for range 5 {
			l.join(t.Context(), gone, -1, 0)
		}
		l.join(t.Context(), c, 1, 0)
		if err := gone.Close(); err != nil {
			t.Error(err)
		}
		if n := len(queueOf(t, c)); n != 1 {
			t.Errorf("%d are in the queue after a client with 5 waiters was closed, want 1", n)
		}
		mustUnlock(t, block)
		l.want(1)
	})
}

// Foreign messages to a waiter do not make it busy.
func TestFairForgedMessages(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		other, f := open(t, s, nil)
		block := fairly(t, c)
		l := &line{t: t}
		l.join(t.Context(), other, 1, 0)
		channel := keyspace.FairChannel("job", queueOf(t, c)[0])
		start := f.Total()
		for range 2000 {
			runScript(t, s, `return redis.call('publish', KEYS[1], 'what')`, channel)
			time.Sleep(time.Millisecond)
		}
		if n := f.Total() - start; n > 2*220 {
			t.Errorf("2000 forged messages in 2s caused %d scripts, want 200 a second at most", n)
		}
		mustUnlock(t, block)
		l.want(1)
	})
}

// A client that begins to listen asks for the waiter that is first in Redis,
// not for one whose place there it does not know yet.
func TestFairFirstAsksWhenTheClientListens(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		other, _ := open(t, s, nil)
		c, f := open(t, s, nil)
		held := fairly(t, other)
		first := make(chan struct{})
		var calls atomic.Int32
		f.Set(func(_ context.Context, name string) error { // the first request takes the longer way
			if name == "fair_acquire" && calls.Add(1) == 1 {
				time.Sleep(50 * time.Millisecond)
			}
			return nil
		}, func(_ context.Context, name string) error { // the lock becomes free before the client listens
			if name == "fair_acquire" && calls.Load() == 2 {
				mustUnlock(t, held)
				calls.Add(1)
			}
			return nil
		})
		l := line{t: t}
		l.join(t.Context(), c, 2, time.Millisecond)
		from := time.Now()
		l.all.Go(func() {
			hold, _, err := c.FairLock("job").Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if took := time.Since(from); took > time.Millisecond {
				t.Errorf("the first waiter had the lock after %v, want at once", took)
			}
			close(first)
			mustUnlock(t, hold)
		})
		<-first
		l.want(2)
	})
}

// A lock with fencing tokens that is released by force goes to the next waiter of the fair queue at once.
func TestForcedFencedLockGoesToTheFairWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		a, _ := open(t, s, nil)
		b, _ := open(t, s, nil)
		operator, _ := open(t, s, nil)
		held, _, err := a.FencedLock("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := later(t, t.Context(), b.FairLock("job"))
		time.Sleep(time.Minute)
		start := time.Now()
		by, err := operator.FairLock("job").ForceUnlock(t.Context())
		if err != nil || by == nil || by.Owner != held.Owner() {
			t.Fatalf("freed %v, %v; want the lock of %s", by, err, held.Owner())
		}
		mustUnlock(t, <-got)
		if d := time.Since(start); d > 100*time.Millisecond {
			t.Errorf("the waiter had the lock %v after it was freed", d)
		}
	})
}
