// Package dice draws the random numbers of the library that need not be secret, such as pauses
// that keep clients from acting in step. A test can fix them to repeat a run.
package dice

import (
	"math/rand/v2"
	"sync"
)

var (
	mu    sync.Mutex // guards fixed
	fixed *rand.Rand // nil unless a test has set it
)

// N returns a random number in [0, n). n must be positive.
func N[Int ~int | ~int64](n Int) Int {
	mu.Lock()
	defer mu.Unlock()
	if fixed == nil {
		return rand.N(n)
	}
	return Int(fixed.Int64N(int64(n)))
}

// Fix makes all numbers follow from seed until undo is called. It is for tests that do not run
// in parallel with others.
func Fix(seed uint64) (undo func()) {
	mu.Lock()
	defer mu.Unlock()
	fixed = rand.New(rand.NewPCG(seed, 0))
	return func() {
		mu.Lock()
		defer mu.Unlock()
		fixed = nil
	}
}
