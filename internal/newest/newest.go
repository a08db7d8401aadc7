// Package newest remembers the highest numbers seen, to notice a counter that has gone back.
package newest

import "sync"

// Most is the number of names that a [Table] remembers at least; the limit is twice as many.
const Most = 10000

// Table holds the highest number seen for each of the most recently used names. Its zero value
// is ready, and it is safe for concurrent use.
type Table struct {
	mu         sync.Mutex
	young, old map[string]int64 // guarded by mu; a name that was just used is in young
}

// Seen returns the highest number seen for name, 0 if none is remembered.
func (t *Table) Seen(name string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.young[name]; ok {
		return n
	}
	return t.old[name]
}

// Note records n for name, unless a higher number was seen.
func (t *Table) Note(name string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = max(n, t.young[name], t.old[name])
	if t.young == nil || len(t.young) == Most {
		t.young, t.old = make(map[string]int64), t.young
	}
	t.young[name] = n
}
