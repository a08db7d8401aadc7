// Package watchdog keeps the leases of a client alive, and says when one can
// no longer be trusted.
//
// There is one watchdog per client: one goroutine and one timer for all
// leases. A lease is trusted from the start of the last attempt that Redis
// confirmed until its TTL later, less a margin. The clock starts before the
// request is sent, so that trust ends before the key can expire whatever the
// network did. Trust ends on time even while a renewal hangs, because renewals
// run beside the scheduler, one at a time for each server.
package watchdog

import (
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// State is Redis' answer about one lease.
type State int

// The answers about a lease.
const (
	Renewed State = iota
	Gone          // the key does not exist any more
	Taken         // somebody else has the key
	Failed        // no answer, or an error
)

// Answer is the outcome of renewing one lease.
type Answer struct {
	State State
	Err   error // for Failed
}

// Reason says why a lease was lost.
type Reason int

// The reasons for a loss.
const (
	// LostGone: Redis answered that the key does not exist.
	LostGone Reason = iota
	// LostTaken: Redis answered that somebody else has the key.
	LostTaken
	// LostExpired: the lease was not to be renewed, and its time is over.
	LostExpired
	// LostUnconfirmed: the lease was to be renewed, but no renewal was
	// confirmed in time.
	LostUnconfirmed
)

// Config is what a watchdog needs to know of the world.
type Config struct {
	// Renew extends the leases, all of one shard. It must return when ctx
	// ends, with one answer for each lease.
	Renew func(ctx context.Context, leases []*Lease) []Answer
	// Shard groups leases: those of different shards are renewed
	// independently.
	Shard func(l *Lease) string
}

// Watchdog is the scheduler. Its methods are safe for concurrent use.
type Watchdog struct {
	config Config
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wake   chan struct{} // capacity 1: the earliest event has changed
	wg     sync.WaitGroup

	mu      sync.Mutex // guards what follows, and the lower part of every Lease
	events  schedule
	queues  map[string][]*errand // due leases per shard; an entry means that its worker runs
	started bool
	closed  bool
}

// New returns a watchdog. Its goroutine starts with the first lease.
func New(config Config) *Watchdog {
	ctx, cancel := context.WithCancel(context.Background())
	return &Watchdog{
		config: config, ctx: ctx, cancel: cancel,
		wake: make(chan struct{}, 1), queues: make(map[string][]*errand),
	}
}

// Add starts to watch a lease that Redis confirmed, to be trusted for trust
// from start, when that attempt began.
func (w *Watchdog) Add(l *Lease, start time.Time, trust time.Duration, renew bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.until, l.renew = start.Add(trust), renew
	l.next = start.Add(l.period()) // which depends on renew
	if w.closed {
		return
	}
	heap.Push(&w.events, l)
	if !w.started {
		w.started = true
		w.wg.Go(w.run)
	}
	w.moved(l)
}

// Confirm notes that Redis confirmed the lease once more, to be trusted for
// trust from start. It never shortens the trust. It reports false if the lease
// is not watched any more: it was lost or removed meanwhile.
func (w *Watchdog) Confirm(l *Lease, start time.Time, trust time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !l.watched {
		return false
	}
	if until := start.Add(trust); until.After(l.until) {
		l.until = until
		w.fix(l)
	}
	return true
}

// SetRenew changes whether a lease is renewed.
func (w *Watchdog) SetRenew(l *Lease, renew bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !l.watched || l.renew == renew {
		return
	}
	l.renew = renew
	if now := time.Now(); renew && l.next.Before(now) {
		l.next = now
	} else if next := now.Add(l.period()); renew && next.Before(l.next) {
		l.next = next // it was only looked after, which is less often
	}
	w.fix(l)
}

// Remove stops watching a lease: it is renewed no more, and will not be
// reported as lost. It reports false if the lease was not watched any more.
func (w *Watchdog) Remove(l *Lease) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.remove(l)
}

// Hand makes to the lease that is watched instead of from: it has the same
// record in Redis, and its exported fields say the same except whose it is. To
// takes over the end of trust, whether it is renewed and when next. The answer
// to a renewal that is under way counts for it. From is not watched any more,
// as after [Watchdog.Remove].
//
// It reports false, and changes nothing, if from was not watched any more or
// its trust is over.
func (w *Watchdog) Hand(from, to *Lease) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !from.watched || from.over(time.Now()) {
		return false
	}
	to.until, to.next, to.renew, to.extend = from.until, from.next, from.renew, from.extend
	to.failures, to.err = from.failures, from.err
	if to.errand = from.errand; to.errand != nil {
		to.errand.lease = to
		from.errand = nil
	}
	to.index, to.watched, from.watched = from.index, true, false
	w.events[to.index] = to
	return true
}

// remove must be called with w.mu held.
func (w *Watchdog) remove(l *Lease) bool {
	if !l.watched {
		return false
	}
	heap.Remove(&w.events, l.index)
	return true
}

// Until returns the instant at which trust in the lease ends, as things stand.
func (w *Watchdog) Until(l *Lease) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return l.until
}

// Expire loses the lease at once if its trust is over, and reports whether it
// is. It exists because a process that was frozen asks before the watchdog's
// own timer has had its turn.
func (w *Watchdog) Expire(l *Lease) bool {
	w.mu.Lock()
	if !l.over(time.Now()) {
		w.mu.Unlock()
		return false
	}
	was := w.remove(l)
	lost := l.overdue()
	w.mu.Unlock()
	if was {
		lost.report()
	}
	return true
}

// Close ends the watchdog and waits for its goroutines. Leases are neither
// renewed nor reported from then on.
func (w *Watchdog) Close() {
	w.mu.Lock()
	w.closed = true
	for len(w.events) > 0 {
		heap.Pop(&w.events)
	}
	w.mu.Unlock()
	w.cancel()
	w.wg.Wait()
}

// fix restores the order after a change to l, with w.mu held.
func (w *Watchdog) fix(l *Lease) {
	heap.Fix(&w.events, l.index)
	w.moved(l)
}

// moved wakes the scheduler if l is its next event, with w.mu held.
func (w *Watchdog) moved(l *Lease) {
	if l.index != 0 {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Watchdog) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(time.Until(w.step(time.Now())))
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.ctx.Done():
			return
		}
	}
}

// step handles every event that is due, and returns when the next one is: an
// instant, because reporting many losses takes time.
func (w *Watchdog) step(now time.Time) (next time.Time) {
	var lost []loss
	renewing := false
	next = now.Add(time.Hour)
	w.mu.Lock()
	for len(w.events) > 0 {
		l := w.events[0]
		if at := l.at(); at.After(now) && (!renewing || !l.soon(now)) {
			next = at
			break
		}
		if l.over(now) {
			heap.Pop(&w.events)
			lost = append(lost, l.overdue())
			continue
		}
		renewing = true
		w.enqueue(l)
		heap.Fix(&w.events, l.index)
	}
	w.mu.Unlock()
	for _, l := range lost {
		l.report()
	}
	return next
}

// enqueue hands l to its shard's worker, with w.mu held.
func (w *Watchdog) enqueue(l *Lease) {
	shard := w.config.Shard(l)
	queue, running := w.queues[shard]
	l.errand = &errand{l}
	w.queues[shard] = append(queue, l.errand)
	if !running {
		w.wg.Go(func() { w.work(shard) })
	}
}

// work renews the due leases of one shard until there are none.
func (w *Watchdog) work(shard string) {
	for {
		w.mu.Lock()
		errands, leases := w.due(shard)
		if len(leases) == 0 || w.closed {
			delete(w.queues, shard)
			w.mu.Unlock()
			return
		}
		start := time.Now()
		limit := attemptLimit(start, leases)
		w.mu.Unlock()

		ctx, cancel := context.WithTimeoutCause(w.ctx, limit, errAttempt)
		answers := w.config.Renew(ctx, leases)
		cancel()
		w.settle(errands, answers, start)
	}
}

// due empties the queue of a shard, and returns the leases that are still to
// be renewed, with w.mu held. While they waited behind a slow attempt, some may
// have been removed or lost; to renew those would only keep others waiting.
func (w *Watchdog) due(shard string) (errands []*errand, leases []*Lease) {
	errands = slices.DeleteFunc(w.queues[shard], func(e *errand) bool {
		l := e.lease
		if l.watched && l.wanted() {
			l.extend = l.renew
			leases = append(leases, l)
			return false
		}
		l.errand = nil
		return true
	})
	w.queues[shard] = nil
	return errands, leases
}

var errAttempt = errors.New("the renewal took too long")

// The bounds of one attempt to renew. An attempt that hangs must leave time
// for another one, on another connection, while the lease is still trusted.
const (
	shortestAttempt = 50 * time.Millisecond
	longestAttempt  = 5 * time.Second
)

// attemptLimit is half the trust that the most urgent lease has left.
func attemptLimit(now time.Time, leases []*Lease) time.Duration {
	limit := longestAttempt
	for _, l := range leases {
		limit = min(limit, l.until.Sub(now)/2)
	}
	return max(limit, shortestAttempt)
}

// settle takes the answers of one attempt into the table.
func (w *Watchdog) settle(errands []*errand, answers []Answer, start time.Time) {
	var lost []loss
	w.mu.Lock()
	now := time.Now()
	for i, e := range errands {
		l := e.lease
		l.errand = nil
		if !l.watched {
			continue // removed, or its trust ended, while the attempt ran
		}
		switch answers[i].State {
		case Renewed:
			if until := start.Add(l.Trust); l.extend && until.After(l.until) {
				l.until = until
			}
			l.next, l.failures, l.err = start.Add(l.period()), 0, nil
			w.fix(l)
		case Failed:
			l.failures++
			l.err = answers[i].Err
			l.next = now.Add(backoff(l.failures))
			w.fix(l)
		case Gone:
			w.remove(l)
			lost = append(lost, loss{l, LostGone, nil})
		case Taken:
			w.remove(l)
			lost = append(lost, loss{l, LostTaken, nil})
		}
	}
	w.mu.Unlock()
	for _, l := range lost {
		l.report()
	}
}

// backoff is the pause after the n-th failure in a row: short at first,
// because most troubles are short, and about a second at last.
func backoff(n int) time.Duration {
	d := min(time.Second, 25*time.Millisecond<<min(n, 10))
	return d/2 + rand.N(d/2)
}
