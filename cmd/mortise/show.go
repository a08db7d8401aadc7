package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
	"github.com/mortise-go/mortise/driver"
)

// asking are the options of the commands that only ask Redis and exit. They are for operators: any
// name that can exist is acceptable.
var asking = mortise.Options{RetryFor: 2 * time.Second, AllowAnyName: true}

const showLong = `show shows who holds the lock NAME, how often and for how long, and who waits for
it, as far as Redis knows. It changes nothing.

With --quiet it prints nothing, and its exit code answers: 0 if the lock is held, 1
if it is not. Any other code is an error, as without --quiet.`

func showCommand(a *app) *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{
		Use:               "show NAME",
		SuggestFor:        []string{"status", "inspect", "info"},
		Short:             "Show the holders and waiters of a lock, and its TTL",
		Long:              showLong + asks("done; with --quiet: it is held", "   1  with --quiet: it is not held"),
		Example:           "  mortise show deploy\n  mortise show deploy --json | jq .locked\n  mortise show -q deploy && echo busy",
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if quiet && a.json {
				return usageError("", "--quiet and --json exclude each other")
			}
			d, err := a.open(cmd.Context())
			if err != nil {
				return err
			}
			client := mortise.New(d, a.options(asking))
			defer leave(client)
			state, err := client.Inspect(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			switch {
			case quiet && !state.Locked:
				return childStatus{code: exitOther} // silently
			case quiet:
				return nil
			case a.json:
				return writeJSON(a.stdout, state)
			}
			if state.Kind == mortise.KindOther {
				return a.showForeign(cmd.Context(), d, state)
			}
			return a.showState(state)
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing; exit with 0 if it is held, and with 1 if it is not")
	a.jsonFlag(cmd)
	return cmd
}

// showForeign shows what Redis has under a name that is in use for something else.
func (a *app) showForeign(ctx context.Context, d driver.Driver, s mortise.State) error {
	text, err := typeText(ctx, d, a.keyPrefix()+s.Name)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "name\t%s\nkind\t%s\ntype\t%s\n", shown(s.Name), s.Kind, text)
	return w.Flush()
}

func (a *app) showState(s mortise.State) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "name\t%s\nkind\t%s\n", shown(s.Name), s.Kind)
	if s.Kind == mortise.KindNumber {
		fmt.Fprintf(w, "number\t%d (a semaphore's permits, a latch's count, or anything else)\n", s.Number)
		return w.Flush()
	}
	fmt.Fprintf(w, "locked\t%s\n", map[bool]string{true: "yes", false: "no"}[s.Locked])
	if s.Locked {
		fmt.Fprintf(w, "ttl\t%s\n", lasting(s.TTL))
	}
	if s.Mode != "" {
		fmt.Fprintf(w, "mode\t%s\n", s.Mode)
	}
	switch {
	case s.Kind == mortise.KindElection:
		fmt.Fprintf(w, "term\t%d\nvalue\t%s\n", s.Token, shown(s.Value))
	case s.Token != 0:
		fmt.Fprintf(w, "token\t%d\n", s.Token)
	}
	for _, h := range s.Holders {
		fmt.Fprintf(w, "holder\t%s  count %d\n", shown(h.Owner), h.Count)
	}
	if allKept(s) {
		fmt.Fprintf(w, "state\t%s\n", keptText(s.TTL))
	}
	for i, q := range s.Queue {
		deadline := "past its deadline"
		if q.TTL >= 0 {
			deadline = "deadline in " + duration.Round(q.TTL).String()
		}
		fmt.Fprintf(w, "waiter %d\t%s  %s\n", i+1, shown(q.Owner), deadline)
	}
	if s.Kind == mortise.KindPermits {
		fmt.Fprintf(w, "available\t%d\n", s.Number)
	}
	for _, p := range s.Permits {
		fmt.Fprintf(w, "permit\t%s  %s\n", shown(p.ID), lasting(p.TTL))
	}
	return w.Flush()
}

// oneName requires one argument, the name of a lock.
func oneName(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 1:
		return nil
	case 0:
		return usageError("mortise ls shows the locks that are held.", "%s needs the NAME of a lock", cmd.CommandPath())
	}
	return usageError("Quote a name with spaces.", "%s takes one NAME, not %d", cmd.CommandPath(), len(args))
}
