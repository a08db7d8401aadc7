package mortise

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/mortise-go/mortise/internal/hub"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// Lock is a mutual exclusion lock across processes, the counterpart of
// Redisson's RLock: both can hold, and wait for, the same one. It is held by
// an owner, who may take it again; it is not fair between processes, but
// goroutines of one client get it in the order in which they asked.
//
// A Lock holds no resources. Its methods are safe for concurrent use.
//
// What it does not guarantee: that a holder which is frozen, or does not look
// at its context, has stopped when its lease is over and the next one starts.
// It relies on the clocks of Redis and of this process running at similar
// speed, and on Redis not losing what it has acknowledged, as it may when it
// fails over or restarts.
type Lock struct {
	client  *Client
	name    string
	options LockOptions
}

// Lock returns the lock called name. It does no I/O. A name has 1 to 512 bytes
// of UTF-8 without control characters; see [Options.AllowAnyName] for what
// else is refused. What is wrong with a name is reported when it is used.
func (c *Client) Lock(name string) *Lock { return &Lock{client: c, name: name} }

// With returns the same lock, to be taken with these options.
func (k *Lock) With(options LockOptions) *Lock {
	return &Lock{client: k.client, name: k.name, options: options}
}

// Name returns the name of the lock.
func (k *Lock) Name() string { return k.name }

// Do takes the lock, calls f, and releases the lock, also if f panics. It
// waits like [Lock.Lock]. The context given to f ends when the lease is lost,
// with cause [ErrLost], before another can have the lock; f should return
// then.
//
// It returns the error of f joined with that of the release, so that nil means
// that f succeeded and the lock was held until f was done.
func (k *Lock) Do(ctx context.Context, f func(ctx context.Context) error) (err error) {
	hold, ctx, err := k.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if uerr := hold.Unlock(); uerr != nil {
			err = errors.Join(err, uerr)
		}
	}()
	return f(ctx)
}

// Lock takes the lock, waiting for it until ctx ends. The returned context is
// derived from ctx. It carries the owner, so that taking the same lock with it
// re-enters, and it ends when the hold does: when it is released, or when the
// lease is lost, with cause [ErrLost], before another can have the lock. Work
// under the lock should use it. In case of an error it is ctx itself.
//
// The end of ctx does not release the lock; only [Hold.Unlock] does.
//
// Errors: the error of ctx, which also matches [ErrLocked] if the lock was
// seen to be held; [ErrReentry]; [ErrLost] if ctx carries an owner whose
// lease on this lock was lost and not yet unlocked; [ErrWrongKind],
// [ErrUnreachable], [ErrDenied], [ErrInvalid], [ErrClosed].
func (k *Lock) Lock(ctx context.Context) (*Hold, context.Context, error) {
	return k.enter(ctx, "lock", true)
}

// TryLock takes the lock if it is free, or held by the owner that ctx carries.
// It does not wait for other owners: [ErrLocked] says that one of them has
// it, and [HeldError] which. It does try again while Redis cannot serve, see
// [Options.RetryFor]. Everything else is as with [Lock.Lock].
func (k *Lock) TryLock(ctx context.Context) (*Hold, context.Context, error) {
	return k.enter(ctx, "try lock", false)
}

func (k *Lock) enter(ctx context.Context, op string, wait bool) (*Hold, context.Context, error) {
	hold, err := k.take(ctx, wait)
	if err != nil {
		return nil, ctx, &Error{Op: op, Name: k.name, Err: because(ctx, err)}
	}
	return hold, hold.ctx, nil
}

// take checks the arguments and acquires or re-enters.
func (k *Lock) take(ctx context.Context, wait bool) (*Hold, error) {
	c := k.client
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.running.Done()
	if err := c.check(k.name); err != nil {
		return nil, err
	}
	if err := k.options.validate(c.options.Lease); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	if _, err := c.publish(ctx, k.name); err != nil {
		return nil, err
	}
	r := &request{lock: k, owner: ownerOf(ctx)}
	if r.owner == nil {
		r.owner = new(owner)
	}
	hold, err := r.run(ctx, wait)
	if err != nil && r.doubt {
		c.abandon(k, r.id, k.ttl())
	}
	return hold, err
}

// ttl is the lease that is asked of Redis.
func (k *Lock) ttl() time.Duration { return cmp.Or(k.options.Lease, k.client.options.Lease) }

// renewed reports whether the watchdog keeps the lock.
func (k *Lock) renewed() bool { return k.options.Lease == 0 }

// request is one call of Lock or TryLock.
type request struct {
	lock  *Lock
	owner *owner
	id    string     // the lease's, drawn before the first attempt
	start time.Time  // of the last attempt
	doubt bool       // an attempt's outcome is not known
	held  *HeldError // who was in the way at the last attempt
}

// run returns a hold as soon as there is one to have.
func (r *request) run(ctx context.Context, wait bool) (*Hold, error) {
	c, name := r.lock.client, r.lock.name
	if hold, err := r.reenter(ctx); hold != nil || err != nil {
		return hold, err
	}
	if !wait {
		if hold, err := r.attempt(ctx); hold != nil || err != nil {
			return hold, err
		}
		// A sibling that acts for the same owner may have been faster.
		if hold, err := r.reenter(ctx); hold != nil || err != nil {
			return hold, err
		}
		return nil, r.held
	}
	if !c.claim(name) {
		return r.wait(ctx, c.join(name, r.owner, false))
	}
	hold, err := r.attempt(ctx)
	if hold != nil || err != nil {
		c.unclaim(name)
		return hold, err
	}
	w := c.join(name, r.owner, true)
	c.unclaim(name)
	return r.wait(ctx, w)
}

// reenter adds to a lease that the owner has already. Without one it returns
// nil and no error.
func (r *request) reenter(ctx context.Context) (*Hold, error) {
	for {
		l := r.owner.lease(r.lock.client, r.lock.name)
		if l == nil {
			return nil, nil
		}
		if r.lock.options.NonReentrant {
			return nil, ErrReentry
		}
		hold, err := l.reenter(ctx, r.lock)
		if !errors.Is(err, ErrReleased) {
			return hold, err
		}
		r.owner.remove(l) // it was released while we waited for its turn
	}
}

// attempt asks Redis once. If somebody else has the lock it returns nil and no
// error, and r.held says who.
func (r *request) attempt(ctx context.Context) (*Hold, error) {
	k := r.lock
	c := k.client
	if r.id == "" {
		r.id = c.newID()
	}
	var ok bool
	var by script.Holder
	doubt, err := c.call(ctx, c.options.RetryFor, func(ctx context.Context) (err error) {
		r.start = time.Now()
		ok, by, err = k.acquire(ctx, r.id, k.ttl())
		return err
	})
	r.doubt = r.doubt || doubt
	if err != nil {
		if r.held != nil && ctx.Err() != nil {
			err = &waitError{ctx: err, held: r.held}
		}
		return nil, err
	}
	if !ok {
		r.held = &HeldError{Holder: Holder{Owner: by.Owner, Count: by.Count}, TTL: by.TTL}
		return nil, nil
	}
	return r.granted(ctx)
}

// granted makes a hold of a lease that Redis has given.
func (r *request) granted(ctx context.Context) (*Hold, error) {
	k := r.lock
	l := newLease(r)
	trust := k.options.trust(k.ttl())
	if time.Since(r.start) >= trust {
		r.doubt = true // it may still stand in Redis
		return nil, &LostError{Reason: LostExpired, Err: errors.New("the answer of Redis came after the time was over")}
	}
	k.client.watchdog.Add(&l.watch, r.start, trust, k.renewed())
	r.owner.add(l)
	hold := l.hold(ctx, k.renewed())
	if !k.client.granted(l) {
		l.end(ErrClosed)
		_, _ = k.release(k.client.lingerer, r.id) // else it stands until its time is over
		return nil, ErrClosed
	}
	return hold, nil
}

// poll is how long a waiter relies on messages before it looks for itself. A
// message can be lost; this is what that costs.
const poll = time.Second

// wait stands in the queue as w until there is a hold to have. The head of
// the queue asks Redis again whenever something hints that it may succeed.
func (r *request) wait(ctx context.Context, w *waiter) (*Hold, error) {
	k := r.lock
	c := k.client
	defer c.leave(k.name, w)

	var hints <-chan struct{}
	var pace pacer
	timer := time.NewTimer(poll)
	defer timer.Stop()
	look := false          // even if a lease of this process is in the way
	asked := r.held != nil // a moment ago, before queueing
	for {
		if hold, err := r.reenter(ctx); hold != nil || err != nil {
			return hold, err
		}
		head, local := c.turnOf(k.name, w)
		if head && (look || !local) {
			if !asked {
				if hold, err := r.attempt(ctx); hold != nil || err != nil {
					return hold, err
				}
			}
			asked = false
			listener := c.listen(k.name, keyspace.LockChannel(k.name), k.hearing())
			hints = listener.Hints()
			if err := listener.Refused(); err != nil {
				return nil, err
			}
			timer.Reset(r.patience())
		} else if head {
			timer.Reset(jitter(poll))
		}
		look = false
		select {
		case <-w.wake:
		case <-hints:
			if d := pace.next(time.Now()); d > 0 && !c.pause(ctx, d) {
				return nil, r.ended(ctx)
			}
		case <-timer.C:
			look = true
		case <-ctx.Done():
			return nil, r.ended(ctx)
		case <-c.done:
			return nil, r.ended(ctx)
		}
	}
}

// patience is how long to wait for a hint after an attempt that was refused:
// until the lease in the way ends, if that is near.
func (r *request) patience() time.Duration {
	if ttl := r.held.TTL; ttl >= 0 {
		return min(jitter(poll), ttl+time.Millisecond)
	}
	return jitter(poll)
}

// ended is the error of a wait that is over.
func (r *request) ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return ErrClosed
	}
	return &waitError{ctx: contextError(ctx), held: r.held}
}

// jitter spreads the looks of many waiters.
func jitter(d time.Duration) time.Duration { return d*9/10 + rand.N(d/5) }

// pacer bounds the attempts that hints can cause: anybody may publish.
type pacer struct {
	since time.Time
	count int
}

// The most attempts in a window: far more than a busy lock has reason for.
const (
	paceWindow = 100 * time.Millisecond
	paceCount  = 20
)

// next returns how long to wait before the attempt that a hint asks for.
func (p *pacer) next(now time.Time) time.Duration {
	if now.Sub(p.since) >= paceWindow {
		p.since, p.count = now, 0
	}
	if p.count++; p.count <= paceCount {
		return 0
	}
	return p.since.Add(paceWindow).Sub(now)
}

// ForceUnlock frees the lock whoever holds it, and returns that holder, or nil
// if nobody did. Others who wait are woken. The holder is not asked and, if it
// is a mortise client, learns of it at the next renewal at the latest, within
// a third of its lease: until then two may believe that they hold the lock.
//
// It blocks for one round trip. Errors: [ErrWrongKind], [ErrUnreachable],
// [ErrDenied], [ErrInvalid], [ErrClosed], the error of ctx.
func (k *Lock) ForceUnlock(ctx context.Context) (*Holder, error) {
	var by script.Holder
	freed := false
	err := k.operate(ctx, "force unlock", func(ctx context.Context, p script.Publish) (err error) {
		var now bool
		now, by, err = script.LockForce(ctx, k.client.driver, k.name, keyspace.LockChannel(k.name), p)
		freed = freed || now
		return err
	})
	if freed {
		k.forced(by.Owner)
		return &Holder{Owner: by.Owner, Count: by.Count}, err
	}
	return nil, err
}

// UnlockOwner frees the lock if owner, as [Holder.Owner] or [Hold.Owner] show
// it, still holds it, whatever the count, and reports whether it did. It is a
// tool for operators: the holder is not asked. Everything else is as with
// [Lock.ForceUnlock].
func (k *Lock) UnlockOwner(ctx context.Context, owner string) (bool, error) {
	freed := false
	err := k.operate(ctx, "unlock owner", func(ctx context.Context, p script.Publish) error {
		now, err := script.LockRelease(ctx, k.client.driver, k.name, owner, keyspace.LockChannel(k.name), p)
		freed = freed || now
		return err
	})
	if freed {
		k.forced(owner)
	}
	return freed, err
}

// forced tells the holder at once if it is in this process.
func (k *Lock) forced(id string) {
	k.client.mu.Lock()
	l := k.client.held[k.name]
	k.client.mu.Unlock()
	if l != nil && l.id == id {
		l.end(&LostError{Reason: LostForced})
	}
}

// operate runs a script that is neither an acquisition nor a release.
func (k *Lock) operate(ctx context.Context, op string, f func(context.Context, script.Publish) error) error {
	c := k.client
	run := func() error {
		if err := c.begin(); err != nil {
			return err
		}
		defer c.running.Done()
		if err := c.check(k.name); err != nil {
			return err
		}
		p, err := c.publish(ctx, k.name)
		if err != nil {
			return err
		}
		_, err = c.call(ctx, c.options.RetryFor, func(ctx context.Context) error { return f(ctx, p) })
		return err
	}
	if err := run(); err != nil {
		return &Error{Op: op, Name: k.name, Err: because(ctx, err)}
	}
	return nil
}

// hearing says how the lock's channel is subscribed.
func (k *Lock) hearing() hub.Kind {
	p := k.speaking()
	return hub.Kind{Classic: p != script.Sharded, Sharded: p != script.Classic}
}

// speaking says how releases are announced; take has found that out.
func (k *Lock) speaking() script.Publish { return *k.client.announce.Load() }

// What follows makes Lock a primitive.

func (k *Lock) acquire(ctx context.Context, id string, lease time.Duration) (bool, script.Holder, error) {
	return script.LockAcquire(ctx, k.client.driver, k.name, id, lease)
}

func (k *Lock) reenter(ctx context.Context, id string, count int, lease time.Duration) (bool, error) {
	return script.LockReenter(ctx, k.client.driver, k.name, id, count, lease)
}

func (k *Lock) leave(ctx context.Context, id string, count int) (bool, error) {
	return script.LockLeave(ctx, k.client.driver, k.name, id, count)
}

func (k *Lock) release(ctx context.Context, id string) (bool, error) {
	return script.LockRelease(ctx, k.client.driver, k.name, id, keyspace.LockChannel(k.name), k.speaking())
}
