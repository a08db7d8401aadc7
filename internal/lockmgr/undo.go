package lockmgr

import (
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// What a request does about an attempt that gave it the lock, or may have, and that it cannot use.

// errLate says that a lock was acquired and released again, because Redis replied after
// the trust in its lease had ended.
var errLate = &driver.Error{Class: driver.Passing, Err: errors.New("the lock was acquired, but Redis replied after the trust in its lease had ended; it was released again")}

// lateMost is how often a lock may be acquired too late to trust its lease. A process
// that was frozen meanwhile asks again. If Redis' replies take longer than the lease,
// asking again does not help.
const lateMost = 5

// undo releases a lease that r has acquired and cannot use. The id has had the lock, so the client's turn must not go on with it.
// If r has waited for Redis in vain since, it does not wait again: the janitor releases the lease.
func (r *request) undo(ctx context.Context, silent bool) {
	k := r.lock
	if silent {
		r.doubt = true
	} else if _, err := k.release(ctx, r.id); err != nil {
		r.doubt = true // Redis may still have it
	}
	k.client.mu.Lock()
	defer k.client.mu.Unlock()
	if q := k.site().queue(); q != nil && q.turn.id == r.id {
		q.turn.finish()
	}
}

// repeat returns what became of a call that got hold from r, or failed with err. A request whose
// reply came too late is repeated; so is one that is refused because the release of that one has not
// arrived, since nobody else has the lock then.
func (r *request) repeat(ctx context.Context, wait bool, hold *Hold, err error) (*Hold, error) {
	c, late := r.lock.client, r.id
	var start time.Time // of the first repetition
	for tries, refusals := 1, 0; ; {
		r.tidy(hold)
		if !errors.Is(err, errLate) || tries == lateMost {
			return hold, err
		}
		if start.IsZero() {
			start = time.Now()
		}
		told := r.told
		if r, err = r.lock.request(ctx); err != nil {
			return nil, err
		}
		r.told = told
		if hold, err = r.run(ctx, wait); !r.refusedFor(err, late) {
			late = r.id
			tries++
			continue
		}
		err = errLate
		if patience := c.config.RetryFor; patience >= 0 && time.Since(start) >= patience || !c.pause(ctx, PauseAfter(refusals)) {
			tries = lateMost
		}
		refusals++
	}
}

// refusedFor reports whether r failed with err because id has the lock.
func (r *request) refusedFor(err error, id string) bool {
	refused, ok := errors.AsType[*refusedError](err)
	return ok && refused.lack == nil && refused.by.Owner == id
}

// tidy removes what a request may have left in Redis, unless hold is of that.
func (r *request) tidy(hold *Hold) {
	k := r.lock
	if r.leased(hold) {
		return
	}
	if r.claimed && r.refused != nil && !r.doubt {
		k.withdraw(r.id)
	}
	if r.doubt {
		k.client.janitor.abandon(k, r.id, k.ttl())
	}
}

// leased reports whether hold is of the lease that an attempt of r has acquired. Else it is
// nil, or of a lease that the owner had, or that was handed to r.
func (r *request) leased(hold *Hold) bool { return hold != nil && hold.Lease().id == r.id }
