package lockmgr

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mortise-go/mortise/internal/dice"
)

// batchRequest is one call of Lock or TryLock for a Batch.
type batchRequest struct {
	*Batch
	composite *composite // of the locks that it has
	refused   error      // for the last refusal of a waiting call; nil if there was none
}

const (
	// roundsBeforeKeeping is how many rounds a request waits for one lock and is refused
	// another before it keeps what it has.
	roundsBeforeKeeping = 5
	// keepFirst is how long it keeps locks at first while it waits for another.
	// Redisson's threads, which use an order of their own, may hold that one and
	// wait for what is kept, for three seconds and more.
	keepFirst = 100 * time.Millisecond
	// keepBriefly is how long it waits for another lock while it keeps the one that it
	// has waited for: a holder of both is about to release the other, too.
	keepBriefly = 10 * time.Millisecond
)

// acquire acquires all locks. If it fails, it returns the lock that failed, and the
// composite has those that were acquired before.
func (r *batchRequest) acquire(wait bool) (at *Lock, err error) {
	if at, err = r.ready(r.composite.hold.Context()); err != nil {
		return at, err
	}
	nth := 0
	if wait {
		nth, err = r.wait()
	} else {
		nth, err = r.try()
	}
	return r.locks[max(nth, 0)], err
}

// wait acquires all locks as soon as they are free. It waits for the lock that refused
// it, like a waiter that wants only that, and acquires the others then: so it holds
// nothing while it waits. Under contention that may never succeed, so after some rounds
// it acquires them in their order, and keeps those that it has, for longer each time. If
// it fails it returns the index of the lock that failed.
func (r *batchRequest) wait() (nth int, err error) {
	ctx := r.composite.hold.Context()
	nth = r.contended(r.composite.owner)
	kept := 0 // how often it kept what it had, without success
	for round := 1; ; round++ {
		if nth != noIndex {
			if err := r.composite.acquire(ctx, r.member(nth), true); err != nil {
				return nth, r.ended(err)
			}
		}
		nth, err = r.try()
		if errors.Is(err, ErrLocked) {
			nth, err = r.waitBriefly(nth, err)
		}
		if !errors.Is(err, ErrLocked) {
			return nth, r.ended(err)
		}
		r.refused = cmp.Or(refusalIn(err), r.refused)
		r.composite.restart()
		if round%roundsBeforeKeeping == 0 && r.mayKeep() {
			nth, err = r.acquireInOrder(jitter(keepFirst << min(kept, 16)))
			if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
				return nth, r.ended(err)
			}
			r.composite.restart()
			kept++
		}
		// Two requests that obstruct each other must not retry in step.
		if !r.locks[nth].client.pause(ctx, dice.N(time.Millisecond<<min(round, 8))) {
			return nth, endedBy(ctx, r.refused)
		}
	}
}

// ended returns err. If the context has ended, it adds the last refusal.
func (r *batchRequest) ended(err error) error {
	if err == nil || r.refused == nil || r.composite.hold.Context().Err() == nil || errors.Is(err, ErrLocked) {
		return err
	}
	return &waitError{err, r.refused}
}

// waitBriefly waits for the refusing lock and then for the rest, for keepBriefly in all.
func (r *batchRequest) waitBriefly(nth int, refused error) (at int, err error) {
	c := r.composite
	ctx, cancel := context.WithTimeout(c.hold.Context(), jitter(keepBriefly))
	defer cancel()
	for err = refused; errors.Is(err, ErrLocked) && ctx.Err() == nil && len(c.lasting()) > 0; {
		var hold *Hold
		if hold, err = r.locks[nth].Acquire(ctx, true); err == nil {
			err = c.add(r.member(nth), hold)
		} else if ctx.Err() != nil && c.hold.Context().Err() == nil {
			return nth, refused
		}
		if err == nil {
			nth, err = r.try()
		}
	}
	return nth, err
}

// acquireInOrder acquires one lock after the other. It waits for each, but at most for
// limit once it has one.
func (r *batchRequest) acquireInOrder(limit time.Duration) (nth int, err error) {
	for i := range r.locks {
		ctx, cancel := r.composite.hold.Context(), context.CancelFunc(func() {})
		if i > 0 {
			ctx, cancel = context.WithTimeout(ctx, limit)
		}
		err := r.composite.acquire(ctx, r.member(i), true)
		cancel()
		if err != nil {
			return i, err
		}
	}
	return 0, nil
}

// try acquires all locks that are missing, without waiting.
func (r *batchRequest) try() (nth int, err error) {
	for _, g := range r.missing() {
		if nth, err = g.acquire(r.composite); err != nil {
			return nth, err
		}
	}
	return 0, nil
}

// missing returns the locks that the composite does not have, in groups that are acquired
// one after the other.
func (r *batchRequest) missing() (groups []scriptGroup) {
	o, have := r.composite.owner, r.composite.lasting()
	for i, k := range r.locks {
		if slices.ContainsFunc(have, func(m *member) bool { return m.nth == i }) {
			continue
		}
		if n := len(groups); n > 0 {
			if before := groups[n-1][0].of; oneScript(before, k) && *before.options == *k.options && !o.has(before) && !o.has(k) {
				groups[n-1] = append(groups[n-1], r.member(i))
				continue
			}
		}
		groups = append(groups, scriptGroup{r.member(i)})
	}
	return groups
}
