package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
)

// Request is what a call knows of the lease that it asks for.
type Request struct {
	Lock   *Lock
	Owner  *Owner    // that the context carries; nil if no other request can act for it
	ID     string    // of the lease, drawn before the first attempt
	Start  time.Time // of the last attempt
	Seen   int64     // the highest token that the client had seen then
	Doubt  bool      // the outcome of an attempt is unknown
	Streak uint16    // how often in a row the lock was granted, if this is a grant
	Row    uint16    // the same if it was granted before the attempt that has got it
	Call   *Call     // of the call; nil if nobody observes it
}

// ErrNoHold says that there is no hold yet: Redis has refused the lock, a grant or
// a hand-off was lost again, or the owner has no lease to re-enter. The request
// tries the next way to the lock, or waits.
var ErrNoHold = errors.New("no hold yet")

// NewID returns the id of a new lease.
func (k *Lock) NewID() string {
	if draw := k.traits.Draw; draw != nil {
		return draw(k.ops)
	}
	return k.client.NewID() + k.traits.Mark
}

// Reenter adds a hold to a lease that the owner already has. It returns ErrNoHold if there is none.
func (r *Request) Reenter(ctx context.Context) (*Hold, error) {
	for {
		l := r.Owner.leaseOn(r.Lock.client, r.Lock.Place())
		if l == nil {
			return nil, ErrNoHold
		}
		if r.Lock.options.NonReentrant {
			if end := l.Over(); end != nil && end != endReleased {
				return nil, end.Err
			}
			return nil, outcome.ErrReentry
		}
		hold, err := l.Reenter(ctx, r.Lock)
		if !errors.Is(err, outcome.ErrReleased) {
			r.Call.Came(outcome.HowReentered)
			return hold, err
		}
		r.Owner.remove(l) // it was released while r waited to change its count
	}
}

// ErrLate says that a lock was acquired and released again, because Redis replied after
// the trust in its lease had ended.
var ErrLate = &driver.Error{Class: driver.Passing, Err: errors.New("the lock was acquired, but Redis replied after the trust in its lease had ended; it was released again")}

// Take returns a hold of the lease that Redis has given to r, with that TTL and, of a kind that has them, that token. If the lease
// cannot be used, it is released again.
func (r *Request) Take(ctx context.Context, token int64, ttl time.Duration) (*Hold, error) {
	k := r.Lock
	r.Call.Came(outcome.HowFree)
	l := newLease(r)
	l.streak, l.row, l.expiry = r.Streak, max(r.Streak, r.Row), k.client.Time(r.Start.Add(ttl))
	trust := k.options.Trust(ttl)
	err := k.regressed(r.Seen, token)
	if time.Since(r.Start) >= trust {
		err = ErrLate
	}
	refused := err != nil
	if !refused {
		l.token, err = r.secure(ctx, token, ttl)
	}
	if err != nil {
		r.undo(ctx, !refused && outcome.IsSilence(err))
		return nil, err
	}
	k.noteToken(l.token)
	k.client.watchdog.Add(&l.watch, r.Start, trust, k.Renewed())
	hold := l.AddHold(ctx, k, r.Start)
	if k.options.MaxHold != 0 && k.Renewed() {
		l.updateRenewal()
	}
	l.owner.Add(l) // other requests of the owner may re-enter it from here on
	if !l.register(r.Owner == nil) {
		l.end(EndClosed)
		_, _ = k.Release(k.client.lingerer, r.ID) // else it stays in Redis until its TTL ends
		return nil, outcome.ErrClosed
	}
	return hold, nil
}

// secure waits until an acquired lease is durable. It returns the token, or the one that was drawn last.
//
// It does not only look for the lease: of a master that took over since the acquisition, the replicas may have acknowledged
// an older state of it. That may be a grant, which lasts for a moment, or the lease may have been extended since, or
// have drawn a later token. So it makes sure of all of it once more.
func (r *Request) secure(ctx context.Context, token int64, ttl time.Duration) (int64, error) {
	k := r.Lock
	d, c := k.options.Durability, k.client
	if d.None() {
		return token, nil
	}
	trusted, cancel := context.WithDeadline(ctx, r.Start.Add(k.options.Trust(ttl)))
	defer cancel()
	var got script.Grant
	_, err := c.Call(trusted, c.patience(d), func(ctx context.Context) (err error) {
		got, err = k.reenter(ctx, r.ID, 0, r.Start.Add(ttl), d, r.Seen)
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case !got.OK:
		return 0, fmt.Errorf("%w: the lease was gone before replicas acknowledged it, as after a failover", outcome.ErrNotDurable)
	}
	return cmp.Or(got.Token, token), nil
}

// undo releases a lease that r has acquired and cannot use. If r has waited for Redis in vain since, it does not wait again: the
// janitor releases the lease.
func (r *Request) undo(ctx context.Context, silent bool) {
	if silent {
		r.Doubt = true
	} else if _, err := r.Lock.Release(ctx, r.ID); err != nil {
		r.Doubt = true // Redis may still have it
	}
}

// UndoForgotten releases the lease that was in the way of r, if this client had released it
// before r asked, and reports whether it was released now. It tries once.
func (r *Request) UndoForgotten(ctx context.Context, owner string) (undone bool) {
	c := r.Lock.client
	if !strings.HasPrefix(owner, c.id) {
		return false
	}
	if k := c.releases.find(r.Lock.name, owner, r.Start); k != nil {
		_, _ = c.Call(ctx, 0, func(ctx context.Context) (err error) {
			undone, err = k.Release(ctx, owner)
			return err
		})
	}
	return undone
}

// Leased reports whether hold is of the lease that an attempt of r has acquired. Else it is
// nil, or of a lease that the owner had, or that was handed to r.
func (r *Request) Leased(hold *Hold) bool { return hold != nil && hold.Lease().id == r.ID }
