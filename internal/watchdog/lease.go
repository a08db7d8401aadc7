package watchdog

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/mortise-go/mortise/internal/dice"
)

// Lease is a record in Redis that a watchdog renews. The exported fields are set before Add
// and do not change afterwards. A client may have very many leases, so what they have in
// common is in Terms.
type Lease struct {
	Of    any // the holder of the lease
	Terms *Terms

	// The fields below are guarded by the watchdog's mutex.
	until   instant       // when trust ends
	next    time.Duration // when the next renewal is due, in the watchdog's time
	renewal *renewal      // set from the first attempt until one succeeds
	index   int32         // in the schedule
	renew   bool
	look    bool // once, although it is not renewed
	extend  bool // whether the attempt in flight renews the lease or only checks it
	watched bool
	capped  bool // trust ends at the limit of the lease
}

// Terms say how long leases last and how often they are renewed.
type Terms struct {
	TTL   time.Duration // the TTL that a renewal sets
	Trust time.Duration // how long a renewal is trusted: TTL minus a margin
	// Guard, if set, is the longest time between two checks of a lease, renewed or not:
	// another client may have cut its key's TTL.
	Guard time.Duration
}

// Extends reports, while [Config.Renew] runs, whether the lease is renewed. If it is only
// checked, its key must keep the TTL that it was given.
func (l *Lease) Extends() bool { return l.extend }

// period is the time between two renewals: a third of the lease, or less if a wide margin
// leaves little trust.
func (l *Lease) period() time.Duration {
	period := min(l.Terms.TTL/3, l.Terms.Trust/2)
	switch {
	case l.Terms.Guard == 0:
		return period
	case !l.renew:
		return l.Terms.Guard
	default:
		return min(period, l.Terms.Guard)
	}
}

// pause is the time until the next renewal. To spread many leases, it is anywhere in the
// period; from then on, each lease keeps its own rhythm.
func (l *Lease) pause(spread bool) time.Duration {
	period := l.period()
	if spread {
		return period/10 + dice.N(period-period/10)
	}
	return period
}

// soon reports whether the lease is due within a tenth of its period, so that it can join a
// batch of leases that are due. This way leases that were acquired at different times come to
// share their renewals.
func (l *Lease) soon(now instant) bool {
	return l.waits() && l.next-now.mono <= l.period()/10
}

// waits reports whether the lease is waiting for its next renewal.
func (l *Lease) waits() bool { return l.wanted() && !l.busy() && l.next < l.until.mono }

// busy reports whether the lease is queued for renewal, or being renewed.
func (l *Lease) busy() bool { return l.renewal != nil && l.renewal.busy }

// wanted reports whether the lease is renewed or checked at all.
func (l *Lease) wanted() bool { return l.renew || l.Terms.Guard > 0 || l.look }

// at is when the scheduler must look at the lease next.
func (l *Lease) at() time.Duration {
	if l.waits() {
		return l.next
	}
	return l.until.mono
}

// over reports whether trust has ended.
func (l *Lease) over(now instant) bool { return now.past(l.until) }

// overdue is the loss of a lease whose trust has ended.
func (l *Lease) overdue() loss {
	switch {
	case !l.renew || l.capped:
		return loss{l, LostExpired, nil}
	case l.renewal == nil:
		return loss{l, LostUnconfirmed, nil}
	}
	return loss{l, LostUnconfirmed, cmp.Or(l.renewal.failure(), errWaiting)}
}

var errWaiting = errors.New("redis has not answered in time, for this lease or for those before it")

// loss is a lost lease that is still to be reported, outside the mutex.
type loss struct {
	lease  *Lease
	reason Reason
	err    error
}

// instant is a time since the start of the watchdog on two clocks: the monotonic clock, which
// stands still while the machine is suspended, and the wall clock, which can be set.
type instant struct{ mono, wall time.Duration }

func (i instant) add(d time.Duration) instant { return instant{i.mono + d, i.wall + d} }

// past reports whether end has come by either clock.
func (i instant) past(end instant) bool { return i.mono >= end.mono || i.wall >= end.wall }

// schedule is a 4-ary heap of leases, the earliest event first. An event's time is stored
// next to its lease: reading it from dozens of leases would be slow if there are very many.
type schedule []event

type event struct {
	at    time.Duration
	lease *Lease
}

const branches = 4

func (s *schedule) add(l *Lease) {
	l.watched = true
	*s = append(*s, event{})
	s.put(len(*s)-1, event{l.at(), l})
}

func (s *schedule) remove(l *Lease) {
	l.watched = false
	end := len(*s) - 1
	last := (*s)[end]
	(*s)[end] = event{}
	*s = (*s)[:end]
	if last.lease != l {
		s.put(int(l.index), last)
	}
}

// fix restores the order after a change to l.
func (s schedule) fix(l *Lease) { s.put(int(l.index), event{l.at(), l}) }

// order restores the order of all.
func (s schedule) order() {
	slices.SortFunc(s, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	for i, e := range s {
		s.set(i, e)
	}
}

// put finds the place for e, starting at the empty place i.
func (s schedule) put(i int, e event) {
	for i > 0 && e.at < s[(i-1)/branches].at {
		s.set(i, s[(i-1)/branches])
		i = (i - 1) / branches
	}
	for first := branches*i + 1; first < len(s); first = branches*i + 1 {
		next := first // the earliest one below
		for j := first + 1; j < min(first+branches, len(s)); j++ {
			if s[j].at < s[next].at {
				next = j
			}
		}
		if e.at <= s[next].at {
			break
		}
		s.set(i, s[next])
		i = next
	}
	s.set(i, e)
}

func (s schedule) set(i int, e event) {
	s[i] = e
	e.lease.index = int32(i)
}
