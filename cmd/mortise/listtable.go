package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// column is a column of the table of ls, and the width that it has unless that is too much or too little.
type column struct {
	heading string
	width   int
}

var (
	usualColumns = []column{{"NAME", 20}, {"KIND", 8}, {"TTL", 8}, {"COUNT", 5}, {"HOLDER", 38}}
	wideColumns  = []column{{"NAME", 20}, {"KIND", 8}, {"TTL", 8}, {"COUNT", 5}, {"OWNER", 38}, {"HOST", 12}, {"PID", 7}, {"APP", 12},
		{"SINCE", 20}, {"HELD", 6}, {"WAITERS", 7}}
)

const (
	between = 2 // spaces between two columns
	// flexible is the column of usualColumns that a narrow terminal cuts, and leastFlexible what it keeps.
	flexible, leastFlexible = 4, 20
	// mostPending is how many rows a table waits for, and longestPending how long, to know how wide they are.
	mostPending    = 1000
	longestPending = 250 * time.Millisecond
)

// tableRow is a row: the cells of the columns, the rest after them, and a line below it if that is not empty.
type tableRow struct {
	cells       []string
	rest, below string
}

// table writes rows as they come. The first ones are kept for a moment: their widths are those of the columns. A later
// row that is wider makes its column wider. It is used under the lock of the status line.
type table struct {
	app     *app
	columns []column
	room    int // columns of the terminal; 0 if there is none
	widths  []int
	most    int // columns of the flexible one, if the terminal is too narrow; else 0
	pending []tableRow
	flowing bool // the widths are known
	timer   *time.Timer
	flushed chan struct{} // closed when the timer has done its work
}

// newTable returns a table for stdout; wide says which columns it would like to have.
func newTable(a *app, wide bool) *table {
	t := &table{app: a, columns: usualColumns}
	if out := int(os.Stdout.Fd()); term.IsTerminal(out) {
		t.room = 80
		if width, _, err := term.GetSize(out); err == nil && width > 0 {
			t.room = width
		}
	}
	if wide && (t.room == 0 || t.room >= total(wideColumns)) {
		t.columns = wideColumns
	}
	return t
}

func total(columns []column) (n int) {
	for _, c := range columns {
		n += c.width + between
	}
	return n - between
}

func (t *table) add(r tableRow) {
	if t.flowing {
		t.write(r)
		return
	}
	if t.pending = append(t.pending, r); len(t.pending) == 1 {
		t.flushed = make(chan struct{})
		t.timer = time.AfterFunc(longestPending, func() {
			defer close(t.flushed)
			t.app.line.around(t.flush)
		})
	}
	if len(t.pending) == mostPending {
		t.flush()
	}
}

// flush writes the rows that were kept.
func (t *table) flush() {
	if t.flowing {
		return
	}
	t.flowing = true
	t.measure()
	if t.room > 0 { // in a pipe it would be a row to sort
		var names []string
		for _, c := range t.columns {
			names = append(names, c.heading)
		}
		t.write(tableRow{cells: names})
	}
	for _, r := range t.pending {
		t.write(r)
	}
	t.pending = nil
}

// measure chooses the widths. If a terminal has too little room for those that columns like to have, they get what
// the rows need, and if that is still too much, the flexible one less.
func (t *table) measure() {
	need, rest := make([]int, len(t.columns)), 0
	for i, c := range t.columns {
		need[i] = len(c.heading)
		for _, r := range t.pending {
			need[i] = max(need[i], columns(r.cells[i]))
		}
		t.widths = append(t.widths, max(c.width, need[i]))
	}
	for _, r := range t.pending {
		if n := columns(r.rest); n > 0 {
			rest = max(rest, n+between)
		}
	}
	sum := func(widths []int) int {
		n := rest - between
		for _, w := range widths {
			n += w + between
		}
		return n
	}
	if t.room == 0 || sum(t.widths) <= t.room || len(t.columns) != len(usualColumns) {
		return
	}
	t.widths = need
	if over := sum(need) - t.room; over > 0 {
		t.most = max(leastFlexible, need[flexible]-over)
		t.widths[flexible] = t.most
	}
}

// write writes a row.
func (t *table) write(r tableRow) {
	var b strings.Builder
	for i, cell := range r.cells {
		if i == flexible && t.most > 0 && columns(cell) > t.most {
			cell = fitting([]string{cell}, t.most)
		}
		width := columns(cell)
		t.widths[i] = max(t.widths[i], width)
		b.WriteString(cell + strings.Repeat(" ", t.widths[i]-width+between))
	}
	fmt.Fprintln(t.app.stdout, strings.TrimRight(b.String()+r.rest, " "))
	if r.below != "" {
		fmt.Fprintln(t.app.stdout, "    "+r.below)
	}
}

// end writes what is left. It must not be called under the lock of the status line.
func (t *table) end() {
	if t.timer == nil {
		return
	}
	if !t.timer.Stop() {
		<-t.flushed
	}
	t.app.line.around(t.flush)
}
