package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/mortise-go/mortise"
)

var holderColumns = []column{
	{title: "HOLDER", share: 3}, {title: "OWNER", share: 2}, {title: "HELD", width: ageColumns, right: true}, {title: "LEASE", width: ageColumns, right: true}, {title: "COUNT", width: 6, right: true},
}

var waiterColumns = []column{
	{title: "NEXT", width: 4, right: true}, {title: "WAITER"}, {title: "TO", width: 6}, {title: "WAITS", width: ageColumns, right: true}, {title: "DEADLINE", width: 8, right: true},
}

var historyColumns = []column{
	{title: "LAST HOLDERS"}, {title: "HOW", width: 10}, {title: "END", width: 11}, {title: "WAITED", width: ageColumns, right: true}, {title: "HELD", width: ageColumns, right: true}, {title: "AGO", width: ageColumns, right: true},
}

// lockTitle is above one lock.
func (m *Model) lockTitle() string {
	o, s := &m.one, &m.style
	var words []string
	if !o.read.IsZero() || o.state.Name != "" {
		kind := string(o.state.Kind)
		if o.state.Kind == mortise.KindNone {
			kind = "free"
		}
		words = append(words, clean(kind))
		if o.state.Mode != "" {
			words = append(words, clean(o.state.Mode))
		}
		switch {
		case o.state.Kind == mortise.KindElection:
			words = append(words, fmt.Sprintf("term %d", o.state.Token))
		case o.state.Token != 0:
			words = append(words, fmt.Sprintf("token %d", o.state.Token))
		}
		if o.state.Kind == mortise.KindPermits {
			words = append(words, fmt.Sprintf("%d available", o.state.Number))
		}
		if o.state.Unlisted > 0 {
			words = append(words, fmt.Sprintf("%d not listed", o.state.Unlisted))
		}
		words = append(words, plural(len(o.queue.Waiters)+o.queue.Unlisted, "waiter"))
		if n := o.queue.Listeners; n > 0 {
			words = append(words, "listening: "+plural(n, "Redisson client"))
		}
	}
	facts := cut(strings.Join(words, "  "), m.width*2/3)
	return s.bold.Render(cutMiddle(clean(o.name), m.width-2*margin-gap-ansi.StringWidthWc(facts))) + "  " + s.faint.Render(facts)
}

// parts are where the parts of one lock are: the line of the headings of each, and how many lines there are.
type parts struct {
	holders, queue, history, all int
	behind                       []string // below the holders
}

// parts returns where the holders, the queue and the history are; each has a row at least, and there is a gap
// between them.
func (o *closeUp) parts(behind []string) (p parts) {
	p.behind = behind
	p.queue = 1 + max(1, o.holders()) + len(behind) + 1
	p.history = p.queue + 1 + max(1, len(o.queue.Waiters)) + 1
	p.all = p.history + 1 + max(1, len(o.history))
	return p
}

// scroll puts the row of the cursor on the screen, and the headings if it is the first one.
func (o *closeUp) scroll(p parts, height int) {
	at := p.holders + 1 + o.at
	switch waiter, entry := o.at-o.holders(), o.at-o.holders()-len(o.queue.Waiters); {
	case entry >= 0:
		at = p.history + 1 + entry
	case waiter >= 0:
		at = p.queue + 1 + waiter
	}
	if o.at == 0 {
		o.line = 0
	}
	o.line = max(0, min(o.line, at, p.all-height))
	o.line = max(o.line, at-height+1)
}

// closeUpLines are one lock: its holders, its queue in order, its last acquisitions. Only those on the screen are
// made.
func (m *Model) closeUpLines(height int) (lines []string) {
	o := &m.one
	switch {
	case o.err != nil && o.state.Name == "":
		return m.centred("It cannot be read: " + m.options.reason(o.err, reasonColumns))
	case o.state.Name == "":
		return m.centred("looking closer…")
	}
	p := o.parts(m.behind())
	o.scroll(p, height)
	past := m.past()
	for i := o.line; i < min(o.line+height, p.all); i++ {
		lines = append(lines, m.closeUpLine(p, i, past))
	}
	return lines
}

// closeUpLine returns one of the lines.
func (m *Model) closeUpLine(p parts, i int, past time.Duration) string {
	switch s := &m.style; {
	case i == p.holders:
		return s.headings(holderColumns, m.width, "")
	case i == p.queue:
		return s.headings(waiterColumns, m.width, "")
	case i == p.history:
		return s.headings(historyColumns, m.width, "")
	case i == p.queue-1, i == p.history-1:
		return ""
	case i > p.history:
		return m.historyRow(i - p.history - 1)
	case i > p.queue:
		return m.waiterRow(i-p.queue-1, past)
	}
	row := i - p.holders - 1
	if below := row - max(1, m.one.holders()); below >= 0 {
		return "     " + m.style.bold.Render(cut(p.behind[below], m.width-6))
	}
	return m.holderRow(row, past)
}

// nothing is the row of a table without any.
func (m *Model) nothing(text string) string {
	return "   " + m.style.faint.Render(cut(text, m.width-4))
}

func (m *Model) holderRow(i int, past time.Duration) string {
	o, s := &m.one, &m.style
	switch {
	case o.holders() == 0 && o.state.Locked:
		return m.nothing("its holders cannot be listed")
	case o.holders() == 0:
		return m.nothing("nobody holds it")
	}
	h, lease := m.holder(&o.state, i)
	held, rest := "–", "no end"
	if !h.Since.IsZero() {
		held = age(m.now().Sub(h.Since))
	}
	switch {
	case lease >= 0:
		rest = age(lease - past + time.Second - 1)
	case lease == unknown:
		rest = "–"
	}
	name, style := infoText(h.Client, h.Owner), s.plain
	switch {
	case isKept(h.Owner):
		name = only("kept after its release")
	case h.Client == nil:
		name = only("unknown process")
	}
	if isSilent(h.Client) {
		style = s.alarm
	}
	return s.line(holderColumns, m.width, []cell{
		name.cell(style), {text: clean(h.Owner), style: s.faint, middle: true}, {text: held}, {text: rest}, {text: count(h.Count)},
	}, mark{o.at == i, isSilent(h.Client)})
}

func (m *Model) waiterRow(i int, past time.Duration) string {
	o, s := &m.one, &m.style
	switch {
	case o.denied:
		return m.nothing("this user of Redis may not read who waits")
	case len(o.queue.Waiters) == 0:
		return m.nothing("nobody waits")
	}
	w := &o.queue.Waiters[i]
	to, deadline := "–", "–"
	if _, side, ok := strings.Cut(w.Kind, "."); ok {
		to = clean(side)
	}
	if strings.Contains(w.Owner, ":") { // it is in the queue of a fair lock
		deadline = "past"
		if w.TTL-past > 0 {
			deadline = age(w.TTL - past)
		}
	}
	name, style := infoText(w.Client, w.Owner), s.plain
	if isSilent(w.Client) {
		style = s.alarm
	}
	return s.line(waiterColumns, m.width, []cell{
		{text: number(i + 1)}, name.cell(style), {text: to, style: s.faint}, {text: since(w.Since, m.now())}, {text: deadline},
	}, mark{o.at == o.holders()+i, isSilent(w.Client)})
}

func (m *Model) historyRow(i int) string {
	o, s := &m.one, &m.style
	switch {
	case o.denied:
		return m.nothing("this user of Redis may not read it")
	case o.read.IsZero():
		return m.nothing("looking closer…")
	case len(o.history) == 0:
		return m.nothing("none has ended yet, or none is recorded: see Options.History, run --history")
	}
	e := &o.history[i]
	style := s.plain
	if e.End != "released" && e.End != "closed" {
		style = s.alarm
	}
	return s.line(historyColumns, m.width, []cell{
		recordedText(e).cell(s.plain), {text: clean(string(e.How)), style: s.faint}, {text: clean(e.End), style: style},
		{text: brief(e.Waited)}, {text: brief(e.Held)}, {text: since(e.Ended, m.now()), style: s.faint},
	}, mark{chosen: o.at == o.holders()+len(o.queue.Waiters)+i})
}

// brief is age for what may have taken less than a second.
func brief(d time.Duration) string {
	if d >= 0 && d < time.Second {
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return age(d)
}

// dialogLines ask the user.
func (m *Model) dialogLines() []string {
	d, s := m.dialog, &m.style
	name := cutMiddle(clean(d.state.Name), m.width-30)
	rule := s.accent.Render(" " + strings.Repeat("─", m.width-2))
	holder := infoText(d.holder.Client, d.holder.Owner).text
	if !d.holder.Since.IsZero() {
		holder += ", for " + age(m.now().Sub(d.holder.Since))
	}
	lines := []string{rule}
	line := func(label, text string) {
		lines = append(lines, "   "+s.faint.Render(left(label, 8))+cut(text, m.width-12))
	}
	if d.asks {
		lines = append(lines, "   "+s.accent.Render("Ask the holder to release "+name+"?"))
		line("holder", holder)
		if d.others > 0 {
			line("", "and "+plural(d.others, "other holder"))
		}
		line("", "It is told who asks, and why. What it does is its own decision.")
		m.input.SetWidth(m.width - 16)
		return append(lines, "   "+s.faint.Render("reason  ")+m.input.View(), rule)
	}
	lines = append(lines, "   "+s.accent.Render("Release "+name+"?"))
	line("holder", holder)
	line("owner", clean(d.holder.Owner))
	if isKept(d.holder.Owner) {
		line("", "It was released before the time of --min-hold, and nobody has it now:")
		line("", "the next holder can then have it before that time is over.")
		return append(lines, "   "+s.bold.Render("Release it? [y/N]"), rule)
	}
	line("", "If it is alive, two will believe that they hold the lock, until its")
	line("", "next renewal (a third of its lease). To ask it first: n, then a.")
	return append(lines, "   "+s.bold.Render("Release it? [y/N]"), rule)
}
