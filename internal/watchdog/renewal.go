package watchdog

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"time"

	"github.com/mortise-go/mortise/internal/dice"
)

// renewal is a lease's way through the queue of its lane and the attempts to renew it.
// [Watchdog.Hand] may replace the lease.
type renewal struct {
	lease    *Lease
	queue    *queue        // of its lane, when it was queued last
	end      time.Duration // of the trust in the lease, when it was queued
	busy     bool          // queued, or in an attempt
	failures int           // failed attempts since the last success
	err      error
}

// failure returns why the lease is not renewed, as far as it is known: the error of its own last attempt, or, while it
// is queued, that of the last one in its lane.
func (e *renewal) failure() error {
	if e.err == nil && e.busy {
		return e.queue.err
	}
	return e.err
}

const (
	// fullBatch is the number of due leases of a lane beyond which leases that are not yet
	// due are not added: it would not save requests any more.
	fullBatch = 1000
	// spreadAbove is the number of leases above which renewals are spread over the period.
	spreadAbove = 2 * fullBatch
)

// lane is the leases that share attempts: of one shard, and of similar length, because the most urgent lease limits the
// time of an attempt for all.
type lane struct {
	shard string
	class int // twice as long in each class as in the one before
}

func (w *Watchdog) lane(l *Lease) lane {
	return lane{w.config.Shard(l), bits.Len64(uint64(l.Terms.Trust / shortestAttempt))}
}

// enqueue passes l to its lane's worker, and returns the length of the worker's queue. The
// caller holds w.mu.
func (w *Watchdog) enqueue(l *Lease) int {
	in := w.lane(l)
	q := w.queues[in]
	if q == nil {
		q = &queue{most: firstAttempt}
		w.queues[in] = q
		w.wg.Go(func() { w.work(in, q) })
	}
	if l.renewal == nil {
		l.renewal = &renewal{lease: l}
	}
	q.add(l.renewal)
	return len(q.due)
}

// work renews the due leases of one lane until there are none.
func (w *Watchdog) work(in lane, q *queue) {
	for {
		w.mu.Lock()
		a := q.next(w.now())
		if len(a.leases) == 0 || w.closed {
			delete(w.queues, in)
			w.mu.Unlock()
			return
		}
		a.limit = attemptLimit(a.start, a.leases...)
		w.mu.Unlock()

		ctx, cancel := context.WithTimeoutCause(w.ctx, a.limit, errAttempt)
		a.answers = w.config.Renew(ctx, a.leases)
		a.hung = ctx.Err() != nil && !a.confirmed()
		cancel()
		a.took = w.now().mono - a.start.mono
		w.settle(q, a)
	}
}

// attempt is one call of [Config.Renew].
type attempt struct {
	renewals []*renewal
	leases   []*Lease
	due      int  // leases of the lane when it began, these and the queued ones
	full     bool // no more leases were allowed
	start    instant
	limit    time.Duration
	took     time.Duration
	answers  []Answer
	hung     bool // it took all of its time, and Redis answered for none of them
}

// confirmed reports whether Redis has answered for one of the leases at least.
func (a attempt) confirmed() bool {
	return slices.ContainsFunc(a.answers, func(answer Answer) bool { return answer.State != Failed })
}

var errAttempt = errors.New("the renewal took too long")

// The bounds of the time of one attempt to renew. A hanging attempt must leave time for another one, on
// another connection, while the lease is still trusted.
const (
	shortestAttempt = 50 * time.Millisecond
	longestAttempt  = 5 * time.Second
	// leastShare of its trust, or half a second, is left to an attempt even for a lease that has less: if leases
	// end one after another, each attempt has one that is about to, and a server that is slow must be able to
	// answer for the others.
	leastShare = 64
)

// attemptLimit is half of the remaining trust of the most urgent lease. A lease whose trust ends at its limit is in no hurry.
func attemptLimit(now instant, leases ...*Lease) time.Duration {
	limit := longestAttempt
	for _, l := range leases {
		if !l.capped {
			limit = min(limit, (l.until.mono-now.mono)/2)
		}
	}
	return max(limit, shortestAttempt, min(leases[0].Terms.Trust/leastShare, 500*time.Millisecond))
}

// settle applies the answers of one attempt.
func (w *Watchdog) settle(q *queue, a attempt) {
	var lost []loss
	w.mu.Lock()
	now := w.now()
	q.settle(a)
	together := a.due > max(spreadAbove, len(w.events)/10)
	for i, e := range a.renewals {
		l := e.lease
		e.busy = false
		if !l.watched {
			continue // removed, or its trust ended, while the attempt ran
		}
		switch a.answers[i].State {
		case Renewed:
			if l.extend {
				w.trust(l, a.start.add(l.Terms.Trust))
			}
			failed := e.failures > 0 && len(w.events) > spreadAbove // other leases may have failed too
			l.next, l.renewal, l.look = a.start.mono+l.pause(together || failed), nil, false
			w.fix(l)
		case Failed:
			e.failures++
			e.err = a.answers[i].Err
			if a.hung {
				w.enqueue(l) // it has waited for long enough; its server may be another one by now
				continue
			}
			l.next = now.mono + backoff(e.failures)
			w.fix(l)
		case Gone:
			w.remove(l)
			lost = append(lost, loss{l, LostGone, a.answers[i].Err})
		case Taken:
			w.remove(l)
			lost = append(lost, loss{l, LostTaken, a.answers[i].Err})
		}
	}
	w.mu.Unlock()
	w.report(lost...)
}

// backoff is the pause after the n-th consecutive failure: short at first, because most
// failures are brief, and at last about a second.
func backoff(n int) time.Duration {
	d := min(time.Second, 25*time.Millisecond<<min(n, 10))
	return d/2 + dice.N(d/2)
}
