package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/gentle"
	"github.com/mortise-go/mortise/internal/record"
)

// recordsPause is how long to wait between two looks at the records: a client that waits under a hold
// renews its own four times a second, so that what is seen twice was there.
const recordsPause = 600 * time.Millisecond

// records looks at what mortise's clients publish: those that are silent, and deadlocks.
func (e *exam) records(ctx context.Context) {
	const id = "silent-client"
	clients, err := e.readRecords(ctx)
	if err != nil && !isPart(err) {
		e.add(e.withoutRights(id, GroupClients, err, KindRecords))
		return
	}
	var silent, names []string
	for i := range clients {
		if c := &clients[i]; c.Silent > record.Overdue {
			silent = append(silent, c.ID)
			names = append(names, c.String())
		}
	}
	f := Finding{ID: id, Group: GroupClients, Severity: OK, Found: fmt.Sprintf("clients of mortise that hold or wait for something: %d, all of them in touch", len(clients))}
	if len(clients) == 0 {
		f.Found = "no client of mortise holds or waits for anything, as far as they tell"
	}
	if err != nil {
		f.Severity, f.Found = Unknown, fmt.Sprintf("the records of %d clients of mortise were read, those of the others could not be: %s", len(clients), said(err))
	}
	if len(silent) > 0 {
		f.Severity = Warning
		f.Found = fmt.Sprintf("clients of mortise that have died, stand still, or have lost their connections: %d, %s", len(silent), listed(names))
		f.Do, f.Command = "What they hold is free within a lease. See whether their processes live.", e.mortise("who "+word(silent[0]))
		f = f.about(silent)
	}
	e.add(f)
	e.deadlocks(ctx, clients)
	e.sides(clients)
}

func (e *exam) readRecords(ctx context.Context) ([]mortise.ClientState, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*limit)
	defer cancel()
	return e.client.Clients(ctx)
}

// isPart reports whether err says that some servers of a cluster could not be read.
func isPart(err error) bool {
	var unlisted *mortise.UnlistedError
	return errors.As(err, &unlisted)
}

// deadlocks looks for processes that wait for each other, in two looks.
func (e *exam) deadlocks(ctx context.Context, clients []mortise.ClientState) {
	const id = "deadlock"
	f := Finding{ID: id, Group: GroupClients, Severity: OK, Found: "no processes wait for each other, as far as they tell"}
	first := cycles(clients)
	if len(first) > 0 && gentle.Sleep(ctx, recordsPause) == nil {
		again, err := e.readRecords(ctx)
		if err != nil && !isPart(err) {
			e.add(e.unknown(id, GroupClients, err))
			return
		}
		for _, c := range cycles(again) {
			if _, both := first[c.key]; both {
				e.add(c.finding(e))
				f.Severity = ""
			}
		}
	}
	if f.Severity != "" {
		e.add(f)
	}
}

// cycle is a list of waits, each for a holder that waits itself.
type cycle struct {
	key   string
	waits []link
}

// link is a wait of a client under its own holds.
type link struct {
	client *mortise.ClientState
	wait   *mortise.ClientWait
}

func (c cycle) finding(e *exam) Finding {
	var parts, locks []string
	for _, l := range c.waits {
		parts = append(parts, l.client.String()+" waits for "+quoted(l.wait.Lock))
		locks = append(locks, l.wait.Lock)
	}
	f := Finding{
		ID: "deadlock", Group: GroupClients, Severity: Critical, Found: "processes wait for each other: " + strings.Join(parts, ", ") + ", which the first of them holds",
		Do:      "Ask one of the holders to release its lock. Later: acquire locks in the same order everywhere, or together with a MultiLock.",
		Command: e.mortise("unlock --ask --reason deadlock " + nameArg(locks[0])),
	}
	return f.about(locks)
}

// cycles returns the cycles in what clients publish, by what they are known by.
func cycles(clients []mortise.ClientState) map[string]cycle {
	under := make(map[string][]link) // the waits under a hold, by its owner
	for i := range clients {
		c := &clients[i]
		for j := range c.Waits {
			for _, owner := range c.Waits[j].Under {
				if strings.HasPrefix(owner, c.ID+":") { // records can be forged
					under[owner] = append(under[owner], link{c, &c.Waits[j]})
				}
			}
		}
	}
	found := make(map[string]cycle)
	for i := range clients {
		c := &clients[i]
		for j := range c.Waits {
			if waits := follow(under, link{c, &c.Waits[j]}); waits != nil {
				one := cycle{keyOf(waits), waits}
				found[one.key] = one
			}
		}
	}
	return found
}

// follow returns the cycle that first is part of, which it begins with, or nil.
func follow(under map[string][]link, first link) (waits []link) {
	passed := make(map[*mortise.ClientWait]bool)
	for at := first; !passed[at.wait]; {
		passed[at.wait] = true
		waits = append(waits, at)
		next := under[at.wait.For]
		if at.wait.For == "" || len(next) != 1 || !holds(next[0].client, at.wait) {
			return nil // the holder may get on
		}
		if at = next[0]; at.wait == first.wait {
			return waits
		}
	}
	return nil // it leads into a cycle that first is not part of
}

// holds reports whether a client holds what is waited for.
func holds(c *mortise.ClientState, w *mortise.ClientWait) bool {
	return slices.ContainsFunc(c.Holds, func(h mortise.ClientHold) bool { return h.Owner == w.For && h.Lock == w.Lock })
}

func keyOf(waits []link) string {
	var keys []string
	for _, l := range waits {
		keys = append(keys, fmt.Sprintf("%q %d %q", l.client.ID, l.wait.Since.UnixMilli(), l.wait.Lock))
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}
