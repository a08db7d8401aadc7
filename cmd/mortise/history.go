package main

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
)

// envHistory is how many acquisitions a run records if its flag does not say.
const envHistory = "MORTISE_HISTORY"

// mostHistory is the limit of the library.
const mostHistory = 1000

// historyLength returns how many acquisitions a lock keeps.
func (f *runFlags) historyLength(cmd *cobra.Command) (int, error) {
	n, from := f.history, "--history"
	if !cmd.Flags().Changed("history") && f.app.getenv(envHistory) != "" {
		var err error
		from = "$" + envHistory
		if n, err = strconv.Atoi(f.app.getenv(envHistory)); err != nil {
			return 0, usageError("", "%s is %q; it must be a number", from, f.app.getenv(envHistory))
		}
	}
	if n < 0 || n > mostHistory {
		return 0, usageError("", "%s is %d; it must be from 0 to %d", from, n, mostHistory)
	}
	return n, nil
}

const historyLong = `history shows the last acquisitions of the lock NAME that have ended, the newest
first: when each ended, its holder, how long the holder waited for the lock and held it,
how it acquired it, and how that ended. It changes nothing.

A lock has a history only if its clients record it: with Options.History of the
library, mortise run --history N, or MORTISE_HISTORY=N. An acquisition appears about a
second after it has ended. One of a process that died is missing, and so are those of
Redisson. It is written by the processes themselves, in a key that others could forge.

How: free, the lock was free; granted, by the release of another client; handed_off, by
another goroutine of the same client. End: released, or why it was lost: expired, taken,
forced or unreachable.`

func historyCommand(a *app) *cobra.Command {
	var most int
	cmd := &cobra.Command{
		Use:               "history NAME",
		SuggestFor:        []string{"log", "past"},
		Short:             "Show the last acquisitions of a lock",
		Long:              historyLong + asks("done, also if there is none"),
		Example:           "  mortise run --history 100 deploy -- ./deploy.sh\n  mortise history deploy -n 5",
		Args:              a.oneName,
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if most < 1 || most > mostHistory {
				return usageError("", "--number (-n) is %d; it must be from 1 to %d", most, mostHistory)
			}
			client, err := a.client(cmd.Context(), asking)
			if err != nil {
				return err
			}
			defer leave(client)
			return a.history(cmd.Context(), client, args[0], most)
		},
	}
	cmd.Flags().IntVarP(&most, "number", "n", 20, "show the last `N`")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) history(ctx context.Context, client *mortise.Client, name string, most int) error {
	list, err := client.History(ctx, name, most)
	if err != nil {
		return err
	}
	if a.json {
		entries := make([]historyEntry, 0, len(list))
		for _, e := range list {
			e.Ended = e.Ended.UTC()
			entries = append(entries, historyEntry{e, e.Waited.Milliseconds(), e.Held.Milliseconds()})
		}
		return writeJSON(a.stdout, entries)
	}
	if len(list) == 0 {
		a.say("nothing is recorded of %s: no acquisition has ended yet, or its clients record none;"+
			" that takes Options.History of the library, mortise run --history N, or %s=N", shown(name), envHistory)
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ENDED\tHOLDER\tKIND\tWAITED\tHELD\tHOW\tEND\tTOKEN")
	for _, e := range list {
		token := "-"
		if e.Token != 0 {
			token = strconv.FormatInt(e.Token, 10)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%v\t%s\t%s\t%s\n", e.Ended.UTC().Format(time.RFC3339), recordedText(&e), word(e.Kind),
			fine(e.Waited), fine(e.Held), word(string(e.How)), word(e.End), token)
	}
	return w.Flush()
}

// historyEntry is an acquisition as --json shows it.
type historyEntry struct {
	mortise.Acquisition
	Waited int64 `json:"waited_ms"`
	Held   int64 `json:"held_ms"`
}

// recordedText names the process of an acquisition, or its owner if the process was hidden.
func recordedText(e *mortise.Acquisition) string {
	if e.Host == "" && e.PID == 0 {
		return shown(brief(e.Owner))
	}
	return processText(&mortise.ClientInfo{Host: e.Host, PID: e.PID, App: e.App, Extra: map[string]string{extraCommand: e.Command}})
}

// word returns a word that a client has written, as a cell of a table.
func word(text string) string {
	if text == "" {
		return "-"
	}
	return shown(brief(text))
}

// fine rounds a time that may be very short.
func fine(d time.Duration) time.Duration {
	if d < time.Millisecond {
		return d
	}
	return duration.Round(d)
}
