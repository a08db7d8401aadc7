package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
)

const latchLong = `latch works with the count-down latch NAME: its waiters go on when it has been
counted down to zero. It is Redisson's RCountDownLatch.

set creates it; it fails (exit 1) if it exists. down counts down by one. wait waits
until the count is zero; with -w it waits at most that long, and then exits with
75. A latch that was never set looks like one that was counted down to zero: wait
does not wait for it, and down counts nothing; both say so. So set it before they
start. show shows the count. delete opens it at once.

wait also waits for a Redis that cannot be reached: at the start for as long as -w says,
or for 10s without it; later for as long as -w says, or without it as long as it takes.`

var latchVerbs = []cobra.Completion{"set\tcreate it with a count", "down\tcount down by one", "wait\twait until it is at zero",
	"show\tshow the count", "delete\topen it at once"}

func latchCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "latch NAME (set N | down | wait [-w DUR] | show | delete)",
		Short:             "Count a latch down, or wait for it",
		Long:              latchLong + asks("done", "   1  set: it exists", "  75  wait -w: it did not reach zero in time"),
		Example:           "  mortise latch ready set 3\n  mortise latch ready down\n  mortise latch ready wait -w 30s",
		ValidArgsFunction: a.completeVerb(latchVerbs, mortise.KindNumber),
	}
	var wait duration.Flag
	var verbose bool
	cmd.Flags().VarP(&wait, "wait", "w", "wait at most `DUR`: 90s, 1m30s, or seconds; with 0 it looks once")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "report progress while it waits")
	a.jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, verb, number, err := a.verbArgs(cmd, args, map[string]bool{"set": true, "down": false, "wait": false, "show": false, "delete": false})
		if err != nil {
			return err
		}
		limited := cmd.Flags().Changed("wait")
		if limited && verb != "wait" {
			return usageError("", "--wait is for: mortise latch NAME wait")
		}
		if verb == "set" && number < 1 {
			return usageError("A latch at zero is open; to open a latch, use delete.", "the count is %d; it must be at least 1", number)
		}
		began := time.Now()
		a.waits, a.wait, a.tells = verb == "wait" && (!limited || wait > 0), time.Duration(wait), verbose
		client, err := a.client(cmd.Context(), asking)
		if err != nil {
			return err
		}
		defer leave(client)
		l := client.CountDownLatch(name)
		if verb == "wait" {
			defer a.showWaiting(cmd.Context(), waiting{what: shown(name), limit: time.Duration(wait), began: began, verbose: verbose, look: countOf(l)})()
		}
		return a.latch(cmd.Context(), l, verb, number, limited, time.Duration(wait), began)
	}
	return cmd
}

func (a *app) latch(ctx context.Context, l *mortise.CountDownLatch, verb string, n int, limited bool, wait time.Duration, began time.Time) error {
	switch verb {
	case "set":
		set, err := l.TrySetCount(ctx, n)
		if err == nil && !set {
			count, cerr := l.Count(ctx)
			return errors.Join(cerr, &exitError{code: exitOther, err: fmt.Errorf("%s exists already, at %d", shown(l.Name()), count)})
		}
		return err
	case "down":
		return a.whileClosed(ctx, l, "there is nothing to count down", l.CountDown)
	case "delete":
		_, err := l.Delete(ctx)
		return err
	case "wait":
		return a.awaitLatch(ctx, l, limited, wait, began)
	}
	count, err := l.Count(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.stdout, struct {
			Name  string `json:"name"`
			Count int    `json:"count"`
			Set   bool   `json:"set"` // false: never set, deleted, or at zero
		}{l.Name(), count, count > 0})
	}
	fmt.Fprintln(a.stdout, count)
	if count == 0 {
		a.say("%s is open: it was counted down to zero, was deleted, or was never set", shown(l.Name()))
	}
	return nil
}

// awaitLatch waits for a latch. A limit of 0 makes it look once.
func (a *app) awaitLatch(ctx context.Context, l *mortise.CountDownLatch, limited bool, limit time.Duration, began time.Time) error {
	look := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		look, cancel = context.WithDeadline(ctx, began.Add(limit))
		defer cancel()
	}
	err := a.whileClosed(look, l, "there is nothing to wait for", func(context.Context) error {
		if limited && limit == 0 {
			n, err := l.Count(ctx)
			if err == nil && n > 0 {
				err = &mortise.MissingError{Missing: int(n)}
			}
			return err
		}
		var o mortise.WaitOptions
		if limited {
			o.Wait = max(limit-time.Since(began), 1)
		}
		return l.With(o).Wait(ctx)
	})
	if errors.Is(err, mortise.ErrMissing) {
		return &exitError{code: exitBusy, err: notZero(l.Name(), limit, err)}
	}
	return err
}

// notZero returns the error for a wait for a latch that was over with err.
func notZero(name string, limit time.Duration, err error) error {
	count := ""
	if missing, ok := errors.AsType[*mortise.MissingError](err); ok {
		count = fmt.Sprintf(": it is at %d", missing.Missing)
	}
	if limit == 0 {
		return fmt.Errorf("%s is not at zero%s", shown(name), count)
	}
	return fmt.Errorf("%s did not reach zero within %v%s", shown(name), limit, count)
}

// countOf returns the count of a latch, for the waiting line.
func countOf(l *mortise.CountDownLatch) func(context.Context) known {
	return func(ctx context.Context) known {
		n, err := l.Count(ctx)
		if err != nil {
			return fixed(unknown(err))
		}
		return fixed(fmt.Sprintf("its count is %d", n))
	}
}

// whileClosed does something with a latch. If the latch is open already, it tells the user what
// that means: it may be a latch that nobody has set.
func (a *app) whileClosed(ctx context.Context, l *mortise.CountDownLatch, what string, do func(context.Context) error) error {
	count, err := l.Count(ctx)
	if err == nil {
		err = do(ctx)
	}
	if err == nil && count == 0 {
		a.say("%s is open, so %s: it was counted down to zero or deleted, or it was never set", shown(l.Name()), what)
	}
	return err
}

// verbArgs parses the arguments NAME VERB [N]. The values of verbs tell which verbs need the
// number.
func (a *app) verbArgs(cmd *cobra.Command, args []string, verbs map[string]bool) (name, verb string, n int, err error) {
	hint := "Write it as: mortise " + cmd.Use
	if len(args) < 2 {
		return "", "", 0, usageError(hint, "%s needs a NAME and what to do", cmd.CommandPath())
	}
	name, verb = args[0], args[1]
	needs, known := verbs[verb]
	if _, first := verbs[name]; first && !known {
		return "", "", 0, a.lineError("Write it as: ", cmd.Name()+" "+nameArgs(verb, append([]string{name}, args[2:]...)...), "the NAME comes first")
	}
	switch {
	case name == "":
		return "", "", 0, usageError("", "the NAME is empty")
	case !known:
		return "", "", 0, usageError(didYouMean(alike(verb, slices.Sorted(maps.Keys(verbs))), hint), "unknown action %q", verb)
	case needs && len(args) != 3:
		return "", "", 0, usageError(hint, "%s needs one number", verb)
	case !needs && len(args) != 2:
		return "", "", 0, usageError(hint, "nothing comes after %s", verb)
	case needs:
		if n, err = strconv.Atoi(args[2]); err != nil {
			return "", "", 0, usageError("", "the number after %s is %q; %s", verb, args[2], numberFault(err))
		}
	}
	return name, verb, n, nil
}
