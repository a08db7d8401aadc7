package recorder

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
	"github.com/mortise-go/mortise/internal/waiting"
)

// Waiters that wait for each other in a cycle are found in the records of their clients. Each
// client looks for the cycles that its own waits are part of: from the wait to the lease in
// the way, from there to the wait under that lease, and so on.
//
// Records are read one after the other, so what they show did not necessarily exist at one
// moment. So a cycle counts only when it was seen in two looks, and then in a later one in
// records that all describe a time after the second look had read the former ones: all its waits,
// which have serial numbers, and all its holds existed at the end of the first look. A record that
// is written late may describe the distant past. Requiring that it was made after Redis had
// confirmed an edition higher than the one that the second look has read rules that out.

// mostLinks is the length of the longest cycle that is found.
const mostLinks = 128

// cycles are those that a client has seen, by the serial number of its wait. A wait may be in
// several, one after the other: another wait has failed, and somebody else has the lock.
type cycles map[uint64]*cycle

// cycle is the cycle that was seen last.
type cycle struct {
	since time.Time // when the wait was first looked at
	next  time.Time // no look before

	key      string // names its waits; empty if none was seen
	looks    int
	editions map[string]uint64 // of the records that the second look has read
	told     map[string]bool   // the keys of those that were reported
}

// look looks for cycles, and returns when to look again.
func (cs *cycles) look(ctx context.Context, r *Recorder, s *waiting.Scene) time.Duration {
	c := r.client
	self := &record.Client{ID: c.ID(), Body: r.self, Now: time.Now(), At: time.Now()}
	for _, w := range s.Waits {
		self.Body.Waits = append(self.Body.Waits, w.Wait)
	}
	read := map[string]*record.Client{c.ID(): self}
	last := *cs
	*cs = make(cycles)
	var looked []*cycle
	for _, w := range s.Waits {
		seen := last[w.Serial]
		if seen == nil {
			seen = &cycle{told: make(map[string]bool), since: self.Now}
		}
		if len(w.Under) == 0 {
			continue
		}
		(*cs)[w.Serial] = seen
		if self.Now.Before(seen.next) {
			continue
		}
		waits := r.followCycle(ctx, read, w.Wait)
		if key := keyOf(waits); key != seen.key {
			seen.key, seen.looks = key, 0
		}
		if waits != nil && !seen.told[seen.key] && seen.certain(c.ID(), waits) {
			seen.told[seen.key] = r.closeCycle(w.Wait, waits)
		}
		looked = append(looked, seen)
	}
	for _, seen := range looked {
		seen.pace(self.Now, len(read)-1)
	}
	return settles
}

// The youngest wait of a cycle closes it, so a wait looks often at first, and seldom later. A look along
// a long row of waits reads many records: it is followed by a pause as long as that number allows. None
// of this delays a look at a cycle that was seen and is not certain yet.
const (
	youngFor   = 3 * time.Second
	youngReads = 100 // a second
	oldPause   = time.Second
	oldJitter  = 500 * time.Millisecond
	oldReads   = 40 // a second
)

// pace sets when the next look is due, after one that has read that many records.
func (k *cycle) pace(now time.Time, reads int) {
	k.next = now
	switch {
	case k.key != "" && !k.told[k.key]:
	case now.Sub(k.since) <= youngFor:
		k.next = now.Add(time.Duration(reads) * time.Second / youngReads)
	default:
		k.next = now.Add(max(oldPause+dice.N(oldJitter), time.Duration(reads)*time.Second/oldReads))
	}
}

// followCycle returns the cycle that w is part of, which it begins with, or nil.
func (r *Recorder) followCycle(ctx context.Context, read map[string]*record.Client, w record.Wait) (waits []record.CycleWait) {
	at := record.CycleWait{Wait: w, Record: read[r.client.ID()]}
	for len(waits) < mostLinks && at.For != "" {
		if slices.ContainsFunc(waits, at.Same) {
			return nil // it leads into a cycle that w is not part of
		}
		waits = append(waits, at)
		id := script.ClientOf(at.For)
		of, ok := read[id]
		if !ok && script.IsMortise(at.For) {
			if list, _, err := r.others.read(ctx, id); err == nil && len(list) == 1 {
				of = list[0]
			}
			read[id] = of
		}
		next := waitUnder(of, at.Name, at.For)
		if next == nil {
			return nil
		}
		if at = (record.CycleWait{Wait: *next, Record: of}); at.Same(waits[0]) {
			return waits
		}
	}
	return nil
}

// waitUnder returns the only wait under the lease of that owner on the lock called name, or nil. r may
// be nil.
func waitUnder(r *record.Client, name, owner string) (found *record.Wait) {
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

// keyOf names the waits of a cycle, whichever comes first.
func keyOf(waits []record.CycleWait) string {
	names := make([]string, len(waits))
	for i, w := range waits {
		names[i] = w.Record.ID + " " + strconv.FormatUint(w.Serial, 10) + " " + w.For
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// certain notes that the cycle was seen once more, and reports whether it existed.
func (k *cycle) certain(self string, waits []record.CycleWait) bool {
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

// closeCycle reports a cycle, and ends the wait w of this client if it is the one to fail. It
// reports false if w is over.
func (r *Recorder) closeCycle(w record.Wait, waits []record.CycleWait) bool {
	var fails *record.CycleWait
	for i := range waits {
		if v := &waits[i]; v.Fails && (fails == nil || younger(v, fails)) {
			fails = v
		}
	}
	return r.queues.EndWait(w.Serial, r.client.Errors().Deadlock(waits), fails != nil && fails.Same(waits[0]))
}

// younger reports whether w began later than v. All clients of a cycle come to the same answer.
func younger(w, v *record.CycleWait) bool {
	return cmp.Or(cmp.Compare(w.Since, v.Since), cmp.Compare(w.Record.ID, v.Record.ID), cmp.Compare(w.Serial, v.Serial)) > 0
}
