// Command bench compares mortise with other locks and with what is possible, side by side on this
// machine, and writes the results as Markdown, JSON and charts.
//
//	go run ./bench                     everything, in about 20 minutes
//	go run ./bench -short              everything, small and quick
//	go run ./bench -only W1,W3 -systems "mortise/rueidis,redsync"
//	go run ./bench -only seen          what observing costs
//	go run ./bench -only scale         clusters, a million locks, ten thousand clients
//	go run ./bench report run.json     the report of a stored run
//
// It starts and stops its own servers on free ports of the loopback interface.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mortise-go/mortise/bench/peer"
	"github.com/mortise-go/mortise/bench/report"
	"github.com/mortise-go/mortise/bench/rig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		stop()
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command runs the command in args.
func command(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "worker":
		return work(ctx, os.Stdin, os.Stdout)
	case len(args) == 2 && args[0] == "report":
		record, err := report.Read(args[1])
		if err != nil {
			return err
		}
		return publish(record, filepath.Dir(args[1]))
	}
	return measure(ctx, args)
}

// work is a worker process.
func work(ctx context.Context, in io.Reader, out io.Writer) error {
	return rig.Serve(ctx, in, out, func(name string) rig.Open {
		if s := peer.Find(name); s != nil {
			return s.Open
		}
		return nil
	})
}

// measure runs the benchmark.
func measure(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	short := flags.Bool("short", false, "a small and quick run, for development")
	budget := flags.Duration("time", 15*time.Minute, "start no round after the first that would end later; all loads take about 20 minutes a round")
	only := flags.String("only", "", "workloads or loads to run, such as W1,W4/16×8; default: all")
	systems := flags.String("systems", "", "systems to run, by name; default: all")
	out := flags.String("out", "bench/out", "directory for the report")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "Usage: go run ./bench [flags]\n       go run ./bench report FILE")
		flags.PrintDefaults()
		loads, systems := names(plan(false))
		fmt.Fprintf(flags.Output(), "Loads:   %s\nSystems: %s\n", strings.Join(loads, ", "), strings.Join(systems, ", "))
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	loads, err := choose(plan(*short), list(*only), list(*systems))
	if err != nil {
		return err
	}
	if *short {
		*budget = 0 // one round
	}
	record := newRecord(loads)
	for _, m := range record.Missing {
		fmt.Fprintln(os.Stderr, "bench: not run: "+m)
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	r := &rounds{loads: loads, budget: *budget, most: maxRounds, record: record, say: progress}
	runErr := r.run(ctx)
	if len(record.Samples) == 0 {
		return runErr
	}
	if err := record.Write(filepath.Join(*out, "run.json")); err != nil {
		return err
	}
	return errors.Join(runErr, publish(record, *out))
}

// publish writes the report of a run into a directory.
func publish(record *report.Record, dir string) error {
	if err := report.Write(record, dir); err != nil {
		return err
	}
	fmt.Println(filepath.Join(dir, report.File))
	return nil
}

// list splits a comma-separated list.
func list(s string) (items []string) {
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
