// Mutants makes deliberate mistakes in the code, one at a time, and runs the test that has to
// notice each. A mistake that no test notices is a hole in the tests.
//
// The mistakes are in list; parse says in which form. The work tree is not touched: go test
// gets the changed file as an overlay, so that everything else comes from the build cache.
//
//	go run ./scripts/mutants              all of them
//	go run ./scripts/mutants NAME…        those whose names contain one of these texts
//	go run ./scripts/mutants -apply       only whether each can still be made
//	go run ./scripts/mutants -find NAME   which tests of the fast layer notice it
//	go run ./scripts/mutants -time 5m     as many as there is time for, in an order that -seed gives
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	jobs := flag.Int("j", 2, "how many to run at the same time")
	apply := flag.Bool("apply", false, "make none, only check that each can be made")
	find := flag.Bool("find", false, "run all tests of the fast layer on each, and name those that fail")
	length := flag.Duration("time", 0, "begin no mutant after that time; 0: no limit")
	seed := flag.Uint64("seed", 0, "with -time, the seed of the order; by the clock if 0")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := error(nil)
	if *length > 0 {
		err = runFor(ctx, flag.Args(), *jobs, *length, *seed)
	} else {
		err = run(ctx, flag.Args(), *jobs, *apply, *find)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// list is the folder of the mutants, from the root of the module.
const list = "scripts/mutants/list"

func run(ctx context.Context, names []string, jobs int, apply, find bool) error {
	all, err := load(list)
	if err != nil {
		return err
	}
	if err := checkAll(".", all); err != nil || apply {
		return err
	}
	chosen := choose(all, names)
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant has a name with %q", names)
	}
	b, remove, err := newBench()
	if err != nil {
		return err
	}
	defer remove()
	start := time.Now()
	if find {
		for _, m := range chosen {
			fmt.Println(m.name)
			b.find(ctx, m, os.Stdout)
		}
		return nil
	}
	if err := b.healthy(ctx, chosen); err != nil {
		return err
	}
	fmt.Printf("the tests pass on the code as it is (%.0fs); now %s\n", time.Since(start).Seconds(), counted(len(chosen), "mutant"))
	results := runAll(ctx, b, chosen, jobs, time.Time{})
	return cmp.Or(ctx.Err(), report(results, time.Since(start)))
}

// choose returns the mutants whose names contain one of the texts; all if there is none.
func choose(all []mutant, texts []string) (chosen []mutant) {
	for _, m := range all {
		wanted := len(texts) == 0
		for _, text := range texts {
			wanted = wanted || strings.Contains(m.name, text)
		}
		if wanted {
			chosen = append(chosen, m)
		}
	}
	return chosen
}

// runFor runs as many of the chosen mutants as it can begin within that time, in an order that the
// seed gives, and then their tests on the code as it is. Mutants whose tests need servers, which
// may take five minutes each, come only if there are ten.
func runFor(ctx context.Context, names []string, jobs int, length time.Duration, seed uint64) error {
	start := time.Now()
	all, err := load(list)
	if err != nil {
		return err
	}
	if err := checkAll(".", all); err != nil {
		return err
	}
	chosen := choose(all, names)
	if length < 10*time.Minute {
		chosen = slices.DeleteFunc(chosen, func(m mutant) bool { return m.needs != "" })
	}
	if seed == 0 {
		seed = uint64(start.UnixNano())
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	fmt.Printf("%v for mutants, in the order of -seed %d\n", length, seed)
	b, remove, err := newBench()
	if err != nil {
		return err
	}
	defer remove()
	results := runAll(ctx, b, chosen, jobs, start.Add(length*3/4)) // the rest is for the code as it is
	tried := make([]mutant, len(results))
	for i, r := range results {
		tried[i] = *r.mutant
	}
	if err := b.healthy(ctx, tried); err != nil {
		return err
	}
	if len(results) == 0 {
		return fmt.Errorf("%v are not enough for one of %d mutants", length, len(chosen))
	}
	fmt.Printf("\n%d of %d mutants were tried\n", len(results), len(all))
	return cmp.Or(ctx.Err(), report(results, time.Since(start)))
}

// runAll runs mutants, so many at a time, and prints a line for each. It begins none after end, if
// that is not zero.
func runAll(ctx context.Context, b bench, mutants []mutant, jobs int, end time.Time) []result {
	results := make([]result, len(mutants))
	next := make(chan int)
	var workers sync.WaitGroup
	var printing sync.Mutex
	for range jobs {
		workers.Go(func() {
			for i := range next {
				results[i] = b.try(ctx, mutants[i])
				printing.Lock()
				fmt.Println(results[i])
				printing.Unlock()
			}
		})
	}
	for i := 0; i < len(mutants) && ctx.Err() == nil && (end.IsZero() || time.Now().Before(end)); i++ {
		next <- i
	}
	close(next)
	workers.Wait()
	return slices.DeleteFunc(results, func(r result) bool { return r.mutant == nil }) // not begun
}

// report prints the sums, and fails if not every mutant was caught.
func report(results []result, took time.Duration) error {
	caught := 0
	var bad []string
	for _, r := range results {
		if r.ok() {
			caught++
		} else {
			bad = append(bad, r.String())
		}
	}
	fmt.Printf("\n%d of %d mutants were caught, in %v\n", caught, len(results), took.Round(time.Second))
	if bad != nil {
		return fmt.Errorf("%d were not:\n%s", len(bad), strings.Join(bad, "\n"))
	}
	return nil
}

// overlaid writes the changed files of m into a folder of its own in dir, and returns the file
// that tells go test about them.
func (b bench) overlaid(m mutant) (overlay string, err error) {
	dir := filepath.Join(b.dir, m.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	files, err := m.apply(b.root)
	if err != nil {
		return "", err
	}
	return writeOverlay(b.root, dir, files)
}

// counted returns a number of things, such as "1 mutant" or "3 mutants".
func counted(n int, one string) string {
	if n != 1 {
		one += "s"
	}
	return strconv.Itoa(n) + " " + one
}
