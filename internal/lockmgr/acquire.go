package lockmgr

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/internal/script"
)

// request is one call of Lock or TryLock.
type request struct {
	lock     *Lock
	queueOps Ops             // replaces the lock's own ops where waiters queue in Redis
	owner    *Owner          // that the context carries; nil if no other request can act for it
	waiter   *waiter         // that asks, if it may be granted the lock meanwhile
	id       string          // of the lease, drawn before the first attempt
	turn     string          // the id of the client's turn, if it asks as the head of its queue
	start    time.Time       // of the last attempt
	seen     int64           // the highest token that the client had seen then
	doubt    bool            // the outcome of an attempt is unknown
	notified bool            // it asks because the lock was left to Redisson's threads
	yields   bool            // it may not know that the lock is left to them
	claimed  bool            // an attempt may have left a claim
	streak   uint16          // how often in a row the lock was granted, if this is a grant
	row      uint16          // the same if it was granted before the attempt that has got it
	spare    int32           // how many permits others may acquire, after the last attempt if that had success
	entry    script.Entry    // of the client's turn, made if the attempt is refused
	at       script.Standing // of that turn, after the last refusal
	refused  *refusal        // what was in the way at the last attempt; nil if nothing was yet
	told     *observation    // of the call; nil if nobody observes it
	room     [3]string       // for the words of the first attempt
}

// errNoHold says that there is no hold yet: Redis has refused the lock, a grant or
// a hand-off was lost again, or the owner has no lease to re-enter. The request
// tries the next way to the lock, or waits.
var errNoHold = errors.New("no hold yet")

// Acquire acquires or re-enters the lock for the owner that ctx carries. If wait is true,
// it blocks until it has the lock or ctx ends. The context of the hold descends from ctx.
// [Client.Because] makes its error one for callers.
func (k *Lock) Acquire(ctx context.Context, wait bool) (*Hold, error) {
	return k.acquire(ctx, wait, true)
}

// acquire is Acquire. A part of a composite is not reported: only the whole is.
func (k *Lock) acquire(ctx context.Context, wait, tells bool) (*Hold, error) {
	if k.options.Wait > 0 && !limited(ctx) { // what such a wait needs besides is not part of the stacks of other waits
		return k.acquireWithin(ctx, wait, tells)
	}
	if err := k.client.begin(); err != nil {
		return k.untried(ctx, tells, err)
	}
	defer k.client.running.done()
	r, err := k.request(ctx)
	if err != nil {
		return k.untried(ctx, tells, err)
	}
	if tells {
		r.told = k.client.observe(ctx, k.Name(), k.traits.Kind)
	}
	hold, err := r.run(ctx, wait)
	return r.settle(ctx, wait, hold, err)
}

// untried concludes a call that has failed with err before it could try.
func (k *Lock) untried(ctx context.Context, tells bool, err error) (*Hold, error) {
	var told *observation
	if tells {
		told = k.client.observe(ctx, k.Name(), k.traits.Kind)
	}
	return k.client.settled(told, nil, err)
}

// request checks the arguments and returns the request of the owner that ctx carries.
func (k *Lock) request(ctx context.Context) (*request, error) {
	if err := k.sound(); err != nil {
		return nil, err
	}
	if err := CheckContext(ctx); err != nil {
		return nil, err
	}
	if err := k.ready(ctx); err != nil {
		return nil, err
	}
	r := &request{lock: k}
	if !k.traits.Unowned {
		r.owner = ownerOf(ctx)
	}
	return r, nil
}

// sound checks the arguments. It sends nothing.
func (k *Lock) sound() error {
	if err := k.checkName(); err != nil {
		return err
	}
	if k.traits.Flaw != nil {
		return k.traits.Flaw
	}
	if k.options.MinHold != 0 && !k.traits.Keeps {
		return errKeeps
	}
	return k.options.Validate(k.client.config.TTL)
}

// ready asks Redis for what a request must know before it acquires a lock.
func (k *Lock) ready(ctx context.Context) error {
	if _, err := k.learnTopology(ctx); err != nil {
		return err
	}
	return k.client.replicas.canWait(ctx, k.name, k.options.Durability)
}

// run returns a hold as soon as there is one. If wait is false, it returns a refusal
// instead of waiting.
func (r *request) run(ctx context.Context, wait bool) (*Hold, error) {
	hold, err := r.reenter(ctx)
	if !errors.Is(err, errNoHold) {
		return hold, err
	}
	if !wait {
		return r.try(ctx)
	}
	if r.lock.traits.Queue != nil {
		return r.waitInRedis(ctx)
	}
	hold, s, err := r.enqueue(ctx)
	if !errors.Is(err, errNoHold) {
		return hold, err
	}
	if ctx.Done() == nil {
		return s.wait(ctx)
	}
	stop := context.AfterFunc(ctx, s.w.signal)
	hold, err = s.wait(ctx)
	stop()
	return hold, err
}

// try asks once.
func (r *request) try(ctx context.Context) (*Hold, error) {
	hold, err := r.attempt(ctx)
	if errors.Is(err, errNoHold) { // another request of the same owner may have been faster
		hold, err = r.reenter(ctx)
	}
	if errors.Is(err, errNoHold) {
		err = r.refused.asError(r.lock.client.errors)
	}
	return hold, err
}

// enqueue acquires the lock if it is free and no goroutine of this client waits for it.
// Otherwise it returns errNoHold, and the contest whose waiter is in the queue.
func (r *request) enqueue(ctx context.Context) (hold *Hold, s *contest, err error) {
	if !r.lock.site().listens(r.lock.sharedAs) { // else it is busy, and a turn costs no more than an attempt
		if hold, err = r.bypass(ctx); !errors.Is(err, errNoHold) {
			return hold, nil, err
		}
		if before, ok := r.lock.site().reserve(); ok {
			return r.askReserved(ctx, before)
		}
	}
	s = newContest(ctx, r)
	r.lock.site().join(&s.w, false)
	r.lock.client.waits(r.told)
	return nil, s, errNoHold
}

// bypass asks at once if the owner need not queue.
func (r *request) bypass(ctx context.Context) (*Hold, error) {
	if _, past, err := r.admission(); err != nil || !past {
		return nil, cmp.Or(err, errNoHold)
	}
	return r.attempt(ctx)
}

// askReserved asks without a queue. The caller has reserved the place for that.
func (r *request) askReserved(ctx context.Context, before uint64) (hold *Hold, s *contest, err error) {
	at := r.lock.site()
	defer at.unreserve()
	if hold, err = r.attempt(ctx); errors.Is(err, errNoHold) {
		// On a shared place several may ask at once, and none is first: the waiter
		// that listens stays in front.
		s = newContest(ctx, r)
		at.joinAsked(&s.w, !at.shared(), before)
		at.note(r.refused, nil)
		r.lock.client.waits(r.told)
	}
	return hold, s, err
}

// admission returns the scripts with which the owner asks, and whether it need not queue,
// given its other leases. For most kinds of lock those do not matter.
func (r *request) admission() (ask Ops, past bool, err error) {
	if r.queueOps != nil {
		return r.queueOps, false, nil
	}
	if admission := r.lock.traits.Admission; admission != nil {
		return admission(r.lock, r.owner)
	}
	return r.lock.ops, false, nil
}

// errGranted ends an attempt of a waiter that was notified of a grant.
var errGranted = Final(errors.New("the lock was granted to this waiter"))

// newID returns the id of a new lease.
func (k *Lock) newID() string {
	if draw := k.traits.Draw; draw != nil {
		return draw(k.ops)
	}
	return k.client.NewID() + k.traits.Mark
}

// attempt asks Redis once, and once more if Redis refused because of a lease that this client
// has released. If Redis refuses, r.refused says what is in the way. It returns errGranted for a
// waiter that was notified of a grant.
func (r *request) attempt(ctx context.Context) (*Hold, error) {
	hold, err := r.askOnce(ctx)
	if errors.Is(err, errNoHold) && r.undoForgotten(ctx) {
		hold, err = r.askOnce(ctx)
	}
	return hold, err
}

// askOnce is attempt without repeating the request.
func (r *request) askOnce(ctx context.Context) (*Hold, error) {
	k := r.lock
	c := k.client
	if r.id == "" {
		r.id = k.newID()
	}
	ask, _, err := r.admission()
	if err != nil {
		return nil, err
	}
	var got script.Grant
	patience, err := r.waiter.patience(c)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	doubt, err := c.callFor(ctx, r.waiter, patience, func(within context.Context) (err error) {
		if r.waiter.isGranted() {
			return errGranted
		}
		a := script.Attempt{ID: r.id, Lease: k.ttl(), Entry: r.entry, Yields: r.yields}
		if at := k.site(); at.claims() && r.waiter != nil {
			r.claimed, a.Claim, a.Client = true, true, at.claimant()
		}
		if r.start.IsZero() { // no later attempt: the words of the first one may still be on their way
			a.Room = &r.room
		}
		r.start, r.seen = time.Now(), k.seen()
		got, err = ask.Acquire(within, a)
		if r.entry != "" {
			r.at = got.At
		}
		if err != nil {
			k.site().noteFailure(ctx, began, err)
		}
		return err
	})
	r.doubt = r.doubt || doubt
	if err != nil {
		if ctx.Err() != nil && isUnanswered(err) {
			err = r.gaveUp(ctx, err)
			k.site().noteSilence()
		}
		return nil, err
	}
	if !got.OK {
		r.refused = &refusal{by: got.By, lack: got.Lack}
		r.told.refusedBy(r.refused)
		k.site().note(r.refused, nil)
		return nil, errNoHold
	}
	r.spare = int32(got.Spare)
	r.row = r.grantedBefore()
	return r.newHold(ctx, got.Token, k.ttl())
}

// newHold returns a hold of the lease that Redis has given to r, with that TTL.
func (r *request) newHold(ctx context.Context, token int64, ttl time.Duration) (*Hold, error) {
	k := r.lock
	r.told.came(HowFree)
	l := newLease(r)
	l.streak, l.row, l.expiry = r.streak, max(r.streak, r.row), k.client.time(r.start.Add(ttl))
	trust := k.options.trust(ttl)
	err := k.regressed(r.seen, token)
	if time.Since(r.start) >= trust {
		err = errLate
	}
	refused := err != nil
	if !refused {
		l.token, err = r.secure(ctx, token, ttl)
	}
	if err != nil {
		r.undo(ctx, !refused && isSilence(err))
		return nil, err
	}
	k.noteToken(l.token)
	k.client.watchdog.Add(&l.watch, r.start, trust, k.renewed())
	hold := l.addHold(ctx, k, r.start)
	if k.options.MaxHold != 0 && k.renewed() {
		l.updateRenewal()
	}
	l.owner.add(l) // other requests of the owner may re-enter it from here on
	if !l.register(r.owner == nil) {
		l.end(endClosed)
		_, _ = k.release(k.client.lingerer, r.id) // else it stays in Redis until its TTL ends
		return nil, ErrClosed
	}
	return hold, nil
}

// settle concludes a call that got hold from r, or failed with err. It is not part of acquire to keep the stacks of waiting
// goroutines small.
func (r *request) settle(ctx context.Context, wait bool, hold *Hold, err error) (*Hold, error) {
	told := r.told
	hold, err = r.repeat(ctx, wait, hold, err)
	return r.lock.client.settled(told, hold, err)
}

// settled counts, and reports, what became of a call.
func (c *Client) settled(told *observation, hold *Hold, err error) (*Hold, error) {
	c.counters.count(err)
	c.concluded(told, hold, err)
	return hold, err
}
