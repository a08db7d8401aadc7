package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
)

// asking are the options of the commands that only ask Redis and exit. They are for operators: any
// name that can exist is acceptable.
var asking = mortise.Options{RetryFor: 2 * time.Second, AllowAnyName: true}

const showLong = `show shows who holds the lock NAME, how often and for how long, and who waits for
it, as far as Redis knows. It changes nothing.

A process is shown as its host, its process id and its program, and for how long it has
the lock or waits, where that is known: a process tells it itself, in a key that others
could forge, once that has lasted for a quarter of a second. Redisson's threads are
shown as their owners. Waiters stand in the order in which they will have the lock, as
far as there is one. Redisson's clients that listen for a release are counted. A waiter of a
fair lock renews its place before a deadline: one that is past it may lose its place.
Of more than twenty holders or waiters the others are counted; --json has all.

With --quiet it prints nothing, and its exit code answers: 0 if the lock is held, 1
if it is not. Any other code is an error, as without --quiet.`

func showCommand(a *app) *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{
		Use:               "show NAME",
		SuggestFor:        []string{"status", "inspect", "info"},
		Short:             "Show the holders and waiters of a lock, and its TTL",
		Long:              showLong + asks("done; with --quiet: it is held", "   1  with --quiet: it is not held"),
		Example:           "  mortise show deploy\n  mortise show deploy --json | jq .locked\n  mortise show -q deploy && echo held",
		Args:              a.oneName,
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
			}
			if state.Kind == mortise.KindOther {
				return a.showForeign(cmd.Context(), d, state)
			}
			v, err := a.view(cmd.Context(), client, state)
			switch {
			case err != nil:
				return err
			case a.json:
				return writeJSON(a.stdout, v)
			}
			return a.showState(v)
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing; exit with 0 if it is held, and with 1 if it is not")
	a.jsonFlag(cmd)
	return cmd
}

// showForeign shows what Redis has under a name that is in use for something else.
func (a *app) showForeign(ctx context.Context, d driver.Driver, s mortise.State) error {
	t, err := redisType(ctx, d, a.keyPrefix()+s.Name)
	switch {
	case err != nil:
		return err
	case a.json:
		raw, err := withFields(s, field{"type", t})
		if err != nil {
			return err
		}
		return writeJSON(a.stdout, json.RawMessage(raw))
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "name\t%s\nkind\t%s\ntype\t%s\n", shown(s.Name), s.Kind, typeText(t))
	return w.Flush()
}

func (a *app) showState(v view) error {
	s := &v.State
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "name\t%s\nkind\t%s\n", shown(s.Name), s.Kind)
	if s.Kind == mortise.KindNumber {
		fmt.Fprintf(w, "number\t%d (a semaphore's permits, a latch's count, or anything else)\n", s.Number)
		v.writeWaiters(w)
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
	v.writeHolders(w)
	v.writeWaiters(w)
	return w.Flush()
}

// writeHolders writes the holders of a lock, or the permits of a semaphore.
func (v *view) writeHolders(w io.Writer) {
	s := &v.State
	for _, h := range s.Holders[:min(mostRows, len(s.Holders))] {
		if h.Client == nil {
			fmt.Fprintf(w, "holder\t%s  count %d\n", shown(h.Owner), h.Count)
			continue
		}
		fmt.Fprintf(w, "holder\t%s  count %d  %s\n", ownerText(h, s.Now), h.Count, shown(h.Owner))
	}
	more := s.Unlisted + max(0, len(s.Holders)+len(s.Permits)-mostRows)
	if more > 0 && s.Kind != mortise.KindPermits {
		fmt.Fprintf(w, "holder\t%s\n", unlistedText(s.Kind, more))
	}
	if allKept(*s) {
		fmt.Fprintf(w, "state\t%s\n", keptText(s.TTL))
	}
	if s.Kind == mortise.KindPermits {
		fmt.Fprintf(w, "available\t%d\n", s.Number)
	}
	for _, p := range s.Permits[:min(mostRows, len(s.Permits))] {
		text := shown(p.ID) + "  " + lasting(p.TTL)
		if h := v.census.permit(s.Name, p.ID); h.Client != nil {
			text += "  " + ownerText(h, v.census.now)
		}
		fmt.Fprintf(w, "permit\t%s\n", text)
	}
	if more > 0 && s.Kind == mortise.KindPermits {
		fmt.Fprintf(w, "permit\t%s\n", unlistedText(s.Kind, more))
	}
}

// oneName requires one argument, the name of a lock.
func (a *app) oneName(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "":
		return usageError("", "the NAME is empty")
	case len(args) == 1:
		return nil
	case len(args) == 0:
		return a.lineError("To see the locks that are held: ", "ls", "%s needs the NAME of a lock", cmd.CommandPath())
	}
	return usageError("Quote a name with spaces.", "%s takes one NAME, not %d", cmd.CommandPath(), len(args))
}
