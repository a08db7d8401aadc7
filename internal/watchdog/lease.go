package watchdog

import (
	"time"

	"github.com/mortise-go/mortise/internal/dice"
)

// Lease is one record in Redis that a watchdog keeps. The exported fields are
// set before Add and not changed afterwards. A client may have very many
// leases, so what they have in common lies apart.
type Lease struct {
	Of    any // whose lease it is
	Terms *Terms

	// What follows is guarded by the watchdog's mutex.
	until   instant       // trust ends
	next    time.Duration // next renewal, in the watchdog's time
	errand  *errand       // set from the first attempt until one succeeds
	index   int32         // in the schedule
	renew   bool
	extend  bool // what the attempt under way is for: to renew, or to look after
	watched bool
}

// Terms say how long leases last, and how often they are renewed.
type Terms struct {
	TTL   time.Duration // what a renewal extends a lease to
	Trust time.Duration // how long a renewal is trusted: TTL less a margin
	// Guard, if set, is how often a lease is looked after at least, whether
	// it is renewed or not: somebody else may have cut its key short.
	Guard time.Duration
}

// Extends tells, while [Config.Renew] runs, whether the lease is renewed. If it
// is only looked after, its key is to last as long as it was said to already.
func (l *Lease) Extends() bool { return l.extend }

// period is the time between two renewals: a third of the lease, or less where
// a wide margin leaves little trust.
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

// pause is the time until the next renewal. Where that is one of a crowd, it is
// anywhere in the period, once: from then on the lease keeps its time.
func (l *Lease) pause(spread bool) time.Duration {
	period := l.period()
	if spread {
		return period/10 + dice.N(period-period/10)
	}
	return period
}

// soon reports whether the lease is to be renewed so soon that it can go along
// with others that are due: a tenth of its period. So leases that were taken
// at different times come to share their renewals.
func (l *Lease) soon(now instant) bool {
	return l.waits() && l.next-now.mono <= l.period()/10
}

// waits reports whether the lease waits for its next renewal.
func (l *Lease) waits() bool { return l.wanted() && !l.busy() && l.next < l.until.mono }

// busy reports whether the lease is queued for renewal, or being renewed.
func (l *Lease) busy() bool { return l.errand != nil && l.errand.busy }

// wanted reports whether anything is to be done for the lease.
func (l *Lease) wanted() bool { return l.renew || l.Terms.Guard > 0 }

// at is when the scheduler must look at the lease next.
func (l *Lease) at() time.Duration {
	if l.waits() {
		return l.next
	}
	return l.until.mono
}

// over reports whether trust has ended.
func (l *Lease) over(now instant) bool { return now.past(l.until) }

// overdue is the loss of a lease whose trust is over.
func (l *Lease) overdue() loss {
	switch {
	case !l.renew:
		return loss{l, LostExpired, nil}
	case l.errand == nil:
		return loss{l, LostUnconfirmed, nil}
	}
	return loss{l, LostUnconfirmed, l.errand.err}
}

// loss is a lost lease that has still to be reported, outside the mutex.
type loss struct {
	lease  *Lease
	reason Reason
	err    error
}

// errand is a lease on its way through its shard's queue and attempts to renew
// it. [Watchdog.Hand] may change which lease that is.
type errand struct {
	lease    *Lease
	busy     bool // queued, or in an attempt
	failures int  // attempts that failed since the last one that did not
	err      error
}

// instant is a moment, counted from the start of the watchdog on two clocks: the
// monotonic one, which does not run while the machine is suspended, and the
// wall clock, which can be set.
type instant struct{ mono, wall time.Duration }

func (i instant) add(d time.Duration) instant { return instant{i.mono + d, i.wall + d} }

// past reports whether either clock says that end has come.
func (i instant) past(end instant) bool { return i.mono >= end.mono || i.wall >= end.wall }

// schedule is a heap of leases with four branches at each node, the earliest
// event first. The time of an event lies beside its lease, because to look into
// dozens of leases would be slow where there are very many.
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

// put finds the place for e, from i on, where nothing stands.
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
