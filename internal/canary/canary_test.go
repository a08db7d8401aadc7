package canary

import (
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestVerdict(t *testing.T) {
	kept := measure{"kept", 9 * time.Second, 10 * time.Second}
	exact := measure{"exact", 10 * time.Second, 10 * time.Second}
	over := measure{"over", 10*time.Second + 1, 10 * time.Second}
	short := measure{"short", 2 * time.Second, time.Second}
	for name, c := range map[string]struct {
		measured []measure
		late     time.Duration
		broken   []measure
		busy     bool
	}{
		"nothing measured":             {nil, time.Hour, nil, false},
		"kept":                         {[]measure{kept, exact}, 0, nil, false},
		"kept on a busy machine":       {[]measure{kept, exact}, time.Hour, nil, false},
		"broken":                       {[]measure{kept, over}, 0, []measure{over}, false},
		"late by a tenth":              {[]measure{over}, time.Second, []measure{over}, false},
		"late by more":                 {[]measure{over}, time.Second + 1, []measure{over}, true},
		"late for the shorter one":     {[]measure{short, over}, 200 * time.Millisecond, []measure{short, over}, false},
		"late for the one that broke":  {[]measure{short, kept}, 200 * time.Millisecond, []measure{short}, true},
		"late for both that are wrong": {[]measure{short, over}, 2 * time.Second, []measure{short, over}, true},
	} {
		broken, busy := verdict(c.measured, c.late)
		if !slices.Equal(broken, c.broken) || busy != c.busy {
			t.Errorf("%s: got %v, busy %v, want %v, %v", name, broken, busy, c.broken, c.busy)
		}
	}
}

// noted is note for a test, which does not hold the mutex.
func noted(late time.Duration) {
	bird.mu.Lock()
	defer bird.mu.Unlock()
	new(half).note(late)
}

// The canary notes for each trial what happens while it runs, and nothing of it is left afterwards.
func TestEachTrialHasItsOwnLateness(t *testing.T) {
	first := observe(t)
	noted(time.Hour)
	second := observe(t)
	noted(2 * time.Hour)
	if late := first(); late != 2*time.Hour {
		t.Errorf("the first trial: late by %v, want the longest, 2h", late)
	}
	noted(3 * time.Hour)
	if late := second(); late != 3*time.Hour {
		t.Errorf("the second trial: late by %v, want 3h", late)
	}
	if bird.stop != nil {
		t.Error("the canary lives on after the last trial")
	}
}

// Many small latenesses count together, but not those that an idle machine has.
func TestSmallLatenessesAreSummed(t *testing.T) {
	end := observe(t)
	bird.mu.Lock()
	timer := bird.halves[0]
	for range 1000 {
		timer.note(time.Hour)
		timer.note(small)
	}
	bird.mu.Unlock()
	if late := end(); late < 1000*time.Hour || late > 1001*time.Hour {
		t.Errorf("late by %v, want 1000h in all", late)
	}
}

// A trial ends only when the timer and the process have both come around: what they were in when the machine
// stood still tells of it.
func TestEachHalfComesAround(t *testing.T) {
	end := observe(t)
	bird.mu.Lock()
	halves := bird.halves
	before := []int{halves[0].laps, halves[1].laps}
	bird.mu.Unlock()
	if late := end(); late <= 0 {
		t.Errorf("late by %v, want what the timer and the process took", late)
	}
	for i, h := range halves {
		if h.laps == before[i] {
			t.Errorf("half %d of the canary has not come around", i)
		}
	}
}

// A trial that breaks its bound while the machine is late is repeated; one that keeps it is not, and neither is
// one whose bound is kept at last.
func TestBusyTrialIsRepeated(t *testing.T) {
	runs := 0
	Judge(t, func(_ *testing.T, b *Bounds) {
		if runs++; runs < tries {
			noted(time.Second)
			b.Within("it", 2*time.Second, time.Second)
			return
		}
		b.Within("it", time.Second, time.Second)
	})
	if runs != tries {
		t.Errorf("the trial ran %d times, want %d", runs, tries)
	}
}

func TestTrialsRunTogether(t *testing.T) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			end := observe(t)
			end()
		})
	}
	all.Wait()
	if bird.stop != nil {
		t.Error("the canary lives on after the last trial")
	}
}
