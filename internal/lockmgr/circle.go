package lockmgr

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/dice"
	"github.com/mortise-go/mortise/internal/record"
	"github.com/mortise-go/mortise/internal/script"
)

// Waiters that wait for each other in a circle are found in the records of their clients. Each
// client looks for the circles that its own waits are part of: from the wait to the lease in
// the way, from there to the wait under that lease, and so on.
//
// Records are read one after the other, so what they show did not necessarily exist at one
// moment. So a circle counts only when it was seen in two looks, and then in a later one in
// records that all tell of a time after the second look had read the former ones: all its waits,
// which have serial numbers, and all its holds existed at the end of the first look. A record that
// was written late may tell of a time long before. It does not if it was made after Redis had
// confirmed an edition that the second look has not read yet.

// mostLinks is the length of the longest circle that is found.
const mostLinks = 128

// circles are those that a client has seen, by the serial number of its wait. A wait may be in
// several, one after the other: another wait has failed, and somebody else has the lock.
type circles map[uint64]*circle

// circle is the circle that was seen last.
type circle struct {
	since time.Time // when the wait was first looked at
	next  time.Time // no look before

	key      string // names its waits; empty if none was seen
	looks    int
	editions map[string]uint64 // of the records that the second look has read
	told     map[string]bool   // the keys of those that were told
}

// CircleWait is one wait of a circle.
type CircleWait struct {
	record.Wait
	Record *Record
}

// look looks for circles, and returns when to look again.
func (cs *circles) look(ctx context.Context, r *recorder, s *scene) time.Duration {
	c := r.client
	self := &Record{ID: c.id, Body: r.self, Now: time.Now(), At: time.Now()}
	for _, w := range s.waits {
		self.Body.Waits = append(self.Body.Waits, w.Wait)
	}
	read := map[string]*Record{c.id: self}
	last := *cs
	*cs = make(circles)
	for _, w := range s.waits {
		seen := last[w.Serial]
		if seen == nil {
			seen = &circle{told: make(map[string]bool), since: self.Now}
		}
		if len(w.Under) == 0 {
			continue
		}
		(*cs)[w.Serial] = seen
		if self.Now.Before(seen.next) {
			continue
		}
		waits := c.followCircle(ctx, read, w.Wait)
		if key := keyOf(waits); key != seen.key {
			seen.key, seen.looks = key, 0
		}
		if waits != nil && !seen.told[seen.key] && seen.certain(c.id, waits) {
			seen.told[seen.key] = c.closeCircle(w, waits)
		}
		seen.pace(self.Now)
	}
	return settles
}

// The youngest wait of a circle closes it, so a wait looks often at first. Later it looks seldom, unless it
// has seen a circle that is not certain yet: otherwise those that wait in a long row would read much.
const (
	youngFor  = 3 * time.Second
	oldPause  = 2 * time.Second
	oldJitter = 500 * time.Millisecond
)

// pace sets when the next look is due.
func (k *circle) pace(now time.Time) {
	certain := k.key == "" || k.told[k.key]
	if k.next = now; certain && now.Sub(k.since) > youngFor {
		k.next = now.Add(oldPause + dice.N(oldJitter))
	}
}

// followCircle returns the circle that w is part of, which it begins with, or nil.
func (c *Client) followCircle(ctx context.Context, read map[string]*Record, w record.Wait) (waits []CircleWait) {
	at := CircleWait{w, read[c.id]}
	for len(waits) < mostLinks && at.For != "" {
		if slices.ContainsFunc(waits, at.same) {
			return nil // it leads into a circle that w is not part of
		}
		waits = append(waits, at)
		id := script.ClientOf(at.For)
		r, ok := read[id]
		if !ok && script.IsMortise(at.For) {
			if list, err := c.others.read(ctx, id); err == nil && len(list) == 1 {
				r = list[0]
			}
			read[id] = r
		}
		next := r.waitUnder(at.Name, at.For)
		if next == nil {
			return nil
		}
		if at = (CircleWait{*next, r}); at.same(waits[0]) {
			return waits
		}
	}
	return nil
}

// same reports whether w and v are the same wait.
func (w CircleWait) same(v CircleWait) bool {
	return w.Serial == v.Serial && w.Record.ID == v.Record.ID
}

// waitUnder returns the only wait under the lease of that owner on the lock called name, or nil. r may
// be nil.
func (r *Record) waitUnder(name, owner string) (found *record.Wait) {
	if r == nil {
		return nil
	}
	for i := range r.Body.Waits {
		if w := &r.Body.Waits[i]; slices.Contains(w.Under, record.Under{Name: name, Owner: owner}) {
			if found != nil {
				return nil
			}
			found = w
		}
	}
	return found
}

// keyOf names the waits of a circle, whichever comes first.
func keyOf(waits []CircleWait) string {
	names := make([]string, len(waits))
	for i, w := range waits {
		names[i] = w.Record.ID + " " + strconv.FormatUint(w.Serial, 10) + " " + w.For
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// certain notes that the circle was seen once more, and reports whether it existed.
func (k *circle) certain(self string, waits []CircleWait) bool {
	k.looks++
	if k.looks < 2 {
		return false
	}
	later := k.looks > 2
	if k.looks == 2 {
		k.editions = make(map[string]uint64)
	}
	for _, w := range waits {
		id := w.Record.ID
		if id == self {
			continue
		}
		if k.looks == 2 {
			k.editions[id] = w.Record.Edition
		} else if w.Record.Body.Confirmed <= k.editions[id] {
			later = false
		}
	}
	return later
}

// closeCircle tells of a circle, and ends the wait w of this client if it is the one to fail. It
// reports false if w is over.
func (c *Client) closeCircle(w waiting, waits []CircleWait) bool {
	err := c.errors.Deadlock(waits)
	var fails *CircleWait
	for i := range waits {
		if v := &waits[i]; v.Fails && (fails == nil || v.younger(fails)) {
			fails = v
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.waiter.in == nil {
		return false
	}
	if !w.waiter.ends { // else it ends in a moment
		w.waiter.circle, w.waiter.ends = err, fails != nil && fails.same(waits[0])
		w.waiter.signal()
	}
	return true
}

// younger reports whether w began later than v. All clients of a circle come to the same answer.
func (w *CircleWait) younger(v *CircleWait) bool {
	return cmp.Or(cmp.Compare(w.Since, v.Since), cmp.Compare(w.Record.ID, v.Record.ID), cmp.Compare(w.Serial, v.Serial)) > 0
}
