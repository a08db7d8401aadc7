package workload

import (
	"context"
	"fmt"
	"time"
)

// role is how a goroutine holds the lock, and so who may be inside together with it.
type role uint8

const (
	single    role = iota // nobody else
	reading               // others that read
	writing               // nobody else
	permitted             // as many as there are permits
)

// role returns the role of goroutine i.
func (s *Spec) role(i int) role {
	switch {
	case s.Permits > 0:
		return permitted
	case s.Sides && i < s.Writers:
		return writing
	case s.Sides:
		return reading
	}
	return single
}

// sides returns the Locker for each role.
func (s *Spec) sides(locker Locker) (map[role]Locker, error) {
	all := map[role]Locker{single: locker, writing: locker, permitted: locker}
	if s.Sides {
		k, ok := locker.(Sided)
		if !ok {
			return nil, fmt.Errorf("workload: this system has no read/write locks")
		}
		all[reading] = k.Read()
	}
	return all, nil
}

// permit sets the permits of all semaphores of a run.
func (s *Spec) permit(ctx context.Context, locker Locker) error {
	if s.Permits == 0 {
		return nil
	}
	k, ok := locker.(Permitter)
	if !ok {
		return fmt.Errorf("workload: this system has no semaphores")
	}
	semaphores := s.N
	if s.Shared {
		semaphores = 1
	}
	for i := range semaphores {
		if err := k.Permit(ctx, s.key(i), s.Permits); err != nil {
			return fmt.Errorf("workload: set %d permits: %w", s.Permits, err)
		}
	}
	return nil
}

// waits returns the histogram for the waits of a role.
func (r *Result) waits(of role) *Histogram {
	if of == writing {
		return &r.WriteWaits
	}
	return &r.Waits
}

// pass is a goroutine that has acquired the lock. An overlap is company that its role forbids.
//
// Somebody who writes makes itself known before it counts the others, and somebody who reads is
// counted before it looks for one who writes. So of two that are inside together, one sees it.
func (g *Gate) pass(r role, id uint64, permits int, now time.Duration) (e entry) {
	switch r {
	case single:
		return g.enter(id, now)
	case writing:
		e = g.enter(id, now)
		e.overlap = g.arrive(now) > 1 || e.overlap
	case reading:
		g.arrive(now)
		e.overlap = g.inside.Load() != 0
	case permitted:
		e.overlap = g.arrive(now) > permits
	}
	return e
}

// quit must be called before the unlock is sent.
func (g *Gate) quit(r role, id uint64, now time.Duration) {
	if r == single || r == writing {
		g.leave(id, now)
	}
	if r != single {
		g.depart(now)
	}
}

// The lower bits of the word are how many are inside. The upper ones are the time for which there
// were any: minus every time at which the first one came, plus every time at which the last one
// left. It may overflow, since only differences between its values matter.
const (
	crowdBits = 16
	crowd     = 1<<crowdBits - 1
)

// arrive counts one more inside, and returns how many there are.
func (g *Gate) arrive(now time.Duration) int {
	for {
		old := g.company.Load()
		next := old + 1
		if old&crowd == 0 {
			next -= uint64(now) << crowdBits
		}
		if g.company.CompareAndSwap(old, next) {
			return int(next & crowd)
		}
	}
}

// depart counts one less inside.
func (g *Gate) depart(now time.Duration) {
	for {
		old := g.company.Load()
		next := old - 1
		if old&crowd == 1 {
			next += uint64(now) << crowdBits
		}
		if g.company.CompareAndSwap(old, next) {
			return
		}
	}
}

// busy returns for how long there was anybody inside, in nanoseconds, since nobody knows when.
func (g *Gate) busy(now time.Duration) uint64 {
	word := g.company.Load()
	if word&crowd != 0 {
		word += uint64(now) << crowdBits
	}
	return word >> crowdBits
}

// busyFor returns how much time lies between two values of busy.
func busyFor(from, to uint64) time.Duration {
	return time.Duration((to - from) << crowdBits >> crowdBits)
}
