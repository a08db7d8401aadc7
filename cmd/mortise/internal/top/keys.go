package top

import (
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

// key does what a key means.
func (m *Model) key(msg tea.KeyPressMsg) tea.Cmd {
	key := msg.String()
	switch {
	case key == "ctrl+c":
		return tea.Quit
	case key == "ctrl+z":
		return m.suspend()
	case m.small():
		if key == "q" {
			return tea.Quit
		}
		return nil
	case m.dialog != nil:
		return m.dialogKey(msg)
	case m.typing:
		return m.filterKey(msg)
	}
	m.message = ""
	return m.pageKey(key)
}

// suspend gives the terminal back and stops this process until a shell continues it. If there is no shell that
// could, as with ssh -t, nothing stops it, and nothing would continue it: so it wakes itself. While it is stopped,
// it cannot do that.
func (m *Model) suspend() tea.Cmd {
	if m.resumed != nil {
		return nil
	}
	resumed := make(chan struct{})
	m.resumed = resumed
	m.work.Go(func() {
		again := time.NewTicker(wakeEvery)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				wake()
			case <-resumed:
				return
			case <-m.ctx.Done():
				wake()
				return
			}
		}
	})
	return tea.Suspend
}

// wakeEvery is how often a process that nothing has stopped wakes itself.
const wakeEvery = 250 * time.Millisecond

// pageKey does what a key means on the page that is on the screen.
func (m *Model) pageKey(key string) tea.Cmd {
	switch {
	case key == "q", key == "esc", key == "left", key == "h", key == "backspace":
		return m.leave(key)
	case m.cursorOf().key(key, m.body()), m.anywhereKey(key):
	case m.top() == locksPage, m.top() == clientsPage:
		return m.listKey(key)
	case m.top() == clientPage:
		if l := m.client.current(); l != "" && opens(key) {
			m.open(lockPage, l)
		}
	case m.top() == lockPage && opens(key):
		if id := m.one.client(m); id != "" {
			m.open(clientPage, id)
		}
	case m.top() == lockPage:
		m.actionKey(key)
	}
	return nil
}

// opens reports whether a key opens what the cursor is at.
func opens(key string) bool { return key == "enter" || key == "right" || key == "l" }

// anywhereKey does what a key means on every page, and reports whether it means anything there.
func (m *Model) anywhereKey(key string) bool {
	switch key {
	case "?":
		if m.top() != helpPage {
			m.open(helpPage, "")
		}
	case "p":
		m.pause()
	case "d":
		if m.top() != deadlocksPage && m.last != nil {
			m.open(deadlocksPage, "")
		}
	case "c", "tab":
		if m.top() == clientsPage {
			m.places = m.places[:1] // the list of locks
		} else {
			m.open(clientsPage, "")
		}
	case "r":
		m.looker.Now()
	default:
		return false
	}
	return true
}

// leave goes back. From the list of locks, q ends the program, and Esc takes the filter away.
func (m *Model) leave(key string) tea.Cmd {
	switch {
	case len(m.places) > 1:
		m.back()
	case key == "q":
		return tea.Quit
	case key == "esc" && m.locks.filter != "":
		m.setFilter("")
	}
	return nil
}

// listKey does what a key means in the list of locks or of clients.
func (m *Model) listKey(key string) tea.Cmd {
	if key == "/" {
		m.typing = true
		m.input.SetValue(m.locks.filter)
		m.input.CursorEnd()
		return m.input.Focus()
	}
	if m.top() == clientsPage {
		if c := m.clients.current(); c != nil && opens(key) {
			m.open(clientPage, c.id)
		}
		return nil
	}
	switch key {
	case "s":
		m.locks.by = m.locks.by.next()
		m.locks.arrange()
		m.say("sorted by " + string(m.locks.by))
	case "enter", "right", "l":
		if l := m.locks.current(); l != nil {
			m.open(lockPage, l.Name)
		}
	default:
		m.actionKey(key)
	}
	return nil
}

// actionKey begins an action on a lock.
func (m *Model) actionKey(key string) {
	switch {
	case m.options.Act == nil:
	case key == "u":
		m.beginRelease()
	case key == "a":
		m.beginAsk()
	}
}

// filterKey takes a key for the filter.
func (m *Model) filterKey(msg tea.KeyPressMsg) tea.Cmd {
	switch msg.String() {
	case "enter", "up", "down":
		m.typing = false
		m.input.Blur()
		return nil
	case "esc":
		m.typing = false
		m.input.Blur()
		m.setFilter("")
		return nil
	}
	return m.feed(msg)
}

// feed passes what is typed or pasted on to the input that the user is in.
func (m *Model) feed(msg tea.Msg) tea.Cmd {
	if !m.typing && (m.dialog == nil || !m.dialog.asks) {
		return nil
	}
	switch typed := msg.(type) {
	case tea.PasteMsg:
		typed.Content = strings.Map(typeable, typed.Content)
		msg = typed
	case tea.KeyPressMsg:
		if strings.Map(typeable, typed.Text) != typed.Text {
			return nil
		}
	}
	var cmd tea.Cmd
	m.input, cmd = m.input.Update(msg)
	if m.typing {
		m.setFilter(m.input.Value())
	}
	return cmd
}

// typeable leaves out what would not keep to its place: it can be pasted as well.
func typeable(r rune) rune {
	if r == ' ' || r != utf8.RuneError && steady(r) {
		return r
	}
	return -1
}

// setFilter filters the lists. What is typed is about what it finds: the cursor goes to the first of that.
func (m *Model) setFilter(text string) {
	if text != "" && text != m.locks.filter {
		m.locks.cursor, m.clients.cursor = cursor{}, cursor{}
	}
	m.locks.filter = text
	m.locks.arrange()
	if m.last != nil {
		m.clients.set(m.last, text)
	}
}

// cursorOf returns the cursor of the page that is on the screen.
func (m *Model) cursorOf() *cursor {
	switch m.top() {
	case locksPage:
		return &m.locks.cursor
	case lockPage:
		return &m.one.cursor
	case clientsPage:
		return &m.clients.cursor
	case clientPage:
		return &m.client.cursor
	}
	return &m.pageAt
}
