package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/watch"
)

// eyes is a looker that tells what it was asked for.
type eyes struct {
	shown []string
	idle  bool
	looks int
	load  watch.Load
}

func (e *eyes) Client() *mortise.Client { return nil }
func (e *eyes) Show(names []string)     { e.shown = names }
func (e *eyes) Idle(idle bool)          { e.idle = idle }
func (e *eyes) Now()                    { e.looks++ }
func (e *eyes) Load() watch.Load        { return e.load }

// deed is an Actor.
type deed struct{}

func (deed) Release(context.Context, mortise.State, string) (bool, error)       { return false, nil }
func (deed) Ask(context.Context, string, string) ([]mortise.AskedHolder, error) { return nil, nil }

// newScreen returns a screen of that size.
func newScreen(t testing.TB, columns, lines int) (*Model, *eyes) {
	t.Helper()
	e := &eyes{load: watch.Load{Bound: 100}}
	m := newModel(t.Context(), Options{Redis: "redis://127.0.0.1:6379", Act: deed{}, Words: func(err error) string { return err.Error() }}, e)
	m.Update(tea.WindowSizeMsg{Width: columns, Height: lines})
	return m, e
}

// sighted returns what a look sees of clients, at a time of Redis' clock.
func sighted(at time.Time, clients []mortise.ClientState) *seen {
	for i := range clients {
		clients[i].Now = at
	}
	snapshot := watch.Merge(nil, watch.Sighting{At: at, Clients: clients}, func(string) bool { return true })
	return newSeen(&watch.Look{Snapshot: snapshot, Clients: clients}, nil)
}

// crowd returns clients that hold n locks, and wait for some of these: lock i has i%5 waiters if i is below 100.
func crowd(at time.Time, n int, name func(int) string) []mortise.ClientState {
	clients := make([]mortise.ClientState, (n+63)/64)
	for i := range clients {
		clients[i].ClientInfo = mortise.ClientInfo{ID: fmt.Sprintf("8f1c2b3a-0000-8000-8000-%012d", i), Host: fmt.Sprintf("api-%d", i), PID: 1000 + i, App: "orders"}
	}
	for i := range n {
		c := &clients[i/64]
		c.Holds = append(c.Holds, mortise.ClientHold{Lock: name(i), Kind: "lock", Owner: fmt.Sprintf("%s:%d", c.ID, i), Since: at.Add(-time.Duration(i) * time.Second)})
		c.HoldCount++
		for j := range i % 5 {
			if i < 100 {
				w := &clients[(i/64+1+j)%len(clients)]
				w.Waits = append(w.Waits, mortise.ClientWait{Lock: name(i), Kind: "lock", Since: at.Add(-time.Duration(i+j) * time.Second)})
				w.WaitCount++
			}
		}
	}
	return clients
}

func orderName(i int) string { return fmt.Sprintf("order:%d", i) }

// press presses keys, one after the other.
func press(m *Model, keys ...string) {
	for _, k := range keys {
		msg := tea.KeyPressMsg{Text: k}
		switch k {
		case "enter":
			msg = tea.KeyPressMsg{Code: tea.KeyEnter}
		case "esc":
			msg = tea.KeyPressMsg{Code: tea.KeyEscape}
		case "down":
			msg = tea.KeyPressMsg{Code: tea.KeyDown}
		case "end":
			msg = tea.KeyPressMsg{Code: tea.KeyEnd}
		case "pgdown":
			msg = tea.KeyPressMsg{Code: tea.KeyPgDown}
		default:
			msg.Code = []rune(k)[0]
		}
		m.Update(msg)
	}
}

// drawn returns the lines of the screen, without styles.
func drawn(m *Model) []string { return strings.Split(ansi.Strip(m.View().Content), "\n") }

// names returns the first word of each row.
func names(m *Model) (list []string) {
	for _, line := range drawn(m)[above : m.height-below] {
		if words := strings.Fields(strings.TrimLeft(line, "!▸ ")); len(words) > 0 {
			list = append(list, words[0])
		}
	}
	return list
}

// The locks that hurt most come first; s sorts them otherwise.
func TestOrders(t *testing.T) {
	m, _ := newScreen(t, 80, 24)
	at := time.Now()
	m.Update(sighted(at, crowd(at, 20, orderName)))
	for i := range m.locks.all { // the key of each was read
		l := &m.locks.all[i]
		l.Holds[0].Until = at.Add(time.Duration((7*len(l.Name)+int(l.Name[len(l.Name)-1]))%13) * time.Second)
	}
	soonest := slices.MinFunc(m.locks.all, func(a, b watch.Lock) int { return a.Holds[0].Until.Compare(b.Holds[0].Until) }).Name
	for _, want := range []string{"order:19", "order:19", "order:19", soonest, "order:0"} { // by pain, wait, hold, lease, name
		if got := names(m)[0]; got != want {
			t.Errorf("sorted by %s the first one is %s, want %s", m.locks.by, got, want)
		}
		press(m, "s")
	}
	if m.locks.by != byPain {
		t.Errorf("after all orders it is sorted by %s, want %s", m.locks.by, byPain)
	}
}

// The cursor stays with its lock, whatever the others do.
func TestCursorStaysWithItsLock(t *testing.T) {
	m, _ := newScreen(t, 80, 24)
	at := time.Now()
	m.Update(sighted(at, crowd(at, 100, orderName)))
	if first := m.locks.current().Name; first != "order:99" {
		t.Fatalf("it begins at %s, want the first lock, order:99", first)
	}
	press(m, "down", "down", "down")
	mine := m.locks.current().Name
	clients := crowd(at, 100, orderName)
	for i := range clients { // all others wait no more
		clients[i].Waits = nil
	}
	m.Update(sighted(at.Add(time.Second), clients))
	if got := m.locks.current().Name; got != mine {
		t.Errorf("the cursor is at %s, want %s", got, mine)
	}
	if line := drawn(m)[above+m.locks.at-m.locks.offset]; !strings.Contains(line, "▸ "+mine+" ") {
		t.Errorf("its row is %q", line)
	}
	press(m, "s")
	if got := m.locks.current().Name; got != mine {
		t.Errorf("after sorting, the cursor is at %s, want %s", got, mine)
	}
}

// A filter takes each of its words, of a lock, a kind, a host or a process.
func TestFilter(t *testing.T) {
	m, _ := newScreen(t, 80, 24)
	at := time.Now()
	m.Update(sighted(at, crowd(at, 100, orderName)))
	press(m, "/")
	for _, k := range strings.Split("ORDER:9 api-1", "") {
		press(m, k)
	}
	m.Update(sighted(at.Add(time.Second), crowd(at, 100, orderName))) // a look does not end the typing
	if !m.typing || m.input.Value() != "ORDER:9 api-1" {
		t.Fatalf("the filter is %q", m.input.Value())
	}
	for _, name := range names(m) {
		if !strings.HasPrefix(name, "order:9") {
			t.Errorf("it shows %s", name)
		}
	}
	if n := len(m.locks.rows); n != 11 { // order:9 is waited for by api-1; order:90 to 99 are held by it
		t.Errorf("it shows %d locks, want 11: %q", n, names(m))
	}
	if text := strings.Join(drawn(m), "\n"); !strings.Contains(text, "11 of 100 locks") {
		t.Errorf("it does not say how many:\n%s", text)
	}
	press(m, "enter", "q")
	if m.locks.filter == "" {
		t.Error("Enter has not kept the filter")
	}
	press(m, "esc")
	if n := len(m.locks.rows); n != 100 {
		t.Errorf("without a filter it shows %d locks, want all", n)
	}
}

// A lock whose own name has the text of the filter comes before those that only a process has brought in, however
// many wait for these, and wherever the cursor was before.
func TestFilterPutsNamesFirst(t *testing.T) {
	m, _ := newScreen(t, 80, 24)
	at := time.Now()
	clients := crowd(at, 20, orderName)
	clients[0].App = "deploy" // it holds, or waits for, all of them
	clients = append(clients, mortise.ClientState{
		ClientInfo: mortise.ClientInfo{ID: "8f1c2b3a-0000-8000-8000-999999999999", Host: "api-7", PID: 7, App: "cron"},
		Holds:      []mortise.ClientHold{{Lock: "deploy", Kind: "lock", Owner: "8f1c2b3a-0000-8000-8000-999999999999:1", Since: at}}, HoldCount: 1,
	})
	m.Update(sighted(at, clients))
	press(m, "down", "down")
	press(m, append([]string{"/"}, strings.Split("deploy", "")...)...)
	if got := names(m); len(got) != 18 || got[0] != "deploy" || got[1] != "order:19" {
		t.Errorf("it shows %q, want deploy, and then the others by pain", got)
	}
	press(m, "enter")
	if got := m.locks.current().Name; got != "deploy" {
		t.Errorf("the cursor is at %s, want deploy", got)
	}
}

// Whatever the screen has to say, a filter that hides rows stays on it, and an empty list says why it is empty.
func TestFilterStaysVisible(t *testing.T) {
	m, _ := newScreen(t, 80, 24)
	at := time.Now()
	m.Update(sighted(at, crowd(at, 20, orderName)))
	press(m, append([]string{"/"}, strings.Split("order:7", "")...)...)
	press(m, "enter")
	long := strings.Repeat("x", 300)
	for _, d := range []done{{text: "asked api-7 pid 1 to release order:7"}, {text: long}, {err: errors.New(long)}} {
		m.Update(d)
		if line := drawn(m)[22]; !strings.HasSuffix(line, "  filter: order:7") || !strings.Contains(line, "asked api-7 pid 1 to release order:7") && !strings.Contains(line, "xxx…xxx") {
			t.Errorf("the line of the message is %q, want the message and the filter", line)
		}
	}
	m.Update(sighted(at.Add(time.Second), crowd(at, 5, orderName)))
	if text := strings.Join(drawn(m), "\n"); !strings.Contains(text, "No lock matches the filter order:7; esc clears it.") {
		t.Errorf("it does not say why the list is empty:\n%s", text)
	}
	press(m, "c")
	press(m, "/", "#", "enter")
	if text := strings.Join(drawn(m), "\n"); !strings.Contains(text, "No client matches the filter order:7#; esc clears it.") {
		t.Errorf("it does not say why the list of clients is empty:\n%s", text)
	}
}

// While the screen is paused, nothing on it changes, and Redis is asked less.
func TestPause(t *testing.T) {
	m, e := newScreen(t, 80, 24)
	at := time.Now()
	m.Update(sighted(at, crowd(at, 10, orderName)))
	press(m, "p")
	before := drawn(m)
	m.Update(sighted(at.Add(time.Hour), crowd(at, 20, orderName)))
	m.Update(tick{})
	if now := drawn(m); !e.idle || !slices.Equal(now[1:], before[1:]) {
		t.Errorf("idle is %v, and the screen has changed:\n%s", e.idle, strings.Join(now, "\n"))
	}
	press(m, "p")
	if e.idle || len(m.locks.all) != 20 {
		t.Errorf("after the pause, idle is %v, and it shows %d locks, want what was seen meanwhile", e.idle, len(m.locks.all))
	}
}

// If Redis cannot be read, the screen keeps what it knew, and says since when.
func TestUnreadable(t *testing.T) { synctest.Test(t, unreadable) }

func unreadable(t *testing.T) {
	m, e := newScreen(t, 80, 24)
	at := time.Now()
	m.Update(sighted(at, crowd(at, 10, orderName)))
	e.load.Err = errors.New("connection refused")
	m.Update(tick{})
	text := strings.Join(drawn(m), "\n")
	if want := "! Redis cannot be read since " + at.Local().Format(time.TimeOnly) + ", 0s ago: connection refused"; !strings.Contains(text, want) || len(names(m)) != 10 {
		t.Errorf("it lacks %q, or the locks:\n%s", want, text)
	}
	e.load.Err = nil
	m.Update(tick{})
	if text := strings.Join(drawn(m), "\n"); strings.Contains(text, "cannot") {
		t.Errorf("it can be read again, but:\n%s", text)
	}
	e.load.Missing = []string{"10.0.0.7:6379", "10.0.0.8:6379"}
	m.Update(tick{})
	if text := strings.Join(drawn(m), "\n"); !strings.Contains(text, "! cannot be read, shown as seen last: 10.0.0.7:6379, 10.0.0.8:6379") || len(names(m)) != 10 {
		t.Errorf("it does not say which servers of the cluster are missing, or lacks the locks:\n%s", text)
	}
	e.load.Missing = []string{strings.Repeat("a-long-name.", 20) + ":6379"}
	m.Update(tick{})
	checkFits(t, m, "a server with a long name")
}

// A terminal that is too small gets a sentence, and the screen comes when it is enlarged.
func TestSmall(t *testing.T) {
	for _, size := range [][2]int{{79, 24}, {80, 23}, {20, 5}, {1, 1}, {3, 2}} {
		m, _ := newScreen(t, size[0], size[1])
		lines := drawn(m)
		if len(lines) > size[1] || len(strings.Join(lines, "")) == 0 {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, line := range lines {
			if ansi.StringWidth(line) > size[0] {
				t.Errorf("%v: %q is too long", size, line)
			}
		}
		if text := strings.Join(strings.Fields(strings.Join(lines, " ")), " "); size[0] > 20 && !strings.Contains(text, "mortise top needs 80 columns and 24 lines") {
			t.Errorf("%v: it says %q", size, text)
		}
		press(m, "p", "?", "c", "/") // what the user cannot see does nothing
		m.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
		if m.paused || m.typing || m.top() != locksPage {
			t.Error("a key was taken while there was no screen")
		}
		if n := len(drawn(m)); n != 30 {
			t.Errorf("enlarged, it has %d lines, want 30", n)
		}
	}
}

// Whatever others have written, each page fits into the screen.
func TestHostileTexts(t *testing.T) {
	at := time.Now()
	hostile := []string{
		"<script>alert(1)</script>", "\x1b[2J\x1b]0;evil\x07", "\u202e\u2066abc", strings.Repeat("\xfe", 512), strings.Repeat("注", 170), "a\nb\r\tc", "",
		strings.Repeat("u\u0308\u0301", 80), "🇩🇪🇩🇪👩\u200d🚀", "שלום-42", strings.Repeat("x", 512), "\x9b31m\x00",
	}
	var clients []mortise.ClientState
	for i, text := range hostile {
		id := fmt.Sprintf("8f1c2b3a-0000-8000-8000-%012d", i)
		clients = append(clients, mortise.ClientState{
			ClientInfo: mortise.ClientInfo{ID: id, Host: text, App: text, PID: -1 << 62, Silent: time.Duration(i) * 10 * time.Second},
			Holds:      []mortise.ClientHold{{Lock: text, Kind: text, Owner: id + ":" + text, Since: at.Add(-1 << 62), Token: -1 << 63}},
			Waits:      []mortise.ClientWait{{Lock: text + "!", Kind: text, Since: at.Add(1 << 62), For: text}, {Lock: text, Kind: "", Since: time.Time{}}},
			HoldCount:  1 << 40, WaitCount: -5,
			Asked: []mortise.ClientRequest{{Owner: id + ":" + text, By: text, Reason: text}},
		})
	}
	for _, size := range [][2]int{{80, 24}, {97, 40}, {240, 24}} {
		m, _ := newScreen(t, size[0], size[1])
		s := sighted(at, clients)
		for i := range clients {
			info := clients[i].ClientInfo
			s.deadlocks = append(s.deadlocks, &mortise.DeadlockError{Waits: []mortise.DeadlockWait{{Lock: hostile[i], Client: info}, {Lock: hostile[i], Client: info}}})
		}
		m.Update(s)
		checkFits(t, m, "locks")
		press(m, "c", "enter")
		checkFits(t, m, "client")
		press(m, "q")
		checkFits(t, m, "clients")
		press(m, "d")
		checkFits(t, m, "deadlocks")
		press(m, "?")
		checkFits(t, m, "help")
		press(m, "q", "q", "q", "/")
		for _, text := range hostile {
			m.Update(tea.PasteMsg{Content: text})
			checkFits(t, m, "filter")
		}
		press(m, "esc")
		for _, text := range hostile {
			m.failing = errors.New("-ERR " + text)
			checkFits(t, m, "a Redis that cannot be read")
			m.Update(dialogue{err: m.failing})
			checkFits(t, m, "an error of a dialog")
			m.say(clean(text))
			checkFits(t, m, "message")
			m.fail(clean(text))
			checkFits(t, m, "failure")
			lookHostile(t, m, text)
		}
	}
}

// lookHostile checks one lock, and the dialogs about it, whose texts are all text.
func lookHostile(t *testing.T, m *Model, text string) {
	m.one = closeUp{name: text, reading: true} // there is no Redis
	m.open(lockPage, text)
	checkFits(t, m, "a lock that is not read yet")
	info := &mortise.ClientInfo{Host: text, App: text, PID: 1 << 60}
	l := closerLook{name: text, state: mortise.State{Name: text, Kind: mortise.Kind(text), Mode: text, Token: 1 << 62, Value: text, TTL: 1 << 62}}
	l.state.Holders = []mortise.Holder{{Owner: text, Count: -1, Client: info}, {Owner: text + "2", Count: 1 << 60}}
	l.state.Permits = []mortise.Permit{{ID: text, TTL: -1}}
	l.queue = mortise.Queue{Listeners: 1 << 60, Waiters: []mortise.Waiter{{Owner: ":" + text, Client: info, Kind: "x." + text, TTL: -1 << 62}, {Owner: text}}}
	l.history = []mortise.Acquisition{{Owner: text}, {Host: text, App: text, PID: 7, How: mortise.How(text), End: text, Waited: -5, Held: 1<<63 - 1}}
	m.Update(l)
	checkFits(t, m, "a lock")
	for range 7 {
		press(m, "down")
		checkFits(t, m, "a lock")
	}
	for _, asks := range []bool{false, true} {
		m.Update(dialogue{dialog: dialog{asks: asks, state: l.state}, owner: text})
		if m.dialog == nil {
			t.Fatal("there is no dialog")
		}
		m.Update(tea.PasteMsg{Content: text})
		checkFits(t, m, "a dialog")
		press(m, "esc")
	}
	m.Update(closerLook{name: text, err: errors.New("no" + text)})
	checkFits(t, m, "a lock that cannot be read")
	m.back()
}

// checkFits fails the test if the screen is not filled by lines that fit into it.
func checkFits(t *testing.T, m *Model, what string) {
	t.Helper()
	content := m.View().Content
	lines := strings.Split(content, "\n")
	if len(lines) != m.height {
		t.Fatalf("%s: %d lines, want %d:\n%s", what, len(lines), m.height, content)
	}
	for _, line := range lines {
		text := ansi.Strip(line)
		if w, c := ansi.StringWidthWc(text), ansi.StringWidth(text); w > m.width || c > m.width {
			t.Fatalf("%s: a line has %d or %d columns, want at most %d: %q", what, w, c, m.width, text)
		}
		if strings.ContainsFunc(text, func(r rune) bool {
			return r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x5d0 && r < 0x700
		}) {
			t.Fatalf("%s: %q", what, text)
		}
	}
}

// With 10,000 locks only what is on the screen is asked for.
func TestManyLocks(t *testing.T) {
	const locks = 10_000
	m, e := newScreen(t, 140, 40)
	at := time.Now()
	m.Update(sighted(at, crowd(at, locks, orderName)))
	for range 21 {
		press(m, "pgdown")
		_ = m.View()
	}
	if n := len(e.shown); n != m.body() {
		t.Errorf("it asks for %d locks, want the %d on the screen", n, m.body())
	}
	press(m, "end")
	if last := m.locks.current(); last != m.locks.rows[locks-1] || !slices.Contains(e.shown, last.Name) {
		t.Errorf("at the end it is at %v, and asks for %q", last.Name, e.shown)
	}
}

// BenchmarkFrame measures a frame with 10,000 locks.
func BenchmarkFrame(b *testing.B) {
	m, _ := newScreen(b, 140, 40)
	at := time.Now()
	m.Update(sighted(at, crowd(at, 10_000, orderName)))
	for b.Loop() {
		m.Update(tick{})
		_ = m.View()
	}
}
