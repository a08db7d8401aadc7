package waiting

import (
	"context"
	"errors"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
)

// What a request does about an attempt that gave it the lock, or may have, and that it cannot use.

// lateMost is how often a lock may be acquired too late to trust its lease. A process
// that was frozen meanwhile asks again. If Redis' replies take longer than the lease,
// asking again does not help.
const lateMost = 5

// repeat returns what became of a call that got hold from r, or failed with err. A request whose
// reply came too late is repeated; so is one that is refused because the release of that one has not
// arrived, since nobody else has the lock then.
func (r *request) repeat(ctx context.Context, wait bool, hold *lease.Hold, err error) (*lease.Hold, error) {
	c, late := r.Lock.Client(), r.ID
	var start time.Time // of the first repetition
	for tries, refusals := 1, 0; ; {
		r.tidy(hold)
		if !errors.Is(err, lease.ErrLate) || tries == lateMost {
			return hold, r.ended(ctx, err)
		}
		if start.IsZero() {
			start = time.Now()
		}
		told := r.Call
		if r, err = newRequest(ctx, r.Lock); err != nil {
			return nil, err
		}
		r.Call = told
		if hold, err = r.run(ctx, wait); !r.refusedFor(err, late) {
			late = r.ID
			tries++
			continue
		}
		err = lease.ErrLate
		if patience := c.Config().RetryFor; patience >= 0 && time.Since(start) >= patience || !c.Sleep(ctx, lease.PauseAfter(refusals)) {
			tries = lateMost
		}
		refusals++
	}
}

// refusedFor reports whether r failed with err because id has the lock.
func (r *request) refusedFor(err error, id string) bool {
	refused, ok := errors.AsType[*outcome.RefusedError](err)
	return ok && refused.Lack == nil && refused.By.Owner == id
}

// tidy removes what a request may have left in Redis, unless hold is of that.
func (r *request) tidy(hold *lease.Hold) {
	k := r.Lock
	if r.Leased(hold) {
		return
	}
	if r.claimed && r.refused != nil && !r.Doubt {
		r.queues().withdraw(k, r.ID)
	}
	if r.Doubt {
		k.Client().Abandon(k, r.ID, k.TTL())
	}
}
