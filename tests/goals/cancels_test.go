package goals

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/locktest"
	"github.com/mortise-go/mortise/mortisetest"
)

const cancelLease = 6 * time.Second

// cancelled is a crowd that asks for one thing, and mostly gives up.
type cancelled struct {
	t       *testing.T
	ask     holder
	want    int
	seed    uint64
	mu      sync.Mutex // guards what follows
	cancels int
	holds   int
	slowest time.Duration // from the end of the context to that of the call
}

// Callers that give up at any moment of their call, while the request or the reply is on its way too,
// leave no place in a queue, no hold and no goroutine, and return at once: a party of a barrier after a round trip.
func TestCancelsLeaveNothing(t *testing.T) {
	all := waits()
	goal := times(700, 100_000)
	sum := 0
	for kind, ask := range all {
		t.Run(kind, func(t *testing.T) {
			const most = 500 // in one bubble: what an operation leaves for a minute slows the embedded Redis
			n, want := 0, (goal+len(all)-1)/len(all)
			for n < want {
				synctest.Test(t, func(t *testing.T) {
					w := &cancelled{t: t, ask: ask, seed: uint64(n), want: min(most, want-n)}
					w.run(kind)
					n += w.cancels
				})
			}
			sum += n
		})
	}
	t.Logf("%d cancels", sum)
	if sum < goal {
		t.Errorf("%d cancels, want %d at least", sum, goal)
	}
}

// waits are all calls that wait.
func waits() map[string]holder {
	all := holders()
	nothing := func() error { return nil }
	all["Semaphore"] = func(ctx context.Context, c *mortise.Client, name string) (context.Context, func() error, error) {
		s := c.Semaphore(name)
		return ctx, func() error { return s.Release(ctx, 1) }, s.Acquire(ctx, 1)
	}
	all["CountDownLatch"] = func(ctx context.Context, c *mortise.Client, name string) (context.Context, func() error, error) {
		return ctx, nothing, c.CountDownLatch(name).Wait(ctx)
	}
	all["Barrier"] = func(ctx context.Context, c *mortise.Client, name string) (context.Context, func() error, error) {
		_, err := c.Barrier(name, 100).Await(ctx)
		return ctx, nothing, err
	}
	all["DoubleBarrier"] = func(ctx context.Context, c *mortise.Client, name string) (context.Context, func() error, error) {
		_, _, err := c.DoubleBarrier(name, 100).Enter(ctx)
		return ctx, nothing, err
	}
	return all
}

func (w *cancelled) run(kind string) {
	t := w.t
	const clients = 3
	s := mortisetest.NewServer()
	defer s.Close()
	var all []*mortise.Client
	for i := range uint64(clients) {
		l, r := s.Link(), rand.New(rand.NewPCG(w.seed, i))
		var mu sync.Mutex
		l.OnCall(func(string) mortisetest.Fault {
			mu.Lock()
			defer mu.Unlock()
			return mortisetest.Fault{Before: random(r, time.Millisecond), After: random(r, time.Millisecond)}
		})
		c := mortise.New(l, &mortise.Options{TTL: cancelLease})
		defer c.Close()
		all = append(all, c)
	}
	w.setUp(kind, all[0])
	w.warm(all)
	synctest.Wait()
	before := locktest.Goroutines()
	w.crowd(all, w.want)
	s.Settle()
	time.Sleep(time.Second)
	synctest.Wait()
	if kind != "Barrier" { // that says for a lease that it is broken
		w.free(kind, s)
	}
	time.Sleep(2 * cancelLease)
	synctest.Wait()
	w.free(kind, s)
	synctest.Wait() // what free has asked the server has its goroutines too, until it is answered
	if n := locktest.Goroutines() - before; n > 0 {
		t.Errorf("%d goroutines are left of %d cancels", n, w.cancels)
	}
	if most := lateness(kind); w.slowest > most {
		t.Errorf("a call returned %v after its context had ended, want it within %v", w.slowest, most)
	}
	if w.holds == 0 && kind != "CountDownLatch" && kind != "Barrier" && kind != "DoubleBarrier" {
		t.Error("nobody ever had it")
	}
}

// lateness is how long after the end of its context a call may return.
func lateness(kind string) time.Duration {
	if kind == "Barrier" || kind == "DoubleBarrier" {
		return 2 * time.Millisecond // a round trip: a party is out before its call returns
	}
	return 0
}

// warm gives each client what stays with one that has held something and has waited.
func (w *cancelled) warm(all []*mortise.Client) {
	for i, c := range all {
		if err := c.Lock("another").Do(w.t.Context(), func(context.Context) error { return nil }); err != nil {
			w.t.Fatal(err)
		}
		var others sync.WaitGroup
		for range 3 { // they take all permits
			others.Go(func() { w.once(all[(i+1)%len(all)], 300*time.Millisecond, 300*time.Millisecond) })
		}
		time.Sleep(100 * time.Millisecond)
		w.once(c, 100*time.Millisecond, 0)
		others.Wait()
		time.Sleep(2 * cancelLease) // a barrier says for a lease that it is broken
	}
}

// crowd asks from all clients, until so many have given up.
func (w *cancelled) crowd(all []*mortise.Client, want int) {
	const goroutines = 8
	var crowd sync.WaitGroup
	for i, c := range all {
		for j := range goroutines {
			r := rand.New(rand.NewPCG(w.seed, uint64(i*100+j)))
			crowd.Go(func() {
				for w.fewer(want) {
					time.Sleep(random(r, 2*time.Millisecond))
					w.once(c, random(r, 6*time.Millisecond), random(r, 4*time.Millisecond))
				}
			})
		}
	}
	crowd.Wait()
}

func (w *cancelled) setUp(kind string, c *mortise.Client) {
	var err error
	switch kind {
	case "PermitSemaphore":
		_, err = c.PermitSemaphore("job").TrySetPermits(w.t.Context(), 2)
	case "Semaphore":
		_, err = c.Semaphore("job").TrySetPermits(w.t.Context(), 2)
	case "CountDownLatch":
		_, err = c.CountDownLatch("job").TrySetCount(w.t.Context(), 1)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *cancelled) fewer(than int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cancels < than
}

// once asks for it, gives up after a time, and keeps it for a while if it has it.
func (w *cancelled) once(c *mortise.Client, limit, keep time.Duration) {
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	ends := time.Now().Add(limit)
	defer time.AfterFunc(limit, cancel).Stop()
	_, release, err := w.ask(ctx, c, "job")
	now := time.Now()
	w.mu.Lock()
	if errors.Is(err, context.Canceled) {
		w.cancels++
	} else if err == nil {
		w.holds++
	} else if !errors.Is(err, mortise.ErrBroken) {
		w.t.Errorf("%v, want success or that the caller has given up", err)
	}
	if ctx.Err() != nil {
		w.slowest = max(w.slowest, now.Sub(ends))
	}
	w.mu.Unlock()
	if err != nil {
		return
	}
	time.Sleep(keep)
	if err := release(); err != nil {
		w.t.Errorf("release: %v", err)
	}
}

// free checks that nothing is held, nor in a queue, a second after the last caller has gone.
func (w *cancelled) free(kind string, s *mortisetest.Server) {
	for _, key := range left(w.t, s) {
		switch {
		case kind == "Semaphore" && key == "job", kind == "PermitSemaphore" && key == "job":
			if v, err := s.Do("GET", key); err != nil || v.Str() != "2" {
				w.t.Errorf("%s permits are left of 2: %v", v.Str(), err)
			}
		case kind == "CountDownLatch" && key == "job":
		default:
			w.t.Errorf("%q is left", key)
		}
	}
}
