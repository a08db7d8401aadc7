package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
)

// asking are the options of the commands that ask and are done. They are for
// operators: any name that can exist is acceptable.
var asking = mortise.Options{RetryFor: 2 * time.Second, AllowAnyName: true}

func showCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "show NAME",
		Short:             "Show who holds a lock, and for how long",
		Example:           "  mortise show deploy\n  mortise show deploy --json | jq .locked",
		Args:              oneName,
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client(cmd.Context(), asking)
			if err != nil {
				return err
			}
			defer leave(client)
			state, err := client.Lock(args[0]).Inspect(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.stdout, viewOf(state))
			}
			return a.showState(state)
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) showState(s mortise.State) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "name\t%s\nkind\t%s\n", shown(s.Name), s.Kind)
	if !s.Locked {
		fmt.Fprintf(w, "locked\tno\n")
		return w.Flush()
	}
	fmt.Fprintf(w, "locked\tyes\nttl\t%s\n", lasting(s.TTL))
	for _, h := range s.Holders {
		fmt.Fprintf(w, "holder\t%s  count %d\n", shown(h.Owner), h.Count)
	}
	return w.Flush()
}

// oneName demands one argument, the name of a lock.
func oneName(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 1:
		return nil
	case 0:
		return usageError("mortise ls shows the locks there are.", "%s needs the NAME of a lock", cmd.CommandPath())
	}
	return usageError("Put a name with spaces into quotes.", "%s takes one NAME, not %d", cmd.CommandPath(), len(args))
}
