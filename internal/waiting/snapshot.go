package waiting

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/record"
)

// Scene is what a client holds and waits for at one moment, for its record.
type Scene struct {
	Holds    []*lease.Lease // some of those that have lasted long enough
	Waits    []Waiting      // in the order in which they began, and no more than a record has
	Held     int            // number of all leases
	Waiting  int            // number of all waiters
	Young    int            // how many of them have not lasted long enough to be recorded
	Nested   bool           // a wait under a hold is recorded, and what it waits for
	Blockers []string       // owners that are in the way
}

// Waiting is a wait that is recorded.
type Waiting struct {
	record.Wait
	Came   time.Duration // in the client's time
	waiter *Waiter
	queue  *queue
	length int // of the queue
}

// mostSeen is how many leases or waiters a scene goes through.
const mostSeen = 4096

// Scene returns what the client holds and waits for that has lasted for so long.
func (qs *Queues) Scene(now time.Time, lasts time.Duration) *Scene {
	old := qs.Time(now) - lasts
	s := new(Scene)
	qs.Mu.Lock()
	s.addLeases(qs.Client, old)
	s.addWaiters(qs, old)
	qs.Mu.Unlock()
	slices.SortFunc(s.Waits, func(a, b Waiting) int { return cmp.Compare(a.Serial, b.Serial) })
	s.findUnder(now)
	s.Waits = s.Waits[:min(len(s.Waits), record.Most)]
	s.countMore()
	return s
}

// Crowded reports whether a scene has not gone through all leases, so that each one sees others.
func (s *Scene) Crowded() bool { return s.Held > mostSeen }

// countMore notes in the oldest wait in each queue how many in it are not recorded.
func (s *Scene) countMore() {
	oldest := make(map[*queue]*Waiting)
	for i := range s.Waits {
		w := &s.Waits[i]
		if w.Owner != "" {
			continue
		}
		first := oldest[w.queue]
		if first == nil {
			first = w
			oldest[w.queue], w.More = w, w.length
		}
		first.More--
	}
}

// addLeases adds the leases that have lasted since old. It must be called with Client.Mu held.
func (s *Scene) addLeases(c *lease.Client, old time.Duration) {
	seen := 0
	c.Leases(func(leases map[string]*lease.Lease) {
		s.Held += len(leases)
		for _, l := range leases {
			if seen++; seen > mostSeen {
				break
			}
			if l.Acquired() > old {
				s.Young++
			} else {
				s.Holds = append(s.Holds, l)
			}
		}
	})
}

// addWaiters adds the waiters that have waited since old. It must be called with Client.Mu held.
func (s *Scene) addWaiters(c *Queues, old time.Duration) {
	seen := 0
	for p, q := range c.queues {
		s.Waiting += q.length
		by := q.blockedBy(c)
		told := false
		for w := q.head; w != nil && seen < mostSeen; w = w.next {
			seen++
			if w.came > old {
				s.Young++
				continue
			}
			told = true
			one := w.told(p, by)
			one.queue, one.length = q, q.length
			s.Waits = append(s.Waits, one)
		}
		if told && by != "" && len(s.Blockers) < mostBlockers {
			s.Blockers = append(s.Blockers, by)
		}
	}
}

// told returns the record of w, which waits for p while by blocks it.
func (w *Waiter) told(p lease.Place, by string) Waiting {
	one := Waiting{Wait: record.Wait{Serial: w.serial}, Came: w.came, waiter: w}
	r := w.request
	if w.fair != nil {
		r, one.Owner = w.fair.of, w.fair.id
	}
	if r == nil { // a number, or a Redlock
		one.Name, one.Kind = strings.TrimPrefix(p.Name, w.client.Config().Prefix), p.Use.Class().Kind
		return one
	}
	one.Name, one.Kind, one.Fails = r.Lock.Name(), r.Lock.Traits().Kind, r.Lock.Options().DeadlockFails
	if t := r.Lock.Traits(); !t.Unowned && !t.Partial && t.Leave == "" {
		one.For = by
	}
	return one
}

// mostBlockers is the number of holders about which one look reads.
const mostBlockers = 16

// blockedBy returns the owner that keeps the waiters of q out, as far as is known. It must be called
// with Client.Mu held.
func (q *queue) blockedBy(c *Queues) string {
	if l := c.HeldAt(q.place); l != nil {
		return l.ID()
	}
	if q.refused != nil && q.refused.Lack == nil && q.refused.Server == "" { // a Redlock's owners have no records
		return q.refused.By.Owner
	}
	return ""
}

// findUnder finds the leases under which each wait waits, and nothing else: a hold under which
// several goroutines wait, or did a short time ago, may be released as soon as one of them gets on.
func (s *Scene) findUnder(now time.Time) {
	for i := range s.Waits {
		w := &s.Waits[i]
		for h := w.waiter.Within; h != nil && len(w.Under) < record.Most; h = h.Outer() {
			if h.Waiting() > 1 {
				break // and so are those that it is under
			}
			if h.HadCompany(now) {
				s.Nested = true // nothing happens when that time is over
				break
			}
			w.Under = append(w.Under, h.Leases()...)
		}
		if len(w.Under) == 0 {
			w.For = "" // it changes with each holder, and is of interest only for cycles
		}
		s.Nested = s.Nested || len(w.Under) > 0 && w.For != ""
	}
}

// EndWait reports a cycle that the wait of that number is part of, and ends the wait with err if it is the one to fail. It reports
// false if the wait is over.
func (qs *Queues) EndWait(serial uint64, err error, fails bool) bool {
	qs.Mu.Lock()
	defer qs.Mu.Unlock()
	w := qs.waiterOf(serial)
	if w == nil {
		return false
	}
	if !w.ends { // else it ends in a moment
		w.cycle, w.ends = err, fails
		w.Signal()
	}
	return true
}

// waiterOf returns the waiter with that number, or nil. It must be called with Client.Mu held.
func (qs *Queues) waiterOf(serial uint64) *Waiter {
	for _, q := range qs.queues {
		for w := q.head; w != nil; w = w.next {
			if w.serial == serial {
				return w
			}
		}
	}
	return nil
}
