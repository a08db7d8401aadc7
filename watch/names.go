package watch

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
)

// Names returns the names whose keys to read in a look, most and a few more at most: those that decide about holds
// that the records do not list any more come first, then those that only their keys show, and those
// that are waited for. Of what there is too much of, those come first that were read the longest ago.
func Names(last *Snapshot, clients []mortise.ClientState, wanted func(string) bool, most int) []string {
	if last == nil {
		last = &Snapshot{}
	}
	r := ranking{wanted: wanted, viewed: last.viewed, rank: make(map[string]int), listed: make(map[HoldKey]bool)}
	for i := range clients {
		r.client(&clients[i])
	}
	for key := range last.claims {
		if r.listed[key] {
			r.add(key.Lock, 1)
		}
	}
	for key := range last.young {
		r.add(key.Lock, 1)
	}
	for key, h := range last.Holds {
		switch {
		case h.recorded && !r.listed[key] && keyed[h.Kind]:
			r.add(key.Lock, 1)
		case !h.recorded:
			r.add(key.Lock, 2)
		}
	}
	return append(r.first(slices.Collect(maps.Keys(r.rank)), most), r.checked(clients)...)
}

// ranking says which names are urgent.
type ranking struct {
	wanted func(string) bool
	viewed map[string]time.Time
	rank   map[string]int   // 1 is the most urgent
	listed map[HoldKey]bool // holds in records
}

func (r *ranking) add(name string, rank int) {
	if old := r.rank[name]; r.wanted(name) && (old == 0 || rank < old) {
		r.rank[name] = rank
	}
}

// client ranks what the record of a client lists.
func (r *ranking) client(c *mortise.ClientState) {
	for _, h := range c.Holds {
		r.listed[HoldKey{h.Lock, h.Owner}] = true
		if keyed[h.Kind] && c.Silent > silence*2/3+time.Second {
			r.add(h.Lock, 2)
		}
	}
	for _, w := range c.Waits {
		r.add(w.Lock, 3)
	}
}

// mostChecked is how many keys are read in a look although nothing makes them doubtful.
const mostChecked = 2

// checked returns names that records list as held, to find those whose lease is gone.
func (r *ranking) checked(clients []mortise.ClientState) []string {
	held := make(map[string]bool)
	for i := range clients {
		for _, h := range clients[i].Holds {
			if keyed[h.Kind] && r.rank[h.Lock] == 0 && r.wanted(h.Lock) {
				held[h.Lock] = true
			}
		}
	}
	return r.first(slices.Collect(maps.Keys(held)), mostChecked)
}

// first returns the most urgent of some names, most at most.
func (r *ranking) first(names []string, most int) []string {
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(r.rank[a]-r.rank[b], r.viewed[a].Compare(r.viewed[b]), strings.Compare(a, b))
	})
	return names[:min(most, len(names))]
}

// Holding reports whether the snapshot has a hold of a lock. S may be nil.
func (s *Snapshot) Holding(lock string) bool { return s != nil && s.held[lock] }
