// Command where says where the time of a lock goes: it runs mortise and the least that can do the same,
// each in a process of its own under a CPU profile, and prints as Markdown how many microseconds of a
// pair of Lock and Unlock, or of a hand-over, each layer takes.
//
//	go run ./bench/where                          everything, in less than two minutes
//	go run ./bench/where -short                   the same with windows of one second
//	go run ./bench/where -only W1,W3 -systems "mortise/rueidis,raw/rueidis"
//	go run ./bench/where -only W3 -mutex -block   also where goroutines wait
//
// It starts and stops its own servers on free ports of the loopback interface. A profile also costs
// time, so the sums are a little larger than the figures of package bench.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		stop()
		fmt.Fprintln(os.Stderr, "where:", err)
		os.Exit(1)
	}
}

// command runs the command in args, and writes its tables to out.
func command(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 2 && args[0] == "worker" {
		return work(ctx, os.Stdin, out, args[1])
	}
	flags := flag.NewFlagSet("where", flag.ContinueOnError)
	short := flags.Bool("short", false, "windows of one second, for development")
	window := flags.Duration("window", 7*time.Second, "how long each system is measured under each load")
	only := flags.String("only", "", "loads to run, such as W1,W3; default: all")
	systems := flags.String("systems", "", "systems to run, by name; default: all")
	dir := flags.String("profiles", "", "directory to keep the profiles in, for go tool pprof")
	var also kinds
	flags.BoolVar(&also.mutex, "mutex", false, "also list where goroutines made others wait for a mutex; this costs time")
	flags.BoolVar(&also.block, "block", false, "also list where goroutines waited; this costs much time")
	causes := flags.Bool("causes", false, "also list on whose behalf the kernel and Go took the client's time")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "Usage: go run ./bench/where [flags]")
		flags.PrintDefaults()
		loads, systems := named(loads())
		fmt.Fprintf(flags.Output(), "Loads:   %s\nSystems: %s\n", strings.Join(loads, ", "), strings.Join(systems, ", "))
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if *short {
		*window = time.Second
	}
	loads, err := choose(list(*only), list(*systems))
	if err != nil {
		return err
	}
	m := &measurement{window: *window, also: also, profiles: *dir}
	for _, l := range loads {
		columns, err := m.load(ctx, l)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(out, section(l, columns, *causes)); err != nil {
			return err
		}
	}
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
