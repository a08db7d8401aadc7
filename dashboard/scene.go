package dashboard

import (
	"strings"
	"sync"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/watch"
)

// scene is the data of one look, indexed for the pages. It is immutable but for its lazy indexes.
type scene struct {
	look   *watch.Look                     // nil before the first one
	ends   map[watch.HoldKey]ending        // when leases end, as far as their keys were read lately
	cycles map[string]*suspect             // by the waits they consist of
	once   sync.Once                       // guards making the fields below
	locks  []watch.Lock                    // by pain
	byName map[string]*watch.Lock          // the same
	holds  map[string][]*watch.Hold        // by client
	waits  map[string][]*watch.Wait        // by client
	known  map[string]*mortise.ClientState // by client
	under  map[string][]*watch.Wait        // by the owner of the hold under which they are
	above  map[*watch.Wait][]string        // the owners of the holds under which a wait is
	owned  map[string]*watch.Hold          // by owner

	mu    sync.Mutex // guards cache
	cache map[string]*rendered
}

// steady is how much the end of a lease may seem to move because it is read with the time of another moment, and endFor
// is how long one is shown that was not read again: the lease may have been renewed.
const steady, endFor = 400 * time.Millisecond, 2 * time.Second

// ending is when a lease ends, and when that was read, by Redis' clock.
type ending struct{ at, read time.Time }

// newScene returns the scene of a look after another one. Without a look it is the same once more: something else has
// changed.
func newScene(last *scene, l *watch.Look) *scene {
	s := &scene{look: l, cache: make(map[string]*rendered)}
	switch {
	case last == nil:
		return s
	case l == nil:
		s.look, s.ends, s.cycles = last.look, last.ends, last.cycles
		return s
	}
	s.ends = make(map[watch.HoldKey]ending)
	for key, h := range l.Holds {
		now, before := ending{h.Until, l.At}, last.ends[key]
		switch {
		case before.at.IsZero():
		case now.at.IsZero() && l.At.Sub(before.read) < endFor:
			now = before
		case now.at.Sub(before.at).Abs() < steady:
			now.at = before.at
		}
		if !now.at.IsZero() {
			s.ends[key] = now
		}
	}
	s.cycles = suspects(last.cycles, l)
	return s
}

// snapshot returns that of the look; nil before the first one.
func (s *scene) snapshot() *watch.Snapshot {
	if s.look == nil {
		return nil
	}
	return s.look.Snapshot
}

// arrange sorts what was seen, once.
func (s *scene) arrange() {
	s.once.Do(func() {
		s.byName, s.known = make(map[string]*watch.Lock), make(map[string]*mortise.ClientState)
		s.holds, s.waits = make(map[string][]*watch.Hold), make(map[string][]*watch.Wait)
		if s.look == nil {
			return
		}
		s.locks = s.look.Locks()
		for i := range s.locks {
			l := &s.locks[i]
			s.byName[l.Name] = l
			for _, h := range l.Holds {
				s.holds[clientOf(&h.Party)] = append(s.holds[clientOf(&h.Party)], h)
			}
			for _, w := range l.Waits {
				s.waits[clientOf(&w.Party)] = append(s.waits[clientOf(&w.Party)], w)
			}
		}
		for i := range s.look.Clients {
			s.known[s.look.Clients[i].ID] = &s.look.Clients[i]
		}
		s.bind()
	})
}

// lock returns what was seen of a lock; nothing but its name if nothing was.
func (s *scene) lock(name string) *watch.Lock {
	s.arrange()
	if l := s.byName[name]; l != nil {
		return l
	}
	return &watch.Lock{Name: name}
}

// named returns a party with its process, if that is known: what the key of a lock shows, and what has ended, has none.
func (s *scene) named(party *watch.Party) *watch.Party {
	if s.look == nil || party.Named() || party.Kept() {
		return party
	}
	c, ok := s.look.Process(clientOf(party) + ":") // the client alone is no owner
	if !ok {
		return party
	}
	return &watch.Party{Owner: party.Owner, Client: c.ID, Host: c.Host, PID: c.PID, App: c.App, Command: c.Command()}
}

// end returns when the lease of a hold ends unless it is renewed; zero if that is not known.
func (s *scene) end(h *watch.Hold) time.Time {
	if e, ok := s.ends[watch.HoldKey{Lock: h.Lock, Owner: h.Party.Owner}]; ok {
		return e.at
	}
	return h.Until
}

// clientOf returns what tells the client of a party from others: its UUID, or else the owner.
func clientOf(p *watch.Party) string {
	if p.Client != "" {
		return p.Client
	}
	id, _, _ := strings.Cut(p.Owner, ":")
	return id
}

// counts reports whether a kind is a number in Redis, which has no holder: semaphores and latches.
func counts(kind string) bool {
	switch kind {
	case "semaphore", "latch", "permitsemaphore", "number":
		return true
	}
	return false
}
