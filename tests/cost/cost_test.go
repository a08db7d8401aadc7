package cost

// What holding and waiting cost: bytes, goroutines and commands, none of which
// depends on how fast the machine is.

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/locktest"
	"github.com/mortise-go/mortise/memredis"
)

// parrot is a Redis that answers every script as it answered the first time, on
// another key. It keeps nothing but the times of the renewals, all of which
// succeed, so that what is measured is what the library keeps.
type parrot struct {
	driver.Driver // for the first time

	mu       sync.Mutex // guards what follows
	said     map[string]driver.Value
	renewals []renewal
}

// renewal is one command that renews leases.
type renewal struct {
	at     time.Time
	leases int
}

func newParrot(t *testing.T) *parrot {
	s := memredis.New()
	t.Cleanup(s.Close)
	return &parrot{Driver: s.Driver(), said: make(map[string]driver.Value)}
}

func (d *parrot) Eval(ctx context.Context, call driver.Call) (v driver.Value, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := call.Script.Name()
	if name == "lock_renew" {
		d.renewals = append(d.renewals, renewal{time.Now(), len(call.Keys)})
		yes := make([]driver.Value, len(call.Keys)+1)
		for i := range call.Keys {
			yes[i] = driver.IntValue(1)
		}
		yes[len(call.Keys)] = driver.IntValue(time.Now().UnixMilli())
		return driver.ArrayValue(yes), nil
	}
	v, known := d.said[name]
	if !known {
		v, err = d.Driver.Eval(ctx, call)
		d.said[name] = v
	}
	return v, err
}

func (d *parrot) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	results := make([]driver.Result, len(calls))
	for i, call := range calls {
		results[i].Value, results[i].Err = d.Eval(ctx, call)
	}
	return results
}

// since returns how many commands renewed how many leases since then, and the
// most of any second.
func (d *parrot) since(then time.Time) (commands, leases, most int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seconds := make(map[time.Duration]int)
	for _, r := range d.renewals {
		if r.at.Before(then) {
			continue
		}
		commands++
		leases += r.leases
		second := r.at.Sub(then) / time.Second
		seconds[second] += r.leases
		most = max(most, seconds[second])
	}
	return commands, leases, most
}

// used returns how many bytes are allocated, garbage aside, and what stacks take.
func used() (heap, stacks int) {
	runtime.GC()
	runtime.GC() // what pools kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc), int(m.StackInuse)
}

func TestBytesOfAHeldLock(t *testing.T) {
	const locks, most = 20_000, 490
	c := mortise.New(newParrot(t), nil)
	defer c.Close()
	first, _ := mustLock(t, c.Lock("first"), t.Context()) // compiles the script
	mustUnlock(t, first)
	names := make([]string, locks)
	for i := range names {
		names[i] = fmt.Sprint("job:", i)
	}
	holds := make([]*mortise.Hold, locks)
	ctx, cancel := context.WithCancel(t.Context()) // as that of a program usually is
	defer cancel()
	before, _ := used()
	for i, name := range names {
		holds[i], _ = mustLock(t, c.Lock(name), ctx)
	}
	after, _ := used()
	each := (after - before) / locks
	t.Logf("%d bytes for a held lock", each)
	if each > most {
		t.Errorf("a held lock takes %d bytes, want %d at most", each, most)
	}
	runtime.KeepAlive(names)
	runtime.KeepAlive(holds)
}

// A client that holds very many locks renews them in few commands, spread over
// the period, and with no goroutine for each, whether they were taken all at once
// or one after the other.
func TestRenewalsOfManyLocks(t *testing.T) {
	const (
		batch  = 100 // what one command renews
		period = 10 * time.Second
	)
	locks, periods := 40_000, 4
	if *deep {
		locks, periods = 100_000, 60
	}
	for _, over := range []time.Duration{0, period} {
		t.Run(over.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newParrot(t)
				c := mortise.New(d, nil)
				defer c.Close()
				first, _ := mustLock(t, c.Lock("first"), t.Context())
				time.Sleep(time.Second) // until its client has a record, and a subscription for it
				mustUnlock(t, first)
				before := locktest.Goroutines()
				holds := make([]*mortise.Hold, locks)
				for i := range holds {
					holds[i], _ = mustLock(t, c.Lock(fmt.Sprint("job:", i)), t.Context())
					time.Sleep(over / time.Duration(locks))
				}
				time.Sleep(2 * period) // until then some are renewed early, to be spread
				begin := time.Now()
				time.Sleep(time.Duration(periods) * period)
				if n := locktest.Goroutines() - before; n > 1 {
					t.Errorf("%d locks have %d goroutines more than one lock, want at most one that renews", locks, n)
				}
				commands, leases, most := d.since(begin)
				t.Logf("%d locks, %v: %d commands, %d renewals", locks, time.Duration(periods)*period, commands, leases)
				if want := periods * locks / batch; commands > want*11/10 {
					t.Errorf("%d commands in %d periods, want %d", commands, periods, want)
				}
				if leases < periods*locks*9/10 || most > 2*locks/10 {
					t.Errorf("%d renewals, and %d in one second; want %d, and %d", leases, most, periods*locks, locks/10)
				}
				for _, h := range holds {
					if rest := time.Until(h.Until()); rest < 19*time.Second {
						t.Fatalf("%s is trusted for %v more, want two thirds of the lease at least", h.Name(), rest)
					}
				}
			})
		})
	}
}

// A waiter that is not the first of the process costs a goroutine with the
// smallest stack there is, and little else. One whose wait has a limit has a timer and a
// context of its own as well.
func TestBytesOfAWaiter(t *testing.T) {
	plain := func(c *mortise.Client) *mortise.Lock { return c.Lock("job") }
	limited := func(c *mortise.Client) *mortise.Lock { return c.Lock("job").With(mortise.LockOptions{Wait: time.Hour}) }
	t.Run("without a limit", func(t *testing.T) { testBytesOfAWaiter(t, plain, 3800) })
	t.Run("with a limit", func(t *testing.T) { testBytesOfAWaiter(t, limited, 6100) })
}

func testBytesOfAWaiter(t *testing.T, open func(*mortise.Client) *mortise.Lock, most int) {
	const waiters = 2000
	synctest.Test(t, func(t *testing.T) {
		c := mortise.New(newParrot(t), nil)
		defer c.Close()
		k := c.Lock("job")
		hold, _ := mustLock(t, k, t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		heap, stacks := used()
		for range waiters {
			k := open(c)
			all.Go(func() {
				if _, _, err := k.Lock(ctx); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
			synctest.Wait() // one after the other: to contend for a mutex takes stack
		}
		heapAfter, stacksAfter := used()
		heap, stacks = (heapAfter-heap)/waiters, (stacksAfter-stacks)/waiters
		if raceDetector {
			most += 2048 // it needs the next larger stack
		}
		t.Logf("%d bytes for a waiter, and %d of stack", heap, stacks)
		if heap+stacks > most {
			t.Errorf("a waiter takes %d bytes, and %d of stack, want %d at most", heap, stacks, most)
		}
		cancel()
		all.Wait()
		mustUnlock(t, hold)
	})
}
