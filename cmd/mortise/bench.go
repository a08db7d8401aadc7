package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
	"github.com/mortise-go/mortise/cmd/mortise/internal/loadtest"
	"github.com/mortise-go/mortise/connect"
)

const benchLong = `bench measures what locks cost on a given Redis, from this machine, and explains
the figures. It needs the same rights as locks.

It first announces its load: how many scripts are in flight at a time, and for how
long. All its keys begin with --prefix and a random part. They are deleted at the
end, also if it is interrupted (Ctrl-C); if it is killed, they expire within ten
seconds. It changes nothing else.

It measures, one after another: a round trip; an uncontended lock; as many of
those at a time as --concurrency says; one lock contended by that many goroutines
of one process; one lock contended by several clients, as by processes; a thousand
held locks; and goroutines that wait for a held lock. The command counts are those
of bench itself: other programs may use the server meanwhile, but that makes all
figures worse.

If the user may run INFO, bench also shows how much of the server's processor time
a lock takes. That figure includes the work of other programs.

Exit codes:
    0  done
    1  two goroutines held one lock at the same time: a failure of mortise or of the server
   64  wrong usage
   69  Redis cannot be reached
   74  the output cannot be written
   77  Redis refused the user, the password or a right
  130  interrupted (SIGINT); 143 by SIGTERM: it ends by that signal`

func benchCommand(a *app) *cobra.Command {
	b := loadtest.Config{Open: a.open}
	given := duration.Flag(20 * time.Second)
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure what locks cost on your Redis, and explain the figures",
		Long:    benchLong,
		Example: "  mortise bench --redis redis://10.0.0.5\n  mortise bench --time 60 --concurrency 64 --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError("To choose the server: mortise bench --redis URL", "mortise bench takes no argument, but got %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			b.Duration = time.Duration(given)
			if !cmd.Flags().Changed("prefix") {
				b.Prefix = a.getenv(envPrefix) + b.Prefix
			}
			if err := validateBench(b, a.url()); err != nil {
				return err
			}
			ctx, stop := a.untilSignal(cmd.Context())
			defer stop()
			return a.bench(ctx, b)
		},
	}
	cmd.Flags().Var(&given, "time", "approximate total time, `DUR` from 5s to 10m")
	cmd.Flags().IntVar(&b.Concurrency, "concurrency", 8, "`N` goroutines use locks at a time, 4 to 1024")
	cmd.Flags().StringVar(&b.Prefix, "prefix", "mortise-bench:", "`TEXT` that all keys begin with; a random part follows; the default comes after $MORTISE_PREFIX")
	a.jsonFlag(cmd)
	return cmd
}

func validateBench(b loadtest.Config, url string) error {
	switch {
	case b.Duration < loadtest.MinDuration || b.Duration > loadtest.MaxDuration:
		return usageError("", "--time is %v; it must be between %v and %v", b.Duration, loadtest.MinDuration, loadtest.MaxDuration)
	case b.Concurrency < loadtest.MinConcurrency || b.Concurrency > loadtest.MaxConcurrency:
		return usageError("", "--concurrency is %d; it must be between %d and %d", b.Concurrency, loadtest.MinConcurrency, loadtest.MaxConcurrency)
	case b.Prefix == "":
		return usageError("Without one, its keys could be mistaken for those of others.", "--prefix is empty")
	case strings.HasPrefix(strings.ToLower(url), "mem:"):
		return usageError("To try bench, start a server in another terminal: mortise server", "mem:// is a server that ends with this command; measuring it is pointless")
	}
	return nil
}

// bench runs a load test, and writes its results.
func (a *app) bench(ctx context.Context, b loadtest.Config) error {
	b.Server = connect.Redact(a.url())
	b.Say = a.say
	b.Print = func(format string, args ...any) {
		if !a.json {
			fmt.Fprintf(a.stdout, format+"\n", args...)
		}
	}
	report, err := loadtest.Run(ctx, b)
	if err != nil {
		return benchError(err)
	}
	if a.json {
		if err := writeJSON(a.stdout, report); err != nil {
			return err
		}
	}
	if n := report.Overlaps(); n > 0 {
		return &exitError{code: exitOther, err: fmt.Errorf("two goroutines held one lock at the same time, %d times", n),
			hint: "Were keys deleted, or did the server lose some (eviction, failover)? If not, please report it."}
	}
	return nil
}

// benchError gives an error of a load test its exit code.
func benchError(err error) error {
	var trip *loadtest.RoundTripError
	var none *loadtest.NoLockError
	switch {
	case errors.As(err, &trip):
		return connectError(trip.Err)
	case errors.As(err, &none):
		return &exitError{code: exitUnreachable, err: err, hint: "Redis is slow from here. Give it more time: mortise bench --time 2m"}
	}
	return err
}
