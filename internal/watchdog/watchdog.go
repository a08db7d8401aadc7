// Package watchdog keeps the leases of a client alive, and reports when one can no longer be
// trusted.
//
// Each client has one watchdog: one goroutine and one timer for all leases. A lease is trusted
// from the start of the last attempt that Redis confirmed until its TTL later, minus a margin.
// The clock starts before the request is sent, so that trust ends before the key can expire
// whatever the network did. Trust ends on time even while a renewal hangs, because renewals
// run concurrently with the scheduler, one at a time for each server.
package watchdog

import (
	"context"
	"sync"
	"time"
)

// State is Redis' answer about one lease.
type State int

// The answers about a lease.
const (
	Renewed State = iota
	Gone          // the key does not exist any more
	Taken         // the key has another owner
	Failed        // no answer, or an error
)

// Answer is the outcome of renewing one lease.
type Answer struct {
	State State
	Err   error // for Failed; otherwise the cause of the state, if known
}

// Reason says why a lease was lost.
type Reason int

// The reasons for a loss.
const (
	// LostGone: Redis answered that the key does not exist.
	LostGone Reason = iota
	// LostTaken: Redis answered that the key has another owner.
	LostTaken
	// LostExpired: the lease is not renewed, and has ended, or its limit has come.
	LostExpired
	// LostUnconfirmed: the lease is renewed, but no renewal was confirmed in time.
	LostUnconfirmed
)

// Config configures a watchdog.
type Config struct {
	// Renew renews leases, all of one shard. It may be called several times at once. It must
	// return when ctx ends, with one answer for each lease.
	Renew func(ctx context.Context, leases []*Lease) []Answer
	// Shard groups leases: those of different shards are renewed independently, as are those
	// of very different length.
	Shard func(l *Lease) string
	// Lost is called at most once for each lease, when it is lost. It must not block.
	Lost func(l *Lease, reason Reason, err error)
	// Paused, if set, is called when the process stood still for about that time while there
	// were leases. The scheduler wakes up four times a second for it.
	Paused func(d time.Duration)
}

// Watchdog is the scheduler. Its methods are safe for concurrent use.
type Watchdog struct {
	config Config
	base   time.Time       // its time counts from here
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wake   chan struct{} // capacity 1: the earliest event has changed
	wg     sync.WaitGroup

	mu      sync.Mutex // guards the fields below, and the lower part of every Lease
	events  schedule
	limits  map[*Lease]instant // the latest end of trust, of those leases that have one
	queues  map[lane]*queue    // due leases; a lane with an entry has a running worker
	asleep  time.Duration      // when the scheduler wakes up at the latest
	woken   time.Duration      // when it was woken last
	started bool
	closed  bool
}

// New returns a watchdog. Its goroutine starts with the first lease.
func New(config Config) *Watchdog {
	ctx, cancel := context.WithCancel(context.Background())
	return &Watchdog{
		config: config, base: time.Now(), ctx: ctx, cancel: cancel,
		wake: make(chan struct{}, 1), limits: make(map[*Lease]instant), queues: make(map[lane]*queue),
	}
}

// at returns t in the watchdog's time.
func (w *Watchdog) at(t time.Time) instant {
	return instant{t.Sub(w.base), t.Round(0).Sub(w.base.Round(0))}
}

// now returns the present.
func (w *Watchdog) now() instant { return w.at(time.Now()) }

// Add starts to watch a lease that Redis has confirmed. The lease is trusted for trust from
// start, the beginning of the confirmed attempt.
func (w *Watchdog) Add(l *Lease, start time.Time, trust time.Duration, renew bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	began := w.at(start)
	l.until, l.renew = began.add(trust), renew
	l.next = began.mono + l.pause(len(w.events) > spreadAbove) // depends on renew
	if renew && l.next >= l.until.mono {
		l.next = began.mono + trust/3 // the present lease is shorter than a renewed one
	}
	if w.closed {
		return
	}
	w.events.add(l)
	if !w.started {
		w.started, w.woken = true, w.now().mono
		w.wg.Go(w.run)
	}
	w.moved(l)
}

// Confirm records that Redis has confirmed the lease again: it is trusted for trust from
// start. Confirm never shortens the trust. It reports false if the lease is not watched any
// more: it was lost or removed meanwhile.
func (w *Watchdog) Confirm(l *Lease, start time.Time, trust time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !l.watched {
		return false
	}
	if w.trust(l, w.at(start).add(trust)) {
		w.fix(l)
	}
	return true
}

// trust moves the end of trust to until and reports true, unless until is earlier than the
// present end. The caller holds w.mu.
func (w *Watchdog) trust(l *Lease, until instant) bool {
	if end, ok := w.limits[l]; ok && until.mono >= end.mono {
		until, l.capped = end, true
	}
	if until.mono <= l.until.mono {
		return false
	}
	l.until = until
	return true
}

// SetLimit sets when trust in a lease ends at the latest, although it is renewed. The zero
// time removes the limit. Only the next confirmation extends a trust that the former limit
// has cut.
func (w *Watchdog) SetLimit(l *Lease, end time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !l.watched {
		return
	}
	l.capped = false
	if end.IsZero() {
		delete(w.limits, l)
		return
	}
	limit := w.at(end)
	if w.limits[l] = limit; limit.mono <= l.until.mono {
		l.until, l.capped = limit, true
		w.fix(l)
	}
}

// SetRenew changes whether a lease is renewed.
func (w *Watchdog) SetRenew(l *Lease, renew bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !l.watched || l.renew == renew {
		return
	}
	l.renew = renew
	if now := w.now().mono; renew {
		// Until now it was only checked, which is less frequent, if at all.
		l.next = min(max(l.next, now), now+l.period())
	}
	w.fix(l)
}

// Remove stops watching a lease: it is not renewed any more, and not reported as lost. It
// reports false if the lease was not watched any more.
func (w *Watchdog) Remove(l *Lease) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.remove(l)
}

// Hand watches to instead of from. Both are the same record in Redis, and their exported
// fields are equal except for the holder. The lease to takes over the end of trust, whether
// it is renewed, and when next; the answer to a renewal in flight counts for it. From is not
// watched any more, as after [Watchdog.Remove].
//
// It reports false, and changes nothing, if from was not watched any more, has a limit, or its
// trust has ended or has less than least left.
func (w *Watchdog) Hand(from, to *Lease, least time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if _, limited := w.limits[from]; limited || !from.watched || from.over(now) || from.until.mono-now.mono < least {
		return false
	}
	to.until, to.next, to.renew, to.extend = from.until, from.next, from.renew, from.extend
	if to.renewal = from.renewal; to.renewal != nil {
		to.renewal.lease = to
		from.renewal = nil
	}
	to.index, to.watched, from.watched = from.index, true, false
	w.events[to.index].lease = to
	return true
}

// remove stops watching a lease. The caller holds w.mu.
func (w *Watchdog) remove(l *Lease) bool {
	if !l.watched {
		return false
	}
	w.events.remove(l)
	delete(w.limits, l)
	return true
}

// Until returns the instant at which trust in the lease ends, as things stand.
func (w *Watchdog) Until(l *Lease) time.Time {
	w.mu.Lock()
	until := l.until.mono
	w.mu.Unlock()
	now := time.Now()
	return now.Add(until - w.at(now).mono) // by the present wall clock
}

// Failure returns why the last attempt to renew the lease has failed, and nil if it has not. For a lease that is still
// queued for its first one, it is why another one has failed.
func (w *Watchdog) Failure(l *Lease) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.renewal == nil {
		return nil
	}
	return l.renewal.failure()
}

// Expire ends the lease at once if its trust has ended, and reports whether it has, with the
// reason and error that Lost receives. It is needed because a process that was frozen may ask
// before the watchdog's own timer has fired. If the watchdog has just ended the lease itself,
// it may still be about to call Lost.
func (w *Watchdog) Expire(l *Lease) (over bool, why Reason, err error) {
	w.mu.Lock()
	if !l.over(w.now()) {
		w.mu.Unlock()
		return false, 0, nil
	}
	was := w.remove(l)
	lost := l.overdue()
	w.mu.Unlock()
	if was {
		w.report(lost)
	}
	return true, lost.reason, lost.err
}

// Close ends the watchdog and waits for its goroutines. From then on, leases are neither
// renewed nor reported.
func (w *Watchdog) Close() {
	w.mu.Lock()
	w.closed = true
	for len(w.events) > 0 {
		w.remove(w.events[len(w.events)-1].lease)
	}
	w.mu.Unlock()
	w.cancel()
	w.wg.Wait()
}

// fix restores the order after a change to l. The caller holds w.mu.
func (w *Watchdog) fix(l *Lease) {
	w.events.fix(l)
	w.moved(l)
}

// moved wakes the scheduler if l is its next event, earlier than it would wake up. The
// caller holds w.mu.
func (w *Watchdog) moved(l *Lease) {
	if l.index != 0 || w.events[0].at >= w.asleep {
		return
	}
	w.asleep = w.events[0].at
	select {
	case w.wake <- struct{}{}:
		w.woken = w.now().mono
	default:
	}
}

func (w *Watchdog) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	w.woke(w.since())
	for {
		next := w.step()
		due := w.doze(next)
		timer.Reset(due - w.now().mono)
		select {
		case <-timer.C:
		case <-w.wake:
			due = min(due, w.since())
		case <-w.ctx.Done():
			return
		}
		w.woke(due)
	}
}

const (
	dozeTime = 250 * time.Millisecond // how long the scheduler sleeps at most, if pauses are reported
	lateBy   = 250 * time.Millisecond // how much later than it should it wakes up after a pause
)

// doze returns until when the scheduler sleeps, whose next event is due at next.
func (w *Watchdog) doze(next time.Duration) time.Duration {
	if w.config.Paused == nil {
		return next
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.events) == 0 {
		return next
	}
	return min(next, w.now().mono+dozeTime)
}

// since returns when the scheduler was woken last. The process may stand still before it runs.
func (w *Watchdog) since() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.woken
}

// woke reports a pause if the scheduler woke up much later than it should: both clocks may have
// moved on in a pause, or only that of the wall.
func (w *Watchdog) woke(due time.Duration) {
	if late := w.now().mono - due; w.config.Paused != nil && late > lateBy {
		w.config.Paused(late)
	}
}

// step handles every event that is due, and returns when the next one is: an instant, because
// reporting many losses takes time.
func (w *Watchdog) step() (next time.Duration) {
	var lost []loss
	w.mu.Lock()
	now := w.now()
	next = now.mono + time.Hour
	if w.asleep > now.mono && w.config.Paused == nil {
		next = w.asleep // a lease that comes and goes before this wakes nobody; to report pauses, the first lease must
	}
	for renewing, enough := false, false; len(w.events) > 0; {
		l := w.events[0].lease
		if at := w.events[0].at; at > now.mono && (!renewing || enough || !l.soon(now)) {
			next = at
			break
		}
		if l.over(now) {
			w.remove(l)
			lost = append(lost, l.overdue())
			continue
		}
		renewing = true
		enough = w.enqueue(l) >= fullBatch || enough
		w.events.fix(l)
	}
	w.asleep = next
	w.mu.Unlock()
	w.report(lost...)
	return next
}

// report reports losses.
func (w *Watchdog) report(lost ...loss) {
	for _, l := range lost {
		w.config.Lost(l.lease, l.reason, l.err)
	}
}
