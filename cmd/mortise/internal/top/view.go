package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/watch"
)

// The lines of the screen besides the body: two of the header, one for what is wrong, and the headings of the table
// above it; a message and the keys below it.
const above, below = 4, 2

// body returns the height of the body.
func (m *Model) body() int { return max(1, m.height-above-below) }

// small reports whether the terminal is too small.
func (m *Model) small() bool { return m.width < leastWidth || m.height < leastHeight }

// View implements tea.Model.
func (m *Model) View() tea.View {
	v := tea.NewView("")
	v.AltScreen, v.WindowTitle = true, "mortise top"
	if m.width == 0 {
		return v // the size is not known yet
	}
	if m.small() {
		v.Content = m.tooSmall()
		return v
	}
	lines := make([]string, 0, m.height)
	lines = append(lines, m.titleLine(), m.sumLine(), m.alarmLine(), m.headingLine())
	body := m.bodyLines(m.body())
	for len(body) < m.body() {
		body = append(body, "")
	}
	if m.dialog != nil {
		box := m.dialogLines()
		copy(body[len(body)-len(box):], box)
	}
	lines = append(append(lines, body...), m.messageLine(), m.keysLine())
	v.Content = strings.Join(lines, "\n")
	v.Cursor = m.caret()
	return v
}

// tooSmall is what a terminal shows that is too small.
func (m *Model) tooSmall() string {
	text := fmt.Sprintf("mortise top needs %d columns and %d lines; this terminal has %d and %d. Enlarge it, or use mortise ls or mortise watch. q quits.",
		leastWidth, leastHeight, m.width, m.height)
	lines := strings.Split(ansi.Wrap(text, max(1, m.width), ""), "\n")
	return strings.Join(lines[:max(1, min(len(lines), m.height))], "\n")
}

// caret is where the cursor of the terminal is: it is shown only while the user types.
func (m *Model) caret() *tea.Cursor {
	c := m.input.Cursor()
	switch {
	case c == nil:
		return nil
	case m.typing:
		c.X, c.Y = c.X+len(" filter: "), m.height-2
	case m.dialog != nil && m.dialog.asks:
		c.X, c.Y = c.X+len("   reason  "), m.height-below-2
	default:
		return nil
	}
	return c
}

// between puts two texts at the ends of a line; the left one is cut if it is too long.
func (m *Model) between(left, right string) string {
	width := m.width - 2*margin
	room := width - ansi.StringWidth(right) - gap
	left = ansi.Truncate(left, max(0, room), "…")
	return " " + left + strings.Repeat(" ", max(0, width-ansi.StringWidth(left)-ansi.StringWidth(right))) + right
}

func (m *Model) titleLine() string {
	s := &m.style
	name := s.accent.Render("mortise top")
	if m.options.Act == nil {
		name += s.faint.Render(" (read-only)")
	}
	state := s.faint.Render("● live")
	switch {
	case m.last == nil:
		state = s.faint.Render("○ looking…")
	case m.paused:
		state = s.bold.Render("‖ paused for " + left(age(time.Since(m.pausedAt)), ageColumns))
	case m.failing != nil:
		state = s.alarm.Render("! cannot read")
	case len(m.load.Missing) > 0:
		state = s.alarm.Render("! incomplete")
	}
	load := fmt.Sprintf("  %s of %s commands/s", right(number(int(m.load.PerSecond+0.5)), 4), number(m.load.Bound))
	return m.between(name+"  "+s.plain.Render(clean(strings.TrimPrefix(m.options.Redis, "redis://")))+s.faint.Render(m.options.what()), state+s.faint.Render(load))
}

// sumLine counts what there is.
func (m *Model) sumLine() string {
	if m.last == nil {
		return ""
	}
	contended, waiters := 0, 0
	var oldest time.Time
	for i := range m.locks.all {
		l := &m.locks.all[i]
		if n := l.Waiting(); n > 0 {
			contended, waiters, oldest = contended+1, waiters+n, earlier(oldest, l.OldestWait())
		}
	}
	var b strings.Builder
	for _, fact := range []struct {
		what, value string
		width       int // of both: the next one keeps its place
	}{
		{"locks", number(len(m.locks.all)), 12}, {"contended", number(contended), 15}, {"waiters", number(waiters), 15},
		{"oldest wait", since(oldest, m.now()), 18}, {"clients", number(len(m.last.Clients)), 0},
	} {
		b.WriteString(m.style.faint.Render(fact.what+" ") + m.style.bold.Render(left(fact.value, max(len(fact.value), fact.width-len(fact.what)-1))) + "  ")
	}
	return " " + ansi.Truncate(b.String(), m.width-2*margin, "")
}

// alarmLine says what is wrong.
func (m *Model) alarmLine() string {
	var text string
	switch {
	case m.failing != nil && m.last == nil:
		text = "! Redis cannot be read: "
		text += m.options.reason(m.failing, m.width-2*margin-len(text))
	case m.failing != nil:
		text = fmt.Sprintf("! Redis cannot be read since %s, %s ago: ", m.last.At.Local().Format(time.TimeOnly), age(time.Since(m.last.at)))
		text += m.options.reason(m.failing, m.width-2*margin-len(text))
	case m.last != nil && len(m.load.Missing) > 0:
		var servers []string
		for _, server := range m.load.Missing {
			servers = append(servers, clean(server))
		}
		text = "! cannot be read, shown as seen last: " + strings.Join(servers, ", ")
	case m.last != nil && len(m.last.deadlocks) > 0:
		text = "! deadlock: " + deadlockText(m.last.deadlocks[0])
		if more := len(m.last.deadlocks) - 1; more > 0 {
			text = fmt.Sprintf("! %s: %s", plural(more+1, "deadlock"), deadlockText(m.last.deadlocks[0]))
		}
		if room := m.width - 2*margin - len("  d: all"); ansi.StringWidth(text) > room {
			text = cut(text, room) + "  d: all"
		}
	}
	if text == "" {
		return ""
	}
	return " " + m.style.alarm.Render(cut(text, m.width-2*margin))
}

// deadlockText names a cycle in few words.
func deadlockText(d *mortise.DeadlockError) string {
	var b strings.Builder
	for i := range d.Waits {
		w := &d.Waits[i]
		if i > 0 {
			b.WriteString(", which waits for ")
		} else {
			b.WriteString(briefProcess(&w.Client) + " waits for ")
		}
		b.WriteString(cut(clean(w.Lock), 30) + ", held by " + briefProcess(&d.Waits[(i+1)%len(d.Waits)].Client))
	}
	return b.String()
}

// briefProcess names a process in few words: without its application, but with the program that it runs.
func briefProcess(c *mortise.ClientInfo) string {
	return cut(process(c.Host, c.PID, "", c.Command(), 0).text, 40)
}

// headingLine is above the body.
func (m *Model) headingLine() string {
	s := &m.style
	switch m.top() {
	case locksPage:
		return s.headings(m.locks.columns(m.width), m.width, m.locks.by)
	case clientsPage:
		return s.headings(clientColumns, m.width, "")
	case lockPage:
		return " " + m.lockTitle()
	case clientPage:
		title := s.bold.Render(cut(m.client.name, m.width-30))
		if m.client.gone {
			title += "  " + s.faint.Render("holds and waits for nothing any more")
		}
		return " " + title
	case deadlocksPage:
		return " " + s.bold.Render("Deadlocks") + s.faint.Render("  clients that wait for each other, so that no wait ever ends")
	}
	return " " + s.bold.Render("Keys")
}

// messageLine is below the body.
func (m *Model) messageLine() string {
	s := &m.style
	shown := func(n, all int, what string) string {
		if m.locks.filter == "" {
			return ""
		}
		return fmt.Sprintf("%s of %s", number(n), plural(all, what))
	}
	count := shown(len(m.locks.rows), len(m.locks.all), "lock")
	if m.top() == clientsPage && m.last != nil {
		count = shown(len(m.clients.rows), len(m.last.Clients), "client")
	}
	switch {
	case m.typing:
		end := count + "  ↵ keep  esc clear"
		m.input.SetWidth(m.width - 2*margin - gap - len("filter: ") - ansi.StringWidth(end) - 1)
		return m.between(s.accent.Render("filter: ")+m.input.View(), s.faint.Render(end))
	case m.message != "":
		return m.said()
	case m.filtered():
		return m.between(s.faint.Render("filter: ")+cut(clean(m.locks.filter), m.width-50), s.faint.Render(count+"  esc clear"))
	case m.top() == locksPage && m.load.Search != nil && m.load.Search.Passes == 0 && m.last != nil:
		return " " + s.faint.Render("Locks of Redisson, and of clients that hide, are still being searched for: "+number(int(m.load.Search.Keys))+" keys so far.")
	}
	return ""
}

// filtered reports whether the page shows only a part of what there is, because of the filter.
func (m *Model) filtered() bool {
	return m.locks.filter != "" && (m.top() == locksPage || m.top() == clientsPage)
}

// said is the message. A filter stays visible next to it: without it a row that is not there would be a mystery.
func (m *Model) said() string {
	text, style, width := m.message, m.style.bold, m.width-2*margin
	if m.wrong {
		text, style = "! "+text, m.style.alarm
	}
	if !m.filtered() {
		return " " + style.Render(cut(text, width))
	}
	filter := "filter: " + cut(clean(m.locks.filter), filterColumns)
	text = cutMiddle(text, width-gap-ansi.StringWidth(filter))
	return m.between(style.Render(text), m.style.faint.Render(filter))
}

// filterColumns is what a filter takes at most next to a message.
const filterColumns = 16

// keysLine names the keys of the page.
func (m *Model) keysLine() string {
	var b strings.Builder
	keys := m.keys()
	for i := 0; i < len(keys); i += 2 {
		b.WriteString(" " + m.style.accent.Render(keys[i]) + " " + m.style.faint.Render(keys[i+1]) + " ")
	}
	return b.String()
}

// keys returns the keys of the page, each with what it does.
func (m *Model) keys() (keys []string) {
	switch {
	case m.dialog != nil && m.dialog.asks:
		return []string{"↵", "ask it", "esc", "leave it"}
	case m.dialog != nil:
		return []string{"y", "release it", "any other key", "leave it"}
	}
	pause, back := "pause", "back"
	if m.paused {
		pause = "go on"
	}
	switch m.top() {
	case helpPage:
		return []string{"q", "back"}
	case locksPage:
		keys, back = []string{"↵", "look", "/", "filter", "s", "sort", "c", "clients"}, "quit"
	case clientsPage:
		keys = []string{"↵", "look", "/", "filter", "c", "locks"}
	case clientPage:
		keys = []string{"↵", "look"}
	case lockPage:
		keys = []string{"↵", "its process"}
	}
	if m.options.Act != nil && (m.top() == locksPage || m.top() == lockPage) {
		keys = append(keys, "a", "ask", "u", "release")
	}
	return append(keys, "p", pause, "?", "help", "q", back)
}

// bodyLines are the lines between the headings and the message.
func (m *Model) bodyLines(height int) []string {
	switch m.top() {
	case locksPage:
		return m.lockRows(height)
	case lockPage:
		return m.closeUpLines(height)
	case clientsPage:
		return m.clientRows(height)
	case clientPage:
		return m.singleRows(height)
	case deadlocksPage:
		return m.scrolled(m.deadlockLines(), height)
	}
	return m.scrolled(m.helpLines(), height)
}

// scrolled returns the part of a text that is on the screen.
func (m *Model) scrolled(lines []string, height int) []string {
	c := &m.pageAt
	c.at = max(0, min(c.at, len(lines)-height))
	return lines[c.at:min(c.at+height, len(lines))]
}

var _ looker = (*watch.Watcher)(nil)
