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
	"github.com/mortise-go/mortise/memredis"
)

// The bad network of TestSimulation, for semaphores and latches: whatever is
// lost, late or given up, there are never more permits out than there were, and
// in the end each is accounted for; and a latch opens after as many counts as
// were reported, no later.
func TestSemaphoreSimulation(t *testing.T) {
	const seeds = 20
	var sum tally
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			draws(t, seed)
			bubble(t, func(t *testing.T, s *memredis.Server) {
				w := &permitSimulation{simulation: simulation{t: t, server: s, seed: seed}}
				w.run()
				sum.add(&w.tally)
			})
		})
	}
	t.Logf("%+v", sum.counts)
	for what, least := range map[string]int{
		"acquired": 10 * seeds, "given up": 2 * seeds, "counted": 5 * seeds, "latches open": seeds / 2,
		"lost replies": 10 * seeds, "late copies": 5 * seeds, "silences": 5 * seeds, "slow answers": seeds,
	} {
		if sum.counts[what] < least {
			t.Errorf("%d %s in all, want %d at least", sum.counts[what], what, least)
		}
	}
}

const simPermits = 5

type permitSimulation struct {
	simulation

	books   sync.Mutex // guards what follows
	out     int        // permits that somebody knows to have
	lost    int        // that were certainly not released
	unsure  int        // of which nobody knows
	counted [2]int     // how often the latch was counted down, at least and at most
}

func (w *permitSimulation) run() {
	plain := mortise.New(w.server.Driver(), nil)
	sem := permitted(w.t, plain, "sem", simPermits)
	latch := closedLatch(w.t, plain, "latch", 1000)
	var workers, copies sync.WaitGroup
	var clients []*mortise.Client
	for i := range uint64(3) {
		d := &badNetwork{Driver: w.server.Driver(), sim: &w.simulation, copies: &copies, random: rand.New(rand.NewPCG(w.seed, i))}
		c := mortise.New(d, &mortise.Options{RetryFor: 8 * time.Second})
		clients = append(clients, c)
		for j := range uint64(3) {
			r := rand.New(rand.NewPCG(w.seed, 100*i+j+1000))
			workers.Go(func() {
				for range 5 {
					w.permitRound(c, r)
					w.latchRound(c)
				}
			})
		}
	}
	workers.Wait()
	time.Sleep(4 * time.Minute) // what was given up is undone in the background
	copies.Wait()
	for _, c := range clients {
		w.check(c.Close())
	}
	copies.Wait()

	n, err := sem.Available(w.t.Context())
	if most := simPermits - w.lost; err != nil || n > most || n < most-w.unsure {
		w.t.Errorf("%d permits are there, %v, want %d, or up to %d less", n, err, most, w.unsure)
	}
	left, err := latch.Count(w.t.Context())
	if done := 1000 - left; err != nil || done < w.counted[0] || done > w.counted[1] {
		w.t.Errorf("the latch was counted down %d times, %v, want %d to %d", done, err, w.counted[0], w.counted[1])
	}
	w.opening(plain)
	if err := plain.Close(); err != nil {
		w.t.Error(err)
	}
}

// permitRound takes some permits, keeps them for a while, and releases them.
func (w *permitSimulation) permitRound(c *mortise.Client, r *rand.Rand) {
	sem, n := c.Semaphore("sem"), 1+r.IntN(simPermits)
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Duration(r.IntN(40_000))*time.Millisecond)
	defer cancel()
	if err := sem.Acquire(ctx, n); err != nil {
		w.count("given up")
		if !errors.Is(err, mortise.ErrNoPermits) {
			w.check(err)
		}
		return
	}
	w.count("acquired")
	w.books.Lock()
	if w.out += n; w.out > simPermits {
		w.t.Errorf("%d permits are out", w.out)
	}
	w.books.Unlock()
	time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
	w.books.Lock()
	w.out -= n
	w.books.Unlock()
	err := sem.Release(ctx, n)
	w.books.Lock()
	defer w.books.Unlock()
	switch {
	case err == nil:
	case errors.Is(err, mortise.ErrUnknownOutcome):
		w.count("unknown")
		w.unsure += n
	default:
		w.count("not released")
		w.lost += n
		w.check(err)
	}
}

func (w *permitSimulation) latchRound(c *mortise.Client) {
	err := c.CountDownLatch("latch").CountDown(w.t.Context())
	w.books.Lock()
	defer w.books.Unlock()
	switch {
	case err == nil:
		w.count("counted")
		w.counted[0]++
		w.counted[1]++
	case errors.Is(err, mortise.ErrUnknownOutcome):
		w.counted[1]++
	default:
		w.check(err)
	}
}

// opening has clients on the bad network wait for a latch, which a good one
// opens: all of them notice.
func (w *permitSimulation) opening(plain *mortise.Client) {
	var copies, waiters sync.WaitGroup
	var clients []*mortise.Client
	l := closedLatch(w.t, plain, "second", 1)
	for i := range uint64(2) {
		d := &badNetwork{Driver: w.server.Driver(), sim: &w.simulation, copies: &copies, random: rand.New(rand.NewPCG(w.seed, 50+i))}
		c := mortise.New(d, &mortise.Options{RetryFor: -1})
		clients = append(clients, c)
		for range 3 {
			waiters.Go(func() {
				if err := c.CountDownLatch("second").Wait(w.t.Context()); err != nil {
					w.t.Error(err)
				}
			})
		}
	}
	time.Sleep(10 * time.Second)
	mustCountDown(w.t, l)
	start := time.Now()
	waiters.Wait()
	w.count("latches open")
	if d := time.Since(start); d > time.Minute {
		w.t.Errorf("it took them %v to notice, want %v at most", d, time.Minute)
	}
	for _, c := range clients {
		w.check(c.Close())
	}
	copies.Wait()
}
