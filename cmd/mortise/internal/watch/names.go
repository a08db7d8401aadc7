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
	listed := make(map[HoldKey]bool)
	rank := make(map[string]int) // 1 is the most urgent
	add := func(name string, r int) {
		if old := rank[name]; wanted(name) && (old == 0 || r < old) {
			rank[name] = r
		}
	}
	for i := range clients {
		c := &clients[i]
		for _, h := range c.Holds {
			listed[HoldKey{h.Lock, h.Owner}] = true
			if keyed[h.Kind] && c.Silent > silence*2/3+time.Second {
				add(h.Lock, 2)
			}
		}
		for _, w := range c.Waits {
			add(w.Lock, 3)
		}
	}
	for key := range last.claims {
		if listed[key] {
			add(key.Lock, 1)
		}
	}
	for key := range last.young {
		add(key.Lock, 1)
	}
	for key, h := range last.Holds {
		switch {
		case h.recorded && !listed[key] && keyed[h.Kind]:
			add(key.Lock, 1)
		case !h.recorded:
			add(key.Lock, 2)
		}
	}
	return append(chosen(rank, most, turn), checked(clients, rank, wanted, turn)...)
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
