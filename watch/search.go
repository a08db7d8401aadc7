package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/gentle"
)

const (
	// searchEvery is the shortest time between the beginnings of two searches, and slowSearch when one is
	// worth a note.
	searchEvery = time.Second
	slowSearch  = 5 * time.Second
	// searchShare is the part of the load that searches may have.
	searchShare = 0.3
	// serverShare is the part of a server's time that searches may have for each command a second of the
	// load, and mostShare all of it.
	serverShare = 0.01 / 100
	mostShare   = 0.25
	// mostFound is how many names a search may leave to the next look.
	mostFound = 10_000
)

// search searches for locks that no record lists.
type search struct {
	searcher *gentle.Searcher
	client   *mortise.Client
	pattern  string

	mu     sync.Mutex        // guards the fields below
	found  map[string]*found // since the look before
	first  int               // how many of these the first search has found
	notes  []*Note
	passes int
	took   time.Duration // the last search
	keys   int64         // of the last search
	said   time.Duration
	failed error // of the last search
	fresh  error // the same, once
}

// found is a lock that searches have found.
type found struct {
	state mortise.State // as it was read last
	at    time.Time     // when, by this machine's clock
	later bool          // the first search has not found it
}

// now returns the state with the lease that is left now, and false if it has ended.
func (f *found) now() (mortise.State, bool) {
	s := f.state
	if s.TTL <= 0 {
		return s, true
	}
	s.TTL -= time.Since(f.at)
	return s, s.TTL > 0
}

func newSearch(d *gentle.Driver, o *Options) *search {
	load := float64(o.Load)
	return &search{
		searcher: &gentle.Searcher{Driver: *d, Pages: gentle.NewMeter(load * searchShare), Share: min(mostShare, load*serverShare)},
		pattern:  o.Pattern, found: make(map[string]*found),
	}
}

// run searches until ctx ends.
func (s *search) run(ctx context.Context) {
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
func (s *search) pass(ctx context.Context) error {
	for state, err := range s.client.Locks(ctx, s.pattern) {
		if err != nil {
			return err
		}
		s.add(&state)
	}
	return nil
}

// add notes the state of a lock.
func (s *search) add(state *mortise.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.found[state.Name]
	if f == nil {
		if len(s.found) == mostFound {
			return
		}
		f = &found{later: s.passes > 0}
		s.found[state.Name] = f
		if !f.later {
			s.first++
		}
	}
	f.state, f.at = *state, time.Now()
}

// end notes the end of a search, and reports whether it was the last one.
func (s *search) end(err error, took time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		denied := errors.Is(err, mortise.ErrDenied)
		if s.failed == nil && (denied || !errors.Is(err, mortise.ErrUnreachable)) {
			s.notes = append(s.notes, &Note{Text: "the keys cannot be searched, so only clients of mortise are seen that do not hide", Err: err})
		}
		s.failed, s.fresh = err, err
		return denied
	}
	s.failed = nil
	s.passes++
	s.took, s.keys = took, s.searcher.Keys()
	if took > slowSearch && took > 2*s.said {
		s.said = took
		s.notes = append(s.notes, &Note{Text: fmt.Sprintf("a search of the keys, about %s, takes %v: Redisson's locks are seen that late", grouped(s.keys), round(took))})
	}
	return false
}

// take moves what was found to all, and returns how much of it the first search has found.
func (s *search) take(all map[string]*found) (first int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = s.first
	for name, f := range s.found {
		old := all[name]
		if old == nil && len(all) == mostFound {
			continue
		}
		f.later = f.later && (old == nil || old.later)
		all[name] = f
	}
	s.found, s.first = make(map[string]*found), 0
	return first
}

// takeFailure returns why a search that has ended since is not complete; nil if none has, or it is.
func (s *search) takeFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.fresh
	s.fresh = nil
	return err
}

func (s *search) takeNotes() (notes []*Note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	notes, s.notes = s.notes, nil
	return notes
}

// result returns what was seen of the searches.
func (s *search) result() *Search {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &Search{Passes: s.passes, Took: s.took, Keys: s.keys, Left: s.first, Err: s.failed}
	if s.passes == 0 {
		r.Keys = s.searcher.Keys()
	}
	return r
}
