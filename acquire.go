package mortise

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/dice"
	"github.com/mortise-go/mortise/internal/script"
)

// request is one call of Lock or TryLock.
type request struct {
	lock  *locker
	seek  primitive // what asks in place of the lock's kind, where it has a queue in Redis
	owner *owner
	as    *waiter         // that asks, if it may hear meanwhile that it has the lock
	id    string          // the lease's, drawn before the first attempt
	start time.Time       // of the last attempt
	seen  int64           // the highest token that the client had seen then
	doubt bool            // an attempt's outcome is not known
	used  bool            // there is a lease with that id
	turn  string          // the id of the client's turn, if it asks as the head of its queue
	told  bool            // it asks because the client was told that the lock is free
	alone bool            // nobody else can act for the owner yet
	row   int             // how often in a row the lock was given, if it was
	entry script.Entry    // what becomes of the client's turn if the attempt is refused
	at    script.Standing // of that turn, after the last refusal
	held  refusal         // what was in the way at the last attempt
}

// run returns a hold as soon as there is one to have.
func (r *request) run(ctx context.Context, wait bool) (*Hold, error) {
	if !r.alone {
		if hold, err := r.reenter(ctx); hold != nil || err != nil {
			return hold, err
		}
	}
	if q, ok := r.lock.kind.(queuer); ok && wait {
		return q.wait(ctx, r)
	}
	hold, w, err := r.ask(ctx, wait)
	if w == nil {
		return hold, err
	}
	defer context.AfterFunc(ctx, w.signal)()
	return r.wait(ctx, w)
}

// ask takes the lock if it is free. Otherwise it puts the request into the queue,
// if it is to wait.
func (r *request) ask(ctx context.Context, wait bool) (hold *Hold, w *waiter, err error) {
	if !wait {
		if hold, err = r.attempt(ctx); hold != nil || err != nil {
			return hold, nil, err
		}
		// A sibling that acts for the same owner may have been faster.
		if hold, err = r.reenter(ctx); hold != nil || err != nil {
			return hold, nil, err
		}
		return nil, nil, r.held
	}
	c, p := r.lock.client, r.lock.place
	if c.listens(r.lock) { // it is busy, and a turn costs no more than an attempt
		return nil, c.join(p, r.owner, r, false), nil
	}
	if _, past, err := r.beside(); err != nil {
		return nil, nil, err
	} else if past {
		if hold, err := r.attempt(ctx); hold != nil || err != nil {
			return hold, nil, err
		}
	}
	if !c.claim(p) {
		return nil, c.join(p, r.owner, r, false), nil
	}
	defer c.unclaim(p)
	if hold, err = r.attempt(ctx); hold == nil && err == nil {
		// Where several may ask at once, none is first: whoever listens stays so.
		w = c.join(p, r.owner, r, !p.shared())
	}
	return hold, w, err
}

// reenter adds to a lease that the owner has already. Without one it returns
// nil and no error.
func (r *request) reenter(ctx context.Context) (*Hold, error) {
	for {
		l := r.owner.lease(r.lock.client, r.lock.place)
		if l == nil {
			return nil, nil
		}
		if r.lock.options.NonReentrant {
			if err := l.state(); err != nil && err != ErrReleased {
				return nil, err
			}
			return nil, ErrReentry
		}
		hold, err := l.reenter(ctx, r.lock)
		if !errors.Is(err, ErrReleased) {
			return hold, err
		}
		r.owner.remove(l) // it was released while we waited for its turn
	}
}

// beside returns what the owner asks with, given what it has on the other side
// of the lock, and whether it need not queue. Of most kinds of lock there is no
// other side.
func (r *request) beside() (ask primitive, past bool, err error) {
	if r.seek != nil {
		return r.seek, false, nil
	}
	if k, ok := r.lock.kind.(sided); ok {
		return k.beside(r.owner)
	}
	return r.lock.kind, false, nil
}

// errCome ends what a waiter asks of Redis that has heard that it has the lock.
var errCome = final(errors.New("the lock was given to this waiter"))

// attempt asks Redis once. If somebody else has the lock it returns nil and no
// error, and r.held says who. For a waiter that has heard that it has the lock it
// returns errCome.
func (r *request) attempt(ctx context.Context) (*Hold, error) {
	k := r.lock
	c := k.client
	if r.id == "" {
		if d, ok := k.kind.(drawer); ok {
			r.id = d.draw()
		} else {
			r.id = c.newID() + k.special.mark
		}
	}
	ask, _, err := r.beside()
	if err != nil {
		return nil, err
	}
	var got grant
	doubt, err := c.callFor(ctx, r.as, c.options.RetryFor, func(ctx context.Context) (err error) {
		if c.hasCome(r.as) {
			return errCome
		}
		r.start, r.seen = time.Now(), k.seen()
		if r.entry != "" {
			got, r.at, err = ask.(turnTaker).await(ctx, r.id, k.ttl(), r.entry)
		} else {
			got, err = ask.acquire(ctx, r.id, k.ttl())
		}
		return err
	})
	r.doubt = r.doubt || doubt
	if err != nil {
		if r.held != nil && ctx.Err() != nil {
			err = &waitError{ctx: err, held: r.held}
		}
		return nil, err
	}
	if !got.ok {
		if r.held = got.lack; got.lack == nil {
			r.held = &HeldError{Holder: Holder{Owner: got.by.Owner, Count: got.by.Count}, TTL: got.by.TTL}
		}
		return nil, nil
	}
	return r.granted(ctx, got.token, k.ttl())
}

// errLate says that a lock was acquired, and given back, because the answer came
// when its time was over.
var errLate = &driver.Error{Class: driver.Passing, Err: errors.New("the lock was acquired, but the answer came after the time of its lease was over")}

// granted makes a hold of a lease that Redis has given, for that time.
func (r *request) granted(ctx context.Context, token int64, ttl time.Duration) (*Hold, error) {
	k := r.lock
	l := newLease(r)
	l.token, l.row, l.expiry = token, uint16(min(r.row, math.MaxUint16)), k.client.time(r.start.Add(ttl))
	trust := k.options.trust(ttl)
	err := k.regressed(r.seen, token)
	if time.Since(r.start) >= trust {
		err = errLate
	}
	if err != nil {
		if _, rerr := k.kind.release(ctx, r.id); rerr != nil {
			r.doubt = true // it may still stand in Redis
		}
		return nil, err
	}
	if err := r.secure(ctx); err != nil {
		return nil, err
	}
	k.client.watchdog.Add(&l.watch, r.start, trust, k.renewed())
	hold := l.hold(ctx, k.renewed())
	r.owner.add(l) // siblings may use it from here on
	if !k.client.granted(l, r.alone) {
		l.end(ErrClosed)
		_, _ = k.kind.release(k.client.lingerer, r.id) // else it stands until its time is over
		return nil, ErrClosed
	}
	r.used = true
	return hold, nil
}

// poll is how long a waiter relies on messages before it looks for itself. A
// message can be lost; this is what that costs.
const poll = time.Second

// wait stands in the queue as w until there is a hold to have. The end of ctx must
// wake w. What is on the stack meanwhile is as little as can be: many may wait at
// once.
func (r *request) wait(ctx context.Context, w *waiter) (*Hold, error) {
	defer r.leave(w)
	for asked := r.held != nil; ; asked = false { // a moment ago, before queueing
		hold, rest, err := r.look(ctx, w, asked)
		if rest {
			err = r.park(ctx, w)
		}
		if hold != nil || err != nil {
			return hold, err
		}
	}
}

// look does what w can do where it stands. It reports true if that is to rest.
func (r *request) look(ctx context.Context, w *waiter, asked bool) (hold *Hold, rest bool, err error) {
	k := r.lock
	c := k.client
	if !r.alone {
		if hold, err = r.reenter(ctx); hold != nil || err != nil {
			return hold, false, err
		}
	}
	_, past, err := r.beside()
	if err != nil {
		return nil, false, err
	}
	at := c.turnOf(k.place, w)
	switch {
	case at.handed:
		if hold, err = r.receive(ctx, c.given(w)); hold == nil && err == nil {
			c.rejoin(k.place, w)
		}
		return hold, false, err
	case at.head:
		hold, err = r.lead(ctx, w, asked)
		return hold, false, err
	case (past || c.asks(w)) && c.setBusy(w, true):
		r.as = nil // nothing is given to one that is not the head
		if hold, err = r.attempt(ctx); hold != nil || err != nil {
			return hold, false, err
		}
		c.setBusy(w, false)
	}
	return nil, true, nil
}

// leave takes w out of the queue, and gives back what it was handed in vain.
func (r *request) leave(w *waiter) {
	c := r.lock.client
	if l := c.leave(r.lock.place, w); l != nil {
		c.giveBack(l)
	}
}

// park waits until w has reason to look where it stands.
func (r *request) park(ctx context.Context, w *waiter) error {
	if !r.over(ctx) {
		<-w.wake
	}
	if r.over(ctx) {
		return r.ended(ctx)
	}
	return nil
}

// over reports whether the wait is.
func (r *request) over(ctx context.Context) bool {
	select {
	case <-r.lock.client.done:
		return true
	default:
		return ctx.Err() != nil
	}
}

// lead asks Redis as the head of the queue, at once unless it asked just now, and
// again whenever something hints that it may succeed. It returns nothing when w
// is not the head any more, or is handed a lease, or somebody who acts for the
// same owner may have one.
func (r *request) lead(ctx context.Context, w *waiter, asked bool) (*Hold, error) {
	k := r.lock
	c := k.client
	var hints, others <-chan struct{} // of one's own channel, and of that of all
	var pace pacer
	refusals := 0
	timer := time.NewTimer(poll)
	defer timer.Stop()
	look := false       // even if a lease of this process is in the way
	var until time.Time // before that no hint makes it ask
	for {
		at := c.turnOf(k.place, w)
		left := at.after.After(until) // to others, as a message has told
		if !left {
			at.after = until
		}
		switch {
		case !at.head:
			return nil, nil
		case at.given:
			if hold, err := r.come(ctx, w); hold != nil || err != nil {
				return hold, err
			}
			c.setBusy(w, false)
			continue
		case !look && !at.after.IsZero() && time.Now().Before(at.after):
			asked = false
			if k.special.pause == nil {
				var err error
				if hints, others, err = r.hear(); err != nil {
					return nil, err
				}
			}
			timer.Reset(time.Until(at.after))
		case look && !at.asking || !at.local:
			if !r.stand(w) {
				continue
			}
			if !asked {
				if kind, ok := k.kind.(claimant); ok {
					kind.lead()
				}
				former := r.held
				hold, err := r.attempt(ctx)
				if err == nil {
					r.answered(hold == nil)
				} else {
					r.unanswered()
				}
				if errors.Is(err, errCome) {
					c.setBusy(w, false)
					asked = false
					continue
				}
				if hold != nil {
					c.admit(k.place)
				}
				if hold != nil || err != nil {
					return hold, err
				}
				if changedHands(former, r.held) {
					pace.genuine()
				}
			}
			c.setBusy(w, false)
			asked = false
			if k.special.pause != nil {
				timer.Reset(c.spinPause(w, k.special.pause(refusals)))
				refusals++
				break
			}
			var err error
			if hints, others, err = r.hear(); err != nil {
				return nil, err
			}
			timer.Reset(r.patience())
		default:
			timer.Reset(jitter(poll))
		}
		look = false
		hinted := false
		select {
		case <-w.wake:
			if !r.alone {
				if hold, err := r.reenter(ctx); hold != nil || err != nil {
					return hold, err
				}
				if _, _, err := r.beside(); err != nil {
					return nil, err
				}
			}
		case <-hints:
			hinted = true
		case <-others:
			hinted = true
		case <-timer.C:
			if look = true; left && !at.local {
				if until = pace.until(until); time.Now().Before(until) {
					look = false
				}
			}
		case <-ctx.Done():
			return nil, r.ended(ctx)
		case <-c.done:
			return nil, r.ended(ctx)
		}
		if hinted && (!left || time.Now().After(at.after)) {
			until = pace.until(until)
		}
	}
}

// patience is how long to wait for a hint after an attempt that was refused:
// until the lease in the way ends, if that is near.
func (r *request) patience() time.Duration {
	d := jitter(r.lock.client.pollOf(r.lock.place))
	if ttl := r.held.left(); ttl >= 0 {
		return min(d, ttl+time.Millisecond)
	}
	return d
}

// ended is the error of a wait that is over.
func (r *request) ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return ErrClosed
	}
	return &waitError{ctx: contextError(ctx), held: r.held}
}

// jitter spreads the looks of many waiters.
func jitter(d time.Duration) time.Duration { return d*9/10 + dice.N(d/5) }

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
func (p *pacer) next(now time.Time) time.Duration { return p.share(now, 1) }

// until is the instant before which a hint makes nobody ask; what that is so far
// stays until then.
func (p *pacer) until(so time.Time) time.Time {
	now := time.Now()
	if now.Before(so) {
		return so
	}
	return now.Add(p.next(now))
}

// genuine takes an attempt off the count that has shown that the hint told the
// truth.
func (p *pacer) genuine() { p.count = max(p.count-1, 0) }

// changedHands reports whether a lock was released between two refusals: it has
// another holder, or a lease that nobody has renewed.
func changedHands(former, now refusal) bool {
	was, _ := former.(*HeldError)
	is, _ := now.(*HeldError)
	return was != nil && is != nil && (was.Owner != is.Owner || is.TTL > was.TTL)
}

// share is next for one of n who hear the same hints, for whom the bound is one:
// but each may ask as often as it does without hints.
func (p *pacer) share(now time.Time, n int) time.Duration {
	window, most := min(max(paceWindow, paceWindow*time.Duration(n)/paceCount), poll), max(paceCount/n, 1)
	if now.Sub(p.since) >= window {
		p.since, p.count = now, 0
	}
	if p.count >= most {
		p.since, p.count = p.since.Add(window), 0 // it is made then
	}
	p.count++
	return max(p.since.Sub(now), 0)
}
