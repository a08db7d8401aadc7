package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// Of elections and barriers more is promised than a history of calls shows: what an observer sees
// in time, that all pass if none gives up, which party broke a barrier. So a crowd of each has tests of its
// own, on the same bad links.

// badRates are those of a network on which every third call goes wrong.
var badRates = mortisetest.Rates{RequestLost: 1. / 12, ReplyLost: 1. / 12, Late: 1. / 12, Slow: 1. / 12, Delay: 3 * time.Second}

// crowd is clients that use one thing at random.
type crowd struct {
	t      *testing.T
	server *mortisetest.Server
	seed   uint64

	tally  sync.Mutex // guards counts
	counts map[string]int
}

func (w *crowd) count(what string) {
	w.tally.Lock()
	defer w.tally.Unlock()
	w.counts[what]++
}

// check fails on an error that nothing in the simulation explains.
func (w *crowd) check(err error) {
	for _, known := range []error{
		nil, mortise.ErrLost, mortise.ErrClosed, mortise.ErrUnreachable, mortise.ErrUnknownOutcome, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return
		}
	}
	w.t.Errorf("unexpected error: %v", err)
}

func (w *crowd) badLink(n uint64) *mortisetest.Link {
	l := w.server.Link()
	l.Chaos(w.seed*1000+n, badRates)
	return l
}

// cut cuts a client off for a time.
func cut(l *mortisetest.Link, d time.Duration) {
	l.Partition()
	time.AfterFunc(d, l.Heal)
}

// workers runs the same work in n goroutines, each with a client of its own on a bad link.
func (w *crowd) workers(n int, options mortise.Options, work func(i int, c *mortise.Client, link *mortisetest.Link, r *rand.Rand)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			link := w.badLink(uint64(i))
			c := mortise.New(link, &options)
			work(i, c, link, rand.New(rand.NewPCG(w.seed, uint64(i))))
			w.check(c.Close())
		})
	}
	all.Wait()
	w.server.Settle()
}

// eachSeed runs f for many schedules, and checks that enough happened and that nothing stays.
func eachSeed(t *testing.T, f func(w *crowd), least map[string]int) {
	t.Helper()
	n := max(12, *seeds/10)
	sum := map[string]int{}
	for seed := range uint64(n) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			draws(t, seed)
			synctest.Test(t, func(t *testing.T) {
				w := &crowd{t: t, server: mortisetest.NewServer(), seed: seed, counts: sum}
				defer w.server.Close()
				f(w)
				w.server.Settle()
				time.Sleep(10 * time.Minute)
				if left, err := left(t.Context(), w.server, false); err != nil || len(left) > 0 {
					t.Errorf("%q are left: %v", left, err)
				}
				for what, n := range w.server.Hits() {
					sum[string(what)] += n
				}
			})
		})
	}
	t.Logf("%v", sum)
	for what, each := range least {
		if sum[what] < each*n/2 {
			t.Errorf("%d %s in all, want %d at least", sum[what], what, each*n/2)
		}
	}
}
