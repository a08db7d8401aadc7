package torture

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	limit = flag.Duration("time", 0, "how long to go on; one short round if 0")
	seed  = flag.Uint64("seed", 0, "the seed of the first round; by the clock if 0")
	only  = flag.String("only", "", "only rounds whose name contains this")
	load  = flag.String("load", "", "a kind of lock that all rounds have to have, if it goes with their faults")
	lanes = flag.Int("lanes", 2, "how many rounds go on at the same time")
	plant = flag.String("planted", "", "before the rounds, and within their time, show that planted bugs are found: three, all, or those with this in their names")
	most  = flag.Int("rounds", 0, "how many rounds to make at most; as many as there is time for if 0")
	storm = flag.Duration("storm", 6*time.Second, "how long there are faults in a round")
)

// TestTorture goes through all nemeses, again and again, until the time is over.
func TestTorture(t *testing.T) {
	alongside(t)
	if *limit == 0 {
		p := plan{seed: 1, nemesis: nemeses[0], kind: "single", driver: "rueidis", program: os.Args[0], storm: 3 * time.Second, brief: true}
		t.Run(p.String(), func(t *testing.T) { judged(t, p) })
		return
	}
	if !exists(*only) {
		t.Fatalf("-only %s: no round is called so; a round is nemesis/deployment/driver, such as %v/%s/rueidis", *only, nemeses[0].name, nemeses[0].kinds[0])
	}
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	fmt.Printf("torture: %v with seed %d, %s at a time\n", *limit, first, counted(*lanes, "round"))
	begin := time.Now()
	if *plant != "" {
		for _, b := range choosePlanted(*plant, first) {
			t.Run("planted/"+b.name, func(t *testing.T) { findPlanted(t, b, first) })
		}
	}
	left := max(*limit-time.Since(begin), *limit/3)
	plans := make(chan plan)
	var all sync.WaitGroup
	for range *lanes {
		all.Go(func() {
			for p := range plans {
				t.Run(p.String(), func(t *testing.T) { judged(t, p) })
			}
		})
	}
	next := schedule(first, *only)
	if *limit < time.Second {
		t.Fatalf("-time %v is no time", *limit)
	}
	deadline := time.Now().Add(left)
	for n := 0; time.Now().Before(deadline) && (*most == 0 || n < *most); n++ {
		plans <- next()
	}
	close(plans)
	all.Wait()
	checkCare(t)
}

// exists reports whether the name of any round contains part.
func exists(part string) bool {
	for _, n := range nemeses {
		for _, kind := range n.kinds {
			for _, d := range drivers {
				if strings.Contains(plan{nemesis: n, kind: kind, driver: d}.String(), part) {
					return true
				}
			}
		}
	}
	return false
}

var drivers = []string{"goredis", "rueidis"}

// alongside has short tests run at the same time: they wait for most of it.
func alongside(t *testing.T) {
	if *limit == 0 {
		t.Parallel()
	}
}

// schedule returns the rounds of a seed, one after the other: each nemesis once before any comes
// again, in an order, and with deployments and drivers, that the seed gives.
func schedule(first uint64, only string) func() plan {
	random := rand.New(rand.NewPCG(first, 2))
	var rest []*nemesis
	n := uint64(0)
	return func() plan {
		for {
			if len(rest) == 0 {
				rest = slices.Clone(nemeses)
				random.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
			}
			p := plan{seed: first + n, nemesis: rest[0], program: os.Args[0], storm: *storm, load: *load}
			p.kind = p.nemesis.kinds[random.IntN(len(p.nemesis.kinds))]
			p.driver = drivers[random.IntN(len(drivers))]
			rest = rest[1:]
			if strings.Contains(p.String(), only) {
				n++
				return p
			}
		}
	}
}

var (
	mu      sync.Mutex
	results []result
)

// report notes a result, and fails the test if promises were broken.
func report(t *testing.T, r result) {
	mu.Lock()
	defer mu.Unlock()
	results = append(results, r)
	state := "ok  "
	if len(r.bad) > 0 || t.Failed() {
		state = "FAIL"
	}
	if *limit != 0 {
		fmt.Printf("%s %-32s seed %d %5.1fs %4d hits %5d acquisitions %3d losses %3d refused, longest wait %v\n", state, r.plan, r.seed, r.took.Seconds(),
			r.hits, r.acquisitions, r.losses, r.refused, r.wait.Round(time.Millisecond))
	}
	for _, b := range r.bad {
		t.Errorf("%v, seed %d: %s", r.plan, r.seed, b)
		if *limit != 0 {
			fmt.Println("     ", b)
		}
	}
	if t.Failed() {
		tellAgain(t, r.again())
	}
}
