package watch

import (
	"cmp"
	"slices"
)

// leave decides about the waits that are over: their clients have the lock, or will be seen to
// have it in a moment, or not.
func (m *merger) leave() {
	var over []WaitKey
	for key, w := range m.last.Waits {
		if m.now.Waits[key] != nil {
			continue
		}
		next := *w
		if next.left.IsZero() && !m.sighting.Unread[key.Client] {
			next.left = m.now.At
		}
		m.now.Waits[key] = &next
		over = append(over, key)
	}
	slices.SortFunc(over, func(a, b WaitKey) int { return cmp.Or(cmp.Compare(a.Since, b.Since), a.Nth-b.Nth) })
	for _, h := range m.fresh() {
		for i, key := range over {
			w := m.now.Waits[key]
			if key.Lock == h.Lock && key.Client == h.Party.Client && (!h.Exact || !h.Since.Before(w.Since)) {
				h.Waited = max(0, h.Since.Sub(w.Since))
				delete(m.now.Waits, key)
				m.now.served[key] = true
				over = slices.Delete(over, i, i+1)
				break
			}
		}
	}
	for _, key := range over {
		if m.left(key) {
			delete(m.now.Waits, key)
		}
	}
}

// left reports whether a wait that its record does not list any more is over without a hold.
func (m *merger) left(key WaitKey) bool {
	if m.present[key.Client] == nil {
		return !m.sighting.Unread[key.Client]
	}
	return m.now.At.Sub(m.now.Waits[key].left) >= leaves && !m.expected(key)
}

// expected reports whether the client of a wait has the lock, but waits to be named.
func (m *merger) expected(key WaitKey) bool {
	for k := range m.now.young {
		if k.Lock == key.Lock && clientOf(k.Owner) == key.Client {
			return true
		}
	}
	return false
}
