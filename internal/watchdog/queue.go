package watchdog

import (
	"container/heap"
	"time"
)

// The number of leases of one attempt. A server that was away for long finds all leases due. It can answer for some
// thousands in time, and not for all of them before the most urgent one ends.
const (
	smallestAttempt = 100
	firstAttempt    = 5000
)

// queue is the due leases of a lane. The watchdog's mutex guards it.
type queue struct {
	due  urgency
	most int           // how many leases the next attempt has at most
	pace time.Duration // what the last full attempt with an answer took for each of its leases; 0 if there was none
	err  error         // of the last attempt that failed, unless another one was answered since
}

// add queues a lease. One whose trust ends at its limit comes last: renewing it would not move that end.
func (q *queue) add(e *renewal) {
	l := e.lease
	e.queue, e.end, e.busy = q, l.until.mono, true
	if l.capped {
		e.end += l.Terms.Trust
	}
	heap.Push(&q.due, e)
}

// next takes the most urgent leases that still need a renewal. Others were removed or lost while they were queued
// behind a slow attempt; renewing them would only delay the rest.
func (q *queue) next(now instant) attempt {
	a := attempt{due: len(q.due), start: now}
	most := q.most
	if len(q.due) > 0 && q.pace > 0 { // as many as can be answered in three quarters of its time
		most = min(most, max(smallestAttempt, int(attemptLimit(now, q.due[0].lease)*3/4/q.pace)))
	}
	room := min(most, len(q.due))
	a.renewals, a.leases = make([]*renewal, 0, room), make([]*Lease, 0, room)
	for len(q.due) > 0 && len(a.leases) < most {
		e := heap.Pop(&q.due).(*renewal)
		l := e.lease
		if !l.watched || !l.wanted() {
			e.busy = false
			continue
		}
		l.extend = l.renew
		a.renewals, a.leases = append(a.renewals, e), append(a.leases, l)
	}
	a.full = len(a.leases) == most
	return a
}

// settle learns from an attempt how many leases the next one may have: half as many after one that took its time in vain,
// also by a limit of the client's own, because what it has sent may still keep the server busy. Twice as many after one
// with answers.
func (q *queue) settle(a attempt) {
	switch {
	case a.confirmed():
		q.err = nil
		if 2*len(a.leases) >= q.most {
			q.most *= 2
		}
		if a.full { // what a few leases take is mostly the way to the server and back
			q.pace = a.took / time.Duration(len(a.leases))
		}
	case a.took >= shortestAttempt:
		q.most = max(len(a.leases)/2, smallestAttempt)
	}
	for _, answer := range a.answers {
		if answer.State == Failed {
			q.err = answer.Err
		}
	}
}

// urgency is a heap of renewals: the lease whose trust ends first comes first.
type urgency []*renewal

func (u urgency) Len() int           { return len(u) }
func (u urgency) Less(i, j int) bool { return u[i].end < u[j].end }
func (u urgency) Swap(i, j int)      { u[i], u[j] = u[j], u[i] }
func (u *urgency) Push(x any)        { *u = append(*u, x.(*renewal)) }

func (u *urgency) Pop() any {
	last := len(*u) - 1
	e := (*u)[last]
	(*u)[last] = nil
	*u = (*u)[:last]
	return e
}
