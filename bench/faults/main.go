// Command faults puts mortise and other locks through the same faults, each with the settings that
// its own documentation shows, on servers that it starts, and says what it has observed.
//
//	go run ./bench/faults                                   everything, in about an hour
//	go run ./bench/faults -only r4 -peer redsync -seed 7    one row, one system
//	go run ./bench/faults -out docs/comparison              replaces these results in run.json and report.md there
//	go run ./bench/faults report docs/comparison            writes report.md again, from run.json
//
// A trial counts only if the fault hit what it was meant to hit. The seed decides what is left to
// chance: moments and delays; it cannot decide when a system wakes up.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mortise-go/mortise/bench/faults/contender"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		stop()
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// choice is what is run.
type choice struct {
	rows    []row
	systems []*contender.System
	n       int
	lease   time.Duration
	seed    uint64
	say     func(format string, args ...any)
}

func command(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "worker":
		return contender.Serve(ctx, os.Stdin, os.Stdout)
	case len(args) == 2 && args[0] == "report":
		r, err := readRecord(filepath.Join(args[1], "run.json"))
		if err != nil {
			return err
		}
		return r.write(args[1])
	}
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	only := flags.String("only", "", "rows to run, such as r1,r4; default: all")
	peers := flags.String("peer", "", "systems to run, by name; default: all")
	n := flags.Int("n", 0, "trials of each case; default: those of the row")
	lease := flags.Duration("lease", 0, "the lease of all locks; default: that of the row")
	seed := flags.Uint64("seed", uint64(time.Now().UnixNano()%100_000), "the seed")
	out := flags.String("out", "", "directory of run.json and report.md; results of the same rows and systems in them are replaced")
	verbose := flags.Bool("v", false, "show every trial")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c := choice{n: *n, lease: *lease, seed: *seed, say: func(string, ...any) {}}
	if *verbose {
		c.say = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	}
	var err error
	if c.rows, err = pick("row", *only, rows, func(r row) string { return r.name }); err != nil {
		return err
	}
	if c.systems, err = pick("system", *peers, contender.Systems, func(s *contender.System) string { return s.Name }); err != nil {
		return err
	}
	r, err := c.run(ctx)
	if r != nil {
		err = errors.Join(err, publish(r, *out))
	}
	return err
}

// pick returns the items whose names are in a list, or all if it is empty.
func pick[T any](kind, list string, all []T, name func(T) string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	var chosen []T
	for want := range strings.SplitSeq(list, ",") {
		before := len(chosen)
		for _, item := range all {
			if strings.EqualFold(name(item), strings.TrimSpace(want)) {
				chosen = append(chosen, item)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("there is no %s %q", kind, want)
		}
	}
	return chosen, nil
}

// run runs the trials. An error in one row does not keep the others from being run.
func (c choice) run(ctx context.Context) (*record, error) {
	for _, s := range c.systems {
		if s.Build != nil {
			if err := s.Build(); err != nil {
				return nil, fmt.Errorf("%s: %w", s.Name, err)
			}
		}
	}
	r, err := newRecord(c.seed, c.systems)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, row := range c.rows {
		for _, s := range c.systems {
			if !row.compares(s) || ctx.Err() != nil {
				continue
			}
			fmt.Fprintf(os.Stderr, "%s %s: %s, seed %d\n", time.Now().Format(time.TimeOnly), s.Name, row.title, c.seed)
			t := &trials{row: row, system: s, n: row.n, lease: c.lease, rand: rand.New(rand.NewPCG(c.seed, stream(row.name))), say: c.say}
			if c.n > 0 {
				t.n = c.n
			}
			if err := row.run(ctx, t); err != nil {
				errs = append(errs, fmt.Errorf("%s, %s: %w (again: %s)", row.name, s.Name, err, t.command(c.seed)))
			}
			t.close()
			r.summarize(t)
		}
	}
	for _, name := range r.vacuous() {
		errs = append(errs, fmt.Errorf("%s: the fault was never hit", name))
	}
	return r, errors.Join(append(errs, ctx.Err())...)
}

// stream is the number of a row in the stream of chance, whichever rows are run.
func stream(name string) uint64 {
	return uint64(slices.IndexFunc(rows, func(r row) bool { return r.name == name }))
}

// command returns the command that runs the trials once more.
func (t *trials) command(seed uint64) string {
	command := fmt.Sprintf("go run ./bench/faults -only %s -peer %s -seed %d", t.row.name, t.system.Name, seed)
	if t.n != t.row.n {
		command += fmt.Sprintf(" -n %d", t.n)
	}
	if t.lease > 0 {
		command += fmt.Sprintf(" -lease %v", t.lease)
	}
	return command
}

// publish shows a record, and keeps it in a directory, if there is one.
func publish(r *record, dir string) error {
	r.tables(os.Stdout, r.Results)
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	old, err := readRecord(filepath.Join(dir, "run.json"))
	switch {
	case err == nil:
		old.merge(r)
		r = old
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	return r.write(dir)
}
