package composite

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mortise-go/mortise/internal/dice"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/waiting"
)

// batchRequest is one call of Lock or TryLock for a Batch.
type batchRequest struct {
	*Batch
	composite *composite // of the locks that it has
	refused   error      // for the last refusal of a waiting call; nil if there was none
	refuser   int        // the index of the lock that it is about
	answered  time.Time  // when that lock was last known to be held, or was acquired
	told      *lease.Call
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
func (r *batchRequest) acquire(wait bool) (at *lease.Lock, err error) {
	ctx, cancel := outcome.Within(r.composite.hold.Context(), r.waitLimit())
	defer cancel()
	if at, err = r.ready(ctx); err != nil {
		return at, err
	}
	nth := 0
	if wait {
		nth, err = r.wait(ctx)
	} else {
		nth, err = r.try(ctx, false)
	}
	return r.locks[max(nth, 0)], err
}

// wait acquires all locks as soon as they are free. It waits for the lock that refused
// it, like a waiter that wants only that, and acquires the others then: so it holds
// nothing while it waits. Under contention that may never succeed, so after some rounds
// it acquires them in their order, and keeps those that it has, for longer each time. If
// it fails it returns the index of the lock that failed.
func (r *batchRequest) wait(ctx context.Context) (nth int, err error) {
	nth = r.contended(r.composite.owner)
	kept := 0 // how often it kept what it had, without success
	for round := 1; ; round++ {
		if nth != noIndex {
			r.note(nth, waiting.SiteOf(r.locks[nth]).Obstacle(0))
			r.locks[nth].Client().NoteWait(r.told)
			if err := r.composite.acquire(ctx, r.member(nth), true); err != nil {
				return r.ended(ctx, nth, err)
			}
			r.answered = time.Now()
		}
		nth, err = r.try(ctx, true)
		if errors.Is(err, outcome.ErrLocked) {
			nth, err = r.waitBriefly(ctx, nth, err)
		}
		if !errors.Is(err, outcome.ErrLocked) {
			return r.ended(ctx, nth, err)
		}
		r.note(nth, outcome.RefusalIn(err))
		r.locks[0].Client().NoteWait(r.told)
		r.composite.restart(ctx, err)
		if round%roundsBeforeKeeping == 0 && r.mayKeep() {
			nth, err = r.acquireInOrder(ctx, waiting.Jitter(keepFirst<<min(kept, 16)))
			if ctx.Err() != nil || !outcome.IsOverdue(err) && !errors.Is(err, context.DeadlineExceeded) {
				return r.ended(ctx, nth, err)
			}
			r.composite.restart(ctx, err)
			kept++
		}
		// Two requests that obstruct each other must not retry in step.
		if !r.locks[nth].Client().Sleep(ctx, dice.N(time.Millisecond<<min(round, 8))) {
			return r.about(nth, outcome.WhyEnded(ctx, r.refused, outcome.ErrEnded))
		}
	}
}

// note notes what was in the way of the lock of that index, if that was another owner.
func (r *batchRequest) note(nth int, why error) {
	if errors.Is(why, outcome.ErrLocked) {
		r.refused, r.refuser, r.answered = why, nth, time.Now()
	}
}

// ended returns err, of the lock of that index. If ctx has ended before that lock has refused, it
// adds the last refusal. That counts unless Redis was silent for as long as a poll takes.
func (r *batchRequest) ended(ctx context.Context, nth int, err error) (int, error) {
	switch {
	case ctx.Err() == nil || err == nil:
		return nth, err
	case outcome.IsWaitError(err):
		if r.refused != nil && outcome.IsCutOff(err) && time.Since(r.answered) < outcome.Poll {
			return r.refuser, outcome.GaveUp(ctx, r.refused, nil)
		}
		return nth, err
	}
	if errors.Is(err, ctx.Err()) {
		return r.about(nth, outcome.GaveUp(ctx, r.refused, err))
	}
	return r.about(nth, outcome.WhyEnded(ctx, r.refused, err))
}

// about returns err with the index of the lock that it is about: nth, or that of the last refusal.
func (r *batchRequest) about(nth int, err error) (int, error) {
	if r.refused != nil && errors.Is(err, r.refused) {
		return r.refuser, err
	}
	return nth, err
}

// waitBriefly waits for the refusing lock and then for the rest, for keepBriefly in all, and as long as that one is left to Redisson's
// threads.
func (r *batchRequest) waitBriefly(whole context.Context, nth int, refused error) (at int, err error) {
	c := r.composite
	ctx, cancel := outcome.Within(whole, waiting.Jitter(keepBriefly)+waiting.LeftFor(r.locks[nth]))
	defer cancel()
	for err = refused; errors.Is(err, outcome.ErrLocked) && ctx.Err() == nil && len(c.lasting()) > 0; {
		refused = err
		var hold *lease.Hold
		if hold, err = waiting.AcquirePart(ctx, r.locks[nth], true); err == nil {
			err = c.add(r.member(nth), hold)
		} else if ctx.Err() != nil && whole.Err() == nil {
			return nth, refused
		}
		if err == nil {
			nth, err = r.try(whole, true)
		}
	}
	return nth, err
}

// acquireInOrder acquires one lock after the other. It waits for each, but at most for
// limit once it has one.
func (r *batchRequest) acquireInOrder(whole context.Context, limit time.Duration) (nth int, err error) {
	for i := range r.locks {
		ctx, cancel := whole, context.CancelFunc(func() {})
		if i > 0 {
			ctx, cancel = outcome.Within(whole, limit)
		}
		err := r.composite.acquire(ctx, r.member(i), true)
		cancel()
		if err != nil {
			return i, err
		}
	}
	return 0, nil
}

// waitLimit returns the shortest of the locks' limits; 0 if there is none.
func (b *Batch) waitLimit() (d time.Duration) {
	for _, k := range b.locks {
		if wait := k.Options().Wait; wait > 0 && (d == 0 || wait < d) {
			d = wait
		}
	}
	return d
}

// try acquires all locks that are missing, without waiting, unless yields is true and they are left to Redisson's threads.
func (r *batchRequest) try(ctx context.Context, yields bool) (nth int, err error) {
	for _, g := range r.missing() {
		if nth, err = g.acquire(ctx, r.composite, yields); err != nil {
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
			if before := groups[n-1][0].of; before.Together(k) && *before.Options() == *k.Options() && !o.Has(before) && !o.Has(k) {
				groups[n-1] = append(groups[n-1], r.member(i))
				continue
			}
		}
		groups = append(groups, scriptGroup{r.member(i)})
	}
	return groups
}
