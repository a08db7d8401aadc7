package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/cmd/mortise/internal/duration"
	"github.com/mortise-go/mortise/cmd/mortise/internal/gentle"
	"github.com/mortise-go/mortise/cmd/mortise/internal/watch"
	"github.com/mortise-go/mortise/driver"
)

const (
	// lookEvery is how often watch looks while there are events, and restEvery while there are none:
	// after restAfter looks without any.
	lookEvery = 250 * time.Millisecond
	restEvery = 500 * time.Millisecond
	restAfter = 20
	// slowLook is when a pause between two looks is worth telling.
	slowLook = 1500 * time.Millisecond
	// searchEvery is the shortest time between the beginnings of two searches, and slowSearch when
	// one is worth telling.
	searchEvery = time.Second
	slowSearch  = 5 * time.Second
	// retryEvery is how long to wait after Redis could not be read.
	retryEvery = 500 * time.Millisecond
	// searchShare is the part of the load that searches may have.
	searchShare = 0.3
	// serverShare is the part of a server's time that searches may have for each command a second of the
	// load, and mostShare all of it.
	serverShare = 0.01 / 100
	mostShare   = 0.25
	// mostFound is how many names a search may leave to the next looks.
	mostFound = 10_000
)

// watchAsking are the options of the clients of a watch. It tells nobody of itself, and another look
// follows one that fails.
var watchAsking = mortise.Options{RetryFor: time.Second, AllowAnyName: true, Identity: mortise.Identity{Hide: true}}

// watcher is one run of watch.
type watcher struct {
	app     *app
	flags   *watchFlags
	pattern string
	only    string // the one name that matches; empty if there may be more
	client  *mortise.Client
	driver  *gentle.Driver
	search  *watchSearch // nil if none is needed
	out     watchOutput

	began   time.Time
	first   time.Time // the time of the first look, by Redis' clock
	last    *watch.Snapshot
	summary watch.Summary

	looks    int
	quiet    int // looks without an event
	looked   time.Time
	longest  time.Duration // between two looks
	told     time.Duration // the pause that was told of; 0 if none is
	failing  time.Time     // since when Redis cannot be read
	failures int
	found    map[string]bool // names that searches have found; true if the first one has not
}

func newWatcher(a *app, d driver.Driver, pattern string, f *watchFlags) *watcher {
	w := &watcher{app: a, flags: f, pattern: pattern, began: time.Now(), found: make(map[string]bool), out: newWatchOutput(a, f.output)}
	load := float64(f.load)
	only, single := watch.Literal(pattern)
	if single && only != "" {
		w.only = only
	} else {
		searcher := &gentle.Searcher{Driver: gentle.Driver{Driver: d, Meter: gentle.NewMeter(load * searchShare), Shared: true}, Share: min(mostShare, load*serverShare)}
		w.search = &watchSearch{searcher: searcher, client: mortise.New(searcher, a.options(watchAsking)), pattern: pattern, found: make(map[string]bool)}
		load *= 1 - searchShare
	}
	w.driver = &gentle.Driver{Driver: d, Meter: gentle.NewMeter(load)}
	w.client = mortise.New(w.driver, a.options(watchAsking))
	return w
}

// close closes the clients.
func (w *watcher) close() {
	if w.search != nil {
		leave(w.search.client)
	}
	leave(w.client)
}

// run looks until ctx ends, and returns its cause, or an error that does not pass.
func (w *watcher) run(ctx context.Context) error {
	if w.search != nil {
		searching, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.search.run(searching)
		}()
		defer func() {
			cancel()
			<-done
		}()
	}
	for {
		before, start, waited := w.driver.Meter.Sent(), time.Now(), w.driver.Meter.Waited()
		err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errEnough), errors.Is(err, mortise.ErrDenied), errors.Is(err, mortise.ErrInvalid):
			return err
		case err != nil:
			w.failed(err)
		}
		w.tell()
		if err := gentle.Sleep(ctx, w.pause(err, int(w.driver.Meter.Sent()-before), time.Since(start)-w.driver.Meter.Waited()+waited)); err != nil {
			return err
		}
	}
}

// pause returns how long to wait after a look that took so many commands and so long.
func (w *watcher) pause(err error, commands int, took time.Duration) time.Duration {
	if err != nil {
		return retryEvery
	}
	every := lookEvery
	if w.quiet > restAfter {
		every = restEvery
	}
	pause := max(every-took, 2*took, w.driver.Meter.Owed(commands))
	switch {
	case pause > slowLook && pause > 2*w.told:
		w.told = pause
		w.out.note(w.now(), fmt.Sprintf("looking every %v from now on: a look takes %s and %v; see --load",
			duration.Round(pause+took), counted(commands, "command"), took.Round(time.Millisecond)))
	case w.told > 0 && pause < slowLook/2:
		w.told = 0
		w.out.note(w.now(), "looking every "+duration.Round(pause+took).String()+" again")
	}
	return pause
}

// now returns about the time of Redis' clock.
func (w *watcher) now() time.Time {
	if w.last == nil {
		return time.Now()
	}
	return w.last.At.Add(time.Since(w.looked))
}

// failed notes that Redis could not be read.
func (w *watcher) failed(err error) {
	if w.failing.IsZero() {
		w.failing = time.Now()
		w.out.note(w.now(), "Redis cannot be read, going on until it can: "+concealed(plain(err).Error()))
	}
	w.failures++
}

// wanted reports whether a name is to be watched.
func (w *watcher) wanted(name string) bool { return watch.Match(w.pattern, name) }

// look looks once, and writes what has happened.
func (w *watcher) look(ctx context.Context) error {
	at, took, err := gentle.Time(ctx, w.driver)
	if err != nil {
		return driverError(err)
	}
	s := watch.Sighting{At: at, States: make(map[string]mortise.State), Later: make(map[string]bool), Gap: !w.failing.IsZero()}
	if w.search != nil {
		w.search.searcher.Trip(took)
		w.search.take(w.found)
	}
	if s.Clients, err = w.client.Clients(ctx); err != nil {
		return err
	}
	for _, name := range w.names(s.Clients) {
		state, err := w.client.Inspect(ctx, name)
		if errors.Is(err, mortise.ErrInvalid) { // anybody may have written the record
			continue
		}
		if err != nil {
			return err
		}
		s.States[name], s.Later[name] = state, w.found[name]
		delete(w.found, name)
	}
	w.seen(s)
	next := watch.Merge(w.last, s, w.wanted)
	events := watch.Diff(w.last, next)
	w.last = next
	if w.quiet++; len(events) > 0 {
		w.quiet = 0
	}
	for i := range events {
		w.summary.Note(&events[i])
		w.out.event(&events[i])
		if w.summary.Events == w.flags.events {
			return errEnough
		}
	}
	return nil
}

// names returns the names whose keys are read in this look.
func (w *watcher) names(clients []mortise.ClientState) []string {
	most := max(2, w.flags.load/10)
	names := watch.Names(w.last, clients, w.wanted, most, w.looks)
	if w.only != "" {
		return append(names[:0:0], w.only)
	}
	for name := range w.found {
		if len(names) >= most+most/2 {
			break
		}
		if w.last.Holding(name) {
			delete(w.found, name)
			continue
		}
		names = append(names, name)
	}
	return names
}

// seen notes that a look has succeeded.
func (w *watcher) seen(s watch.Sighting) {
	if !w.failing.IsZero() {
		w.out.note(s.At, fmt.Sprintf("Redis can be read again after %v; what happened meanwhile is only seen by its result", duration.Round(time.Since(w.failing))))
		w.failing = time.Time{}
	}
	if w.looks++; w.looks == 1 {
		w.first = s.At
	} else {
		w.longest = max(w.longest, time.Since(w.looked))
	}
	w.looked = time.Now()
}

// tell tells what is to be known of the search.
func (w *watcher) tell() {
	if w.search == nil {
		return
	}
	for _, text := range w.search.takeNotes() {
		w.out.note(w.now(), text)
	}
}

// driverError returns an error of the driver as the library's methods do.
func driverError(err error) error {
	if driver.ClassOf(err) == driver.Denied {
		return fmt.Errorf("%w: %w", mortise.ErrDenied, err)
	}
	return err
}

// watchSearch searches for locks that no record tells of.
type watchSearch struct {
	searcher *gentle.Searcher
	client   *mortise.Client
	pattern  string

	mu     sync.Mutex      // guards the fields below
	found  map[string]bool // as watcher.found
	notes  []string
	passes int
	took   time.Duration // the last search
	keys   int64         // of the last search
	said   time.Duration
	failed string // the error of the last search
}

// run searches until ctx ends.
func (s *watchSearch) run(ctx context.Context) {
	for {
		start := time.Now()
		err := s.pass(ctx)
		if ctx.Err() != nil {
			return
		}
		pause := searchEvery - time.Since(start)
		if s.end(err, time.Since(start)) {
			return
		}
		if err != nil {
			pause = 10 * retryEvery
		}
		if gentle.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// pass searches once.
func (s *watchSearch) pass(ctx context.Context) error {
	for state, err := range s.client.Locks(ctx, s.pattern) {
		if err != nil {
			return err
		}
		s.mu.Lock()
		if len(s.found) < mostFound {
			s.found[state.Name] = s.passes > 0
		}
		s.mu.Unlock()
	}
	return nil
}

// end notes the end of a search, and reports whether it was the last one.
func (s *watchSearch) end(err error, took time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		denied := errors.Is(err, mortise.ErrDenied)
		text := concealed(plain(err).Error())
		if s.failed == "" && (denied || !errors.Is(err, mortise.ErrUnreachable)) {
			s.notes = append(s.notes, "the keys cannot be searched, so only clients of mortise are seen that do not hide: "+text)
		}
		s.failed = text
		return denied
	}
	s.failed = ""
	s.passes++
	s.took, s.keys = took, s.searcher.Keys()
	if took > slowSearch && took > 2*s.said {
		s.said = took
		s.notes = append(s.notes, fmt.Sprintf("a search of the keys, about %s, takes %v: Redisson's locks are seen that late", spaced(s.keys), duration.Round(took)))
	}
	return false
}

// take moves the names that were found to all.
func (s *watchSearch) take(all map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, later := range s.found {
		if _, known := all[name]; !known && len(all) < mostFound {
			all[name] = later
		}
	}
	s.found = make(map[string]bool)
}

func (s *watchSearch) takeNotes() (notes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	notes, s.notes = s.notes, nil
	return notes
}

// watchText returns the help.
func watchText() string { return strings.ReplaceAll(watchLong, "{measured}", measuredLoad) }
