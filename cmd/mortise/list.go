package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
)

const listLong = `ls shows the locks that are held, including Redisson's, in the order of their
names: locks of all kinds, leads of elections, and held permits of semaphores. It
goes through all keys that match PATTERN, with SCAN: that takes a while on a big
server, but does not block it. The kind of a lock is recognized by the form of its
key; a plain lock, for example, is a hash whose only field is a UUID, a colon and
more. Semaphores without held permits and latches are plain numbers, which ls
leaves out: see mortise sem NAME show and mortise latch NAME show.

PATTERN is a glob as in Redis: * ? [abc]. Without one, ls looks at all keys. With
--prefix, it lists only names that begin with the prefix, and shows the rest of them.`

func listCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "ls [PATTERN]",
		Short:             "List the locks that are held",
		Long:              listLong,
		Example:           "  mortise ls\n  mortise ls 'order:*' --json",
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError("Quote the pattern, or the shell replaces it by file names.", "mortise ls takes one PATTERN, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern := "*"
			if len(args) == 1 {
				pattern = args[0]
			}
			client, err := a.client(cmd.Context(), asking)
			if err != nil {
				return err
			}
			defer leave(client)
			states := []mortise.State{}
			for state, err := range client.Locks(cmd.Context(), pattern) {
				if err != nil {
					return err
				}
				states = append(states, state)
			}
			slices.SortFunc(states, func(x, y mortise.State) int { return strings.Compare(x.Name, y.Name) })
			return a.list(states)
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) list(states []mortise.State) error {
	if a.json {
		return writeJSON(a.stdout, states)
	}
	if len(states) == 0 {
		a.say("no lock that matches is held")
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tKIND\tTTL\tCOUNT\tOWNER")
	for _, s := range states {
		more := details(s)
		if more != "" {
			more = "\t" + more
		}
		for _, h := range s.Holders {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s%s\n", shown(s.Name), s.Kind, lasting(s.TTL), h.Count, shown(h.Owner), more)
		}
		for _, p := range s.Permits {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s%s\n", shown(s.Name), s.Kind, lasting(p.TTL), 1, shown(p.ID), more)
		}
	}
	return w.Flush()
}
