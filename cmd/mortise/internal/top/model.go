package top

import (
	"context"
	"sync"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/watch"
)

// looker is what a screen needs of a [watch.Watcher].
type looker interface {
	Client() *mortise.Client
	Show(names []string)
	Idle(idle bool)
	Now()
	Load() watch.Load
}

// page is what the screen shows.
type page int

const (
	locksPage page = iota
	lockPage
	clientsPage
	clientPage
	deadlocksPage
	helpPage
)

// place is a page, and the name of the lock or the UUID of the client that it is about.
type place struct {
	page page
	of   string
}

// The smallest screen.
const (
	leastWidth  = 80
	leastHeight = 24
)

// Model is the state of the screen, for Bubble Tea: it is changed by messages only, and does no I/O itself.
type Model struct {
	ctx     context.Context // of what it does in Redis
	work    sync.WaitGroup  // for that
	send    func(tea.Msg)   // takes what has become of that
	options Options
	looker  looker

	style         styles
	width, height int
	places        []place // where the user has gone; the last one is on the screen

	last     *seen
	stuck    map[string]bool // locks in a deadlock
	failing  error           // Redis cannot be read
	load     watch.Load
	paused   bool
	pausedAt time.Time // by this machine's clock
	waiting  *seen     // what was seen while the screen is paused

	locks   locked
	clients roll
	one     closeUp  // of lockPage
	client  single   // of clientPage
	pageAt  cursor   // of the pages that are only text
	shown   []string // what the watcher was told
	idle    bool     // the same

	input   textinput.Model // of the filter, or of the reason to ask
	typing  bool            // the filter
	dialog  *dialog
	message string        // what has become of the last action
	wrong   bool          // the message is of a failure
	resumed chan struct{} // closed when the program goes on after a stop; nil if it does not stop
}

// seen is what a look has seen.
type seen struct {
	*watch.Look
	locks     []watch.Lock // by pain
	byName    map[string]*watch.Lock
	byID      map[string]*mortise.ClientState
	deadlocks []*mortise.DeadlockError
	at        time.Time // by this machine's clock
}

// noted is a note of the watcher.
type noted struct{ text string }

// tick makes the screen show the time anew.
type tick struct{}

// tickEvery is how often the screen shows the time anew.
const tickEvery = 250 * time.Millisecond

func ticking() tea.Cmd { return tea.Tick(tickEvery, func(time.Time) tea.Msg { return tick{} }) }

func newModel(ctx context.Context, o Options, l looker) *Model {
	m := &Model{ctx: ctx, options: o, looker: l, style: newStyles(true), places: []place{{locksPage, ""}}, input: textinput.New()}
	m.locks.by, m.load = byPain, l.Load()
	m.input.SetVirtualCursor(false)
	m.input.Prompt = ""
	m.input.CharLimit = 200
	m.input.KeyMap.Paste.SetEnabled(false) // it would run a program: terminals paste themselves
	return m
}

// Init implements tea.Model.
func (m *Model) Init() tea.Cmd { return tea.Batch(ticking(), tea.RequestBackgroundColor) }

// Update implements tea.Model.
func (m *Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.BackgroundColorMsg:
		m.style = newStyles(msg.IsDark())
	case tea.KeyPressMsg:
		cmd = m.key(msg)
	case tea.ResumeMsg:
		if m.resumed != nil {
			close(m.resumed)
			m.resumed = nil
		}
	case tea.PasteMsg:
		cmd = m.feed(msg)
	case *seen:
		m.look(msg)
	case noted:
		m.say(msg.text)
	case tick:
		m.breathe()
		m.closer()
		cmd = ticking()
	case closerLook:
		if m.one.take(msg); !m.paused {
			m.looker.Now()
		}
	case dialogue:
		m.answer(msg)
	case done:
		m.done(msg)
	}
	m.settle()
	return m, cmd
}

// look takes what was seen; while the screen is paused, for later.
func (m *Model) look(s *seen) {
	if m.paused {
		m.waiting = s
		return
	}
	m.last, m.waiting = s, nil
	m.stuck = make(map[string]bool)
	for _, d := range s.deadlocks {
		for i := range d.Waits {
			m.stuck[d.Waits[i].Lock] = true
		}
	}
	m.load = m.looker.Load()
	m.locks.set(s.locks)
	m.clients.set(s, m.locks.filter)
	m.client.set(s)
}

// breathe takes what changes without a look.
func (m *Model) breathe() {
	if m.paused {
		return
	}
	m.load = m.looker.Load()
	m.failing = m.load.Err
}

// settle puts the cursors into their lists, and tells the watcher what is on the screen.
func (m *Model) settle() {
	m.locks.fit(len(m.locks.rows), m.body())
	m.locks.remember()
	m.locks.measure(m.body())
	m.clients.fit(len(m.clients.rows), m.body())
	m.clients.remember()
	m.client.fit(len(m.client.rows), m.body())
	m.one.fit(m.one.rows(), m.body())
	// A closer look needs its part of the load: the watcher looks after each of them.
	if idle := m.paused || m.top() == lockPage; idle != m.idle {
		m.idle = idle
		m.looker.Idle(idle)
	}
	var names []string
	switch m.top() {
	case locksPage:
		for _, l := range m.locks.visible(m.body()) {
			names = append(names, l.Name)
		}
	case lockPage:
		names = []string{m.one.name}
	default:
		return
	}
	if !equal(names, m.shown) {
		m.shown = names
		m.looker.Show(names)
		m.looker.Now() // what is left of their leases
	}
}

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// now returns about the time of Redis' clock; zero if there was no look.
func (m *Model) now() time.Time {
	switch {
	case m.last == nil:
		return time.Time{}
	case m.paused:
		return m.last.At.Add(m.pausedAt.Sub(m.last.at))
	}
	return m.last.At.Add(time.Since(m.last.at))
}

// top returns the page that is on the screen.
func (m *Model) top() page { return m.places[len(m.places)-1].page }

// open puts a page on the screen, and back goes to the one before.
func (m *Model) open(p page, of string) {
	m.places = append(m.places, place{p, of})
	m.enter()
}

func (m *Model) back() {
	if len(m.places) > 1 {
		m.places = m.places[:len(m.places)-1]
		m.enter()
	}
}

// enter prepares the page that is on the screen now.
func (m *Model) enter() {
	m.pageAt = cursor{}
	switch at := m.places[len(m.places)-1]; {
	case at.page == lockPage && m.one.name != at.of:
		m.one = closeUp{name: at.of}
		m.preview()
		m.closer()
	case at.page == clientPage && m.client.id != at.of:
		m.client = single{id: at.of, name: clean(at.of)}
		m.client.set(m.last)
	}
}

// say tells the user something until the next key.
func (m *Model) say(text string)  { m.message, m.wrong = text, false }
func (m *Model) fail(text string) { m.message, m.wrong = text, true }

// do does what needs Redis, meanwhile.
func (m *Model) do(f func(context.Context) tea.Msg) {
	m.work.Go(func() { m.send(f(m.ctx)) })
}

// pause stops the screen, or lets it go on.
func (m *Model) pause() {
	if m.paused = !m.paused; m.paused {
		m.pausedAt = time.Now()
	} else if m.waiting != nil {
		m.look(m.waiting)
	}
}
