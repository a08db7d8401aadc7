package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/mortise-go/mortise/watch"
)

var lockColumns = []column{
	{title: "LOCK", share: 3, sort: byName}, {title: "KIND", width: kindColumns, from: 96}, {title: "HOLDER", share: 4},
	{title: "HELD", width: ageColumns, right: true, sort: byHold}, {title: "LEASE", width: ageColumns, right: true, sort: byLease},
	{title: "WAITERS", width: 8, right: true, sort: byPain}, {title: "OLDEST", width: ageColumns + 1, right: true, sort: byWait},
}

// leastName is what a name gets at least, for the title and the mark of its column.
const leastName = 8

// columns returns the columns of the table. A name gets no more room than the longest one that was on the screen so
// far: short names leave theirs to the holders, and the columns do not move back and forth.
func (t *locked) columns(screen int) []column {
	columns := slices.Clone(lockColumns)
	if share := layout(columns, screen)[0].width; t.widest < share {
		columns[0].width = max(t.widest, leastName)
	}
	return columns
}

// measure notes how long the names on the screen are.
func (t *locked) measure(height int) {
	for _, l := range t.visible(height) {
		t.widest = max(t.widest, ansi.StringWidthWc(clean(l.Name)))
	}
}

// lockRows are the rows of the table of locks that are on the screen, and no more.
func (m *Model) lockRows(height int) []string {
	switch {
	case m.last == nil:
		return m.centred("looking at Redis…")
	case len(m.locks.all) == 0:
		return m.centred("Nothing is held, and nobody waits.")
	case len(m.locks.rows) == 0:
		return m.unmatched("lock")
	}
	var lines []string
	now := m.now()
	for i, l := range m.locks.visible(height) {
		lines = append(lines, m.lockRow(l, now, m.locks.offset+i == m.locks.at))
	}
	return lines
}

func (m *Model) lockRow(l *watch.Lock, now time.Time, chosen bool) string {
	s := &m.style
	holder, silent, style := only("–"), false, s.plain
	if len(l.Holds) > 0 {
		holder, silent = m.partyText(&l.Holds[0].Party)
		if more := len(l.Holds) - 1; more > 0 {
			holder = holder.after(fmt.Sprintf("+%d: ", more))
		}
	}
	if len(l.Asked) > 0 {
		holder = holder.after("asked: ")
	}
	if silent {
		style = s.alarm
	}
	waiters, waiting := "–", s.faint
	if n := l.Waiting(); n > 0 {
		waiters, waiting = number(n), s.bold
	}
	return s.line(m.locks.columns(m.width), m.width, []cell{
		{text: clean(l.Name), middle: true}, {text: kindText(l.Kind), style: s.faint}, holder.cell(style),
		{text: since(l.OldestHold(), now)}, {text: rest(until(l), now)},
		{text: waiters, style: waiting}, {text: since(l.OldestWait(), now), style: waiting},
	}, mark{chosen, silent || m.stuck[l.Name]})
}

// centred shows a sentence in an empty table.
func (m *Model) centred(text string) []string {
	lines := make([]string, m.body()/2)
	return append(lines, strings.Repeat(" ", max(0, (m.width-ansi.StringWidthWc(text))/2))+m.style.faint.Render(text))
}

// unmatched says that the filter matches none of what there is.
func (m *Model) unmatched(what string) []string {
	return m.centred("No " + what + " matches the filter " + cut(clean(m.locks.filter), m.width-44) + "; esc clears it.")
}

var clientColumns = []column{
	{title: "CLIENT", share: 5}, {title: "HOLDS", width: 5, right: true}, {title: "FOR", width: ageColumns, right: true},
	{title: "WAITS", width: 5, right: true}, {title: "FOR", width: ageColumns, right: true}, {title: "LOCK", share: 2}, {title: "HELD BY", share: 4, from: 110},
}

// clientRows are the rows of the table of clients that are on the screen.
func (m *Model) clientRows(height int) []string {
	switch {
	case m.last == nil:
		return m.centred("looking at Redis…")
	case len(m.last.Clients) == 0:
		return m.centred("No client tells that it holds or waits for anything.")
	case len(m.clients.rows) == 0:
		return m.unmatched("client")
	}
	r, s, now := &m.clients, &m.style, m.now()
	r.fit(len(r.rows), height)
	var lines []string
	for i := r.offset; i < min(r.offset+height, len(r.rows)); i++ {
		c := &r.rows[i]
		style, lock, by := s.plain, "–", only("–")
		if c.silent {
			style = s.alarm
		}
		if c.waitsFor != "" {
			lock = clean(c.waitsFor)
		}
		if c.blocker.text != "" {
			by = c.blocker
		}
		lines = append(lines, s.line(clientColumns, m.width, []cell{
			c.name.cell(style), {text: count(c.holds)}, {text: since(c.oldHold, now)},
			{text: count(c.waits)}, {text: since(c.oldWait, now)}, {text: lock, middle: true}, by.cell(s.faint),
		}, mark{i == r.at, c.silent}))
	}
	return lines
}

// count returns a number; – for none.
func count(n int) string {
	if n == 0 {
		return "–"
	}
	return number(n)
}

var singleColumns = []column{
	{title: "", width: 5}, {title: "LOCK"}, {title: "KIND", width: kindColumns}, {title: "FOR", width: ageColumns, right: true},
	{title: "TOKEN", width: 8, right: true, from: 110}, {title: "HELD BY"},
}

// singleRows are what one client holds and waits for.
func (m *Model) singleRows(height int) []string {
	c, s, now := &m.client, &m.style, m.now()
	lines := []string{s.headings(singleColumns, m.width, "")}
	height--
	c.fit(len(c.rows), height)
	for i := c.offset; i < min(c.offset+height, len(c.rows)); i++ {
		l := &c.rows[i]
		what, token, by := cell{text: "holds"}, "–", cell{text: "itself", style: s.faint}
		if l.waits {
			what, by = cell{text: "waits", style: s.bold}, l.behind.cell(s.plain)
		}
		if l.token != 0 {
			token = fmt.Sprint(l.token)
		}
		lines = append(lines, s.line(singleColumns, m.width, []cell{
			what, {text: clean(l.lock), middle: true}, {text: kindText(l.kind), style: s.faint}, {text: since(l.since, now)}, {text: token}, by,
		}, mark{chosen: i == c.at}))
	}
	if c.more > 0 && len(lines) < height {
		lines = append(lines, "   "+s.faint.Render("and "+plural(c.more, "lock")+" that its record does not list"))
	}
	return lines
}

// deadlockLines name each wait of each cycle.
func (m *Model) deadlockLines() (lines []string) {
	s := &m.style
	if m.last == nil || len(m.last.deadlocks) == 0 {
		return m.centred("There is none, as far as clients tell.")
	}
	now := m.now()
	for _, d := range m.last.deadlocks {
		for i := range d.Waits {
			w, next := &d.Waits[i], &d.Waits[(i+1)%len(d.Waits)]
			lines = append(lines,
				"   "+s.bold.Render(cut(infoText(&w.Client, w.Client.ID).text, m.width-30))+" has waited for "+since(w.Since, now),
				cut("     for "+clean(w.Lock), m.width-2), cut("     held by "+infoText(&next.Client, next.Client.ID).text, m.width-2))
		}
		lines = append(lines, "")
	}
	return append(lines, "   "+s.faint.Render("It ends when any of these locks is released, or any of these processes ends."))
}

// helpLines explain the keys and the columns.
func (m *Model) helpLines() []string {
	keys := [][2]string{
		{"↑ ↓  pgup pgdn  g G", "move"}, {"↵", "look at a lock, or a client, in detail"}, {"q  esc", "go back; q in the list of locks quits"},
		{"/", "in lists: filter by lock, kind, host, program, pid"}, {"s", "in the list of locks: sort by pain, wait, hold…"},
		{"c", "clients: what each process holds and waits for"}, {"d", "deadlocks, one wait a line"}, {"p", "pause the screen; Redis is asked less meanwhile"},
	}
	if m.options.Act != nil {
		keys = append(keys, [2]string{"a", "ask the holders to release a lock, and say why"}, [2]string{"u", "release a lock; it asks first, and spares others"})
	}
	var lines []string
	for _, k := range keys {
		lines = append(lines, "   "+m.style.accent.Render(left(k[0], 21))+k[1])
	}
	lines = append(lines, "")
	for _, text := range []string{
		"Pain: the most waiters first, then the oldest wait, then the oldest hold.",
		"LEASE is what is left unless it is renewed. Times are those of Redis' clock.",
		"Processes are seen about a second late, and nothing shorter than 1.5 s.",
		"Redisson's holders show as an id, and its waiters not at all.",
		"! is a lock in a deadlock, or of a process that is silent: it has died,",
		"stands still, or has lost its connection.",
	} {
		lines = append(lines, "   "+m.style.faint.Render(text))
	}
	return lines
}
