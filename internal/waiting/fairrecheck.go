package waiting

import (
	"context"
	"sync"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
)

// rechecks is when released fair locks are checked again, by place.
type rechecks struct {
	mu sync.Mutex // locked before Client.Mu
	at map[lease.Place]time.Time
}

// recheckAfter makes the client check the lock, which was just released, again after d:
// the next waiter may be dead, and Redisson's threads behind it do not check.
func (qs *Queues) recheckAfter(k *lease.Lock, d time.Duration) {
	due := time.Now().Add(d)
	all := &qs.rechecks
	all.mu.Lock()
	defer all.mu.Unlock()
	if at, scheduled := all.at[k.Place()]; scheduled && !due.Before(at) {
		return
	}
	if !qs.Background(func(ctx context.Context) { qs.recheck(ctx, k, d, due) }) {
		return // the client is closed
	}
	if all.at == nil {
		all.at = make(map[lease.Place]time.Time)
	}
	all.at[k.Place()] = due
}

// recheck checks the lock after d, unless an earlier check than the one at due was
// scheduled meanwhile.
func (qs *Queues) recheck(ctx context.Context, k *lease.Lock, d time.Duration, due time.Time) {
	if qs.Sleep(ctx, d) && qs.rechecks.remove(k.Place(), due) {
		// Nobody else checks, so a lost attempt must not be the last one.
		_, _ = qs.Call(ctx, qs.Config().RetryFor, func(ctx context.Context) error {
			_, err := k.Release(ctx, qs.ID()) // qs.id holds nothing
			return err
		})
	}
}

// remove removes the check of p if it is still the one at due, and reports whether it was.
func (r *rechecks) remove(p lease.Place, due time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	mine := r.at[p].Equal(due)
	if mine {
		delete(r.at, p)
	}
	return mine
}
