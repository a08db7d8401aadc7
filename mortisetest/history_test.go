package mortisetest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
	"github.com/mortise-go/mortise/mortisetest"
)

// A lock that everybody writes first: SET NX with a time limit, and DEL. It ends under its holder
// if the work takes longer, and the release of that holder frees the lock of the next one.
type naiveLock struct {
	driver  driver.Driver
	name    string
	careful bool // the release looks whose lock it is, and the work stops in time
}

var (
	setNX = driver.NewScript("naive_acquire", `return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', 2000)`)
	del   = driver.NewScript("naive_release", `
		if ARGV[1] ~= '' and redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
		return redis.call('del', KEYS[1])`)
)

// do holds the lock while it works, and records that.
func (k *naiveLock) do(ctx context.Context, h *mortisetest.History, client string, work time.Duration) error {
	claim := h.Claim(ctx, client, mortisetest.Object{Sort: mortisetest.Exclusive, Name: k.name, Kind: "naive lock"}, true)
	for {
		v, err := k.driver.Eval(ctx, driver.Call{Script: setNX, Keys: []string{k.name}, Args: []string{client}})
		if err != nil {
			claim.Refused(err)
			return err
		}
		if v.Str() == "OK" {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	_, begin, end := claim.Granted(ctx, 0)
	if k.careful {
		work = min(work, 1900*time.Millisecond)
	}
	time.Sleep(work)
	begin()
	mine := ""
	if k.careful {
		mine = client
	}
	_, err := k.driver.Eval(ctx, driver.Call{Script: del, Keys: []string{k.name}, Args: []string{mine}})
	end(err)
	return err
}

// A run against a lock that is broken is found out, and the story names two holders.
func TestHistoryOfABrokenLock(t *testing.T) {
	for _, careful := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := memredis.New()
			defer s.Close()
			h := mortisetest.NewHistory()
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() {
					d := s.Driver()
					defer d.Close()
					k := naiveLock{d, "job", careful}
					for n := range 6 {
						if err := k.do(t.Context(), h, fmt.Sprint("worker ", i), time.Duration(100+(i*n%5)*700)*time.Millisecond); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			err := h.Err()
			if careful {
				h.Check(t)
			} else if err == nil || !strings.Contains(err.Error(), "both have it from") || strings.Count(err.Error(), "\n") != 3 {
				t.Errorf("the story is %v, want one with two holders", err)
			}
			if recorded, held := h.Len(); recorded != 24 || held != 24 {
				t.Errorf("Len = %d, %d, want 24 of 24", recorded, held)
			}
		})
	}
}

// All that a history can record, on a network without faults.
func TestHistoryOfEachKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memredis.New()
		defer s.Close()
		h := mortisetest.NewHistory()
		h.SetPermits("permits", 3)
		setUp := mortise.New(s.Driver(), nil)
		defer setUp.Close()
		if err := setUp.PermitSemaphore("permits").SetPermits(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Latch("set up", setUp.CountDownLatch("latch")).TrySetCount(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Semaphore("set up", setUp.Semaphore("semaphore")).TrySetPermits(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				c := mortise.New(s.Driver(), nil)
				defer c.Close()
				visit(t, h, fmt.Sprint("client ", i), c)
			})
		}
		all.Wait()
		h.Check(t)
		if recorded, ok := h.Len(); recorded < 80 || ok != recorded {
			t.Errorf("Len = %d, %d, want all of more than 80", recorded, ok)
		}
	})
}

// visit uses each kind once or twice.
func visit(t *testing.T, h *mortisetest.History, name string, c *mortise.Client) {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	held := func(hold *mortisetest.Hold, lctx context.Context, err error) {
		t.Helper()
		must(err)
		if err == nil {
			time.Sleep(time.Second)
			must(lctx.Err())
			must(hold.Unlock())
		}
	}
	must(h.Latch(name, c.CountDownLatch("latch")).CountDown(ctx))
	for _, k := range []mortise.Locker{c.Lock("job"), c.SpinLock("job"), c.FencedLock("job"), c.FairLock("fair"), c.FencedLock("fenced"), c.RWLock("doc").Read(), c.RWLock("doc").Write()} {
		outer, lctx, err := h.Lock(ctx, name, k)
		must(err)
		held(h.Lock(lctx, name, k))
		must(outer.Unlock())
	}
	held(h.LockGroup(ctx, name, c.GroupLock("group", "a", name), "a", name))
	held(h.LockAll(ctx, name, mortise.NewMultiLock(c.Lock("job"), c.Lock("other")), c.Lock("job"), c.Lock("other")))
	held(h.Acquire(ctx, name, c.PermitSemaphore("permits").With(mortise.PermitOptions{Permits: 2}), 2))
	must(h.Latch(name, c.CountDownLatch("latch")).Wait(ctx))
	sem := h.Semaphore(name, c.Semaphore("semaphore"))
	must(sem.Acquire(ctx, 2))
	time.Sleep(time.Second)
	must(sem.Release(ctx, 2))
	_, err := h.Barrier(name, c.Barrier("barrier", 3), 3).Await(ctx)
	must(err)
	m, _, err := h.DoubleBarrier(name, c.DoubleBarrier("double", 3), 3).Enter(ctx)
	must(err)
	must(m.Leave(ctx))
	e := h.Election(name, c.Election("leader"))
	term, _, err := e.Campaign(ctx, name)
	must(err)
	l, err := e.Leader(ctx)
	must(err)
	if l.Value != name {
		t.Errorf("%s leads, want %s", l.Value, name)
	}
	must(term.Proclaim(ctx, name+" still"))
	must(term.Resign())
}

// A history finds two workers that hold a lock at once, and says so in words. The lock here is
// taken by force from a worker that does not know it.
func ExampleHistory() {
	server := memredis.New()
	defer server.Close()
	history := mortisetest.NewHistory()
	ctx := context.Background()
	alice, bob := mortise.New(server.Driver(), nil), mortise.New(server.Driver(), nil)
	defer alice.Close()
	defer bob.Close()

	first, _, err := history.Lock(ctx, "alice", alice.Lock("report"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := bob.Lock("report").ForceUnlock(ctx); err != nil {
		fmt.Println(err)
		return
	}
	second, _, err := history.Lock(ctx, "bob", bob.Lock("report"))
	if err != nil {
		fmt.Println(err)
		return
	}
	second.Unlock()
	first.Unlock()

	// A test calls history.Check(t). The story goes on with both holds, and the time in which
	// they overlap.
	title, _, _ := strings.Cut(history.Err().Error(), "\n")
	fmt.Println(title)
	// Output: lock "report": more holders at the same time than it admits
}
