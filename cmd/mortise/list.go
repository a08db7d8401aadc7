package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
)

const listLong = `ls shows the locks that are held, including Redisson's: locks of all kinds, leads
of elections, and held permits of semaphores. It shows them as they are found, in no
order: to sort them by name, write mortise ls | sort. Only on a terminal do they have a
header, and a holder that has no room there is cut. ls goes through all keys that match
PATTERN, with SCAN, and takes half of a server's time at the most: a million keys take 9
to 16 s. With --limit, it ends when it has found that many.

The kind of a lock is recognized by the form of its key; a plain lock, for example, is a
hash whose only field is a UUID, a colon and more. A fair lock without a queue has the
same form: it is recognized if the record of its holder says so. Semaphores without held
permits, and latches, are plain numbers, which ls leaves out: see mortise sem NAME show
and mortise latch NAME show.

Holders are shown as the host, the process id and the program of their process, and
for how long they have the lock, where that is known: Redisson's threads, and mortise's
clients that hide it, are shown as their owner's id. It is told by the processes
themselves, in keys that others could forge. --wide also shows the owners, which
unlock --owner needs, since when they have the lock, and how many wait for it; on a
terminal of less than 163 columns, a lock takes two lines then.

PATTERN is a glob as in Redis: * ? [abc]. Without one, ls looks at all keys. With
--prefix, it lists only names that begin with the prefix, and shows the rest of them.`

func listCommand(a *app) *cobra.Command {
	var limit int
	var wide bool
	cmd := &cobra.Command{
		Use:               "ls [PATTERN]",
		Short:             "List the locks that are held",
		Long:              listLong + asks("done, also if there are none"),
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
			if limit < 1 && cmd.Flags().Changed("limit") {
				return usageError("", "--limit is %d; it must be at least 1", limit)
			}
			if wide && a.json {
				return usageError("With --json, all is shown.", "--wide and --json exclude each other")
			}
			return a.list(cmd.Context(), &listing{app: a, wide: wide, limit: limit, table: newTable(a, wide)}, pattern)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "show at most `N` locks, and end when they are found")
	cmd.Flags().BoolVar(&wide, "wide", false, "also show owners, since when they have the lock, and how many wait")
	a.jsonFlag(cmd)
	return cmd
}

// list shows the locks whose names match pattern.
func (a *app) list(ctx context.Context, l *listing, pattern string) error {
	d, err := a.open(ctx)
	if err != nil {
		return err
	}
	count := &counting{Driver: d}
	if scanner, ok := d.(driver.Scanner); ok {
		count.scanner, d = scanner, count
	}
	options := asking
	options.Identity.Hide = true // the names of processes come from the census, read once
	client := mortise.New(d, a.options(options))
	defer leave(client)
	// Without them, as for lack of a right, owners are shown by their ids.
	l.census, err = takeCensus(ctx, client)
	if l.blind = err != nil && !isPart(err); isPart(err) {
		a.say("some processes are not known: %v", plain(err))
	}
	stop := a.showProgress(ctx, func(past time.Duration) string {
		return fmt.Sprintf("%v: %s looked at; Ctrl-C ends it", past, counted(int(count.keys.Load()), "key"))
	})
	found := 0
	err = nil
	for state, lerr := range client.Locks(ctx, pattern) {
		if err = lerr; err != nil {
			break
		}
		a.line.around(func() { l.show(state) })
		if found++; found == l.limit {
			break
		}
	}
	stop()
	l.end()
	switch {
	case err == nil && found == 0 && !a.json:
		a.say("%s", noneHeld(pattern))
	case err == nil && found == l.limit && found > 0:
		a.say("ended after %d, as --limit says; there may be more", l.limit)
	}
	return err
}

// noneHeld says that no name that matches pattern is held.
func noneHeld(pattern string) string {
	if pattern == "*" {
		return "no locks are held"
	}
	return "no lock that matches " + strconv.Quote(pattern) + " is held"
}

// listing writes locks as they are found: rows of a table, or the elements of an array.
type listing struct {
	app    *app
	wide   bool
	limit  int // 0: none
	census *census
	blind  bool // the census could not be read
	begun  bool // an element was written
	table  *table
}

func (l *listing) show(s mortise.State) {
	l.census.name(&s)
	l.census.specify(&s)
	if l.app.json {
		l.element(s)
		return
	}
	for _, h := range s.Holders {
		l.holder(&s, h, s.TTL, s.Now)
	}
	for _, p := range s.Permits {
		l.holder(&s, l.census.permit(s.Name, p.ID), p.TTL, l.census.now)
	}
	if s.Unlisted > 0 {
		l.unlisted(&s)
	}
}

// unlisted writes the row of those that a state does not list.
func (l *listing) unlisted(s *mortise.State) {
	row := tableRow{cells: []string{shown(s.Name), string(s.Kind), lasting(s.TTL), "-", unlistedText(s.Kind, s.Unlisted)}, rest: details(*s, 0)}
	for len(row.cells) < len(l.table.columns) {
		row.cells = append(row.cells, "-")
	}
	l.table.add(row)
}

// holder writes the row of one holder.
func (l *listing) holder(s *mortise.State, h mortise.Holder, ttl time.Duration, now time.Time) {
	cells := []string{shown(s.Name), string(s.Kind), lasting(ttl), strconv.Itoa(h.Count)}
	waiting := l.census.waiting(s)
	if len(l.table.columns) == len(usualColumns) {
		row := tableRow{cells: append(cells, ownerText(h, now)), rest: details(*s, waiting)}
		if l.wide { // the terminal is too narrow for its columns
			row.below = "owner " + shown(h.Owner) + "  since " + timeText(h.Since)
		}
		l.table.add(row)
		return
	}
	host, pid, app := "-", "-", "-"
	if c := h.Client; c != nil {
		host, pid, app = shown(brief(c.Host)), strconv.Itoa(c.PID), orDash(appText(c))
	}
	number := strconv.Itoa(waiting)
	if l.blind && waiting == 0 {
		number = "-"
	}
	held := orDash(strings.TrimPrefix(forText(h.Since, now), " for "))
	l.table.add(tableRow{cells: append(cells, shown(h.Owner), host, pid, app, timeText(h.Since), held, number), rest: details(*s, 0)})
}

// element writes an element of the array.
func (l *listing) element(s mortise.State) {
	open := ",\n  "
	if !l.begun {
		l.begun, open = true, "[\n  "
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("  ", "  ")
	_ = e.Encode(listed{s, l.census, l.blind}) // nothing in it can fail
	fmt.Fprint(l.app.stdout, open+strings.TrimSuffix(b.String(), "\n"))
}

// end ends the table or the array, also after an error: what was found is valid JSON.
func (l *listing) end() {
	switch {
	case !l.app.json:
		l.table.end()
	case l.begun:
		fmt.Fprintln(l.app.stdout, "\n]")
	default:
		fmt.Fprintln(l.app.stdout, "[]")
	}
}
