package watch

import "strings"

// succeed notes which hold has come after which.
func (m *merger) succeed() {
	for name, f := range m.last.before {
		if m.now.At.Sub(f.at) < formerLasts {
			m.now.before[name] = f
		}
	}
	for key := range m.now.ended {
		m.former(m.last.Holds[key])
	}
	for key, h := range m.now.Holds {
		if old := m.last.Holds[key]; old != nil && begun(old, h) {
			m.former(old)
		}
	}
	fresh := m.fresh()
	late := m.late(fresh)
	for _, h := range fresh {
		if former := m.formerOf(h, late[h.Lock]); former != nil {
			from := former.Party
			h.From = &from
		}
	}
	for _, h := range m.now.brief {
		m.former(h)
	}
}

// formerOf returns the hold before h, or nil if it is not known. Late is the one whose end may not have
// been told yet, or nil.
func (m *merger) formerOf(h, late *Hold) *Hold {
	former := late
	if f := m.now.before[h.Lock]; f != nil && (late == nil || !late.Since.After(f.hold.Since)) {
		former = f.hold
	}
	if former == nil || former == h || former.Since.After(h.Since) || !excludes(h, former) {
		return nil
	}
	return former
}

// late returns, for each lock with a fresh hold, the youngest of the others. The record of its client may
// be late to say that it has ended.
func (m *merger) late(fresh []*Hold) map[string]*Hold {
	late := make(map[string]*Hold, len(fresh))
	for _, h := range fresh {
		late[h.Lock] = nil
	}
	if len(late) == 0 {
		return late
	}
	for key, h := range m.now.Holds {
		former, wanted := late[key.Lock]
		if wanted && m.last.Holds[key] != nil && !begun(m.last.Holds[key], h) && (former == nil || h.Since.After(former.Since)) {
			late[key.Lock] = h
		}
	}
	return late
}

// formers finds the holds whose locks others have acquired since, according to their records.
func (m *merger) formers() {
	youngest := make(map[string]*Hold, len(m.now.Holds))
	for key, h := range m.now.Holds {
		h.Former = false
		if y := youngest[key.Lock]; h.Exact && m.now.claims[key].IsZero() && (y == nil || h.Since.After(y.Since)) {
			youngest[key.Lock] = h
		}
	}
	for key, h := range m.now.Holds {
		if y := youngest[key.Lock]; y != nil && y.Since.After(h.Since) && !sameOwner(h, y) {
			h.Former = excludes(h, y)
		}
	}
}

// sameOwner reports whether one owner has both holds: that of a writer may have a suffix.
func sameOwner(a, b *Hold) bool {
	return strings.TrimSuffix(a.Party.Owner, ":write") == strings.TrimSuffix(b.Party.Owner, ":write")
}

// former notes that a hold has ended, unless a younger one has.
func (m *merger) former(h *Hold) {
	if f := m.now.before[h.Lock]; f == nil || !h.Since.Before(f.hold.Since) {
		m.now.before[h.Lock] = &formerly{h, m.now.At}
	}
}
