package watch

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Lock is what is known of one name in a snapshot.
type Lock struct {
	Name  string
	Kind  string  // of its holds, or else of its waits
	Holds []*Hold // the oldest first
	Waits []*Wait // the oldest first
	Asked []Request
}

// Waiting returns how many wait, also those that the records of their clients do not list.
func (l *Lock) Waiting() int {
	n := len(l.Waits)
	for _, w := range l.Waits {
		n += w.More
	}
	return n
}

// OldestWait returns when the wait began that lasts longest; zero if there is none.
func (l *Lock) OldestWait() time.Time {
	if len(l.Waits) == 0 {
		return time.Time{}
	}
	return l.Waits[0].Since
}

// OldestHold returns when the hold began that lasts longest; zero if there is none.
func (l *Lock) OldestHold() time.Time {
	if len(l.Holds) == 0 {
		return time.Time{}
	}
	return l.Holds[0].Since
}

// Locks returns the locks that are held or waited for, those that hurt most first: with the most waiters, then with
// the oldest wait, then with the oldest hold. What is equal is in the order of names, so that rows keep their places.
// Holds that are [Hold.Former] are left out.
func (s *Snapshot) Locks() []Lock {
	at := make(map[string]int)
	var list []Lock
	of := func(name, kind string) *Lock {
		i, ok := at[name]
		if !ok {
			i = len(list)
			at[name], list = i, append(list, Lock{Name: name, Kind: kind})
		}
		return &list[i]
	}
	for _, h := range s.Holds {
		if h.Former {
			continue
		}
		l := of(h.Lock, h.Kind)
		l.Holds = append(l.Holds, h)
	}
	for _, w := range s.Waits {
		l := of(w.Lock, w.Kind)
		l.Waits = append(l.Waits, w)
	}
	for _, r := range s.Asked {
		l := of(r.Lock, "")
		l.Asked = append(l.Asked, r)
	}
	for i := range list {
		list[i].sort()
	}
	slices.SortFunc(list, func(a, b Lock) int { return ByPain(&a, &b) })
	return list
}

// sort puts what a lock has into a stable order.
func (l *Lock) sort() {
	slices.SortFunc(l.Holds, func(a, b *Hold) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Party.Owner, b.Party.Owner))
	})
	slices.SortFunc(l.Waits, func(a, b *Wait) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Party.Client, b.Party.Client), strings.Compare(a.Kind, b.Kind))
	})
	slices.SortFunc(l.Asked, func(a, b Request) int { return strings.Compare(a.Party.Owner, b.Party.Owner) })
	if len(l.Holds) > 0 {
		l.Kind = l.Holds[0].Kind
	} else if len(l.Waits) > 0 {
		l.Kind = l.Waits[0].Kind
	}
}

// ByPain compares locks: the one that hurts more is less.
func ByPain(a, b *Lock) int {
	return cmp.Or(b.Waiting()-a.Waiting(), older(a.OldestWait(), b.OldestWait()), older(a.OldestHold(), b.OldestHold()), strings.Compare(a.Name, b.Name))
}

// older compares times: the earlier is less, and none is more than any.
func older(a, b time.Time) int {
	switch {
	case a.IsZero() && b.IsZero():
		return 0
	case a.IsZero():
		return 1
	case b.IsZero():
		return -1
	}
	return a.Compare(b)
}
