package dashboard

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/watch"
)

// certainAfter is how long the waits of a cycle must have been seen together. A client that waits under a hold renews
// its record four times a second: what two looks see that are further apart than that was there between them.
const certainAfter = 600 * time.Millisecond

// suspect is a cycle of clients that wait for each other. The records in one look were read one after the other, so it
// is certain only when a later look has seen it, too.
type suspect struct {
	waits []link
	since time.Time // of the first look that has seen it, by Redis' clock
	at    time.Time // of the last one
}

// link is a wait of a client under its own holds.
type link struct {
	client *mortise.ClientState
	wait   *mortise.ClientWait
}

func (s *suspect) certain() bool { return s.at.Sub(s.since) >= certainAfter }

// deadlocks returns the cycles that are certain, in an order that does not change.
func (s *scene) deadlocks() (list []*suspect) {
	for _, one := range s.cycles {
		if one.certain() {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b *suspect) int { return strings.Compare(cycleKey(a.waits), cycleKey(b.waits)) })
	return list
}

// inDeadlock reports whether the last look has seen a cycle with a wait for one of these locks.
func (s *scene) inDeadlock(locks []string) bool {
	for _, one := range s.cycles {
		if slices.ContainsFunc(one.waits, func(l link) bool { return slices.Contains(locks, l.wait.Lock) }) {
			return true
		}
	}
	return false
}

// suspects returns the cycles that a look has seen.
func suspects(last map[string]*suspect, l *watch.Look) map[string]*suspect {
	found := make(map[string]*suspect)
	c := chains{held: make(map[string]string), under: make(map[string][]link)}
	for i := range l.Clients {
		c.add(&l.Clients[i])
	}
	passed := make(map[*mortise.ClientWait]bool) // leads into no cycle, or into one that is known
	for _, waits := range c.under {
		for _, first := range waits {
			if cycle := c.follow(first, passed); cycle != nil {
				key := cycleKey(cycle)
				one := &suspect{waits: cycle, since: l.At, at: l.At}
				if before := last[key]; before != nil {
					one.since = before.since
				}
				found[key] = one
			}
		}
	}
	return found
}

// chains are the waits under holds.
type chains struct {
	held  map[string]string // the name of the lock, by the owner that holds it
	under map[string][]link // the waits under a hold, by its owner
}

// add adds what a client publishes, as far as it is about the client itself: records can be forged.
func (c *chains) add(client *mortise.ClientState) {
	own := func(owner string) bool { return strings.HasPrefix(owner, client.ID+":") }
	for _, h := range client.Holds {
		if own(h.Owner) {
			c.held[h.Owner] = h.Lock
		}
	}
	for i := range client.Waits {
		w := &client.Waits[i]
		for _, owner := range w.Under {
			if own(owner) {
				c.under[owner] = append(c.under[owner], link{client, w})
			}
		}
	}
}

// follow returns the cycle into which a wait leads, or nil.
func (c *chains) follow(first link, passed map[*mortise.ClientWait]bool) []link {
	var way []link
	place := make(map[*mortise.ClientWait]int)
	for at := first; !passed[at.wait]; {
		passed[at.wait] = true
		place[at.wait] = len(way)
		way = append(way, at)
		next := c.under[at.wait.For]
		if c.held[at.wait.For] != at.wait.Lock || len(next) != 1 {
			return nil // the holder may get on
		}
		at = next[0]
		if i, ok := place[at.wait]; ok {
			return fromOldest(way[i:])
		}
	}
	return nil
}

// fromOldest returns a cycle so that it begins with its oldest wait, whichever it was found from.
func fromOldest(cycle []link) []link {
	first := 0
	for i, l := range cycle {
		if cmp.Or(l.wait.Since.Compare(cycle[first].wait.Since), cmp.Compare(l.client.ID, cycle[first].client.ID), cmp.Compare(l.wait.Lock, cycle[first].wait.Lock)) < 0 {
			first = i
		}
	}
	return slices.Concat(cycle[first:], cycle[:first])
}

// cycleKey names the waits of a cycle, whichever it begins with.
func cycleKey(cycle []link) string {
	var keys []string
	for _, l := range cycle {
		keys = append(keys, strconv.Quote(l.client.ID)+" "+strconv.FormatInt(l.wait.Since.UnixMilli(), 10)+" "+strconv.Quote(l.wait.Lock))
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}
