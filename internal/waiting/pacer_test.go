package waiting

import (
	"testing"
	"testing/synctest"
	"time"
)

// However many attempts are due at once, no window has more of them than paceCount, and
// none is delayed for longer than the attempts before it take.
func TestPacerPutsOffNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer
		const n = 5 * paceCount
		at := make(map[time.Duration]int) // number of attempts by window
		for i := range n {
			d := p.Next(time.Now())
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
		if d := p.Next(time.Now()); d != 0 {
			t.Errorf("after a pause one is put off for %v", d)
		}
	})
}

// Attempts that genuine notifications cause are not counted.
func TestPacerForgetsGenuineHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer
		for range 10 * paceCount {
			if d := p.Next(time.Now()); d != 0 {
				t.Fatalf("an attempt is put off for %v", d)
			}
			p.genuine()
		}
	})
}
