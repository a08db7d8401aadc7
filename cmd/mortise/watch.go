package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
	"github.com/mortise-go/mortise/watch"
)

const watchLong = `watch shows what happens to the locks whose names match PATTERN (as in Redis:
* ? [abc]; all if there is none), a line for each event, until it is interrupted, and
then a summary:

  held      a lock that was held already when watch saw it first
  acquired  a holder has acquired it, and how long it waited, if it did
  granted   a waiter has acquired it after another holder, which stands after "from"
  released  its holder has released it, and how long it was held
  lost      its lease is gone, and it was not released, as far as that can be told
  waiting   a waiter has begun to wait
  gave up   a waiter has gone, and was not seen to hold it
  asked     its holder is asked to release it

watch asks Redis again and again. It reads the records in which mortise's clients tell what
they hold and wait for, two to four times a second: a hold or a wait of less than
about 1.5 s may be missing, as records leave out what is shorter than 0.25 s, and are
written at most once a second. It finds Redisson's locks, and those of clients that hide
their identity, by a slow search of all keys; the summary says how long one takes. If
PATTERN is the name of one lock, it reads that key every time, without a search. A holder
of Redisson is shown as its id, without a process; its waiters, and permits of its
semaphores, are not shown. Times are those of Redis' clock, in the local time zone. The
time of an end is when watch saw it, up to about 1.5 s late.

The load: at most 100 commands a second, unless --load says otherwise, and about 1% of
the time of a server for the search. If there is too much to read, watch looks less
often, and says so. While Redis cannot be read, it goes on until it can; if --for ends
without a look that has succeeded, it fails. On a Redis with 1,000,000 keys it took {measured}.

JSON is one object a line; docs/watch.md has all fields. -o trace writes the
trace-event format of Chrome, which ui.perfetto.dev opens: a process for each
client, a track for each lock, slices for waits and holds. It is complete when
watch has ended.`

// measuredLoad is what a watch costs a server; docs/watch.md has more.
const measuredLoad = "less than 10 ms of\nthe server's time a second, and a search 7 to 13 minutes; --load 1000 is ten times\nas fast, and as heavy"

// watchFlags are the flags of watch.
type watchFlags struct {
	limit  duration.Flag
	events int
	load   int
	output string
}

func watchCommand(a *app) *cobra.Command {
	f := watchFlags{load: 100, output: "text"}
	cmd := &cobra.Command{
		Use:        "watch [PATTERN]",
		SuggestFor: []string{"tail", "follow", "monitor", "events"},
		Short:      "Show what happens to locks, as it happens",
		Long:       watchText() + asks("ended by SIGINT or SIGTERM, or as --for or -n says"),
		Example:    "  mortise watch\n  mortise watch 'order:*' --json | jq -r .lock\n  mortise watch deploy --for 1m -o trace > deploy.json",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usageError("Quote the pattern, or the shell replaces it by file names.", "mortise watch takes one PATTERN, not %d", len(args))
			case len(args) == 1 && args[0] == "":
				return usageError("", "PATTERN is empty; that is the name of no lock")
			}
			return nil
		},
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(a, cmd); err != nil {
				return err
			}
			pattern := "*"
			if len(args) == 1 {
				pattern = args[0]
			}
			return a.watch(cmd.Context(), pattern, &f)
		},
	}
	cmd.Flags().Var(&f.limit, "for", "end after `DUR`, as 30s or 10m")
	cmd.Flags().IntVarP(&f.events, "events", "n", 0, "end after `N` events")
	cmd.Flags().IntVar(&f.load, "load", f.load, "send Redis at most `N` commands a second, and search for at most N/100 % of a server's time")
	cmd.Flags().StringVarP(&f.output, "output", "o", f.output, "write text, json or trace")
	a.jsonFlag(cmd)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]cobra.Completion{"text", "json", "trace"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (f *watchFlags) check(a *app, cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	switch {
	case f.output != "text" && f.output != "json" && f.output != "trace":
		return usageError("As in: mortise watch -o json", "--output is %q; it must be text, json or trace", f.output)
	case a.json && changed("output") && f.output != "json":
		return usageError("", "--json and --output %s exclude each other", f.output)
	case changed("events") && f.events < 1:
		return usageError("", "-n is %d; it must be at least 1", f.events)
	case changed("for") && f.limit == 0:
		return usageError("", "--for is 0; it must be more")
	case f.load < leastLoad || f.load > mostLoad:
		return usageError("", "--load is %d; it must be from %d to %d", f.load, leastLoad, mostLoad)
	}
	a.json = a.json || f.output == "json"
	if a.json {
		f.output = "json"
	}
	return nil
}

// The load that --load can allow, in commands a second.
const (
	leastLoad = 10
	mostLoad  = 10_000
)

// Reasons for a watch to end, besides signals and errors.
var (
	errEnough = errors.New("enough events")
	errOver   = errors.New("the time of --for is over")
)

// watch shows what happens to the locks that match pattern.
func (a *app) watch(ctx context.Context, pattern string, f *watchFlags) error {
	ctx, stop := a.untilSignal(ctx)
	defer stop()
	d, err := a.open(ctx)
	if err != nil {
		return err
	}
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if f.limit > 0 {
		timer := time.AfterFunc(time.Duration(f.limit), func() { cancel(errOver) })
		defer timer.Stop()
	}
	out, r := newWatchOutput(a, f.output), watchResult{began: time.Now()}
	w := watch.New(d, &watch.Options{
		Prefix: a.keyPrefix(), Pattern: pattern, Load: f.load,
		Look: func(l *watch.Look) { r.last = l.Snapshot },
		Note: func(n *watch.Note) { out.note(n.At, watchNote(n)) },
		Event: func(e *watch.Event) {
			r.summary.Note(e)
			if out.event(e); r.summary.Events == f.events {
				cancel(errEnough)
			}
		},
	})
	err = w.Run(limited)
	r.took, r.load = time.Since(r.began), w.Load()
	_ = w.Close() // nothing depends on it any more
	if lost := a.stdout.failure(); lost != nil {
		return lost
	}
	out.end(&r)
	return r.outcome(err, time.Duration(f.limit))
}

// outcome returns the error of a watch that ended with err. One that has seen nothing in all of its time has failed.
func (r *watchResult) outcome(err error, limit time.Duration) error {
	var own *exitError
	switch {
	case errors.Is(err, errOver) && r.load.Looks == 0:
		return cmp.Or(r.load.Err, fmt.Errorf("%w: it has not answered for %v", mortise.ErrUnreachable, limit))
	case errors.Is(err, errEnough), errors.Is(err, errOver), errors.As(err, &own) && own.signal != 0:
		return nil
	}
	return err
}

// watchNote returns a note for the user of the command.
func watchNote(n *watch.Note) string {
	text := n.Text
	if n.Err != nil {
		text += ": " + concealed(plain(n.Err).Error())
	}
	if n.Load {
		text += "; see --load"
	}
	return text
}

// watchText returns the help.
func watchText() string { return strings.ReplaceAll(watchLong, "{measured}", measuredLoad) }

// spaced returns a number with commas between groups of three digits.
func spaced(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", spaced(n/1000), n%1000)
}
