package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
)

const listLong = `ls shows the locks that are held, including Redisson's: locks of all kinds, leads
of elections, and held permits of semaphores. It shows each one as soon as it is
found, in no order: to sort them by name, write mortise ls | sort. Only on a
terminal they have a header. ls goes through all keys that match PATTERN, with SCAN:
that takes a while on a big server, but does not block it. With --limit, it ends when
it has found that many. The kind of a lock is recognized by the form of its key; a
plain lock, for example, is a hash whose only field is a UUID, a colon and more.
Semaphores without held permits and latches are plain numbers, which ls leaves out:
see mortise sem NAME show and mortise latch NAME show.

PATTERN is a glob as in Redis: * ? [abc]. Without one, ls looks at all keys. With
--prefix, it lists only names that begin with the prefix, and shows the rest of them.`

func listCommand(a *app) *cobra.Command {
	var limit int
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
			return a.list(cmd.Context(), pattern, limit)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "show at most `N` locks, and end when they are found")
	a.jsonFlag(cmd)
	return cmd
}

// list shows the locks whose names match pattern: at most limit, if that is not 0.
func (a *app) list(ctx context.Context, pattern string, limit int) error {
	d, err := a.open(ctx)
	if err != nil {
		return err
	}
	count := &counting{Driver: d}
	if scanner, ok := d.(driver.Scanner); ok {
		count.scanner, d = scanner, count
	}
	client := mortise.New(d, a.options(asking))
	defer leave(client)
	l := &listing{app: a}
	stop := a.showProgress(ctx, func(past time.Duration) string {
		return fmt.Sprintf("%v: %s looked at; Ctrl-C ends it", past, counted(int(count.keys.Load()), "key"))
	})
	found := 0
	for state, lerr := range client.Locks(ctx, pattern) {
		if err = lerr; err != nil {
			break
		}
		a.line.around(func() { l.show(state) })
		if found++; found == limit {
			break
		}
	}
	stop()
	l.end()
	switch {
	case err == nil && found == 0 && !a.json:
		a.say("%s", noneHeld(pattern))
	case err == nil && found == limit && found > 0:
		a.say("ended after %d, as --limit says; there may be more", limit)
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
	begun  bool
	widths []int // of the columns
}

// The columns, and the widths that they begin with: the widest row is not known yet.
var (
	headings    = []string{"NAME", "KIND", "TTL", "COUNT", "OWNER"}
	usualWidths = []int{20, 8, 8, 5, 38}
)

func (l *listing) show(s mortise.State) {
	if l.app.json {
		l.element(s)
		return
	}
	if !l.begun {
		l.begun, l.widths = true, slices.Clone(usualWidths)
		if term.IsTerminal(int(os.Stdout.Fd())) { // in a pipe the header would be a row to sort
			l.row(headings...)
		}
	}
	for _, h := range s.Holders {
		l.row(shown(s.Name), string(s.Kind), lasting(s.TTL), strconv.Itoa(h.Count), shown(h.Owner), details(s))
	}
	for _, p := range s.Permits {
		l.row(shown(s.Name), string(s.Kind), lasting(p.TTL), "1", shown(p.ID), details(s))
	}
}

// row writes a line of the table. A column becomes wider with a cell that does not fit.
func (l *listing) row(cells ...string) {
	var b strings.Builder
	for i, cell := range cells {
		b.WriteString(cell)
		if i < len(l.widths) {
			width := utf8.RuneCountInString(cell)
			l.widths[i] = max(l.widths[i], width)
			b.WriteString(strings.Repeat(" ", l.widths[i]-width+2))
		}
	}
	fmt.Fprintln(l.app.stdout, strings.TrimRight(b.String(), " "))
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
	_ = e.Encode(s) // nothing in it can fail
	fmt.Fprint(l.app.stdout, open+strings.TrimSuffix(b.String(), "\n"))
}

// end ends the array, also after an error: what was found is valid JSON.
func (l *listing) end() {
	switch {
	case !l.app.json:
	case l.begun:
		fmt.Fprintln(l.app.stdout, "\n]")
	default:
		fmt.Fprintln(l.app.stdout, "[]")
	}
}
