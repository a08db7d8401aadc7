package lease

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/outcome"
)

// Reenter adds a hold to a lease that the owner has. It returns ErrReleased if the lease
// was released before reenter could lock the count.
func (l *Lease) Reenter(ctx context.Context, k *Lock) (h *Hold, err error) {
	doubt, err := l.client.Call(ctx, l.client.patience(l.options.Durability), func(within context.Context) (err error) {
		h, err = l.reenterOnce(ctx, within, k)
		return err
	})
	if doubt {
		l.setLate()
	}
	if err != nil && doubt {
		l.client.Background(l.recount)
	}
	return h, err
}

// reenterOnce locks the count for no longer than one attempt, so that other goroutines can
// unlock between attempts. The attempt ends with within, and the hold with ctx.
func (l *Lease) reenterOnce(ctx, within context.Context, k *Lock) (*Hold, error) {
	if err := l.LockCount(within); err != nil {
		if within.Err() != nil && ctx.Err() == nil { // an attempt before, or what undoes it, still waits for Redis
			return nil, driver.ContextError(within, driver.NotSent)
		}
		return nil, outcome.Final(err)
	}
	defer l.UnlockCount()
	if err := l.Err(); err != nil {
		return nil, outcome.Final(err)
	}
	if d := k.options.Durability; !d.None() && !d.Like(l.options.Durability) {
		return nil, outcome.Final(outcome.Invalid("the lease that is to be re-entered has the durability %v; a re-entry cannot change it to %v", l.options.Durability, d))
	}
	if least := k.options.MinHold; least > l.options.MinHold {
		return nil, outcome.Final(outcome.Invalid("the lease that is to be re-entered has a MinHold of %v; a re-entry cannot change it to %v", l.options.MinHold, least))
	}
	start, there, err := l.incrementCount(within, k)
	if err != nil {
		return nil, err
	}
	if there {
		l.client.watchdog.SetLimit(&l.watch, l.limitWith(k, start).Until)
		there = l.client.watchdog.Confirm(&l.watch, start, k.options.Trust(l.ttlFor(k)))
	}
	if !there {
		l.EndGone()
		return nil, outcome.Final(l.Err())
	}
	h := l.AddHold(ctx, k, start)
	l.updateRenewal()
	return h, nil
}

// incrementCount writes the count with one more hold, whose lock is k, and waits until that
// is durable. It reports false if the lease is gone. start is when it asked Redis.
func (l *Lease) incrementCount(ctx context.Context, k *Lock) (start time.Time, there bool, err error) {
	l.mu.Lock()
	count, ttl := l.count()+1, l.ttlFor(k)
	l.noteTTL(ttl)
	l.mu.Unlock()
	d := l.options.Durability
	if !d.None() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, l.Until())
		defer cancel()
	}
	start, seen := time.Now(), k.Seen()
	got, err := k.reenter(ctx, l.id, count, start.Add(ttl), d, seen)
	if err != nil && (got.OK || !d.None()) { // the script has run, or may have
		l.client.Background(l.recount)
	}
	if err != nil || !got.OK {
		return start, false, err
	}
	k.noteToken(got.Token)
	l.mu.Lock()
	l.expiry = max(l.expiry, l.client.Time(start.Add(ttl)))
	l.token = max(l.token, got.Token)
	l.mu.Unlock()
	return start, true, nil
}

// setLate notes that a late copy of a script that sets the count may still run. It may
// also make the key last longer than the next holder wants, so the lease is not handed
// off any more.
func (l *Lease) setLate() {
	l.mu.Lock()
	l.late = true
	l.mu.Unlock()
}

// recount writes the true count again after a re-entry whose outcome is unknown, so that
// others do not read too high a count.
func (l *Lease) recount(ctx context.Context) {
	if l.LockCount(ctx) != nil {
		return
	}
	defer l.UnlockCount()
	l.mu.Lock()
	count, ended := l.count(), l.ended
	l.mu.Unlock()
	if count > 0 && ended == nil {
		_, _ = l.setCount(ctx, l.client.config.RetryFor, count)
	}
}

// Stands asks Redis once whether it still has the lease, by writing the count that it has. It
// ends the lease if Redis has it no more, and reports false, too, if that is not known.
func (l *Lease) Stands(ctx context.Context) bool {
	if l.LockCount(ctx) != nil {
		return false
	}
	defer l.UnlockCount()
	l.mu.Lock()
	count, ended := l.count(), l.ended
	l.mu.Unlock()
	if count == 0 || ended != nil {
		return false
	}
	there, err := l.setCount(ctx, 0, count)
	if err == nil && !there {
		l.EndGone()
	}
	return err == nil && there
}

// setCount writes the number of holds that are left. It reports false if the lease is gone.
func (l *Lease) setCount(ctx context.Context, patience time.Duration, count int) (there bool, err error) {
	doubt, err := l.client.Call(ctx, patience, func(ctx context.Context) (err error) {
		there, err = l.ops.Leave(ctx, l.id, count)
		return err
	})
	if doubt {
		l.setLate()
	}
	return there, err
}

// ttlFor returns the TTL that a re-entry of k requests: if it is renewed, that of the lease.
func (l *Lease) ttlFor(k *Lock) time.Duration {
	o := *k.options
	if k.Renewed() {
		o.TTL = l.watch.Terms.TTL
	}
	return o.Lease(k.client.config.TTL)
}

// updateRenewal makes the watchdog renew the lease as long as some hold requires it, and up
// to the limit that its holds have.
func (l *Lease) updateRenewal() {
	l.mu.Lock()
	renew := false
	for h := l.holds; h != nil; h = h.next {
		renew = renew || h.renewed
	}
	end := l.limit()
	l.endHoldsBefore(end)
	l.mu.Unlock()
	l.client.watchdog.SetRenew(&l.watch, renew)
	l.client.watchdog.SetLimit(&l.watch, end.Until)
}
