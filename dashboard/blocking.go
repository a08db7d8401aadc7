package dashboard

import (
	"cmp"
	"slices"

	"github.com/mortise-go/mortise/watch"
)

// The tree of who blocks whom is bounded in each direction.
const (
	mostRoots    = 3
	mostBranches = 4
	deepest      = 5
	mostBehind   = 5000 // clients that are counted behind one
)

// root is a client with holds that others wait for, and that do not wait themselves.
type root struct {
	party  *watch.Party
	holds  []*watch.Hold // the one with most waiters first
	behind int           // clients that wait for it, also through others
	direct int           // waits for what it holds
}

// bind finds out which waits are under which holds: those whose context is that of the hold. Another wait of the same
// client is one of another goroutine, which keeps the holder from nothing.
func (s *scene) bind() {
	s.under, s.above, s.owned = make(map[string][]*watch.Wait), make(map[*watch.Wait][]string), make(map[string]*watch.Hold)
	for _, h := range s.look.Holds {
		if h.Former {
			continue
		}
		s.owned[short(h.Party.Owner)] = h
	}
	for i := range s.look.Clients {
		c := &s.look.Clients[i]
		listed := make(map[watch.WaitKey]bool)
		for j := range c.Waits {
			w := &c.Waits[j]
			key := watch.WaitKey{Lock: w.Lock, Kind: w.Kind, Client: c.ID, Since: w.Since.UnixMilli()}
			for listed[key] {
				key.Nth++
			}
			listed[key] = true
			wait := s.look.Waits[key]
			if wait == nil {
				continue
			}
			for _, owner := range w.Under {
				if h := s.owned[short(owner)]; h != nil && clientOf(&h.Party) == c.ID { // records can be forged
					s.under[short(owner)] = append(s.under[short(owner)], wait)
					s.above[wait] = append(s.above[wait], short(owner))
				}
			}
		}
	}
}

// roots returns the clients that block most others, and how many there are in all. What waits in a cycle has no root.
func (s *scene) roots() (list []root, all int) {
	s.arrange()
	for id, holds := range s.holds {
		r := root{party: &holds[0].Party}
		counted := make(map[string]bool) // a client can hold a lock twice, as a reader
		for _, h := range holds {
			if n := s.othersWaiting(h.Lock, id); n > 0 && !counted[h.Lock] && s.blockedIn(h) == nil {
				counted[h.Lock] = true
				r.holds = append(r.holds, h)
				r.direct += n
			}
		}
		if len(r.holds) > 0 {
			slices.SortFunc(r.holds, func(a, b *watch.Hold) int { return watch.ByPain(s.byName[a.Lock], s.byName[b.Lock]) })
			list = append(list, r)
		}
	}
	order := func(a, b root) int {
		return cmp.Or(b.behind-a.behind, b.direct-a.direct, watch.ByPain(s.byName[a.holds[0].Lock], s.byName[b.holds[0].Lock]), cmp.Compare(clientOf(a.party), clientOf(b.party)))
	}
	slices.SortFunc(list, order)
	all = len(list)
	list = list[:min(all, 5*mostRoots)]
	for i := range list {
		list[i].behind = s.behind(&list[i])
	}
	slices.SortFunc(list, order)
	return list[:min(len(list), mostRoots)], all
}

// othersWaiting returns how many waits for a lock are not those of a client.
func (s *scene) othersWaiting(lock, client string) (n int) {
	for _, w := range s.byName[lock].Waits {
		if clientOf(&w.Party) != client {
			n++
		}
	}
	return n
}

// blockedIn returns a wait that keeps the holder from releasing, or nil. If several goroutines wait under the hold, one
// of them may get on.
func (s *scene) blockedIn(h *watch.Hold) *watch.Wait {
	if waits := s.under[short(h.Party.Owner)]; len(waits) == 1 && len(s.inTheWay(waits[0])) > 0 {
		return waits[0]
	}
	return nil
}

// inTheWay returns the holds that a wait is for, the oldest first: all of the lock, but for those under which it waits.
func (s *scene) inTheWay(w *watch.Wait) (holds []*watch.Hold) {
	for _, h := range s.lock(w.Lock).Holds {
		if !slices.Contains(s.above[w], short(h.Party.Owner)) && (w.Kind != "rwlock.read" || h.Kind != "rwlock.read") {
			holds = append(holds, h)
		}
	}
	return holds
}

// held returns the holds under which a wait is.
func (s *scene) held(w *watch.Wait) (holds []*watch.Hold) {
	for _, owner := range s.above[w] {
		holds = append(holds, s.owned[owner])
	}
	return holds
}

// behind returns how many clients wait for what a root holds, or for what those hold, and so on.
func (s *scene) behind(r *root) int {
	seen := map[string]bool{clientOf(r.party): true}
	passed := make(map[*watch.Hold]bool)
	next := slices.Clone(r.holds)
	for len(next) > 0 && len(passed) < mostBehind {
		h := next[0]
		next = next[1:]
		if passed[h] {
			continue
		}
		passed[h] = true
		for _, w := range s.byName[h.Lock].Waits {
			seen[clientOf(&w.Party)] = true
			next = append(next, s.held(w)...)
		}
	}
	return len(seen) - 1
}

// way returns the chain of holds from a wait to what blocks it in the end: the first one is in its way, the second one
// in the way of that, and so on. It ends with a hold that is in it already, or that is under, if there is a cycle.
func (s *scene) way(w *watch.Wait, under *watch.Hold) (chain []*watch.Hold) {
	seen := map[*watch.Hold]bool{under: true}
	for w != nil && len(chain) < deepest {
		holds := s.inTheWay(w)
		if len(holds) == 0 {
			return chain
		}
		h := holds[0]
		chain = append(chain, h)
		if seen[h] {
			return chain
		}
		seen[h] = true
		w = s.blockedIn(h)
	}
	return chain
}
