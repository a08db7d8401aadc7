package lockmgr

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/record"
)

// scene is what a client holds and waits for at one moment.
type scene struct {
	holds    []*Lease // the oldest first
	waits    []waiting
	held     int      // number of all leases
	waiting  int      // number of all waiters
	young    int      // how many of them have not lasted long enough to be recorded
	nested   bool     // a wait under a hold is recorded, and what it waits for
	blockers []string // owners that are in the way
}

// waiting is a wait that is recorded.
type waiting struct {
	record.Wait
	came   time.Duration // in the client's time
	waiter *waiter
	queue  *queue
	length int // of the queue
}

// scene returns what the client holds and waits for.
func (c *Client) scene(now time.Time) *scene {
	old := c.time(now) - settles
	s := new(scene)
	c.mu.Lock()
	s.addLeases(c, old)
	s.addWaiters(c, old)
	c.mu.Unlock()
	s.cut()
	slices.SortFunc(s.waits, func(a, b waiting) int { return cmp.Compare(a.Serial, b.Serial) })
	s.findUnder(now)
	s.waits = s.waits[:min(len(s.waits), record.Most)]
	s.countMore()
	return s
}

// countMore notes in the oldest wait in each queue how many in it are not recorded.
func (s *scene) countMore() {
	oldest := make(map[*queue]*waiting)
	for i := range s.waits {
		w := &s.waits[i]
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

// leftBy returns what a client leaves held that is closed; nil if that is nothing.
func leftBy(held []*Lease) *scene {
	s := new(scene)
	for _, l := range held {
		if !l.keeps() {
			s.holds = append(s.holds, l)
		}
	}
	if s.held = len(s.holds); s.held == 0 {
		return nil
	}
	s.cut()
	return s
}

// cut leaves the oldest holds, as many as a record may list.
func (s *scene) cut() {
	slices.SortFunc(s.holds, func(a, b *Lease) int { return cmp.Or(cmp.Compare(a.acquired, b.acquired), cmp.Compare(a.id, b.id)) })
	s.holds = s.holds[:min(len(s.holds), record.Most)]
}

// addLeases adds the leases that have lasted since old. It must be called with Client.mu held.
func (s *scene) addLeases(c *Client, old time.Duration) {
	seen := 0
	for _, leases := range c.held {
		s.held += len(leases)
		for _, l := range leases {
			if seen++; seen > mostSeen {
				break
			}
			if l.acquired > old {
				s.young++
			} else {
				s.holds = append(s.holds, l)
			}
		}
	}
}

// addWaiters adds the waiters that have waited since old. It must be called with Client.mu held.
func (s *scene) addWaiters(c *Client, old time.Duration) {
	seen := 0
	for p, q := range c.queues {
		s.waiting += q.length
		by := q.blockedBy(c)
		told := false
		for w := q.head; w != nil && seen < mostSeen; w = w.next {
			seen++
			if w.came > old {
				s.young++
				continue
			}
			told = true
			one := w.told(p, by)
			one.queue, one.length = q, q.length
			s.waits = append(s.waits, one)
		}
		if told && by != "" && len(s.blockers) < mostBlockers {
			s.blockers = append(s.blockers, by)
		}
	}
}

// told returns the record of w, which waits for p while by blocks it.
func (w *waiter) told(p place, by string) waiting {
	one := waiting{Wait: record.Wait{Serial: w.serial}, came: w.came, waiter: w}
	r := w.request
	if w.fair != nil {
		r, one.Owner = w.fair.of, w.fair.id
	}
	if r == nil { // a number, or a Redlock
		one.Name, one.Kind = strings.TrimPrefix(p.name, w.client.config.Prefix), classes[p.use].Kind
		return one
	}
	one.Name, one.Kind, one.Fails = r.lock.Name(), r.lock.traits.Kind, r.lock.options.DeadlockFails
	if t := r.lock.traits; !t.Unowned && !t.Partial && t.Leave == "" {
		one.For = by
	}
	return one
}

// mostBlockers is the number of holders about which one look reads.
const mostBlockers = 16

// blockedBy returns the owner that keeps the waiters of q out, as far as is known. It must be called
// with Client.mu held.
func (q *queue) blockedBy(c *Client) string {
	if l := c.held.at(q.place); l != nil {
		return l.id
	}
	if q.refused != nil && q.refused.lack == nil && q.refused.server == "" { // a Redlock's owners have no records
		return q.refused.by.Owner
	}
	return ""
}

// companyFor is how long a goroutine counts that has waited under a hold. What it does between two waits is not known.
const companyFor = 10 * time.Second

// findUnder finds the leases under which each wait waits, and nothing else: a hold under which
// several goroutines wait, or did a short time ago, may be released as soon as one of them gets on.
func (s *scene) findUnder(now time.Time) {
	for i := range s.waits {
		w := &s.waits[i]
		for h := w.waiter.within; h != nil && len(w.Under) < record.Most; h = nestedIn(h.parent) {
			if h.waits.Load() > 1 {
				break // and so are those that it is under
			}
			if h.hadCompany(now) {
				s.nested = true // nothing happens when that time is over
				break
			}
			w.Under = append(w.Under, h.leases()...)
		}
		if len(w.Under) == 0 {
			w.For = "" // it changes with each holder, and is of interest only for cycles
		}
		s.nested = s.nested || len(w.Under) > 0 && w.For != ""
	}
}

type nestKey struct{}

// nestedIn returns the innermost hold that work with ctx is part of, or nil.
func nestedIn(ctx context.Context) *Hold {
	h, _ := ctx.Value(nestKey{}).(*Hold)
	return h
}

// waitUnder notes that a goroutine begins to wait under h, which may be nil, and under all holds that h
// is under, or with n = -1 that it has ended. It does not matter what the goroutine waits for, nor by which
// client.
func (h *Hold) waitUnder(n int32) {
	for ; h != nil; h = nestedIn(h.parent) {
		if most := h.waits.Add(n) - min(n, 0); most > 1 {
			now := time.Now()
			h.derive()
			h.backing.Load().company.Store(&now)
		}
	}
}

// hadCompany reports whether several goroutines waited under h a short time before now.
func (h *Hold) hadCompany(now time.Time) bool {
	b := h.backing.Load()
	if b == nil {
		return false
	}
	last := b.company.Load()
	return last != nil && now.Sub(*last) < companyFor
}

// leases returns the leases that h keeps others out with. A Redlock keeps nobody out by one of its
// parts, and neither does what is still being acquired, or is over.
func (h *Hold) leases() (list []record.Under) {
	if h.Context().Err() != nil {
		return nil
	}
	switch of := h.of.(type) {
	case *Lease:
		if !of.traits.Unowned {
			list = append(list, record.Under{Name: of.Name(), Owner: of.id})
		}
	case *composite:
		of.mu.Lock()
		whole := of.state == compositeHeld && of.need == of.total
		of.mu.Unlock()
		if !whole {
			return nil
		}
		for _, m := range of.lasting() {
			list = append(list, record.Under{Name: m.of.Name(), Owner: m.lease().id})
		}
	}
	return list
}
