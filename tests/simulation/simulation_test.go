package simulation

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/mortisetest"
)

var (
	seeds   = flag.Int("seeds", 20, "how `many` seeds to run, from that of -first on")
	first   = flag.Uint64("first", 0, "the first `seed`")
	replay  = flag.Int64("replay", -1, "run only this `seed`, several times, and tell all of it if it fails")
	replays = flag.Int("replays", 5, "how `often` -replay runs its seed")
	tell    = flag.Bool("tell", false, "tell the stories of mutants")
	shrinks = flag.Duration("shrink", 20*time.Second, "how `long` to look for the smallest part of a plan that fails")
)

// Clients that come and go, crash, freeze, lose requests, replies and messages, give up, enter
// their locks again, ask in vain for what they cannot have, and mix kinds and names that only
// braces tell apart, at random. Whatever happens: the history is one of correct locks, every
// call ends in its time, after all faults everything can be had at once, and nothing stays in
// Redis.
//
// A seed that fails is shrunk: clients, operations and faults are left out while it still
// fails, and what remains is told in words.
func TestSimulation(t *testing.T) {
	if *replay >= 0 {
		again(t, uint64(*replay))
		return
	}
	sum, ran := map[string]int{}, map[string]int{}
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		o := run(t, newPlan(seed), nil)
		for what, n := range o.counts {
			sum[what] += n
		}
		for script, n := range o.ran {
			ran[script] += n
		}
		if len(o.wrong) > 0 {
			t.Errorf("seed %d fails: %s\n%s", seed, strings.Join(o.wrong, "\n"), told(t, seed, nil))
		}
		if o.counts["requests"] < 5 || o.counts["successes"] < 3 {
			t.Errorf("seed %d: little happened: %v", seed, o.counts)
		}
	}
	t.Logf("%d seeds: %v", *seeds, sum)
	if *seeds < 200 {
		return // what is rare comes in few of the seeds
	}
	if sum["holds that stayed"] == 0 {
		t.Error("no hold has outlived a loss of data: it is not known whether one would be found in Redis")
	}
	for what, least := range leastOfTen() {
		if sum[what]*10 < least**seeds {
			t.Errorf("%d %s in %d seeds, want %d at least", sum[what], what, *seeds, least**seeds/10)
		}
	}
	checkScripts(t, ran)
}

// leastOfTen is how much must happen in ten seeds: a simulation in which little happens shows
// nothing.
func leastOfTen() map[string]int {
	return map[string]int{
		"requests": 300, "successes": 200, "holds": 60, "re-entries": 8, "terms": 2, "passed": 2, "given up": 40, "lost": 4, "left behind": 3,
		"upgrades refused": 1, "crash": 1, "close": 1, "freeze": 1, "partition": 1, "cut": 1, "forge": 1,
		string(mortisetest.RequestLost): 40, string(mortisetest.ReplyLost): 30, string(mortisetest.RanLate): 10, string(mortisetest.Slow): 10,
		string(mortisetest.NotConnected): 3, string(mortisetest.Refused): 20, string(mortisetest.MessageLost): 2, string(mortisetest.MessageLate): 1,
		"fail over": 1, "restart": 1, "evict": 1, "jump forward": 1, "jump back": 1, "holders told": 3, "limits of a wait": 1, "kept after the release": 1,
		string(mortisetest.Forgotten): 5, string(mortisetest.Evicted): 1,
	}
}

// again runs one seed several times: which goroutine runs next does not follow from it, so a run
// need not repeat the one before.
func again(t *testing.T, seed uint64) {
	failed := 0
	for range *replays {
		o := run(t, newPlan(seed), nil)
		if len(o.wrong) == 0 {
			continue
		}
		if failed++; failed == 1 {
			t.Errorf("%s\nthe plan:\n%vthe history:\n%v", strings.Join(o.wrong, "\n"), newPlan(seed), o.history)
		}
	}
	t.Logf("seed %d failed in %d of %d runs", seed, failed, *replays)
	if failed > 0 {
		t.Log(told(t, seed, nil))
	}
}

// told shrinks the plan of a seed that has failed, and tells what is left of it.
func told(t *testing.T, seed uint64, wrap mutant) string {
	clients, ops, faults := newPlan(seed).size()
	p, o := shrink(t, newPlan(seed), wrap, *shrinks)
	text := fmt.Sprintf("run it again with:\n\tgo test ./tests/simulation -run '^TestSimulation$' -count=1 -args -replay %d\n", seed)
	if p == nil {
		return text + "it did not fail again: the order of goroutines does not follow from the seed"
	}
	c1, o1, f1 := p.size()
	return text + fmt.Sprintf("of %d clients, %d operations and %d faults it takes %d, %d and %d:\n%v%s", clients, ops, faults, c1, o1, f1, p, strings.Join(o.wrong, "\n"))
}
