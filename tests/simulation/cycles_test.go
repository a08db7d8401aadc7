package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

// nestedWait is a wait as the test knows it.
type nestedWait struct {
	client string
	lock   string
	held   []string // by the same goroutine meanwhile
	begin  time.Time
	end    time.Time // zero while it lasts
}

// tangle is clients that take locks under locks in any order, and fail in cycles.
type tangle struct {
	nest

	waits     []*nestedWait
	deadlocks int
}

// named is a client with the name of its host.
type named struct {
	*mortise.Client
	name string
}

// longestStandstill is how long nobody gets anything at most, apart from what holders do: the time
// to find a cycle that an old wait closes. A reader that leaves tells no waiter that it was in the way: the
// waiter knows after a poll of a second, begins a look after 1.5 s more, and looks three times, each
// time at records that are written every 250 ms.
const longestStandstill = 4 * time.Second

// Goroutines of several clients take locks under locks in any order, so that they meet in cycles all
// the time. With DeadlockFail everything gets through, and each error names waits that there were, all
// at one moment, each for what the one after it had.
func TestCyclesAmongLocksThatAreTakenInAnyOrder(t *testing.T) {
	deadlocks := 0
	for seed := *first; seed < *first+uint64(*nests); seed++ {
		inNest(t, seed, func(n *nest) {
			w := &tangle{nest: nest{t: n.t, seed: n.seed, server: n.server, progress: time.Now()}}
			w.run(60)
			n.ledgers = w.ledgers
			deadlocks += w.deadlocks
		})
	}
	t.Logf("%d cycles", deadlocks)
	if deadlocks < 10**nests {
		t.Errorf("only %d cycles in %d seeds", deadlocks, *nests)
	}
}

func (w *tangle) run(most int) {
	stop := make(chan struct{})
	var all, watch sync.WaitGroup
	watch.Go(func() { w.watch(stop) })
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Minute)
	defer cancel()
	for i := range 5 {
		opened, _ := w.open(i)
		defer opened.Close()
		c := &named{opened, fmt.Sprint("client ", i)}
		for g := range 2 {
			all.Go(func() {
				r := rand.New(rand.NewPCG(w.seed, uint64(i*10+g)))
				for range most / 10 {
					names := []string{"a", "b", "c", "d", "e"}
					r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
					for !w.through(ctx, c, names[:2+r.IntN(2)], nil, r) && ctx.Err() == nil {
						time.Sleep(upTo(r, 1000))
					}
				}
			})
		}
	}
	all.Wait()
	close(stop)
	watch.Wait()
	if ctx.Err() != nil {
		w.t.Errorf("seed %d: not everything got through", w.seed)
	}
}

// watch fails when nobody has got anything for too long.
func (w *tangle) watch(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
		w.mu.Lock()
		still := time.Since(w.progress)
		if still > longestStandstill+time.Second { // a holder keeps something, or pauses after a failure, for a second
			w.t.Errorf("seed %d: nobody has got anything for %v", w.seed, still)
			w.progress = time.Now()
		}
		w.mu.Unlock()
	}
}

// kindOf returns the lock of that name; of a read/write lock, its side.
func kindOf(c *mortise.Client, name string, r *rand.Rand) mortise.Locker {
	fails := mortise.LockOptions{Deadlock: mortise.DeadlockFail}
	switch name {
	case "a":
		return c.FairLock(name).With(fails)
	case "b":
		return c.FencedLock(name).With(fails)
	case "c":
		if r.IntN(2) == 0 {
			return c.RWLock(name).Read().With(fails)
		}
		return c.RWLock(name).Write().With(fails)
	}
	return c.Lock(name).With(fails)
}

// through takes the locks one under the other, and reports whether it got them all.
func (w *tangle) through(ctx context.Context, c *named, names, held []string, r *rand.Rand) bool {
	if len(names) == 0 {
		time.Sleep(upTo(r, 1000))
		return true
	}
	wait := w.begin(c, names[0], held)
	hold, inner, err := kindOf(c.Client, names[0], r).Lock(ctx)
	w.end(wait, err)
	if err != nil {
		return false
	}
	w.got()
	time.Sleep(upTo(r, 300))
	defer func() {
		if err := hold.Unlock(); err != nil {
			w.t.Errorf("seed %d: %v", w.seed, err)
		}
	}()
	return w.through(inner, c, names[1:], append(slices.Clone(held), names[0]), r)
}

// begin notes that a wait begins.
func (w *tangle) begin(c *named, lock string, held []string) *nestedWait {
	w.mu.Lock()
	defer w.mu.Unlock()
	wait := &nestedWait{client: c.name, lock: lock, held: held, begin: time.Now()}
	w.waits = append(w.waits, wait)
	return wait
}

// end notes the end of a wait, and looks whether the cycle was there if it was because of one.
func (w *tangle) end(wait *nestedWait, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wait.end = time.Now()
	var cycle *mortise.DeadlockError
	switch {
	case err == nil:
	case errors.As(err, &cycle):
		w.deadlocks++
		w.progress = time.Now()
		if why := w.untrue(cycle, wait); why != "" {
			w.t.Errorf("seed %d: %v, but %s", w.seed, err, why)
		}
	default:
		w.t.Errorf("seed %d: %v", w.seed, err)
	}
}

// untrue returns what is wrong with a cycle in which own has failed. It must be called with w.mu held.
func (w *tangle) untrue(cycle *mortise.DeadlockError, own *nestedWait) string {
	n := len(cycle.Waits)
	var begin time.Time
	end := time.Now()
	for i, one := range cycle.Waits {
		before := cycle.Waits[(i+n-1)%n].Lock
		found := slices.IndexFunc(w.waits, func(v *nestedWait) bool {
			return v.client == one.Client.Host && v.lock == one.Lock && v.begin.Sub(one.Since).Abs() <= 5*time.Millisecond && slices.Contains(v.held, before)
		})
		if found < 0 {
			return fmt.Sprintf("nobody in %s waits for %q since %v under %q", one.Client.Host, one.Lock, one.Since, before)
		}
		v := w.waits[found]
		if i == 0 && v != own {
			return "it does not begin with the wait that has failed"
		}
		if v.begin.After(begin) {
			begin = v.begin
		}
		if !v.end.IsZero() && v.end.Before(end) {
			end = v.end
		}
		if v.begin.After(own.begin.Add(5 * time.Millisecond)) {
			return fmt.Sprintf("the wait for %q is younger than the one that has failed", v.lock)
		}
	}
	if !begin.Before(end) {
		return "its waits were not there at one moment"
	}
	return ""
}
