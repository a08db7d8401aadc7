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
	"github.com/mortise-go/mortise/memredis"
)

// Clients that give up while they wait, and come again, do not take the part of Redisson's threads: neither as the first when the
// lock is left to these, nor as those who have not heard of that.
func TestShareOfClientsThatGiveUp(t *testing.T) {
	t.Parallel()
	for _, fleet := range chosen([]struct {
		gos, javas  int
		wait, hold  time.Duration
		least, most float64
	}{
		{8, 2, 30 * time.Millisecond, 20 * time.Millisecond, 0.75, 1.5},
		{16, 2, 30 * time.Millisecond, 20 * time.Millisecond, 0.75, 1.5},
		{8, 2, 30 * time.Millisecond, 5 * time.Millisecond, 0.75, 1.5},
		{8, 2, 100 * time.Millisecond, 5 * time.Millisecond, 0.75, 1.5},
		{4, 1, 30 * time.Millisecond, 5 * time.Millisecond, 0.75, 2},
		{8, 2, 5 * time.Millisecond, 5 * time.Millisecond, 0.75, 2.5}, // hardly any of mortise's waits for as long as one hold
	}, 1, 2, 4) {
		t.Run(fmt.Sprintf("%d clients that wait for %v at most and %d of Redisson's, held for %v", fleet.gos, fleet.wait, fleet.javas, fleet.hold), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				take := func(c *mortise.Client, ctx context.Context) (*mortise.Hold, error) {
					h, _, err := c.Lock("job").With(mortise.LockOptions{Wait: fleet.wait}).Lock(ctx)
					return h, err
				}
				gos, javas := fleetOfTakers(t, s, fleet.gos, take, []string{"job"}, fleet.javas, fleet.hold)
				even := float64(fleet.javas) / float64(fleet.javas+fleet.gos)
				if share := float64(javas) / float64(javas+gos) / even; share < fleet.least || share > fleet.most {
					t.Errorf("Redisson had it %d times and mortise %d times: the share of Redisson is %.2f of an even one, want %v to %v", javas, gos, share, fleet.least, fleet.most)
				}
			})
		})
	}
}

// Clients that take several locks at once leave each of them to Redisson's threads that wait for it.
func TestShareOfMultiLocks(t *testing.T) {
	t.Parallel()
	for _, fleet := range chosen([]struct {
		gos, javas int
		names      []string
	}{{2, 1, []string{"a"}}, {4, 1, []string{"a"}}, {4, 1, []string{"b"}}, {4, 2, []string{"a", "b"}}, {8, 2, []string{"b"}}}, 1, 3) {
		t.Run(fmt.Sprintf("%d clients and %d of Redisson's for %v", fleet.gos, fleet.javas, fleet.names), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				take := func(c *mortise.Client, ctx context.Context) (*mortise.Hold, error) {
					h, _, err := mortise.NewMultiLock(c.Lock("a"), c.Lock("b")).Lock(ctx)
					return h, err
				}
				gos, javas := fleetOfTakers(t, s, fleet.gos, take, fleet.names, fleet.javas, 5*time.Millisecond)
				n := len(fleet.names) // each lock has its own of Redisson's, and all of mortise's
				wantShare(t, "Redisson", javas/n, gos, fleet.javas/n, fleet.gos)
				if n == 1 { // else mortise's are refused by one or the other
					wantShare(t, "mortise", gos, javas, fleet.gos, fleet.javas)
				} else if gos < javas/n/2 {
					t.Errorf("mortise had both %d times, and Redisson each %d times", gos, javas/n)
				}
			})
		})
	}
}

// Clients that are granted the lock learn that Redisson's threads wait for it, and do not hand it off to their own goroutines for longer
// than a millisecond.
func TestShareOfClientsWithSeveralGoroutines(t *testing.T) {
	t.Parallel()
	for kind, take := range map[string]func(*mortise.Client, context.Context) (*mortise.Hold, error){
		"Lock": func(c *mortise.Client, ctx context.Context) (*mortise.Hold, error) {
			h, _, err := c.Lock("job").Lock(ctx)
			return h, err
		},
		"FencedLock": func(c *mortise.Client, ctx context.Context) (*mortise.Hold, error) {
			h, _, err := c.FencedLock("job").Lock(ctx)
			return h, err
		},
	} {
		for _, hold := range []time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s held for %v", kind, hold), func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					gos, javas := fleet{clients: 16, each: 2, lasts: 150 * hold, take: take, names: []string{"job"}, javas: 1, hold: hold, late: 20 * hold}.run(t, s)
					if javas < 8 || javas > 12 { // of 150 holds a seventeenth is 9
						t.Errorf("Redisson had it %d times and mortise %d times, want an even part of one in seventeen", javas, gos)
					}
				})
			})
		}
	}
}

// fleetOfTakers has clients take something for half a minute, again and again, beside processes of Redisson's that each take one of
// the locks, and returns how often each side had one.
func fleetOfTakers(t *testing.T, s *memredis.Server, n int, take func(*mortise.Client, context.Context) (*mortise.Hold, error), names []string, m int, hold time.Duration) (gos, javas int) {
	t.Helper()
	return fleet{clients: n, each: 1, lasts: 30 * time.Second, take: take, names: names, javas: m, hold: hold}.run(t, s)
}

// fleet is clients that take something again and again, beside processes of Redisson's.
type fleet struct {
	clients, each int // how many, and goroutines of each
	take          func(*mortise.Client, context.Context) (*mortise.Hold, error)
	javas         int      // how many processes of Redisson's, with two threads each
	names         []string // one for each process, and again
	hold, lasts   time.Duration
	late          time.Duration // how long Redisson's processes come after the clients
}

// run returns how often each side had something.
func (f fleet) run(t *testing.T, s *memredis.Server) (gos, javas int) {
	t.Helper()
	var threads []*javaProcess
	listen := func() {
		for i := range f.javas {
			threads = append(threads, javaLock.listen(t, s, f.names[i%len(f.names)]))
		}
	}
	if f.late == 0 {
		listen()
	}
	synctest.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var all sync.WaitGroup
	have := func(who *int) {
		mu.Lock()
		*who++
		mu.Unlock()
		time.Sleep(f.hold)
	}
	for _, c := range clients(t, s, f.clients, nil) {
		for range f.each {
			all.Go(func() {
				for ctx.Err() == nil {
					if h, err := f.take(c, ctx); err == nil {
						have(&gos)
						mustUnlock(t, h)
					}
					time.Sleep(time.Millisecond/2 + rand.N(time.Millisecond))
				}
			})
		}
	}
	if f.late > 0 {
		time.Sleep(f.late)
		listen()
	}
	for i, java := range threads {
		for j := range 2 {
			all.Go(func() { java.run(ctx, t, 10*i+j, func(time.Duration) { have(&javas) }) })
		}
	}
	time.Sleep(f.lasts)
	cancel()
	all.Wait()
	return gos, javas
}
