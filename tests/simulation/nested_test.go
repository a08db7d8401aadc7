package simulation

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

var nests = flag.Int("nests", 3, "how `many` seeds of nested locks to run, of 1000 acquisitions each")

// ledger is an observer that keeps account of the calls and holds of one client.
type ledger struct {
	name string

	mu      sync.Mutex // guards what follows
	waiting map[uint64]bool
	held    map[uint64]bool
	counts  map[mortise.EventType]int
	wrong   []string
}

func newLedger(name string) *ledger {
	return &ledger{name: name, waiting: make(map[uint64]bool), held: make(map[uint64]bool), counts: make(map[mortise.EventType]int)}
}

func (l *ledger) Observe(e mortise.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[e.Type]++
	unless := func(ok bool) {
		if !ok {
			l.wrong = append(l.wrong, fmt.Sprintf("%s: %s of call %d for %q, which does not follow from what was told before", l.name, e.Type, e.Call, e.Lock))
		}
	}
	switch e.Type {
	case mortise.EventWaiting:
		unless(!l.waiting[e.Call] && !l.held[e.Call])
		l.waiting[e.Call] = true
	case mortise.EventAcquired, mortise.EventRefused:
		unless(l.waiting[e.Call] == e.Queued && !l.held[e.Call])
		delete(l.waiting, e.Call)
		if e.Type == mortise.EventAcquired && e.Owner != "" { // permits of a Semaphore are in no hold
			l.held[e.Call] = true
		}
	case mortise.EventReleased, mortise.EventLost:
		unless(l.held[e.Call])
		delete(l.held, e.Call)
	case mortise.EventDeadlock:
		unless(l.waiting[e.Call])
	}
}

// balance returns what is wrong once all calls have ended and all holds were released.
func (l *ledger) balance() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	wrong := slices.Clone(l.wrong)
	if len(l.waiting)+len(l.held) > 0 {
		wrong = append(wrong, fmt.Sprintf("%s: the calls %v wait for ever, and the holds of %v have no end", l.name, l.waiting, l.held))
	}
	return wrong
}

// nest is one run of clients that acquire locks under locks.
type nest struct {
	t      *testing.T
	seed   uint64
	server *mortisetest.Server

	mu       sync.Mutex // guards what follows
	ledgers  []*ledger
	acquired int
	progress time.Time
}

// inNest runs f in virtual time, with a seed of its own.
func inNest(t *testing.T, seed uint64, f func(n *nest)) {
	t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
		draws(t, seed)
		synctest.Test(t, func(t *testing.T) {
			n := &nest{t: t, seed: seed, server: mortisetest.NewServer(), progress: time.Now()}
			defer n.server.Close()
			f(n)
			n.server.Settle()
			for _, l := range n.ledgers {
				for _, what := range l.balance() {
					t.Errorf("seed %d: %s", seed, what)
				}
			}
		})
	})
}

// open returns a client whose events are kept.
func (n *nest) open(i int) (*mortise.Client, *mortisetest.Link) {
	l := newLedger(fmt.Sprint("client ", i))
	n.mu.Lock()
	n.ledgers = append(n.ledgers, l)
	n.mu.Unlock()
	link := n.server.Link()
	o := &mortise.Options{TTL: lease, RetryFor: 3 * time.Second, UnlockFor: time.Second, Observer: l, History: 5, Identity: mortise.Identity{Host: l.name}}
	return mortise.New(link, o), link
}

// nth returns the nth of the locks in the order in which all clients take them, and the same for a re-entry.
func nth(c *mortise.Client, i int, o mortise.LockOptions, r *rand.Rand) (k, again mortise.Locker) {
	name := fmt.Sprint("lock-", i)
	switch i {
	case 1:
		k = c.FairLock(name).With(o)
	case 2:
		k = c.FencedLock(name).With(o)
	case 3:
		if k = c.RWLock(name).Read().With(o); r.IntN(2) == 0 {
			return c.RWLock(name).Write().With(o), c.RWLock(name).Read()
		}
	case 4:
		k = mortise.NewMultiLock(c.Lock("lock-4").With(o), c.FairLock("lock-4 too").With(o)).With(o)
	case 5:
		k = c.SpinLock(name).With(o)
	default:
		k = c.Lock(name).With(o)
	}
	return k, k
}

// Many clients take locks under locks, all in one order: so no waits are ever in a cycle, whatever
// fails, and none is told. All that is told of calls and holds has an end.
func TestNoCycleAmongLocksThatAreTakenInOrder(t *testing.T) {
	sum, acquired := make(map[mortise.EventType]int), 0
	for seed := *first; seed < *first+uint64(*nests); seed++ {
		inNest(t, seed, func(n *nest) {
			n.inOrder(1000)
			acquired += n.acquired
			for _, l := range n.ledgers {
				for what, times := range l.counts {
					sum[what] += times
				}
			}
		})
	}
	t.Logf("%d acquisitions, told: %v", acquired, sum)
	if told := sum[mortise.EventDeadlock]; told > 0 {
		t.Errorf("%d cycles were told, although there can be none", told)
	}
	for _, what := range []mortise.EventType{mortise.EventWaiting, mortise.EventLost, mortise.EventReleased, mortise.EventRefused} {
		if sum[what] < 20**nests {
			t.Errorf("only %d events %s", sum[what], what)
		}
	}
}

// inOrder makes that many acquisitions.
func (n *nest) inOrder(most int) {
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(n.seed, uint64(i)))
			for life := 0; n.count() < most; life++ {
				n.life(i, life, most, r)
			}
		})
	}
	all.Wait()
}

func (n *nest) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.acquired
}

func (n *nest) got() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.acquired++
	n.progress = time.Now()
}

// life is that of one client, which ends in one way or another.
func (n *nest) life(i, life, most int, r *rand.Rand) {
	c, link := n.open(i)
	if r.IntN(2) == 0 {
		link.Chaos(r.Uint64(), mortisetest.Rates{RequestLost: 0.02, ReplyLost: 0.03, Late: 0.03, Slow: 0.1, Cut: 0.01, Freeze: 0.005, MessageLost: 0.1, MessageLate: 0.1, Outage: 2 * time.Second})
	}
	over := time.Now().Add(5*time.Second + upTo(r, 15_000))
	var all sync.WaitGroup
	for g := range 3 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(n.seed, uint64(i*1000+life*10+g+100)))
			for time.Now().Before(over) && n.count() < most {
				time.Sleep(upTo(r, 300))
				n.descend(n.t.Context(), c, 0, r)
			}
		})
	}
	time.Sleep(upTo(r, 6000))
	switch r.IntN(4) {
	case 0:
		link.Freeze()
		time.Sleep(upTo(r, 6000))
		link.Thaw()
	case 1: // it crashes
		link.Partition()
		time.Sleep(upTo(r, 9000))
		_ = c.Close()
	case 2:
		_ = c.Close()
	}
	all.Wait()
	_ = c.Close()
}

// descend takes a lock from the ith on, and others under it.
func (n *nest) descend(ctx context.Context, c *mortise.Client, i int, r *rand.Rand) {
	i += r.IntN(3)
	if i > 6 {
		return
	}
	o := mortise.LockOptions{Deadlock: mortise.DeadlockPolicy(r.IntN(2))}
	if r.IntN(3) == 0 {
		o.Wait = 50*time.Millisecond + upTo(r, 3000)
	}
	within, cancel := context.WithTimeout(ctx, time.Second+upTo(r, 9000))
	defer cancel()
	k, again := nth(c, i, o, r)
	hold, held, err := k.Lock(within)
	if errors.Is(err, mortise.ErrDeadlock) {
		n.t.Errorf("seed %d: %v", n.seed, err)
	}
	if err != nil {
		return
	}
	n.got()
	if r.IntN(4) == 0 {
		if inner, ctx, err := again.Lock(held); err == nil {
			n.got()
			n.descend(ctx, c, i+1, r)
			_ = inner.Unlock()
		}
	}
	time.Sleep(upTo(r, 400))
	if r.IntN(3) > 0 {
		n.descend(held, c, i+1, r)
	}
	if r.IntN(8) == 0 {
		time.Sleep(upTo(r, 3000))
	}
	_ = hold.Unlock()
}
