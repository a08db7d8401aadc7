package waiting

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
)

// request is one call of Lock or TryLock.
type request struct {
	lease.Request
	queueOps lease.Ops        // replaces the lock's own ops where waiters queue in Redis
	waiter   *Waiter          // that asks, if it may be granted the lock meanwhile
	turn     string           // the id of the client's turn, if it asks as the head of its queue
	notified bool             // it asks because the lock was left to Redisson's threads
	yields   bool             // it may not know that the lock is left to them
	claimed  bool             // an attempt may have left a claim
	spare    int32            // how many permits others may acquire, after the last attempt if that had success
	entry    script.Entry     // of the client's turn, made if the attempt is refused
	at       script.Standing  // of that turn, after the last refusal
	refused  *outcome.Refusal // what was in the way at the last attempt; nil if nothing was yet
	known    error            // what was in the way when the wait ended, for callers; nil if that is not known
	room     [3]string        // for the words of the first attempt
}

// Acquire acquires or re-enters the lock for the owner that ctx carries. If wait is true,
// it blocks until it has the lock or ctx ends. The context of the hold descends from ctx.
// [Client.Because] makes its error one for callers.
func Acquire(ctx context.Context, k *lease.Lock, wait bool) (*lease.Hold, error) {
	return acquire(ctx, k, wait, wholeCall)
}

// AcquirePart is Acquire for one lock of several: the whole has a limit, and only the whole is reported.
func AcquirePart(ctx context.Context, k *lease.Lock, wait bool) (*lease.Hold, error) {
	return acquire(ctx, k, wait, partOfCall)
}

// extent is how much of a call an acquisition is.
type extent uint8

const (
	wholeCall   extent = iota // a call, with the limit of its wait
	limitedCall               // the same, whose context has that limit
	partOfCall                // one lock of several
)

// acquire is Acquire for that extent.
func acquire(ctx context.Context, k *lease.Lock, wait bool, of extent) (*lease.Hold, error) {
	if k.Options().Wait > 0 && of == wholeCall {
		return acquireWithin(ctx, k, wait)
	}
	if err := k.Client().Begin(); err != nil {
		return untried(ctx, k, of, err)
	}
	defer k.Client().Finish()
	r, err := newRequest(ctx, k)
	if err != nil {
		return untried(ctx, k, of, err)
	}
	if of != partOfCall {
		r.Call = k.Client().Observe(ctx, k.Name(), k.Traits().Kind)
	}
	hold, err := r.run(ctx, wait)
	return r.settle(ctx, wait, hold, err)
}

// acquireWithin is Acquire with a limit of the wait, for other owners or only for Redis. What it needs besides is not part of the
// stacks of other waits.
func acquireWithin(ctx context.Context, k *lease.Lock, wait bool) (*lease.Hold, error) {
	ctx, cancel := outcome.Within(ctx, k.Options().Wait)
	defer cancel()
	return acquire(ctx, k, wait, limitedCall)
}

// untried concludes a call that has failed with err before it could try.
func untried(ctx context.Context, k *lease.Lock, of extent, err error) (*lease.Hold, error) {
	var told *lease.Call
	if of != partOfCall {
		told = k.Client().Observe(ctx, k.Name(), k.Traits().Kind)
	}
	return k.Client().Settled(told, nil, err)
}

// newRequest checks the arguments and returns the request of the owner that ctx carries.
func newRequest(ctx context.Context, k *lease.Lock) (*request, error) {
	if err := k.Sound(); err != nil {
		return nil, err
	}
	if err := outcome.CheckContext(ctx); err != nil {
		return nil, err
	}
	if err := k.Ready(ctx); err != nil {
		return nil, err
	}
	r := &request{Request: lease.Request{Lock: k}}
	if !k.Traits().Unowned {
		r.Owner = lease.OwnerOf(ctx)
	}
	return r, nil
}

// run returns a hold as soon as there is one. If wait is false, it returns a refusal
// instead of waiting.
func (r *request) run(ctx context.Context, wait bool) (*lease.Hold, error) {
	hold, err := r.reenter(ctx)
	if !errors.Is(err, lease.ErrNoHold) {
		return hold, err
	}
	if !wait {
		return r.try(ctx)
	}
	if r.Lock.Traits().Queue != nil {
		return r.waitInRedis(ctx)
	}
	hold, s, err := r.enqueue(ctx)
	if !errors.Is(err, lease.ErrNoHold) {
		return hold, err
	}
	if ctx.Done() == nil {
		return s.wait(ctx)
	}
	stop := context.AfterFunc(ctx, s.w.Signal)
	hold, err = s.wait(ctx)
	stop()
	return hold, err
}

// try asks once.
func (r *request) try(ctx context.Context) (*lease.Hold, error) {
	hold, err := r.attempt(ctx)
	if errors.Is(err, lease.ErrNoHold) { // another request of the same owner may have been faster
		hold, err = r.reenter(ctx)
	}
	if errors.Is(err, lease.ErrNoHold) {
		err = r.refused.AsError(r.Lock.Client().Errors())
	}
	return hold, err
}

// enqueue acquires the lock if it is free and no goroutine of this client waits for it.
// Otherwise it returns ErrNoHold, and the contest whose waiter is in the queue.
func (r *request) enqueue(ctx context.Context) (hold *lease.Hold, s *contest, err error) {
	if !SiteOf(r.Lock).Listens(func() string { return sharedAs(r.Lock) }) { // else it is busy, and a turn costs no more than an attempt
		if hold, err = r.bypass(ctx); !errors.Is(err, lease.ErrNoHold) {
			return hold, nil, err
		}
		if before, ok := SiteOf(r.Lock).Reserve(); ok {
			return r.askReserved(ctx, before)
		}
	}
	s = newContest(ctx, r)
	SiteOf(r.Lock).Join(&s.w, false)
	r.Lock.Client().NoteWait(r.Call)
	return nil, s, lease.ErrNoHold
}

// bypass asks at once if the owner need not queue.
func (r *request) bypass(ctx context.Context) (*lease.Hold, error) {
	if _, past, err := r.admission(); err != nil || !past {
		return nil, cmp.Or(err, lease.ErrNoHold)
	}
	return r.attempt(ctx)
}

// askReserved asks without a queue. The caller has reserved the place for that.
func (r *request) askReserved(ctx context.Context, before uint64) (hold *lease.Hold, s *contest, err error) {
	at := SiteOf(r.Lock)
	defer at.unreserve()
	if hold, err = r.attempt(ctx); errors.Is(err, lease.ErrNoHold) {
		// On a shared place several may ask at once, and none is first: the waiter
		// that listens stays in front.
		s = newContest(ctx, r)
		at.JoinAsked(&s.w, !at.Shared(), before)
		at.Note(r.refused, nil)
		r.Lock.Client().NoteWait(r.Call)
	}
	return hold, s, err
}

// admission returns the scripts with which the owner asks, and whether it need not queue,
// given its other leases. For most kinds of lock those do not matter.
func (r *request) admission() (ask lease.Ops, past bool, err error) {
	if r.queueOps != nil {
		return r.queueOps, false, nil
	}
	if admission := r.Lock.Traits().Admission; admission != nil {
		return admission(r.Lock, r.Owner)
	}
	return r.Lock.Ops(), false, nil
}

// queues returns the queues of the client.
func (r *request) queues() *Queues { return QueuesOf(r.Lock.Client()) }

// errGranted ends an attempt of a waiter that was notified of a grant.
var errGranted = outcome.Final(errors.New("the lock was granted to this waiter"))

// attempt asks Redis once, and once more if Redis refused because of a lease that this client
// has released. If Redis refuses, r.refused says what is in the way. It returns errGranted for a
// waiter that was notified of a grant.
func (r *request) attempt(ctx context.Context) (*lease.Hold, error) {
	hold, err := r.askOnce(ctx)
	if errors.Is(err, lease.ErrNoHold) && r.refused != nil && r.refused.Lack == nil && r.UndoForgotten(ctx, r.refused.By.Owner) {
		hold, err = r.askOnce(ctx)
	}
	return hold, err
}

// askOnce is attempt without repeating the request.
func (r *request) askOnce(ctx context.Context) (*lease.Hold, error) {
	k := r.Lock
	c := k.Client()
	if r.ID == "" {
		r.ID = k.NewID()
	}
	ask, _, err := r.admission()
	if err != nil {
		return nil, err
	}
	var got script.Grant
	patience, err := r.waiter.Patience(r.queues())
	if err != nil {
		return nil, err
	}
	began := time.Now()
	doubt, err := c.CallFor(ctx, r.waiter, patience, func(within context.Context) (err error) {
		if r.waiter.isGranted() {
			return errGranted
		}
		a := script.Attempt{ID: r.ID, Lease: k.TTL(), Entry: r.entry, Yields: r.yields}
		if at := SiteOf(k); at.Claims() && r.waiter != nil {
			r.claimed, a.Claim, a.Client = true, true, at.Claimant()
		}
		if r.Start.IsZero() { // no later attempt: the words of the first one may still be on their way
			a.Room = &r.room
		}
		r.Start, r.Seen = time.Now(), k.Seen()
		got, err = ask.Acquire(within, a)
		if r.entry != "" {
			r.at = got.At
		}
		if err != nil {
			SiteOf(k).NoteFailure(ctx, began, err)
		}
		return err
	})
	r.Doubt = r.Doubt || doubt
	if err != nil {
		if ctx.Err() != nil && outcome.IsUnanswered(err) {
			r.noteObstacle()
			SiteOf(k).noteSilence()
		}
		return nil, err
	}
	if !got.OK {
		r.refused = &outcome.Refusal{By: got.By, Lack: got.Lack}
		r.Call.RefusedBy(r.refused)
		SiteOf(k).Note(r.refused, nil)
		return nil, lease.ErrNoHold
	}
	r.spare = int32(got.Spare)
	r.Row = r.grantedBefore()
	return r.newHold(ctx, got.Token, k.TTL())
}

// NewHold returns a hold of the lease that Redis has given to r, with that TTL. If it fails, the id has had the lock all the same, so
// the client's turn must not go on with it.
func (r *request) newHold(ctx context.Context, token int64, ttl time.Duration) (*lease.Hold, error) {
	hold, err := r.Take(ctx, token, ttl)
	if err != nil {
		c := r.Lock.Client()
		c.Mu.Lock()
		defer c.Mu.Unlock()
		if q := SiteOf(r.Lock).queue(); q != nil && q.turn.id == r.ID {
			q.turn.finish()
		}
	}
	return hold, err
}

// settle concludes a call that got hold from r, or failed with err. It is not part of acquire to keep the stacks of waiting
// goroutines small.
func (r *request) settle(ctx context.Context, wait bool, hold *lease.Hold, err error) (*lease.Hold, error) {
	told := r.Call
	hold, err = r.repeat(ctx, wait, hold, err)
	return r.Lock.Client().Settled(told, hold, err)
}
