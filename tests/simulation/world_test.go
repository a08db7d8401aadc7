package simulation

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
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/mortisetest"
)

const (
	lease = 4 * time.Second
	// A script may run this long after its client has given it up.
	late = 3 * time.Second
	// After this time nobody asks for anything any more, and nothing goes wrong.
	mostTime = 10 * time.Minute
)

// world is one run of a plan.
type world struct {
	plan    *plan
	server  *mortisetest.Server
	history *mortisetest.History
	begun   time.Time
	wrap    mutant // or nil

	mu       sync.Mutex // guards what follows
	wrong    []string
	counts   map[string]int
	ran      map[string]int // scripts, by name
	unlisted bool           // what says which waiters of a fair lock are mortise's was evicted
	accounts map[string]account
	awaits   []await
	grips    []grip
	lapsed   time.Time // when data were lost the last time
	ledgers  []*ledger
	torn     bool // one of two keys that belong together was lost

	kept sync.WaitGroup // those that wait for the end of a MinHold
}

// outcome is what came of a run.
type outcome struct {
	wrong   []string
	counts  map[string]int // what happened, and how often
	ran     map[string]int // scripts
	history *mortisetest.History
}

// clients of a run.
type client struct {
	*mortise.Client
	name   string
	link   *mortisetest.Link
	closed atomic.Bool // or being closed
	calm   bool        // nothing keeps it from Redis

	patient bool // it lives until all is done that it does in the background
}

func (c *client) close() error {
	c.closed.Store(true)
	return c.Close()
}

// slack is what a call may take beyond the end of its context: a client that is given up returns
// at once, but several may be woken at that time, and Close lingers for a moment.
func (c *client) slack() time.Duration {
	if c.closed.Load() {
		return slack + time.Second
	}
	return slack
}

// run carries out a plan in virtual time.
func run(t *testing.T, p *plan, wrap mutant) (o outcome) {
	t.Helper()
	draws(t, p.seed)
	synctest.Test(t, func(t *testing.T) {
		w := &world{plan: p, server: mortisetest.NewServer(), history: mortisetest.NewHistory(), begun: time.Now(), wrap: wrap, counts: map[string]int{}, ran: map[string]int{}, accounts: map[string]account{}}
		w.history.Lease = lease + late + mortisetest.DefaultTimeout
		w.history.Watch(w.server)
		w.server.AfterEach(func(script string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ran[script]++
		})
		w.run(t.Context())
		o = outcome{w.wrong, w.counts, w.ran, w.history}
	})
	return o
}

func (w *world) run(ctx context.Context) {
	defer w.server.Close()
	stuck := time.AfterFunc(mostTime, func() { w.fail("a call waits for ever: %v are over", mostTime) })
	last := w.open("the last client")
	w.setUp(ctx, last)
	var all sync.WaitGroup
	for i := range w.plan.clients {
		all.Go(func() { w.live(ctx, &w.plan.clients[i], uint64(i)) })
	}
	for _, e := range w.plan.server {
		all.Go(func() { w.serverFault(ctx, last, e) })
	}
	all.Wait()
	w.kept.Wait()
	if w.lapses() == 0 {
		w.checkBroken()
	}
	stuck.Stop()
	w.server.Settle()
	w.afterwards(ctx, last)
	_ = last.Close()
	w.server.Settle()
	w.empty(ctx)
	if err := w.history.Err(); err != nil {
		w.fail("%v", err)
	}
	for _, l := range w.ledgers {
		for _, what := range l.balance() {
			w.fail("%s", what)
		}
	}
	recorded, succeeded := w.history.Len()
	w.add("requests", recorded)
	w.add("successes", succeeded)
	for what, n := range w.server.Hits() {
		w.add(string(what), n)
	}
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf("%.3fs: ", time.Since(w.begun).Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) count(what string) { w.add(what, 1) }

func (w *world) add(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what] += n
}

// lapses returns how often the server has lost data.
func (w *world) lapses() int {
	hits := w.server.Hits()
	return hits[mortisetest.FailedOver] + hits[mortisetest.Restarted] + hits[mortisetest.Evicted] + hits[mortisetest.Jumped]
}

func (w *world) counted(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[what]
}

func (w *world) open(name string) *client {
	link := w.server.Link()
	var d driver.Driver = link
	if w.wrap != nil {
		d = w.wrap(link)
	}
	told := newLedger(name)
	w.mu.Lock()
	w.ledgers = append(w.ledgers, told)
	w.mu.Unlock()
	o := &mortise.Options{TTL: lease, RetryFor: 8 * time.Second, Observer: told, History: 5, Identity: mortise.Identity{Host: name}}
	return &client{Client: mortise.New(d, o), name: name, link: link}
}

// setUp makes what must be there before it is used.
func (w *world) setUp(ctx context.Context, c *client) {
	for _, name := range names {
		if err := c.PermitSemaphore(name+" permits").SetPermits(ctx, 3); err != nil {
			w.fail("setting permits: %v", err)
		}
		w.history.SetPermits(name+" permits", 3)
		if _, err := w.history.Semaphore(c.name, c.Semaphore(name+" semaphore")).TrySetPermits(ctx, 3); err != nil {
			w.fail("setting permits: %v", err)
		}
		if _, err := w.history.Latch(c.name, c.CountDownLatch(name+" latch")).TrySetCount(ctx, 4); err != nil {
			w.fail("setting a latch: %v", err)
		}
	}
}

// live is the life of one client.
func (w *world) live(ctx context.Context, p *clientPlan, n uint64) {
	time.Sleep(p.joins)
	c := w.open(p.name)
	c.calm = p.calm && len(p.events) == 0 && !slices.ContainsFunc(w.plan.server, func(e event) bool { return e.what == "loading" })
	if len(rateFields(&w.plan.rates)) > 0 && !p.calm {
		calm := w.history.Disturbed(p.name)
		defer calm()
		c.link.Chaos(w.plan.seed*31+n, w.plan.rates)
	}
	c.patient = p.patient && !slices.ContainsFunc(p.events, func(e event) bool { return e.what == "crash" || e.what == "close" })
	var programs, faults sync.WaitGroup
	over := make(chan struct{})
	for _, e := range p.events {
		faults.Go(func() { w.clientFault(c, e, over) })
	}
	for i, program := range p.programs {
		programs.Go(func() {
			r := rand.New(rand.NewPCG(w.plan.seed, n*100+uint64(i)))
			for j, o := range program {
				time.Sleep(o.pause)
				w.do(ctx, c, o, fmt.Sprintf("%s %d.%d", p.name, i, j), r)
			}
		})
	}
	programs.Wait()
	close(over)
	faults.Wait()
	if c.patient {
		c.link.Chaos(0, mortisetest.Rates{})
		time.Sleep(late + mortisetest.DefaultTimeout + lease)
	}
	began := time.Now()
	w.known(c.close())
	w.bounded("Close", began, 15*time.Second)
}

// bounded fails if something took longer than it may.
func (w *world) bounded(what string, began time.Time, most time.Duration) {
	if took := time.Since(began); took > most {
		w.fail("%s took %v, want %v at most", what, took, most)
	}
}

// known fails on an error that nothing in a simulation explains.
func (w *world) known(err error) {
	for _, known := range []error{
		nil, mortise.ErrLost, mortise.ErrClosed, mortise.ErrUnreachable, mortise.ErrUnknownOutcome, mortise.ErrLocked, mortise.ErrNoPermits,
		mortise.ErrMissing, mortise.ErrBroken, mortise.ErrNoLeader, mortise.ErrNotSet, mortise.ErrFenceRegressed, context.DeadlineExceeded, context.Canceled,
	} {
		if errors.Is(err, known) {
			return
		}
	}
	w.fail("unexpected error: %v", err)
}

// afterwards checks that everything can be had again soon after all has come to rest.
func (w *world) afterwards(ctx context.Context, c *client) {
	back := time.Duration(w.counted("set back")) * time.Millisecond // leases last longer by so much
	soon := 20*time.Second + back
	for _, name := range names[:3] {
		for _, k := range []mortise.Locker{c.Lock(name), c.FairLock(name), c.RWLock(name + " rw").Write(), c.GroupLock(name+" group", "a", "b", "c")} {
			limited, cancel := context.WithTimeout(ctx, soon)
			began := time.Now()
			lock := w.history.Lock
			if group, is := k.(*mortise.GroupLock); is {
				lock = func(ctx context.Context, client string, _ mortise.Locker) (*mortisetest.Hold, context.Context, error) {
					return w.history.LockGroup(ctx, client, group, "a", "b", "c")
				}
			}
			hold, lctx, err := lock(limited, c.name, k)
			if err != nil {
				w.fail("%v after all faults nobody gets %T %q: %v", time.Since(began), k, k.Name(), err)
			} else {
				w.checkMine(lctx, c, k)
				w.known(hold.Unlock())
			}
			cancel()
		}
	}
	time.Sleep(2*lease + back) // what was left behind ends
	for _, name := range names {
		w.checkFree(ctx, c, name)
	}
	w.checkNumbers(ctx, c)
}

// empty checks that nothing stays in Redis but what must: two leases after the last client
// what it may remember for minutes, and later what lasts for ever.
func (w *world) empty(ctx context.Context) {
	back := time.Duration(w.counted("set back")) * time.Millisecond
	for _, wait := range []time.Duration{2*lease + back, 10 * time.Minute} {
		time.Sleep(wait)
		if left, err := left(ctx, w.server, wait < time.Minute); err != nil || len(left) > 0 {
			w.fail("%q are left %v after the last client: %v", left, wait, err)
		}
	}
}

// left returns the keys that should not be in Redis when nobody uses it any more.
func left(ctx context.Context, s *mortisetest.Server, early bool) (left []string, err error) {
	l := s.Link()
	defer l.Close()
	err = l.Scan(ctx, "*", func(keys []string) error {
		for _, key := range keys {
			if !mayStay(s, key, early) {
				left = append(left, key)
			}
		}
		return nil
	})
	return left, err
}

// mayStay reports whether a key is a token, or ends by itself: notes about operations and barriers within minutes, an abandoned queue in a day.
func mayStay(s *mortisetest.Server, key string, early bool) bool {
	if strings.HasPrefix(key, "redisson_lock_token:") {
		return true
	}
	ends := []string{"redisson_lock_queue:", "redisson_lock_timeout:", "mortise:history:"}
	if early {
		ends = append(ends, "mortise:")
	}
	for _, prefix := range ends {
		if strings.HasPrefix(key, prefix) {
			v, err := s.Do("PTTL", key)
			return err == nil && v.Int() > 0
		}
	}
	return false
}
