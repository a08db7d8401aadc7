package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
)

// Unlock releases h. If Redis does not answer before Config.UnlockFor is over, the release
// goes on in the background.
func (l *Lease) Unlock(h *Hold) error {
	err := l.unlockHold(h)
	if l.client.observes() && !errors.Is(err, outcome.ErrReleased) {
		h.ReportReleased(err)
	}
	return err
}

// unlockHold is unlock for a caller that reports it.
func (l *Lease) unlockHold(h *Hold) error {
	ended, locked, err := l.markReleased(h)
	if err != nil {
		return err
	}
	err = l.finishUnlock(h, ended, locked, l.client.UnlockLimit())
	if !errors.Is(err, ErrSlow) {
		return err
	}
	rest := func(context.Context) { _ = l.finishUnlock(h, l.Over(), false, time.Time{}) }
	if !l.client.Background(rest) {
		return l.finishUnlock(h, l.Over(), false, time.Time{}) // closed: it ends at once
	}
	return err
}

// UnlockLimit returns until when a caller of unlock waits for Redis; zero if for as long as
// the lease is trusted.
func (c *Client) UnlockLimit() (limit time.Time) {
	if c.config.UnlockFor > 0 {
		limit = time.Now().Add(c.config.UnlockFor)
	}
	return limit
}

// ErrSlow says that a caller of unlock does not wait for Redis any longer.
var ErrSlow = fmt.Errorf("%w in time: the release goes on in the background until the lease ends", outcome.ErrUnreachable)

// finishUnlock unlinks a hold that is marked as released, and writes that to Redis. It
// waits until limit, unless that is zero. ended and locked are from markReleased.
func (l *Lease) finishUnlock(h *Hold, ended *ending, locked bool, limit time.Time) error {
	left, err := l.unlinkMarked(h, ended, locked, limit)
	if err != nil {
		return err
	}
	defer l.UnlockCount()
	if left == 0 {
		return l.Release(limit)
	}
	return l.decrementCount(left, limit)
}

// removeHold removes h from the lease, and returns how many holds are left. If it returns
// no error, it has locked the count for the caller, which has to write it to Redis.
func (l *Lease) removeHold(h *Hold) (left int, err error) {
	ended, locked, err := l.markReleased(h)
	if err != nil {
		return 0, err
	}
	return l.unlinkMarked(h, ended, locked, time.Time{})
}

// markReleased marks h as released, and ends its context. It returns why the lease is over,
// or nil, and whether it has locked the count.
func (l *Lease) markReleased(h *Hold) (ended *ending, locked bool, err error) {
	if h.bounds() != nil {
		h.expire()
	}
	ended = l.Over()
	l.mu.Lock()
	if h.released {
		l.mu.Unlock()
		return nil, false, outcome.ErrReleased
	}
	h.released = true
	if lost := h.lost(); lost != nil { // it is unlinked, and its context has ended
		l.mu.Unlock()
		return nil, false, lost.Err
	}
	locked = ended == nil && l.tryLockCount()
	l.mu.Unlock()
	h.cancel(endReleased)
	return ended, locked, nil
}

// unlinkMarked is removeHold for a hold that is marked as released. It returns ErrSlow if it
// could not lock the count until limit, unless that is zero.
func (l *Lease) unlinkMarked(h *Hold, ended *ending, locked bool, limit time.Time) (left int, err error) {
	for ended == nil && !locked {
		ctx := l.whileTrusted(limit)
		err := l.LockCount(ctx)
		ctx.Stop()
		if err == nil {
			break
		}
		if errors.Is(err, outcome.ErrClosed) {
			l.end(EndClosed)
		}
		ended = l.Over() // nil if it was renewed meanwhile
		if ended == nil && isOver(limit) {
			return 0, ErrSlow
		}
	}
	if ended != nil {
		if l.unlink(h) == 0 {
			l.Reap(ended)
		}
		return 0, ended.Err
	}
	if left = l.unlink(h); left > 0 {
		l.updateRenewal()
	}
	return left, nil
}

// isOver reports whether limit, unless zero, has passed.
func isOver(limit time.Time) bool { return !limit.IsZero() && !time.Now().Before(limit) }

// whileTrusted returns a context that ends when trust in the lease ends, as known now, or
// about at limit, unless that is zero. Soon after the former, the key expires by itself.
func (l *Lease) whileTrusted(limit time.Time) *driver.Deadline {
	return driver.UntilAbout(l.trustedUntil(limit))
}

// trustedUntil returns about when, and when at the latest, the context of whileTrusted ends.
func (l *Lease) trustedUntil(limit time.Time) (at, latest time.Time) {
	end := l.Until()
	if limit.IsZero() || !limit.Before(end) {
		return end, end
	}
	return limit, end
}

// unlink takes h out of the list of holds, and returns how many are left.
func (l *Lease) unlink(h *Hold) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takeOut(h)
	return l.count()
}

// takeOut takes h out of the list of holds. It must be called with l.mu held.
func (l *Lease) takeOut(h *Hold) {
	for at := &l.holds; *at != nil; at = &(*at).next {
		if *at == h {
			*at, h.next = h.next, nil
			break
		}
	}
	h.stopTimer()
}

// decrementCount writes the count of the holds that are left. If Redis does not answer
// until limit, unless that is zero, it is written in the background.
func (l *Lease) decrementCount(count int, limit time.Time) error {
	ctx := l.whileTrusted(limit)
	defer ctx.Stop()
	there, err := l.setCount(ctx, -1, count)
	switch {
	case err != nil && outcome.IsUnanswered(err) && isOver(limit) && l.client.Background(l.recount):
		return Slow(err)
	case err != nil:
		return unreleased(err)
	}
	if !there {
		l.end(l.loss(LostForced, nil))
		return l.Err()
	}
	return nil
}

// Release hands the lease off, or releases it in Redis. If Redis does not answer until
// limit, unless that is zero, the release goes on in the background. The caller has locked
// the count.
func (l *Lease) Release(limit time.Time) error {
	if l.client.waiters.HandOff(l) {
		l.owner.remove(l)
		return nil
	}
	var one struct { // a single allocation for what every release needs
		ctx  driver.Deadline
		room script.ReleaseRoom
	}
	ctx := &one.ctx
	at, latest := l.trustedUntil(limit)
	ctx.Init(context.Background(), at, latest)
	defer ctx.Stop()
	if err := l.stopRenewal(); err != nil {
		return err
	}
	released, doubt, err := l.releaseStopped(ctx, &one.room)
	if err != nil && outcome.IsUnanswered(err) && isOver(limit) && l.releaseLater(ctx.Latest(), doubt) {
		l.owner.remove(l)
		l.end(endReleased)
		return Slow(err)
	}
	return l.finishRelease(released, doubt, err)
}

// releaseStopped releases a lease that is not renewed any more. It tries until ctx ends. room is for the
// words of the first attempt, and may be nil.
func (l *Lease) releaseStopped(ctx context.Context, room *script.ReleaseRoom) (released, doubt bool, err error) {
	keeps := l.Keeps()
	doubt, err = l.client.Call(ctx, -1, func(ctx context.Context) (err error) {
		if keeps { // also when its time is over by now: an earlier copy may have run
			released, err = l.keep(ctx, false)
		} else {
			t := l.turns(int(l.row))
			t.Room, room = room, nil
			released, err = l.releaseAs(ctx, l.id, t, false)
		}
		return err
	})
	return released, doubt, err
}

// releaseLater goes on with a release in the background, until end. It reports false if the
// client is closed.
func (l *Lease) releaseLater(end time.Time, doubt bool) bool {
	return l.client.Background(func(ctx context.Context) {
		ctx, cancel := context.WithDeadline(ctx, end)
		defer cancel()
		released, again, err := l.releaseStopped(ctx, nil)
		_ = l.finishRelease(released, doubt || again, err)
	})
}

// stopRenewal stops the renewal of the lease before its release. It fails if the lease is
// over.
func (l *Lease) stopRenewal() error {
	if l.client.watchdog.Remove(&l.watch) {
		return nil
	}
	l.EndGone() // no effect if the watchdog, or Close, was faster
	ended := l.Over()
	l.Reap(ended)
	return ended.Err
}

// finishRelease ends a lease after the script that released it, and returns the error of
// the release.
func (l *Lease) finishRelease(released, doubt bool, err error) error {
	l.owner.remove(l)
	l.end(endReleased)
	if released && !l.Keeps() {
		l.client.releases.note(l)
	}
	switch failed := err != nil && !released; {
	case failed && l.Keeps():
		l.client.Background(l.keepLost)
	case failed, l.doubt:
		l.abandon()
	}
	switch {
	case err != nil:
		return unreleased(err)
	case !released && doubt:
		return outcome.ErrUnknownOutcome
	case !released:
		return l.unreportedLoss().Err
	}
	return nil
}

// unreleased returns the error of an unlock that Redis did not answer, or refused.
func unreleased(err error) error {
	err = outcome.Impersonal(err)
	if outcome.IsUnanswered(err) || driver.ClassOf(err) == driver.Closed {
		return fmt.Errorf("%w; the lock ends by itself with its lease", outcome.Meaning(err))
	}
	return outcome.Meaning(err)
}

// Slow returns the error of an unlock that goes on in the background.
func Slow(err error) error {
	if errors.Is(err, context.DeadlineExceeded) { // its own, not that of a caller
		return ErrSlow
	}
	return fmt.Errorf("%w: %w", ErrSlow, err)
}

// Reap removes a lost lease after its last hold was released. If Redis may still have the
// lease, or a part of a group or of several permits, reap releases that in the background:
// now the work that the lease protected is known to have stopped.
func (l *Lease) Reap(why *ending) {
	l.owner.remove(l)
	switch {
	case why.loss && !why.gone && l.Keeps():
		l.client.Background(l.keepLost)
	case why.gone: // end has already abandoned a lease in doubt
		if l.traits.Partial {
			l.abandon()
		}
	case why.loss, l.doubt && why != endReleased: // a lease handed off goes on
		l.abandon()
	}
}

// Release releases the lock of id, whatever its count, and reports whether id had it.
// Like Ops.Release, it may report true together with an error.
func (k *Lock) Release(ctx context.Context, id string) (bool, error) {
	return k.releaseAs(ctx, id, k.turns(0), false)
}

// releaseAs is release with the given turns, and moves the fence of the lock on if it is to and has one.
func (k *Lock) releaseAs(ctx context.Context, id string, t script.Turns, fenced bool) (bool, error) {
	freed, err := k.releaseOp(ctx, id, t, fenced)
	k.client.waiters.Passed(k, freed)
	return freed.Released != script.NotHeld, err
}

// releaseOp runs the operation that releases the lock.
func (k *Lock) releaseOp(ctx context.Context, id string, t script.Turns, fenced bool) (script.Freed, error) {
	if fenced {
		if f, ok := k.ops.(forcer); ok {
			return f.Force(ctx, id, t)
		}
	}
	return k.ops.Release(ctx, id, t)
}

// turns returns how a release of the lock passes it to the next client. row is how
// often in a row the lock was granted.
func (k *Lock) turns(row int) script.Turns { return k.client.waiters.Turns(k, row) }
