package watch

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Diff returns what has happened between two snapshots, in the order of time. Last is nil for the first
// one; then it reports what there is.
func Diff(last, now *Snapshot) []Event {
	d := differ{last: last, now: now, first: last == nil, begun: make(map[string][]*Hold)}
	if last == nil {
		d.last = &Snapshot{}
	}
	for key, h := range now.Holds {
		if begun(d.last.Holds[key], h) {
			d.begun[h.Lock] = append(d.begun[h.Lock], h)
		}
	}
	d.ends()
	d.begins()
	d.waits()
	d.asks()
	slices.SortStableFunc(d.events, func(a, b Event) int {
		return cmp.Or(a.Time.Compare(b.Time), rank[a.Type]-rank[b.Type], strings.Compare(a.Lock, b.Lock), strings.Compare(a.Party.Owner, b.Party.Owner))
	})
	return d.events
}

// rank is the order of events at the same time.
var rank = map[Type]int{Asked: 1, Released: 2, Lost: 2, Held: 3, Acquired: 3, Granted: 3, Waiting: 4, GaveUp: 5}

type differ struct {
	last, now *Snapshot
	first     bool
	begun     map[string][]*Hold // that have begun since, by lock
	younger   map[string][]*Hold // that there are now, of locks with a hold that has ended
	events    []Event
}

// event returns an event that is seen now.
func (d *differ) event(t Type, at time.Time, lock, kind string, p Party) Event {
	return Event{Type: t, Time: at, Seen: d.now.At, Lock: lock, Kind: kind, Party: p, Waited: -1, Held: -1}
}

// ends reports the holds that have ended.
func (d *differ) ends() {
	over := make(map[HoldKey]Ending)
	for key, h := range d.last.Holds {
		switch next := d.now.Holds[key]; {
		case next == nil:
			over[key] = d.now.ended[key]
		case begun(h, next):
			over[key] = Ending{}
		}
	}
	if len(over) > 0 {
		d.younger = d.heldAfter(over)
	}
	for key, how := range over {
		d.end(d.last.Holds[key], how)
	}
}

// heldAfter returns the holds that there are now, of the locks of those that are over.
func (d *differ) heldAfter(over map[HoldKey]Ending) map[string][]*Hold {
	held := make(map[string][]*Hold)
	for key := range over {
		held[key.Lock] = nil
	}
	for key, h := range d.now.Holds {
		if list, wanted := held[key.Lock]; wanted {
			held[key.Lock] = append(list, h)
		}
	}
	return held
}

// end reports the end of a hold: not later than another one has begun that excludes it.
func (d *differ) end(h *Hold, how Ending) {
	at := d.now.At
	if !how.at.IsZero() {
		at = how.at
	}
	for _, next := range slices.Concat(d.begun[h.Lock], d.younger[h.Lock]) {
		if next.Exact && next.Since.After(h.Since) && next.Since.Before(at) && excludes(h, next) {
			at = next.Since
		}
	}
	e := d.event(Released, at, h.Lock, h.Kind, h.Party)
	if how.Lost {
		e.Type = Lost
	}
	e.Unsure, e.Why, e.Token, e.since = how.Unsure, how.Why, h.Token, h.Since
	if e.Held = max(0, at.Sub(h.Since)); h.Found && !h.Exact {
		e.Held = -1 // since when it was held before it was seen is not known
	}
	d.events = append(d.events, e)
}

// begins reports the holds that have begun, also of those that have ended already.
func (d *differ) begins() {
	for _, list := range d.begun {
		for _, h := range list {
			d.begin(h)
		}
	}
	for _, h := range d.now.brief {
		d.begin(h)
		d.end(h, Ending{})
		if !h.Exact {
			d.events[len(d.events)-1].Held = -1 // it was seen once, and may have lasted for any part of the time between two looks
		}
	}
}

func (d *differ) begin(h *Hold) {
	e := d.event(Acquired, h.Since, h.Lock, h.Kind, h.Party)
	switch {
	case d.first || h.Found:
		e.Type = Held
	case h.Waited >= 0 && h.From != nil:
		e.Type = Granted
	}
	e.Token, e.Waited, e.From, e.since = h.Token, h.Waited, h.From, h.Since
	if e.Type == Held {
		e.From = nil
		if h.Exact {
			e.Held = max(0, d.now.At.Sub(h.Since))
		}
	}
	d.events = append(d.events, e)
}

// waits reports the waits that have begun, and those that have ended without a hold.
func (d *differ) waits() {
	for key, w := range d.now.Waits {
		if d.last.Waits[key] != nil {
			continue
		}
		e := d.event(Waiting, w.Since, w.Lock, w.Kind, w.Party)
		e.since, e.For = w.Since, d.inTheWay(w)
		d.events = append(d.events, e)
	}
	for key, w := range d.last.Waits {
		if d.now.Waits[key] != nil || d.now.served[key] {
			continue
		}
		at := d.now.At
		if !w.left.IsZero() {
			at = w.left
		}
		e := d.event(GaveUp, at, w.Lock, w.Kind, w.Party)
		e.Waited, e.Unsure, e.since = max(0, at.Sub(w.Since)), true, w.Since
		d.events = append(d.events, e)
	}
}

// asks reports the requests that have come.
func (d *differ) asks() {
	for key, r := range d.now.Asked {
		if _, known := d.last.Asked[key]; known {
			continue
		}
		e := d.event(Asked, d.now.At, r.Lock, "", r.Party)
		e.By, e.Reason = r.By, r.Reason
		if h := d.now.Holds[key]; h != nil {
			e.Kind, e.Held, e.since = h.Kind, max(0, d.now.At.Sub(h.Since)), h.Since
		}
		d.events = append(d.events, e)
	}
}

// inTheWay returns the holder that a waiter waits for: the waiter's own word goes first. It returns nil
// if it is not known.
func (d *differ) inTheWay(w *Wait) *Party {
	if w.For.Owner != "" {
		return &w.For
	}
	if !d.now.held[w.Lock] {
		return nil
	}
	var first *Hold
	for _, h := range d.now.Holds {
		if h.Lock == w.Lock && (first == nil || h.Since.Before(first.Since) || h.Since.Equal(first.Since) && h.Party.Owner < first.Party.Owner) {
			first = h
		}
	}
	return &first.Party
}
