// Package canary judges what tests promise of real time. Beside each trial runs a canary, which knows how late
// the machine itself was: a goroutine with a timer of a millisecond, and a process that answers every five.
//
//	canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
//		…
//		b.Within("the next waiter", time.Since(freed), 3*time.Second)
//	})
//
// Such a test belongs to make proof: it stands in a file named *_proof_test.go with the build tag proof, and runs with
//
//	make test ARGS="-tags proof -run TestX ./pkg"
//
// A bound that is broken while the machine was late by more than a tenth of it, at once or in all, proves nothing:
// the trial is repeated, three times at most, and each repeat is logged. A bound that is broken on time is a failure. Each
// bound is logged with its margin, from which make proof makes its table.
package canary

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// tries is how often a trial runs at most: once, and three repeats.
const tries = 4

// Margin begins the line that is logged for each bound that was kept or broken, for whoever collects them.
const Margin = "margin: "

// Bounds collects what a trial has measured. Its methods are safe for concurrent use.
type Bounds struct {
	mu       sync.Mutex
	measured []measure
}

// measure is a duration that must not be longer than its bound.
type measure struct {
	what        string
	took, bound time.Duration
}

// Within says that what has taken so long, and is promised within bound. The trial goes on in any case.
func (b *Bounds) Within(what string, took, bound time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.measured = append(b.measured, measure{what, took, bound})
}

// Judge runs trial, and again if the machine was too busy to tell. Each run is a subtest with cleanups of its
// own; if it fails by itself, it is not repeated. It blocks until the last one has ended, and must not be called
// in a bubble of virtual time. Several may run at once.
func Judge(t *testing.T, trial func(t *testing.T, b *Bounds)) {
	t.Helper()
	for try := 1; ; try++ {
		var b Bounds
		end := observe(t)
		ran, over := false, false
		ok := t.Run(fmt.Sprintf("try %d", try), func(t *testing.T) {
			ran = true
			defer func() { over = true }()
			trial(t, &b)
		})
		late := end()
		if ran && !over {
			t.Fatal("the trial goes on after the verdict: it must not call t.Parallel")
		}
		if !ran && try > 1 { // -run names the first one only
			t.Fatalf("not judged: the machine was busy, and -run leaves out trial %d", try)
		}
		if !ok {
			return
		}
		broken, busy := verdict(b.measured, late)
		for _, m := range b.measured {
			t.Logf(Margin+"%s: %v of %v, the machine late by %v", m.what, m.took.Round(time.Millisecond), m.bound, late.Round(time.Millisecond))
		}
		switch {
		case len(broken) == 0:
			return
		case !busy:
			for _, m := range broken {
				t.Errorf("%s took %v, %v more than the %v that are promised; the machine was late by %v at most", m.what, m.took, m.took-m.bound, m.bound, late)
			}
			return
		case try == tries:
			t.Errorf("not judged: %s took %v, with %v promised, and the machine was late by %v; so it was in each of %d trials. Run it on a quiet machine", broken[0].what, broken[0].took, broken[0].bound, late, tries)
			return
		}
		t.Logf("the machine was busy: %s took %v, with %v promised, and the machine was late by %v; the trial is repeated", broken[0].what, broken[0].took, broken[0].bound, late)
	}
}

// verdict returns the bounds that are broken, and whether the machine was so late that none of them proves
// anything.
func verdict(measured []measure, late time.Duration) (broken []measure, busy bool) {
	busy = true
	for _, m := range measured {
		if m.took > m.bound {
			broken = append(broken, m)
			busy = busy && late > m.bound/10
		}
	}
	return broken, busy && len(broken) > 0
}
