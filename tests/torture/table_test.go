package torture

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// showTable prints what all rounds together have shown.
func showTable() {
	if *limit == 0 || len(results) == 0 {
		return
	}
	type sum struct {
		result
		rounds, failed int
	}
	var names []string
	sums := map[string]*sum{}
	var total sum
	for _, r := range results {
		s := sums[r.nemesis.name]
		if s == nil {
			s = &sum{}
			sums[r.nemesis.name] = s
			names = append(names, r.nemesis.name)
		}
		for _, s := range []*sum{s, &total} {
			s.rounds++
			if len(r.bad) > 0 {
				s.failed++
			}
			s.hits += r.hits
			s.acquisitions += r.acquisitions
			s.losses += r.losses
			s.refused += r.refused
			s.late += r.late
			s.tally.wait = max(s.tally.wait, r.tally.wait)
			s.heap = max(s.heap, r.heap)
			s.taken += r.taken
			s.unaware += r.unaware
			s.met += r.met
			s.sharp += r.sharp
			s.admitted += r.admitted
			s.opened += r.opened
			s.slowest = max(s.slowest, r.slowest)
		}
	}
	slices.Sort(names)
	sums["all"] = &total
	fmt.Printf("\n%-16s %6s %6s %7s %12s %7s %14s %5s %12s\n", "nemesis", "rounds", "failed", "hits", "acquisitions", "losses", "refused writes", "late", "longest wait")
	for _, name := range append(names, "all") {
		s := sums[name]
		fmt.Printf("%-16s %6d %6d %7d %12d %7d %14d %5d %12v\n", name, s.rounds, s.failed, s.hits, s.acquisitions, s.losses, s.refused, s.late, s.tally.wait.Round(time.Millisecond))
	}
	losses, late := careful()
	fmt.Printf("\nin all: %d rounds, %d failed; the faults hit %d times; %d acquisitions; %d parties passed barriers; %d waiters passed latches\n", total.rounds, total.failed, total.hits, total.acquisitions, total.met, total.opened)
	fmt.Printf("overlaps that a loss of data explains: %d; rounds of failovers judged by their kills alone: %d\n", total.admitted, total.sharp)
	fmt.Printf("lost holds whose context did not stop the next write: %d of %d\n", late, losses)
	fmt.Printf("holders whose key was deleted: %d; the slowest that was told learned it after %v of a lease of %v or %v; those that handed their lease on, to a waiter that found it lost: %d\n",
		total.taken, total.slowest.Round(time.Millisecond), short, long, total.unaware)
	fmt.Printf("heap of a closed client: %d KB more than at its beginning, at most\n", total.heap>>10)
}

// careful sums up how often holders that look at their context wrote after a loss: only in rounds
// in which Redis did not forget, because else two may have held the lock in good faith.
func careful() (losses, late int) {
	for _, r := range results {
		if !r.forgot {
			losses, late = losses+r.losses, late+r.late
		}
	}
	return losses, late
}

// checkCare fails the test if the contexts of lost holds ended too late too often, or if holders were not told too
// often. Between a look at the context and a write there is always a moment, for which there are tokens, and so is one
// between a hand-off and its receiver: one is admitted however few holds were lost.
func checkCare(t *testing.T) {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if losses, late := careful(); late > 1 && late*100 > losses {
		t.Errorf("of %d lost holds %d wrote after the loss, though they look at their context before: want 1, or 1 of 100, at most", losses, late)
	}
	var taken, unaware int
	for _, r := range results {
		taken, unaware = taken+r.taken, unaware+r.unaware
	}
	if most := max(1, likely(taken, 1./20)); unaware > most {
		t.Errorf("of %d holders whose key was deleted %d were not told, as their lease was handed on: want %d at most", taken, unaware, most)
	}
}

// likely returns how many of n things there are at most by chance, in 999 runs of 1000, if each is one with the
// probability p.
func likely(n int, p float64) (most int) {
	chance := math.Pow(1-p, float64(n)) // of exactly that many
	for sum := chance; sum < 0.999; sum += chance {
		chance *= float64(n-most) / float64(most+1) * p / (1 - p)
		most++
	}
	return most
}

func TestLikely(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 27: 6, 100: 13, 1000: 73} {
		if got := likely(n, 1./20); got != want {
			t.Errorf("of %d: %d, want %d", n, got, want)
		}
	}
}
