package dashboard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/watch"
)

const (
	// restAfter is how long after the last request the poller rests, if no stream is open. A page without
	// JavaScript asks again after five seconds.
	restAfter = 20 * time.Second
	// showFor is for how long the names of a page are on a screen.
	showFor = 10 * time.Second
	// mostShown is how many names are read in each look because a page shows them, and mostOfPage of one page.
	mostShown, mostOfPage = 60, 20
	// mostEvents and mostNotes are how many are kept.
	mostEvents, mostNotes = 2000, 20
	// denied is how long to wait after Redis has refused a right, before it is asked again.
	denied = 15 * time.Second
	// fresh is how old a look may be that a page shows, and patience how long a page waits for a younger one.
	fresh, patience = 2 * time.Second, 3 * time.Second
)

// poller looks at Redis for all browsers.
type poller struct {
	driver driver.Driver
	prefix string
	load   int
	begin  sync.Once
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when the poller has ended

	details details

	mu      sync.Mutex // guards the fields below
	watcher *watch.Watcher
	scene   *scene
	changed chan struct{} // closed when there is another scene
	streams int
	asked   time.Time // when a page was asked for last
	shown   map[string]shownNames
	events  []watch.Event // the newest at the end
	missed  int           // events that are not kept any more
	since   time.Time     // of the first look
	notes   []watch.Note
	refusal error // why the watcher has ended
}

// shownNames are names on a screen.
type shownNames struct {
	names []string
	at    time.Time
}

func newPoller(d driver.Driver, o *Options) *poller {
	p := &poller{driver: d, prefix: o.Prefix, load: o.Load, done: make(chan struct{}), changed: make(chan struct{}), shown: make(map[string]shownNames)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.scene = newScene(nil, nil)
	p.details.read, p.details.opened = make(map[string]*detail), make(map[string]int)
	p.make()
	return p
}

// make makes a watcher.
func (p *poller) make() {
	p.watcher = watch.New(lent{p.driver}, &watch.Options{
		Prefix: p.prefix, Load: p.load, Look: p.look, Note: p.note,
	})
}

// closed reports whether the poller is closed.
func (p *poller) closed() bool { return p.ctx.Err() != nil }

// close ends the poller.
func (p *poller) close() {
	p.cancel()
	p.begin.Do(func() { close(p.done) }) // it has never begun
	<-p.done
	_ = p.watcher.Close() // it lends its driver
}

// wake begins to look, or looks more often: somebody asks.
func (p *poller) wake() {
	p.mu.Lock()
	p.asked = time.Now()
	w := p.watcher
	p.mu.Unlock()
	w.Idle(false)
	p.begin.Do(func() { go p.run() })
}

// run looks until the poller is closed.
func (p *poller) run() {
	defer close(p.done)
	for {
		err := p.watcher.Run(p.ctx)
		if p.ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		p.refusal = err
		p.again(nil)
		p.mu.Unlock()
		timer := time.NewTimer(denied)
		select {
		case <-timer.C:
		case <-p.ctx.Done():
			timer.Stop()
			return
		}
		_ = p.watcher.Close() // it lends its driver
		p.mu.Lock()
		p.make()
		p.mu.Unlock()
	}
}

// look takes over what a look has seen.
func (p *poller) look(l *watch.Look) {
	last, _ := p.now()
	events := watch.Diff(last.snapshot(), l.Snapshot) // here, so that a page has them together with the look
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep(events)
	p.refusal = nil
	if p.since.IsZero() {
		p.since = l.At
	}
	p.again(l)
	now := time.Now()
	p.watcher.Show(p.onScreens(now))
	p.watcher.Idle(p.streams == 0 && now.Sub(p.asked) > restAfter)
	p.details.forget(now)
}

// again makes another scene, of a look or, if that is nil, of the last one. It must be called with mu held.
func (p *poller) again(l *watch.Look) {
	p.scene = newScene(p.scene, l)
	close(p.changed)
	p.changed = make(chan struct{})
}

// onScreens returns the names that pages have shown lately. It must be called with mu held.
func (p *poller) onScreens(now time.Time) (names []string) {
	maps.DeleteFunc(p.shown, func(_ string, s shownNames) bool { return now.Sub(s.at) > showFor })
	listed := make(map[string]bool)
	for _, page := range slices.Sorted(maps.Keys(p.shown)) {
		for _, name := range p.shown[page].names {
			if !listed[name] && len(names) < mostShown {
				listed[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// show notes that a page shows names.
func (p *poller) show(page string, names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(names) > 0 && (len(p.shown) < mostShown || p.shown[page].names != nil) {
		p.shown[page] = shownNames{names[:min(len(names), mostOfPage)], time.Now()}
	}
}

// keep keeps events. It must be called with mu held.
func (p *poller) keep(events []watch.Event) {
	p.events = append(p.events, events...)
	if drop := len(p.events) - mostEvents; drop > mostEvents/10 { // not a copy for each event
		p.events = slices.Clone(p.events[drop:])
		p.missed += drop
	}
}

// note keeps a note, and lets pages show it.
func (p *poller) note(n *watch.Note) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, *n)
	p.notes = p.notes[max(0, len(p.notes)-mostNotes):]
	p.again(nil)
}

// now returns the scene, and a channel that is closed when there is another one.
func (p *poller) now() (*scene, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.scene, p.changed
}

// current returns a scene that is fresh, if that can be had soon.
func (p *poller) current(ctx context.Context) *scene {
	p.wake()
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		s, changed := p.now()
		state := p.state()
		if s.look != nil && time.Since(state.Looked) < fresh || state.Err != nil {
			return s
		}
		select {
		case <-changed:
		case <-patient.Done():
			return s
		case <-p.ctx.Done():
			return s
		}
	}
}

// state returns what looking costs, and why Redis cannot be read now.
func (p *poller) state() watch.Load {
	p.mu.Lock()
	w, refusal := p.watcher, p.refusal
	p.mu.Unlock()
	l := w.Load()
	if refusal != nil {
		l.Err = refusal
	}
	return l
}

// client returns the client that reads within the load.
func (p *poller) client() *mortise.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.watcher.Client()
}

// clock returns the time of Redis' clock, as far as the last look has reported it.
func (p *poller) clock() time.Time {
	l := p.state()
	if l.At.IsZero() {
		return time.Now()
	}
	return l.At.Add(time.Since(l.Looked))
}

// happened returns events that are wanted, the newest first, most of them, and how many of all are kept.
func (p *poller) happened(most int, wanted func(*watch.Event) bool) (list []watch.Event, kept int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept = len(p.events)
	for i := kept - 1; i >= 0 && len(list) < most; i-- {
		if wanted(&p.events[i]) {
			list = append(list, p.events[i])
		}
	}
	return list, kept
}

// said returns the notes, the newest first, and since when there may be some.
func (p *poller) said() (notes []watch.Note, since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	notes = slices.Clone(p.notes)
	slices.Reverse(notes)
	return notes, p.since
}

var errTooMany = errors.New("too many streams")

// mostStreams is how many browsers may be notified of changes at once; others have to ask.
const mostStreams = 1000

// join notes that a browser is notified of changes until the returned function is called.
func (p *poller) join() (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.streams >= mostStreams {
		return nil, errTooMany
	}
	p.streams++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.streams--
		p.asked = time.Now()
	}, nil
}

// soon makes the next look come soon.
func (p *poller) soon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watcher.Now()
}

// touch makes pages show that something has changed besides what a look sees.
func (p *poller) touch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again(nil)
}
