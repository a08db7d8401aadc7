package lease

import (
	"context"

	"github.com/mortise-go/mortise/internal/outcome"
)

// count returns the number of holds that are left. It must be called with l.mu held.
func (l *Lease) count() (n int) {
	for h := l.holds; h != nil; h = h.next {
		n++
	}
	return n
}

// noWaiters is Lease.unlocked while the count is locked and no goroutine waits for it.
var noWaiters = make(chan struct{})

// LockCount locks the count of the lease. It blocks until it can do so, ctx ends, or the
// client is closed. Only the goroutine that has locked the count may run a script that
// changes it: the scripts set absolute counts, so their order matters.
func (l *Lease) LockCount(ctx context.Context) error {
	for {
		l.mu.Lock()
		if l.tryLockCount() {
			l.mu.Unlock()
			return nil
		}
		if l.unlocked == noWaiters {
			l.unlocked = make(chan struct{})
		}
		unlocked := l.unlocked
		l.mu.Unlock()
		select {
		case <-unlocked:
		case <-ctx.Done():
			return outcome.GaveUp(ctx, nil, nil) // the goroutine that has locked it asks Redis
		case <-l.client.done:
			return outcome.ErrClosed
		}
	}
}

// tryLockCount locks the count if it is not locked, and reports whether it was not. It must
// be called with l.mu held.
func (l *Lease) tryLockCount() bool {
	if l.unlocked != nil {
		return false
	}
	l.unlocked = noWaiters
	return true
}

func (l *Lease) UnlockCount() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unlocked != noWaiters {
		close(l.unlocked)
	}
	l.unlocked = nil
}
