package top

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/watch"
)

// order is an order of locks.
type order string

const (
	byPain  order = "pain" // the most waiters, then the oldest wait
	byWait  order = "oldest wait"
	byHold  order = "oldest hold"
	byLease order = "lease"
	byName  order = "name"
)

var orders = []order{byPain, byWait, byHold, byLease, byName}

// next returns the order after o.
func (o order) next() order { return orders[(slices.Index(orders, o)+1)%len(orders)] }

// locked is the table of locks: what a look has seen, as the user wants to see it.
type locked struct {
	all    []watch.Lock // by pain
	rows   []*watch.Lock
	by     order
	filter string
	chosen string // the name in the row of the cursor, once the user has moved it
	widest int    // columns of the longest name that was on the screen
	cursor
}

// set takes the locks of a look. The cursor stays with its lock.
func (t *locked) set(all []watch.Lock) {
	t.all = all
	t.arrange()
}

// arrange makes the rows anew. Locks whose own names have the words of the filter come before those that only
// a process, or the kind, has brought in.
func (t *locked) arrange() {
	t.rows = make([]*watch.Lock, 0, len(t.all))
	words := strings.Fields(strings.ToLower(t.filter))
	for i := range t.all {
		if matches(&t.all[i], words) {
			t.rows = append(t.rows, &t.all[i])
		}
	}
	if t.by != byPain {
		slices.SortStableFunc(t.rows, t.compare)
	}
	if len(words) > 0 {
		t.rows = namedFirst(t.rows, words)
	}
	if !t.moved {
		t.at = 0
		return
	}
	if i := slices.IndexFunc(t.rows, func(l *watch.Lock) bool { return l.Name == t.chosen }); i >= 0 {
		t.at = i
	}
}

// namedFirst puts those locks first whose own names have all words.
func namedFirst(rows []*watch.Lock, words []string) []*watch.Lock {
	var first, rest []*watch.Lock
	for _, l := range rows {
		name := strings.ToLower(l.Name)
		if slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(name, w) }) {
			rest = append(rest, l)
		} else {
			first = append(first, l)
		}
	}
	return append(first, rest...)
}

// compare compares locks in an order that is not that of pain. What is equal stays in that.
func (t *locked) compare(a, b *watch.Lock) int {
	early := func(a, b time.Time) int {
		if a.IsZero() || b.IsZero() {
			return strings.Compare(strconv.FormatBool(a.IsZero()), strconv.FormatBool(b.IsZero())) // those without come last
		}
		return a.Compare(b)
	}
	switch t.by {
	case byWait:
		return early(a.OldestWait(), b.OldestWait())
	case byHold:
		return early(a.OldestHold(), b.OldestHold())
	case byLease:
		return early(until(a), until(b))
	}
	return cmp.Compare(a.Name, b.Name)
}

// until returns when the lease ends that ends first, as far as it is known.
func until(l *watch.Lock) (first time.Time) {
	for _, h := range l.Holds {
		if !h.Until.IsZero() && (first.IsZero() || h.Until.Before(first)) {
			first = h.Until
		}
	}
	return first
}

// matches reports whether each word is part of the name of a lock, of its kind, or of the name of a process that
// holds it or waits for it.
func matches(l *watch.Lock, words []string) bool {
	for _, w := range words {
		if !has(l, w) {
			return false
		}
	}
	return true
}

func has(l *watch.Lock, word string) bool {
	within := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return text != "" && strings.Contains(strings.ToLower(text), word) })
	}
	party := func(p *watch.Party) bool {
		return within(p.Host, p.App, p.Command, p.Owner) || p.PID != 0 && strconv.Itoa(p.PID) == word
	}
	return within(l.Name, kindText(l.Kind)) ||
		slices.ContainsFunc(l.Holds, func(h *watch.Hold) bool { return party(&h.Party) }) ||
		slices.ContainsFunc(l.Waits, func(w *watch.Wait) bool { return party(&w.Party) })
}

// remember notes the lock that the cursor is at, so that it stays there.
func (t *locked) remember() {
	if t.moved && t.at < len(t.rows) {
		t.chosen = t.rows[t.at].Name
	}
}

// visible returns the rows on a screen of that height.
func (t *locked) visible(height int) []*watch.Lock {
	t.fit(len(t.rows), height)
	return t.rows[t.offset:min(t.offset+height, len(t.rows))]
}

// current returns the lock in the row of the cursor; nil if there is none.
func (t *locked) current() *watch.Lock {
	if t.at < len(t.rows) {
		return t.rows[t.at]
	}
	return nil
}
