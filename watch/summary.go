package watch

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Record is the longest of something, and who it was.
type Record struct {
	For   time.Duration
	Party Party
}

func (r *Record) note(d time.Duration, p Party) {
	if d > r.For {
		*r = Record{d, p}
	}
}

// LockSummary is what was seen of a lock.
type LockSummary struct {
	Lock                          string
	Acquisitions, Lost, GaveUp    int
	LongestHold, LongestWait      Record // also of those that last
	HoldersAtTheEnd, WaitersAtEnd int
}

// mostLocks is how many locks a summary lists apart.
const mostLocks = 10_000

// Summary counts events.
type Summary struct {
	Events int
	Others int // events of locks that are not listed, because there are too many

	locks map[string]*LockSummary
}

// Note counts an event.
func (s *Summary) Note(e *Event) {
	s.Events++
	l := s.lock(e.Lock)
	if l == nil {
		s.Others++
		return
	}
	switch e.Type {
	case Acquired, Granted:
		l.Acquisitions++
		l.LongestWait.note(e.Waited, e.Party)
	case Lost:
		l.Lost++
		l.LongestHold.note(e.Held, e.Party)
	case Released:
		l.LongestHold.note(e.Held, e.Party)
	case GaveUp:
		l.GaveUp++
		l.LongestWait.note(e.Waited, e.Party)
	}
}

// lock returns what was seen of a lock, and nil if there are too many.
func (s *Summary) lock(name string) *LockSummary {
	if s.locks == nil {
		s.locks = make(map[string]*LockSummary)
	}
	l := s.locks[name]
	if l == nil && len(s.locks) < mostLocks {
		l = &LockSummary{Lock: name}
		s.locks[name] = l
	}
	return l
}

// Locks returns what was seen of each lock, with what lasts in the last snapshot, the longest wait
// first. Last may be nil.
func (s *Summary) Locks(last *Snapshot) []LockSummary {
	all := make(map[string]*LockSummary, len(s.locks))
	for name, l := range s.locks {
		one := *l
		all[name] = &one
	}
	if last == nil {
		last = &Snapshot{}
	}
	for _, h := range last.Holds {
		if l := all[h.Lock]; l != nil {
			l.HoldersAtTheEnd++
			if h.Exact || !h.Found {
				l.LongestHold.note(last.At.Sub(h.Since), h.Party)
			}
		}
	}
	for _, w := range last.Waits {
		if l := all[w.Lock]; l != nil {
			l.WaitersAtEnd++
			l.LongestWait.note(last.At.Sub(w.Since), w.Party)
		}
	}
	list := make([]LockSummary, 0, len(all))
	for _, l := range all {
		list = append(list, *l)
	}
	slices.SortFunc(list, func(a, b LockSummary) int {
		return cmp.Or(cmp.Compare(b.LongestWait.For, a.LongestWait.For), b.Acquisitions-a.Acquisitions, strings.Compare(a.Lock, b.Lock))
	})
	return list
}
