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
	busy     bool // queued, or in an attempt
	failures int  // failed attempts since the last success
	err      error
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
	queue, running := w.queues[in]
	if l.renewal == nil {
		l.renewal = &renewal{lease: l}
	}
	l.renewal.busy = true
	w.queues[in] = append(queue, l.renewal)
	if !running {
		w.wg.Go(func() { w.work(in) })
	}
	return len(queue) + 1
}

// work renews the due leases of one lane until there are none.
func (w *Watchdog) work(in lane) {
	for {
		w.mu.Lock()
		renewals, leases := w.due(in)
		if len(leases) == 0 || w.closed {
			delete(w.queues, in)
			w.mu.Unlock()
			return
		}
		start := w.now()
		limit := attemptLimit(start, leases)
		w.mu.Unlock()

		ctx, cancel := context.WithTimeoutCause(w.ctx, limit, errAttempt)
		answers := w.config.Renew(ctx, leases)
		cancel()
		w.settle(renewals, answers, start)
	}
}

// due empties the queue of a lane, and returns the leases that still need a renewal. Others
// were removed or lost while they were queued behind a slow attempt; renewing them would only
// delay the rest. The caller holds w.mu.
func (w *Watchdog) due(in lane) (renewals []*renewal, leases []*Lease) {
	leases = make([]*Lease, 0, len(w.queues[in]))
	renewals = slices.DeleteFunc(w.queues[in], func(e *renewal) bool {
		l := e.lease
		if l.watched && l.wanted() {
			l.extend = l.renew
			leases = append(leases, l)
			return false
		}
		e.busy = false
		return true
	})
	w.queues[in] = nil
	return renewals, leases
}

var errAttempt = errors.New("the renewal took too long")

// The bounds of one attempt to renew. A hanging attempt must leave time for another one, on
// another connection, while the lease is still trusted.
const (
	shortestAttempt = 50 * time.Millisecond
	longestAttempt  = 5 * time.Second
)

// attemptLimit is half of the remaining trust of the most urgent lease.
func attemptLimit(now instant, leases []*Lease) time.Duration {
	limit := longestAttempt
	for _, l := range leases {
		limit = min(limit, (l.until.mono-now.mono)/2)
	}
	return max(limit, shortestAttempt)
}

// settle applies the answers of one attempt.
func (w *Watchdog) settle(renewals []*renewal, answers []Answer, start instant) {
	var lost []loss
	w.mu.Lock()
	now := w.now()
	together := len(renewals) > max(spreadAbove, len(w.events)/10)
	for i, e := range renewals {
		l := e.lease
		e.busy = false
		if !l.watched {
			continue // removed, or its trust ended, while the attempt ran
		}
		switch answers[i].State {
		case Renewed:
			if l.extend {
				w.trust(l, start.add(l.Terms.Trust))
			}
			failed := e.failures > 0 && len(w.events) > spreadAbove // other leases may have failed too
			l.next, l.renewal = start.mono+l.pause(together || failed), nil
			w.fix(l)
		case Failed:
			e.failures++
			e.err = answers[i].Err
			l.next = now.mono + backoff(e.failures)
			w.fix(l)
		case Gone:
			w.remove(l)
			lost = append(lost, loss{l, LostGone, answers[i].Err})
		case Taken:
			w.remove(l)
			lost = append(lost, loss{l, LostTaken, answers[i].Err})
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
