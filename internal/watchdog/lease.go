package watchdog

import "time"

// Lease is one record in Redis that a watchdog keeps. The exported fields are
// set before Add and not changed afterwards.
type Lease struct {
	Key   string        // for Config.Shard
	Of    any           // whose lease it is: for Config.Renew
	TTL   time.Duration // what a renewal extends the lease to
	Trust time.Duration // how long a renewal is trusted: TTL less a margin
	// Guard, if set, is how often the lease is looked after at least, whether
	// it is renewed or not: somebody else may have cut its key short.
	Guard time.Duration
	// Lost is called at most once, when the lease is lost. It must not block.
	Lost func(reason Reason, err error)

	// What follows is guarded by the watchdog's mutex.
	until    time.Time // trust ends
	next     time.Time // next renewal
	renew    bool
	extend   bool    // what the attempt under way is for: to renew, or to look after
	errand   *errand // set while it is queued for renewal, or being renewed
	failures int     // renewals that failed since the last confirmation
	err      error
	index    int // in the schedule
	watched  bool
}

// Extends tells, while [Config.Renew] runs, whether the lease is renewed. If it
// is only looked after, its key is to last as long as it was said to already.
func (l *Lease) Extends() bool { return l.extend }

// period is the time between two renewals: a third of the lease, or less where
// a wide margin leaves little trust.
func (l *Lease) period() time.Duration {
	period := min(l.TTL/3, l.Trust/2)
	switch {
	case l.Guard == 0:
		return period
	case !l.renew:
		return l.Guard
	default:
		return min(period, l.Guard)
	}
}

// soon reports whether the lease is to be renewed so soon that it can go along
// with others that are due: a tenth of its period. So leases that were taken
// at different times come to share their renewals.
func (l *Lease) soon(now time.Time) bool {
	return l.waits() && l.next.Sub(now) <= l.period()/10
}

// waits reports whether the lease waits for its next renewal.
func (l *Lease) waits() bool { return l.wanted() && l.errand == nil && l.next.Before(l.until) }

// wanted reports whether anything is to be done for the lease.
func (l *Lease) wanted() bool { return l.renew || l.Guard > 0 }

// at is when the scheduler must look at the lease next.
func (l *Lease) at() time.Time {
	if l.waits() {
		return l.next
	}
	return l.until
}

// over reports whether trust has ended. It asks the monotonic clock and the
// wall clock: the former does not run while the machine is suspended.
func (l *Lease) over(now time.Time) bool {
	return !now.Before(l.until) || !now.Round(0).Before(l.until.Round(0))
}

// overdue is the loss of a lease whose trust is over.
func (l *Lease) overdue() loss {
	if l.renew {
		return loss{l, LostUnconfirmed, l.err}
	}
	return loss{l, LostExpired, nil}
}

// loss is a lost lease that has still to be reported, outside the mutex.
type loss struct {
	lease  *Lease
	reason Reason
	err    error
}

func (l loss) report() { l.lease.Lost(l.reason, l.err) }

// errand is a lease on its way through its shard's queue and an attempt to renew
// it. [Watchdog.Hand] may change which lease that is.
type errand struct{ lease *Lease }

// schedule is a heap of leases, the earliest event first.
type schedule []*Lease

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].at().Before(s[j].at()) }

func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

func (s *schedule) Push(x any) {
	l := x.(*Lease)
	l.index, l.watched = len(*s), true
	*s = append(*s, l)
}

func (s *schedule) Pop() any {
	old := *s
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*s = old[:len(old)-1]
	l.watched = false
	return l
}
