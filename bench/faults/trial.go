package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mortise-go/mortise/bench/faults/contender"
	"github.com/mortise-go/mortise/internal/redistest"
)

// row is a kind of fault, and what is observed under it.
type row struct {
	name  string
	title string
	n     int // trials of each case
	// offered reports whether a system has what the fault is about.
	offered func(*contender.System) bool
	run     func(context.Context, *trials) error
}

var rows = []row{r1, r3, r4, r8, r10, r13}

func everybody(*contender.System) bool { return true }

// compares reports whether a system takes part in the row.
func (r row) compares(s *contender.System) bool {
	return (s.Variant == "" || s.Variant == r.name) && r.offered(s)
}

// outcome is the result of one trial.
type outcome struct {
	Case string `json:"case"`
	// Hit is set if the fault hit what it was meant to hit. Other trials do not count.
	Hit  bool   `json:"hit"`
	Said string `json:"said"` // what was observed
	// Took holds times in milliseconds, and other figures.
	Took map[string]float64 `json:"took,omitempty"`
}

func (o *outcome) took(what string, d time.Duration) {
	if o.Took == nil {
		o.Took = map[string]float64{}
	}
	o.Took[what] = float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

// note notes a figure that is no time.
func (o *outcome) note(what string, figure float64) {
	o.took(what, 0)
	o.Took[what] = math.Round(figure)
}

// trials are the trials of a row with one system. What they start ends with close.
type trials struct {
	row    row
	system *contender.System
	n      int
	lease  time.Duration // 0: that of the row
	rand   *rand.Rand    // from the seed
	say    func(format string, args ...any)

	mu       sync.Mutex // guards the fields below
	outcomes []outcome
	cleanups []func()
}

func (t *trials) record(o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes = append(t.outcomes, o)
	t.say("%s %s, %s: %s, hit %v %v", t.row.name, t.system.Name, o.Case, o.Said, o.Hit, o.Took)
}

func (t *trials) later(cleanup func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, cleanup)
}

// close ends what was started since the last close.
func (t *trials) close() {
	t.mu.Lock()
	cleanups := t.cleanups
	t.cleanups = nil
	t.mu.Unlock()
	for i := len(cleanups) - 1; i >= 0; i-- {
		cleanups[i]()
	}
}

// leaseOr returns the lease of a row, unless another one is asked for.
func (t *trials) leaseOr(d time.Duration) time.Duration {
	if t.lease > 0 {
		return t.lease
	}
	return d
}

func (t *trials) startServer(args ...string) (*server, error) {
	s, err := startServer(args...)
	if err == nil {
		t.later(s.stop)
	}
	return s, err
}

func (t *trials) startProxy(upstream string) (*redistest.Proxy, error) {
	p, err := redistest.StartProxy(upstream)
	if err == nil {
		t.later(p.Close)
	}
	return p, err
}

// startProcess starts a process with a client called "c".
func (t *trials) startProcess(ctx context.Context, c contender.Config) (*process, error) {
	p, err := startProcess(t.system)
	if err != nil {
		return nil, err
	}
	t.later(p.kill)
	if err := p.open(ctx, "c", c); err != nil {
		return nil, err
	}
	// Scripts are loaded, and code is compiled, before anything is observed.
	for i := range 3 {
		if c.Replicas != nil || c.Nodes != nil {
			break
		}
		name, hold := fmt.Sprintf("warm-%p-%d", p, i), fmt.Sprintf("warm-%d", i)
		if _, err := p.must(ctx, contender.Request{Do: contender.Lock, Client: "c", Name: name, Hold: hold, Wait: 10 * time.Second}); err != nil {
			return nil, err
		}
		if _, err := p.must(ctx, contender.Request{Do: contender.Unlock, Hold: hold}); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// each runs trials, as many at the same time as there are lanes. It returns their errors.
func (t *trials) each(lanes int, trial func(lane, i int) error) error {
	var running sync.WaitGroup
	errs := make([]error, lanes)
	for lane := range lanes {
		running.Go(func() {
			for i := lane; i < t.n && errs[lane] == nil; i += lanes {
				errs[lane] = trial(lane, i)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// isClosed reports whether a channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// lock and the like make requests of client "c".
func lock(name, hold string, wait time.Duration) contender.Request {
	return contender.Request{Do: contender.Lock, Client: "c", Name: name, Hold: hold, Wait: wait}
}

func unlock(hold string) contender.Request {
	return contender.Request{Do: contender.Unlock, Hold: hold}
}
