package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// A network as bad as can be, in virtual time: replies that are lost, copies
// that arrive late, answers that take long, and none at all; callers that give
// up, hold too long, re-enter; clients that die. Whatever happens, no two holds
// of one name are valid at once, every call ends, and nothing stays in Redis.
func TestSimulation(t *testing.T) {
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) { simulate(t, k) })
	}
}

func simulate(t *testing.T, k kind) {
	const seeds = 8
	var sum tally
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			draws(t, seed)
			bubble(t, func(t *testing.T, s *memredis.Server) {
				w := &simulation{t: t, kind: k, server: s, seed: seed, active: make(map[string]*mortise.Hold)}
				w.work = w.round
				w.run()
				sum.add(&w.tally)
			})
		})
	}
	// A simulation in which little happens shows nothing.
	t.Logf("%+v", sum.counts)
	for what, least := range map[string]int{
		"holds": 10 * seeds, "re-entries": seeds, "lost": seeds / 2, "given up": seeds,
		"lost replies": 10 * seeds, "late copies": seeds, "silences": seeds, "slow answers": seeds, "deaths": seeds / 4,
	} {
		if sum.counts[what] < least {
			t.Errorf("%d %s in all, want %d at least", sum.counts[what], what, least)
		}
	}
}

// tally counts what happened.
type tally struct {
	mu     sync.Mutex // guards counts
	counts map[string]int
}

func (n *tally) count(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.counts == nil {
		n.counts = make(map[string]int)
	}
	n.counts[what]++
}

func (n *tally) add(m *tally) {
	for what, k := range m.counts {
		for range k {
			n.count(what)
		}
	}
}

const simLease = 4 * time.Second

type simulation struct {
	tally
	t      *testing.T
	kind   kind
	server *memredis.Server
	seed   uint64
	work   func(c *mortise.Client, r *rand.Rand) // one round of a goroutine

	state  sync.Mutex // guards active
	active map[string]*mortise.Hold
}

func (w *simulation) run() {
	var clients, copies sync.WaitGroup
	for i := range uint64(3) {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(w.seed, i))
			for range 3 { // lives
				d := &badNetwork{Driver: w.server.Driver(), sim: w, copies: &copies, random: rand.New(rand.NewPCG(random.Uint64(), 0))}
				c := mortise.New(d, &mortise.Options{TTL: simLease, RetryFor: 8 * time.Second})
				w.live(c, random)
				w.check(c.Close()) // says ErrClosed if the client has died already
			}
		})
	}
	clients.Wait()
	copies.Wait()
	wantEmpty(w.t, w.server)
}

// live works with a client until its goroutines have done their rounds, or the
// client dies under them.
func (w *simulation) live(c *mortise.Client, random *rand.Rand) {
	var workers sync.WaitGroup
	for range 3 {
		r := rand.New(rand.NewPCG(random.Uint64(), 0))
		workers.Go(func() {
			for range 4 {
				w.work(c, r)
			}
		})
	}
	done := make(chan struct{})
	go func() { defer close(done); workers.Wait() }()
	if random.IntN(3) == 0 {
		select {
		case <-time.After(time.Duration(random.IntN(20_000)) * time.Millisecond):
			w.count("deaths")
			w.check(c.Close())
		case <-done:
		}
	}
	<-done
}

// round takes a lock, perhaps twice, holds it for a while and releases it.
func (w *simulation) round(c *mortise.Client, r *rand.Rand) {
	name, options := fmt.Sprint("job", r.IntN(2)), mortise.LockOptions{}
	if r.IntN(4) == 0 {
		options.MaxHold = time.Duration(200+r.IntN(4000)) * time.Millisecond
	}
	k := w.kind.Open(c, name, options)
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Duration(r.IntN(30_000))*time.Millisecond)
	defer cancel()
	hold, held, err := k.Lock(ctx)
	if err != nil {
		w.count("given up")
		w.check(err)
		return
	}
	w.enter(hold)
	time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
	if r.IntN(3) == 0 {
		if inner, _, err := k.Lock(held); err == nil {
			w.count("re-entries")
			time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
			w.check(inner.Unlock())
		}
	}
	time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
	if held.Err() != nil && ctx.Err() == nil {
		w.count("lost")
	}
	w.check(hold.Unlock())
}

// enter notes a hold, and fails if another one is still valid. Holds leave by
// becoming invalid, which they are from the beginning of Unlock on.
func (w *simulation) enter(h *mortise.Hold) {
	w.state.Lock()
	defer w.state.Unlock()
	w.count("holds")
	if other := w.active[h.Name()]; other != nil && h.Valid() && other.Valid() {
		w.t.Errorf("%s and %s hold %s at once", h.Owner(), other.Owner(), h.Name())
	}
	w.active[h.Name()] = h
}

// check fails on an error that nothing in the simulation explains.
func (w *simulation) check(err error) {
	for _, known := range []error{
		nil, mortise.ErrLost, mortise.ErrClosed, mortise.ErrUnreachable, mortise.ErrUnknownOutcome,
		context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return
		}
	}
	w.t.Errorf("unexpected error: %v", err)
}

// badNetwork is a driver whose calls go wrong at random.
type badNetwork struct {
	driver.Driver
	sim    *simulation
	copies *sync.WaitGroup

	mu     sync.Mutex // guards random
	random *rand.Rand
}

func (n *badNetwork) roll(m int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.random.IntN(m)
}

func (n *badNetwork) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	r := n.Batch(ctx, []driver.Call{call})[0]
	return r.Value, r.Err
}

func (n *badNetwork) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	// nothing waits for at most d, like a client with an I/O timeout.
	nothing := func(d time.Duration) []driver.Result {
		err := driver.Error{Class: driver.Unknown, Err: errors.New("i/o timeout")}
		select {
		case <-time.After(d):
		case <-ctx.Done():
			err.Err = ctx.Err()
		}
		results := make([]driver.Result, len(calls))
		for i := range results {
			results[i].Err = &err
		}
		return results
	}
	switch n.roll(12) {
	case 0:
		n.sim.count("lost replies")
		n.Driver.Batch(context.WithoutCancel(ctx), calls)
		return nothing(0)
	case 1:
		n.sim.count("late copies")
		late := time.Duration(n.roll(3000)) * time.Millisecond
		n.copies.Go(func() {
			time.Sleep(late)
			d := n.sim.server.Driver() // the client may be closed by then
			defer d.Close()
			d.Batch(context.Background(), calls)
		})
		return nothing(time.Duration(n.roll(1000)) * time.Millisecond)
	case 2:
		n.sim.count("silences")
		return nothing(3 * time.Second)
	case 3:
		n.sim.count("slow answers")
		time.Sleep(time.Duration(n.roll(800)) * time.Millisecond)
		results := n.Driver.Batch(ctx, calls)
		time.Sleep(time.Duration(n.roll(800)) * time.Millisecond)
		return results
	}
	return n.Driver.Batch(ctx, calls)
}
