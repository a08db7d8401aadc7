// Package dice is where the library draws what need not be secret: how long to
// pause, so that many do not act in step. A test that is to be repeated draws the
// same once more.
package dice

import (
	"math/rand/v2"
	"sync"
)

var (
	mu    sync.Mutex // guards fixed
	fixed *rand.Rand // nil unless a test has set it
)

// N returns a number from 0 on and less than n, which must be positive.
func N[Int ~int | ~int64](n Int) Int {
	mu.Lock()
	defer mu.Unlock()
	if fixed == nil {
		return rand.N(n)
	}
	return Int(fixed.Int64N(int64(n)))
}

// Fix has all draws follow from seed until undo is called. It is for tests that do
// not run beside others.
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
