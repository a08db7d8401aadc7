package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
)

// look looks once, and reports what has happened.
func (w *Watcher) look(ctx context.Context) error {
	w.stalled = false
	at, took, err := w.clock.Time(ctx)
	if err != nil {
		return meaning(err)
	}
	s := Sighting{At: at, States: make(map[string]mortise.State), Later: make(map[string]bool), Gap: w.failing()}
	first := 0
	w.missing.begin(func(server string) bool { return w.clock.Answers(ctx, server) })
	if w.search != nil {
		w.search.searcher.Trip(took)
		first = w.search.take(w.found)
		w.missing.add(w.search.takeFailure())
	}
	if s.Clients, err = w.client.Clients(ctx); err != nil && !w.missing.add(err) {
		return err
	}
	s.Unread = w.unread(s.Clients, err)
	w.searched(&s)
	read := make(map[string]mortise.State)
	for _, name := range w.names(w.clients) {
		server := w.driver.Shard(w.options.Prefix + name)
		if w.missing.has(server) { // since another name was asked for
			continue
		}
		state, err := w.client.Inspect(ctx, name)
		switch {
		case errors.Is(err, mortise.ErrInvalid): // anybody may have written the record
			state = mortise.State{Name: name}
		case err != nil && (ctx.Err() != nil || w.only != "" || !w.missing.silent(server, err)):
			return err
		case err != nil:
			continue
		}
		if f := w.found[name]; f != nil {
			s.Later[name] = f.later
			delete(w.found, name)
		}
		read[name] = state
	}
	w.lack(w.missing.end())
	w.read = read
	maps.Copy(s.States, read)
	w.seen(s)
	w.merge(ctx, s)
	w.leave(first)
	return nil
}

// searched adds the states that searches have read. A state is older than the records, and it may be older than what the look
// before has read: what these name is left to the keys.
func (w *Watcher) searched(s *Sighting) {
	recorded := make(map[string]bool)
	for i := range s.Clients {
		for _, h := range s.Clients[i].Holds {
			recorded[h.Lock] = true
		}
	}
	if w.last != nil {
		for key, h := range w.last.Holds {
			recorded[key.Lock] = recorded[key.Lock] || h.recorded
		}
	}
	for name, f := range w.found {
		_, read := w.read[name]
		switch state, lasts := f.now(); {
		case read || !lasts || recorded[name] && w.last.Holding(name):
			delete(w.found, name)
		case !recorded[name]:
			s.States[name], s.Later[name] = state, f.later
			delete(w.found, name)
		}
	}
}

// leave notes how many names are left to be read, after a look that has begun to read some of the first search. A lock is
// shown when its key was read twice.
func (w *Watcher) leave(first int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.found)+first+w.load.left > 0 {
		w.load.left = len(w.found) + len(w.last.young)
	}
}

// merge makes a snapshot of what was seen, and reports it.
func (w *Watcher) merge(ctx context.Context, s Sighting) {
	next := Merge(w.last, s, w.wanted)
	events := Diff(w.last, next)
	w.last = next
	if w.quiet++; len(events) > 0 {
		w.quiet = 0
	}
	if w.options.Look != nil {
		w.options.Look(&Look{next, w.clients})
	}
	if w.options.Event == nil {
		return
	}
	for i := range events {
		if w.options.Event(&events[i]); ctx.Err() != nil {
			return
		}
	}
}

// readable reports whether a name is to be watched, and the server that has it answers: else the names that it has are always
// those that were read the longest ago, and no other's turn comes.
func (w *Watcher) readable(name string) bool {
	return w.wanted(name) && !w.missing.has(w.driver.Shard(w.options.Prefix+name))
}

// wanted reports whether a name is to be watched.
func (w *Watcher) wanted(name string) bool { return Match(w.options.Pattern, name) }

// names returns the names whose keys are read in this look.
func (w *Watcher) names(clients []mortise.ClientState) []string {
	if w.only != "" {
		return []string{w.only}
	}
	most := max(2, w.options.Load/10)
	listed := make(map[string]bool)
	var names []string
	add := func(name string) {
		if !listed[name] {
			listed[name] = true
			names = append(names, name)
		}
	}
	for _, name := range Names(w.last, clients, w.readable, most) {
		add(name)
	}
	for name := range w.found {
		if len(names) >= most+most/2 {
			break
		}
		if w.readable(name) {
			add(name)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.shown {
		if w.wanted(name) {
			add(name)
		}
	}
	return names
}

// failing reports whether Redis could not be read in the look before.
func (w *Watcher) failing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.gap.IsZero()
}

// failed notes that Redis could not be read.
func (w *Watcher) failed(err error) {
	w.mu.Lock()
	first := w.gap.IsZero()
	if first {
		w.gap = time.Now()
	}
	w.load.Failures++
	w.load.Err = err
	w.mu.Unlock()
	if first {
		w.note(&Note{Text: "Redis cannot be read, going on until it can", Err: err})
	}
}

// seen notes that a look has succeeded.
func (w *Watcher) seen(s Sighting) {
	w.mu.Lock()
	gap := w.gap
	now := time.Now()
	if w.load.Looks++; w.load.Looks > 1 {
		w.load.Longest = max(w.load.Longest, now.Sub(w.load.Looked))
	}
	w.load.Looked, w.load.At, w.load.Err, w.gap = now, s.At, nil, time.Time{}
	w.load.sent(now, w.sent())
	w.mu.Unlock()
	if !gap.IsZero() {
		w.note(&Note{At: s.At, Text: fmt.Sprintf("Redis can be read again after %v; what happened meanwhile is only seen by its result", round(now.Sub(gap)))})
	}
}

// tell reports what is to be known of the search.
func (w *Watcher) tell() {
	if w.search == nil {
		return
	}
	for _, n := range w.search.takeNotes() {
		w.note(n)
	}
}

// note tells something. If the time is missing, it is now.
func (w *Watcher) note(n *Note) {
	if w.options.Note == nil {
		return
	}
	if n.At.IsZero() {
		n.At = w.now()
	}
	w.options.Note(n)
}

// now returns about the time of Redis' clock.
func (w *Watcher) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.load.At.IsZero() {
		return time.Now()
	}
	return w.load.At.Add(time.Since(w.load.Looked))
}

// meaning returns an error of the driver as the library's methods do.
func meaning(err error) error {
	also := map[driver.Class]error{
		driver.Denied: mortise.ErrDenied, driver.NoScripts: mortise.ErrNoScripts,
		driver.NotSent: mortise.ErrUnreachable, driver.Unknown: mortise.ErrUnreachable, driver.Passing: mortise.ErrUnreachable,
	}[driver.ClassOf(err)]
	if also == nil {
		return err
	}
	return fmt.Errorf("%w: %w", also, err)
}
