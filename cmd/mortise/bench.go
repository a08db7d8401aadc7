package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
)

const benchLong = `bench measures what locks cost on the Redis that is given, from this machine, and
says what that means. It needs no rights besides those of locks.

It says beforehand what load it will be: so many scripts under way at a time,
for so long. All its keys begin with --prefix and a random part. They are gone
at the end, also if it is interrupted (Ctrl-C); if it is killed, they go by
themselves within ten seconds. It changes nothing else.

One after the other it measures a round trip; a lock that nobody else wants; as
many of those at a time as --concurrency says; one lock that so many goroutines
of one process want; one lock that several clients want, as processes would;
a thousand locks that are held; and goroutines that wait for a lock that is held.
Commands are those that it sends itself: others may use the server meanwhile,
but that makes all figures worse.

If the user may run INFO, it also tells how much of the server's processor time
a lock takes. That figure includes what others did meanwhile.

Exit codes:
    0  done
    1  two had one lock at the same time: a failure of mortise or of the server
   64  wrong usage
   69  Redis cannot be reached
   77  Redis refused the user, the password or a right
  130  interrupted (SIGINT); 143 by SIGTERM`

// What is acceptable.
const (
	benchLeastTime, benchMostTime               = 5 * time.Second, 10 * time.Minute
	benchLeastConcurrency, benchMostConcurrency = contenders, 1024
)

// lockLease is how long a lock stays if the benchmark is killed.
const lockLease = 10 * time.Second

func benchCommand(a *app) *cobra.Command {
	b := &loadTest{app: a}
	given := duration.Flag(20 * time.Second)
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure what locks cost on your Redis, and say what it means",
		Long:    benchLong,
		Example: "  mortise bench --redis redis://10.0.0.5\n  mortise bench --time 60 --concurrency 64 --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError("To choose the server: mortise bench --redis URL", "mortise bench takes no argument, and %q is one", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			b.time = time.Duration(given)
			if err := b.validate(); err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return b.run(ctx)
		},
	}
	cmd.Flags().Var(&given, "time", "how long it takes, more or less, `DUR` from 5s to 10m")
	cmd.Flags().IntVar(&b.concurrency, "concurrency", 8, "`N` goroutines that use locks at a time, 4 to 1024")
	cmd.Flags().StringVar(&b.prefix, "prefix", "mortise-bench:", "what all keys begin with, `TEXT`; a random part follows")
	a.jsonFlag(cmd)
	return cmd
}

// loadTest is a load test: what it may do, and what it has seen so far.
type loadTest struct {
	*app
	time        time.Duration
	concurrency int
	prefix      string

	sent  counter
	seen  benchView
	print func(format string, args ...any)
}

func (t *loadTest) validate() error {
	switch {
	case t.time < benchLeastTime || t.time > benchMostTime:
		return usageError("", "--time is %v; it must be between %v and %v", t.time, benchLeastTime, benchMostTime)
	case t.concurrency < benchLeastConcurrency || t.concurrency > benchMostConcurrency:
		return usageError("", "--concurrency is %d; it must be between %d and %d", t.concurrency, benchLeastConcurrency, benchMostConcurrency)
	case t.prefix == "":
		return usageError("Without one, its keys could be taken for others.", "--prefix is empty")
	}
	t.print = func(string, ...any) {}
	if !t.json {
		t.print = func(format string, args ...any) { fmt.Fprintf(t.stdout, format+"\n", args...) }
	}
	return nil
}
