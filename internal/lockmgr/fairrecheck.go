package lockmgr

import (
	"context"
	"sync"
	"time"
)

// rechecks is when released fair locks are checked again, by place.
type rechecks struct {
	mu sync.Mutex // locked before Client.mu
	at map[place]time.Time
}

// recheckAfter makes the client check the lock, which was just released, again after d:
// the next waiter may be dead, and Redisson's threads behind it do not check.
func (k *Lock) recheckAfter(d time.Duration) {
	c, due := k.client, time.Now().Add(d)
	all := &c.rechecks
	all.mu.Lock()
	defer all.mu.Unlock()
	if at, scheduled := all.at[k.place()]; scheduled && !due.Before(at) {
		return
	}
	if !c.background(func(ctx context.Context) { k.recheck(ctx, d, due) }) {
		return // the client is closed
	}
	if all.at == nil {
		all.at = make(map[place]time.Time)
	}
	all.at[k.place()] = due
}

// recheck checks the lock after d, unless an earlier check than the one at due was
// scheduled meanwhile.
func (k *Lock) recheck(ctx context.Context, d time.Duration, due time.Time) {
	c := k.client
	if c.pause(ctx, d) && c.rechecks.remove(k.place(), due) {
		// Nobody else checks, so a lost attempt must not be the last one.
		_, _ = c.call(ctx, c.config.RetryFor, func(ctx context.Context) error {
			_, err := k.release(ctx, c.id) // c.id holds nothing
			return err
		})
	}
}

// remove removes the check of p if it is still the one at due, and reports whether it was.
func (r *rechecks) remove(p place, due time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	mine := r.at[p].Equal(due)
	if mine {
		delete(r.at, p)
	}
	return mine
}
