package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/gentle"
)

const (
	// lookEvery is how often a Watcher looks while there are events, and restEvery while there are none: after
	// restAfter looks without any.
	lookEvery = 250 * time.Millisecond
	restEvery = 500 * time.Millisecond
	restAfter = 20
	// slowLook is when a pause between two looks is worth a note.
	slowLook = 1500 * time.Millisecond
	// idleEvery is how often a Watcher looks while nobody looks at it.
	idleEvery = 10 * time.Second
	// retryEvery is how long to wait after Redis could not be read.
	retryEvery = 500 * time.Millisecond
	// mostShown is how many names can be shown at once.
	mostShown = 100
)

// Options are the options of a [Watcher]. The zero value means the defaults.
type Options struct {
	// Prefix is that of the clients to watch: see mortise.Options.Prefix.
	Prefix string
	// Pattern says which names to watch, as in Redis: * ? [abc]. Empty means all.
	Pattern string
	// Load is how many commands to send in a second at most, on average, 100 by default. The search for what
	// no record lists takes Load/100 % of a server's time at most, and never more than a quarter.
	Load int
	// Every is the shortest time between two looks, 250 ms by default; twice that while nothing happens.
	Every time.Duration

	// Look, if not nil, is called after each look, in the goroutine of Run: it delays the next one. What it
	// gets is not changed any more.
	Look func(*Look)
	// Event, if not nil, is called for each event of a look, after Look. If the context of Run has ended when
	// it returns, no other call follows.
	Event func(*Event)
	// Note, if not nil, is called with what a reader has to know besides the events.
	Note func(*Note)

	_ struct{}
}

// Look is what one look has seen.
type Look struct {
	*Snapshot
	// Clients are the records of all clients, also of those that hold nothing that is watched.
	Clients []mortise.ClientState
}

// Note is something that a reader has to know.
type Note struct {
	At   time.Time // about, by Redis' clock
	Text string
	Err  error // the reason; nil if there is none besides Text
	Load bool  // a greater Options.Load would help
}

// String returns the text, and the reason.
func (n *Note) String() string {
	if n.Err == nil {
		return n.Text
	}
	return n.Text + ": " + n.Err.Error()
}

// Watcher looks at locks again and again, within a bounded load: it asks Redis, which need not tell it anything.
//
// Each look reads the records of mortise's clients, and the keys of some locks. What no record lists,
// such as locks of Redisson, a slow search of all keys finds; there is none if Pattern is one name.
//
// What it does not see: holds and waits of less than about 1.5 s; Redisson's waiters; why a client has lost a
// hold. Records can be forged by anybody who may write keys.
//
// Run may be called once. The other methods are safe for concurrent use.
type Watcher struct {
	options Options
	only    string // the one name that matches; empty if there may be more
	client  *mortise.Client
	driver  *gentle.Driver
	search  *search // nil if none is needed
	awake   chan struct{}

	// The fields up to mu belong to Run.
	clock   *gentle.Clock
	last    *Snapshot
	clients []mortise.ClientState // as they were read last
	missing missing
	lost    map[string]time.Time     // by id, the clients whose records could not be read, and when
	looked  time.Time                // when the records were read last
	quiet   int                      // looks without an event
	told    time.Duration            // the pause that was told of; 0 if none is
	stalled bool                     // the last look has waited for the clock of a server that did not answer
	found   map[string]*found        // that no look has shown yet
	read    map[string]mortise.State // in the look before, from their keys

	mu    sync.Mutex // guards the fields below
	shown []string
	idle  bool
	load  Load
	began time.Time
	gap   time.Time // since when Redis cannot be read
}

// New returns a Watcher that uses d and takes ownership of it. It does no I/O. Nil options mean the defaults.
func New(d driver.Driver, options *Options) *Watcher {
	w := &Watcher{awake: make(chan struct{}, 1), found: make(map[string]*found), lost: make(map[string]time.Time), began: time.Now()}
	if options != nil {
		w.options = *options
	}
	o := &w.options
	if o.Pattern == "" {
		o.Pattern = "*"
	}
	if o.Load <= 0 {
		o.Load = 100
	}
	if o.Every <= 0 {
		o.Every = lookEvery
	}
	only, single := Literal(o.Pattern)
	if single && only != "" {
		w.only = only
		w.driver = &gentle.Driver{Driver: d, Meter: gentle.NewMeter(float64(o.Load))}
		w.setClock()
		w.client = mortise.New(w.driver, w.asking())
		return w
	}
	w.driver = &gentle.Driver{Driver: d, Meter: gentle.NewMeter(float64(o.Load) * (1 - searchShare))}
	w.setClock()
	w.search = newSearch(w.driver, o)
	w.client = mortise.New(w.search.searcher, w.asking())
	w.search.client = w.client
	return w
}

// setClock sets the clock. A server that it has asked in vain has cost the look its time.
func (w *Watcher) setClock() {
	w.clock = gentle.NewClock(w.driver)
	w.clock.Silent = func(server string, err error) { w.stalled = w.missing.silent(server, meaning(err)) }
}

// asking returns the options of the client of a Watcher. It publishes nothing about itself, and another look
// follows one that fails.
func (w *Watcher) asking() *mortise.Options {
	return &mortise.Options{Prefix: w.options.Prefix, RetryFor: time.Second, AllowAnyName: true, Identity: mortise.Identity{Hide: true}}
}

// Client returns a client that reads under the same load, for a closer look at one lock: Inspect, Queue, History.
// It is closed with the Watcher.
func (w *Watcher) Client() *mortise.Client { return w.client }

// Close ends the Watcher, and closes the driver. Run must have returned.
func (w *Watcher) Close() error { return w.client.Close() }

// Show says which names are on a screen now: their keys are read in each look, up to a hundred of them.
func (w *Watcher) Show(names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown = names[:min(len(names), mostShown):min(len(names), mostShown)]
}

// Idle says whether nobody looks at what is seen. Then the Watcher looks every ten seconds. When somebody looks
// again, it looks at once.
func (w *Watcher) Idle(idle bool) {
	w.mu.Lock()
	wake := w.idle && !idle
	w.idle = idle
	w.mu.Unlock()
	if wake {
		w.Now()
	}
}

// Now makes the next look come soon, as far as the load allows.
func (w *Watcher) Now() {
	select {
	case w.awake <- struct{}{}:
	default:
	}
}

// Run looks until ctx ends, and returns its cause, or an error that does not pass: mortise.ErrDenied,
// mortise.ErrInvalid or mortise.ErrNoScripts. While Redis cannot be read, it tries again and again.
func (w *Watcher) Run(ctx context.Context) error {
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
		case errors.Is(err, mortise.ErrDenied), errors.Is(err, mortise.ErrInvalid), errors.Is(err, mortise.ErrNoScripts):
			return err
		case err != nil:
			w.failed(err)
		}
		w.tell()
		if err := w.sleep(ctx, w.pause(err, int(w.driver.Meter.Sent()-before), max(0, time.Since(start)-w.driver.Meter.Waited()+waited))); err != nil {
			return err
		}
	}
}

// sleep sleeps for d, or until the next look shall come.
func (w *Watcher) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-w.awake:
		return gentle.Sleep(ctx, w.driver.Meter.Owed(1))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pause returns how long to wait after a look that took so many commands and so long.
func (w *Watcher) pause(err error, commands int, took time.Duration) time.Duration {
	if err != nil {
		return retryEvery
	}
	w.mu.Lock()
	idle := w.idle
	w.mu.Unlock()
	every := w.options.Every
	switch {
	case idle:
		return max(idleEvery, every)
	case w.quiet > restAfter:
		every = max(every, restEvery)
	}
	pause := max(every-took, 2*took, w.driver.Meter.Owed(commands))
	switch {
	case len(w.missing.now) > 0, w.stalled: // it is slow for that
	case pause > max(slowLook, 2*every) && pause > 2*w.told:
		w.told = pause
		w.note(&Note{Load: true, Text: fmt.Sprintf("looking every %v from now on: a look takes %s and %v", round(pause+took), count(int64(commands), "command"), took.Round(time.Millisecond))})
	case w.told > 0 && pause < slowLook/2:
		w.told = 0
		w.note(&Note{Text: "looking every " + round(pause+took).String() + " again"})
	}
	return pause
}
