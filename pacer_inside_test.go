package mortise

import (
	"testing"
	"testing/synctest"
	"time"
)

// However many ask at once, none is put off for longer than it takes to let those
// before it ask, and no more ask in a window than may.
func TestPacerPutsOffNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer
		const n = 5 * paceCount
		at := make(map[time.Duration]int) // attempts by when they are made
		for i := range n {
			d := p.next(time.Now())
			if most := time.Duration(i/paceCount) * paceWindow; d > most {
				t.Errorf("the %d. is put off for %v, want %v at most", i+1, d, most)
			}
			at[d/paceWindow]++
		}
		for window, count := range at {
			if count > paceCount {
				t.Errorf("%d attempts in window %d, want %d at most", count, window, paceCount)
			}
		}
		time.Sleep(5 * paceWindow)
		if d := p.next(time.Now()); d != 0 {
			t.Errorf("after a pause one is put off for %v", d)
		}
	})
}

// Attempts for which there was reason are not counted.
func TestPacerForgetsGenuineHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer
		for range 10 * paceCount {
			if d := p.next(time.Now()); d != 0 {
				t.Fatalf("an attempt is put off for %v", d)
			}
			p.genuine()
		}
	})
}
