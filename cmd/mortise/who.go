package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
)

const whoLong = `who shows the processes that hold locks or wait for them: what each holds and waits
for, for how long, and who holds what it waits for. It changes nothing. It does not
search for locks: it reads what the processes tell about themselves, once that has lasted
for a quarter of a second, in keys that others could forge. Redisson's clients and those
that hide it are not among them.

With an argument it shows only the processes of that HOST or APP, or the CLIENT whose
UUID begins with it.

A process that is silent has not renewed what it tells for more than 15 seconds, though
every ten are due: it has died, stands still, or has lost its connection. After thirty
seconds it is not shown any more.

Processes that wait for each other in a cycle are named in lines that begin with
deadlock. Only waits with the context of a hold are found to be in one. If Redis does not
answer when they are looked at again, a line on standard error says that they are perhaps
a deadlock.`

func whoCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "who [CLIENT | HOST | APP]",
		SuggestFor:        []string{"clients", "ps", "processes"},
		Short:             "Show which processes hold and wait for locks",
		Long:              whoLong + asks("done, also if there are none"),
		Example:           "  mortise who\n  mortise who api-7\n  mortise who --json | jq '.deadlocks'",
		ValidArgsFunction: a.completeWho,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError("Show all of them: mortise who", "mortise who takes one CLIENT, HOST or APP, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client(cmd.Context(), asking)
			if err != nil {
				return err
			}
			defer leave(client)
			return a.who(cmd.Context(), client, strings.Join(args, ""))
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

// who shows the clients that want matches; all of them if it is empty.
func (a *app) who(ctx context.Context, client *mortise.Client, want string) error {
	c, missing := takeCensus(ctx, client)
	if missing != nil && !isPart(missing) {
		return missing
	}
	r := roll{census: c}
	for i := range c.clients {
		if isWanted(&c.clients[i].ClientInfo, want) {
			r.shown = append(r.shown, &c.clients[i])
		}
	}
	var err error
	if r.foreign, err = r.askForHolders(ctx, client); missing == nil || err != nil && !errors.Is(err, mortise.ErrUnreachable) {
		missing = err // the rest is known
	}
	cycles, open, err := certainCycles(ctx, client, c)
	missing = cmp.Or(missing, err)
	other := func(cycle *mortise.DeadlockError) bool { return !r.concerns(cycle) }
	r.deadlocks = slices.DeleteFunc(cycles, other)
	failed := a.showRoll(&r, want, missing != nil)
	for _, cycle := range slices.DeleteFunc(open, other) {
		a.say("perhaps a %s; whether that lasts could not be read", deadlockText(cycle))
	}
	return cmp.Or(failed, missing)
}

// showRoll writes what who shows, which may be a part only.
func (a *app) showRoll(r *roll, want string, part bool) error {
	switch {
	case a.json:
		return writeJSON(a.stdout, r.form())
	case len(r.shown) == 0 && part: // there may be some
	case len(r.shown) == 0 && want != "":
		a.say("no process that matches %q holds or waits for a lock, as far as they tell", want)
	case len(r.shown) == 0:
		a.say("no process holds or waits for a lock, as far as they tell")
	}
	return r.write(a.stdout)
}

// isWanted reports whether a client is the one that want names, or on that host, or of that application. The
// names are compared as they are shown, too.
func isWanted(i *mortise.ClientInfo, want string) bool {
	for _, name := range []string{i.Host, i.App, i.Command()} {
		if name != "" && (name == want || shown(brief(name)) == want) {
			return true
		}
	}
	return strings.HasPrefix(i.ID, strings.ToLower(want)) // of all, if it is empty
}

// roll is what who shows.
type roll struct {
	census    *census
	shown     []*mortise.ClientState
	foreign   map[string]holders // of the names whose holders no client names
	deadlocks []*mortise.DeadlockError
}

// holders are the holders of a lock, and the time of Redis' clock.
type holders struct {
	list []mortise.Holder
	now  time.Time
}

// mostAsked is the number of names about whose holders who asks Redis.
const mostAsked = 100

// mostFailed is the number of names about which it asks in vain.
const mostFailed = 2

// askForHolders asks for the holders of what clients wait for, and no client says that it holds.
func (r *roll) askForHolders(ctx context.Context, client *mortise.Client) (map[string]holders, error) {
	found := make(map[string]holders)
	var failed []error
	for _, c := range r.shown {
		for _, w := range c.Waits {
			if _, asked := found[w.Lock]; asked || len(r.census.under[w.Lock]) > 0 || len(found) == mostAsked {
				continue
			}
			s, err := client.Inspect(ctx, w.Lock)
			switch {
			case errors.Is(err, mortise.ErrInvalid): // anybody may have written the record
				found[w.Lock] = holders{}
				continue
			case errors.Is(err, mortise.ErrUnreachable) && len(failed)+1 < mostFailed: // another server may answer
				failed = append(failed, err)
				found[w.Lock] = holders{}
				continue
			case err != nil:
				return found, err
			}
			found[w.Lock] = holders{s.Holders, s.Now}
		}
	}
	return found, cmp.Or(failed...)
}

// holdersOf returns the holders of a lock, as far as they are known.
func (r *roll) holdersOf(lock string) holders {
	if list := r.census.under[lock]; len(list) > 0 {
		return holders{list, r.census.now}
	}
	return r.foreign[lock]
}

// concerns reports whether a cycle has a client that is shown.
func (r *roll) concerns(cycle *mortise.DeadlockError) bool {
	for i := range cycle.Waits {
		for _, c := range r.shown {
			if c.ID == cycle.Waits[i].Client.ID {
				return true
			}
		}
	}
	return false
}

// write writes the clients, with what they hold and wait for, and the cycles.
func (r *roll) write(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, c := range r.shown {
		fmt.Fprintf(w, "%s  %s\n", processText(&c.ClientInfo), shown(c.ID))
		if c.IsSilent() {
			fmt.Fprintf(w, "  silent\tfor %v: it has died, stands still, or has lost its connection\n", duration.Round(c.Silent))
		}
		for _, h := range c.Holds {
			fmt.Fprintf(w, "  holds\t%s\t%s\t%s\n", shown(brief(h.Lock)), word(h.Kind), holdText(c, h))
		}
		if more := c.HoldCount - len(c.Holds); more > 0 {
			fmt.Fprintf(w, "  holds\t%d more\n", more)
		}
		for _, q := range c.Waits {
			fmt.Fprintf(w, "  waits\t%s\t%s\t%s\n", shown(brief(q.Lock)), word(q.Kind), r.waitText(c, q))
		}
		if more := c.WaitCount - len(c.Waits); more > 0 {
			fmt.Fprintf(w, "  waits\t%d more\n", more)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, d := range r.deadlocks {
		fmt.Fprintln(to, deadlockText(d))
	}
	return nil
}

// holdText says for how long a client has a lock, and with which token or term.
func holdText(c *mortise.ClientState, h mortise.ClientHold) string {
	text := strings.TrimSpace(forText(h.Since, c.Now))
	switch {
	case h.Kind == string(mortise.KindElection):
		text += fmt.Sprintf(", term %d", h.Token)
	case h.Token != 0:
		text += fmt.Sprintf(", token %d", h.Token)
	}
	return text
}

// waitText says for how long a client waits, and for whom.
func (r *roll) waitText(c *mortise.ClientState, w mortise.ClientWait) string {
	text := strings.TrimSpace(forText(w.Since, c.Now))
	if by := r.holdersOf(w.Lock); len(by.list) > 0 {
		text += ", held by " + andMore(ownerText(longest(by.list), by.now), len(by.list)-1)
	}
	return text
}

// deadlockText names the cycle of a deadlock.
func deadlockText(d *mortise.DeadlockError) string {
	var b strings.Builder
	b.WriteString("deadlock: " + processText(&d.Waits[0].Client))
	for i := range d.Waits {
		next := &d.Waits[(i+1)%len(d.Waits)].Client
		link := map[bool]string{true: " waits for ", false: ", which waits for "}[i == 0]
		b.WriteString(link + shown(brief(d.Waits[i].Lock)) + ", held by " + processText(next))
	}
	return b.String()
}
