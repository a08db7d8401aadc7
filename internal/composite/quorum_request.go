package composite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mortise-go/mortise/internal/dice"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/waiting"
)

// quorumRequest is one call of Lock or TryLock for a Quorum: it asks the servers in
// rounds, as often as needed.
type quorumRequest struct {
	*Quorum
	owner   *lease.Owner
	told    *lease.Call // of the call; nil if nobody observes it
	servers []serverState
	refusal *outcome.Refusal // the last one; nil if there was none

	waiting.Sleeper // this and the following fields are those of a waiting call
	waiter          *waiting.Waiter
	subscriptions   *quorumSubscriptions
	awaits          awaited
	next            time.Time // the end of the sleep after the last round, unless it ends early
	failing         time.Time // since when too few servers answer; zero if enough do
	splits          int       // how often in a row the vote was split
	hold            *lease.Hold
}

// awaited is what a waiting quorumRequest sleeps for.
type awaited uint8

const (
	awaitsTurn    awaited = iota // to be the first of its process: only a wake-up ends the sleep
	awaitsRelease                // a release: a notification, a wake-up or the time for a poll does
	awaitsQuorum                 // that enough servers can be asked again: only time does
	awaitsBackoff                // that requests of the same moment have the lock: only time does
)

// onlyTime reports whether neither a wake-up nor a notification ends the sleep.
func (a awaited) onlyTime() bool { return a == awaitsQuorum || a == awaitsBackoff }

// newQuorumRequest returns the request of the owner that ctx carries.
func newQuorumRequest(ctx context.Context, k *Quorum) *quorumRequest {
	r := &quorumRequest{Quorum: k, owner: lease.OwnerOf(ctx), servers: make([]serverState, len(k.locks))}
	if r.owner == nil {
		r.owner = new(lease.Owner)
	}
	return r
}

// wait asks until the lock is acquired.
func (r *quorumRequest) wait(ctx context.Context) (*lease.Hold, error) {
	w := waiting.NewWaiter(r.site().Queues, r.owner)
	w.Within = lease.NestedIn(ctx)
	w.Within.WaitUnder(1)
	defer w.Within.WaitUnder(-1)
	r.site().Join(w, false)
	defer r.site().Leave(w)
	for _, lock := range r.locks {
		defer context.AfterFunc(lock.Client().Life(), w.Signal)()
	}
	r.subscriptions = newQuorumSubscriptions(r.Quorum)
	defer r.subscriptions.close()
	r.waiter, r.Sleeper = w, waiting.Sleeper{Wake: w.Wake, Own: r.subscriptions.received}
	if err := r.Sleeper.Run(ctx, r); err != nil {
		return nil, outcome.WhyEnded(ctx, r.obstacle(), err)
	}
	return r.hold, nil
}

// Step asks the servers, if there is reason to.
func (r *quorumRequest) Step(ctx context.Context, why waiting.Cause) (d time.Duration, err error) {
	client := r.locks[0].Client()
	if r.closed() > r.tolerance() {
		return 0, outcome.ErrClosed
	}
	head := r.site().Position(r.waiter) == waiting.First
	if why == waiting.Notified {
		// A notification of a server that has not refused may be the release of
		// what it granted to us in a failed round.
		if from := r.subscriptions.drain(); r.awaits.onlyTime() || head && !r.refusedBy(from) {
			return r.sleepOn()
		}
		if d := r.Pace.Next(time.Now()); d > 0 && !client.Sleep(ctx, d) && ctx.Err() != nil {
			return 0, outcome.ErrEnded
		}
	}
	if !head && !r.reenters() {
		r.awaits = awaitsTurn
		return waiting.UntilWoken, lease.ErrNoHold // the waiter that leaves the queue wakes the next
	}
	if r.awaits.onlyTime() && why == waiting.Woken {
		return r.sleepOn()
	}
	hold, split, err := r.round(ctx)
	if err == nil {
		r.hold = hold
		return 0, nil
	}
	if d, err = r.afterFailure(ctx, split, err); errors.Is(err, lease.ErrNoHold) {
		client.NoteWait(r.told)
	}
	r.next = time.Now().Add(d)
	return d, err
}

// sleepOn returns the remaining time of an interrupted sleep.
func (r *quorumRequest) sleepOn() (time.Duration, error) {
	return max(time.Until(r.next), 0), lease.ErrNoHold
}

// afterFailure returns how long to sleep after a failed round; or the error of the wait,
// if another round cannot help.
func (r *quorumRequest) afterFailure(ctx context.Context, split bool, err error) (time.Duration, error) {
	switch now := time.Now(); {
	case outcome.IsWaitError(err):
		return 0, err
	case errors.Is(err, outcome.ErrNoQuorum):
		if r.failing.IsZero() {
			r.failing = now
		}
		if r.failsForGood() || (r.retryFor() >= 0 && now.Sub(r.failing) >= r.retryFor()) {
			return 0, err
		}
		r.awaits = awaitsQuorum
		return r.untilReady(), lease.ErrNoHold
	case !errors.Is(err, outcome.ErrLocked):
		return 0, err
	case ctx.Err() != nil:
		return 0, outcome.ErrEnded
	case split:
		// Others asked at the same time. The first to retry gets the lock, so
		// retries must not coincide. A notification meanwhile may be of our own
		// release.
		r.failing, r.awaits = time.Time{}, awaitsBackoff
		r.splits++
		return dice.N(10 * time.Millisecond << min(r.splits-1, 5)), lease.ErrNoHold
	default:
		r.failing, r.splits, r.awaits = time.Time{}, 0, awaitsRelease
		return waiting.Jitter(outcome.Poll), cmp.Or(r.subscriptions.open(), lease.ErrNoHold)
	}
}

// reenters reports whether the owner holds the lock on some server, so that the request
// need not queue.
func (r *quorumRequest) reenters() bool { return slices.ContainsFunc(r.locks, r.owner.Has) }

// wakeOwner wakes the waiters of the same owner for the same lock.
func (r *quorumRequest) wakeOwner() {
	at := r.site()
	at.Queues.Mu.Lock()
	defer at.Queues.Mu.Unlock()
	at.WakeOwner(r.owner)
}

// refusedBy reports whether one of the given servers refused in the last round.
func (r *quorumRequest) refusedBy(servers []int) bool {
	return slices.ContainsFunc(servers, func(nth int) bool { return r.servers[nth].refused() })
}

// heldElsewhere reports whether one other holder, or several that stay, have the lock on
// so many servers that no other owner can get it.
func (r *quorumRequest) heldElsewhere() bool {
	n := 0
	for i := range r.servers {
		if r.servers[i].answer == refusedAgain {
			n++
		}
	}
	return n > r.tolerance()
}

// noQuorum is the error for too few answers.
func (r *quorumRequest) noQuorum(answered int) error {
	e := &quorumError{answered: answered, total: len(r.servers), majority: r.majority}
	for i := range r.servers {
		err := r.servers[i].err
		if failed := r.locks[i].Client().LastFailure(); err == nil && failed != nil {
			err = outcome.Unreachable(failed)
		}
		if err != nil {
			e.errs = append(e.errs, r.serverError(i, err))
		}
	}
	return e
}

// refusedWith returns the error for the last refusal; nil if there was none.
func (r *quorumRequest) refusedWith() error {
	if r.refusal == nil {
		return nil
	}
	return r.refusal.AsError(r.locks[0].Client().Errors()).Err
}

// obstacle returns what the last round of the process has found, or else why there is no
// such round.
func (r *quorumRequest) obstacle() error {
	if known := r.site().Obstacle(0); known != nil {
		return known
	}
	return fmt.Errorf("%w: %w", outcome.ErrUnreachable, r.noQuorum(0))
}

// failsForGood reports whether too many servers failed in a way that a retry cannot help.
func (r *quorumRequest) failsForGood() bool {
	n := 0
	for i := range r.servers {
		if err := r.servers[i].err; err != nil && !errors.Is(err, outcome.ErrUnreachable) {
			n++
		}
	}
	return n > r.tolerance()
}

// untilReady is how long to wait until enough servers can be asked again.
func (r *quorumRequest) untilReady() time.Duration {
	var waits []time.Duration
	for i := range r.servers {
		s := &r.servers[i]
		d := max(time.Until(s.retryAt), 0)
		if s.pending.Load() {
			d = max(d, 10*time.Millisecond)
		}
		waits = append(waits, d)
	}
	slices.Sort(waits)
	return max(waits[r.majority-1], time.Millisecond)
}
