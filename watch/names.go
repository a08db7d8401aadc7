package watch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
)

// Names returns the names whose keys to read in a look, most and a few more at most: those that decide about holds
// that the records do not list any more come first, then those that only their keys tell of, and those
// that are waited for. Of what there is too much of, another part is returned as turn goes on.
func Names(last *Snapshot, clients []mortise.ClientState, wanted func(string) bool, most, turn int) []string {
	if last == nil {
		last = &Snapshot{}
	}
	r := ranking{wanted: wanted, rank: make(map[string]int), listed: make(map[HoldKey]bool)}
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
	return append(chosen(r.rank, most, turn), checked(clients, r.rank, wanted, turn)...)
}

// ranking says which names are urgent.
type ranking struct {
	wanted func(string) bool
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

// checked returns names that records list as held, in turns, to find those whose lease is gone.
func checked(clients []mortise.ClientState, rank map[string]int, wanted func(string) bool, turn int) []string {
	var held []string
	for i := range clients {
		for _, h := range clients[i].Holds {
			if keyed[h.Kind] && rank[h.Lock] == 0 && wanted(h.Lock) {
				held = append(held, h.Lock)
			}
		}
	}
	slices.Sort(held)
	held = slices.Compact(held)
	if len(held) <= mostChecked {
		return held
	}
	var list []string
	for i := range mostChecked {
		list = append(list, held[(turn*mostChecked+i)%len(held)])
	}
	return list
}

// chosen returns the names with the lowest ranks, most at most, those of the last rank in turns.
func chosen(rank map[string]int, most, turn int) []string {
	names := make([]string, 0, len(rank))
	for name := range rank {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(rank[a]-rank[b], strings.Compare(a, b)) })
	if len(names) <= most {
		return names
	}
	last := rank[names[most-1]]
	from := slices.IndexFunc(names, func(n string) bool { return rank[n] == last })
	to := from
	for to < len(names) && rank[names[to]] == last {
		to++
	}
	part := names[from:to]
	list := slices.Clone(names[:from])
	for i := range most - from {
		list = append(list, part[(turn*(most-from)+i)%len(part)])
	}
	return list
}

// Holding reports whether the snapshot has a hold of a lock. S may be nil.
func (s *Snapshot) Holding(lock string) bool { return s != nil && s.held[lock] }
