package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/script"
)

// unlock releases h. If Redis does not answer before Config.UnlockFor is over, the release
// goes on in the background.
func (l *Lease) unlock(h *Hold) error {
	err := l.unlockHold(h)
	if l.client.observes() && !errors.Is(err, ErrReleased) {
		h.tellEnd(EventReleased, endReleased.reason, err)
	}
	return err
}

// unlockHold is unlock for a caller that reports it.
func (l *Lease) unlockHold(h *Hold) error {
	ended, locked, err := l.markReleased(h)
	if err != nil {
		return err
	}
	err = l.finishUnlock(h, ended, locked, l.client.unlockLimit())
	if !errors.Is(err, errSlow) {
		return err
	}
	rest := func(context.Context) { _ = l.finishUnlock(h, l.over(), false, time.Time{}) }
	if !l.client.background(rest) {
		return l.finishUnlock(h, l.over(), false, time.Time{}) // closed: it ends at once
	}
	return err
}

// unlockLimit returns until when a caller of unlock waits for Redis; zero if for as long as
// the lease is trusted.
func (c *Client) unlockLimit() (limit time.Time) {
	if c.config.UnlockFor > 0 {
		limit = time.Now().Add(c.config.UnlockFor)
	}
	return limit
}

// errSlow says that a caller of unlock does not wait for Redis any longer.
var errSlow = fmt.Errorf("%w in time: the release goes on in the background until the lease ends", ErrUnreachable)

// finishUnlock unlinks a hold that is marked as released, and writes that to Redis. It
// waits until limit, unless that is zero. ended and locked are from markReleased.
func (l *Lease) finishUnlock(h *Hold, ended *ending, locked bool, limit time.Time) error {
	left, err := l.unlinkMarked(h, ended, locked, limit)
	if err != nil {
		return err
	}
	defer l.unlockCount()
	if left == 0 {
		return l.release(limit)
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
	ended = l.over()
	l.mu.Lock()
	if h.released {
		l.mu.Unlock()
		return nil, false, ErrReleased
	}
	h.released = true
	if lost := h.lost(); lost != nil { // it is unlinked, and its context has ended
		l.mu.Unlock()
		return nil, false, lost.err
	}
	locked = ended == nil && l.tryLockCount()
	l.mu.Unlock()
	h.cancel(endReleased)
	return ended, locked, nil
}

// unlinkMarked is removeHold for a hold that is marked as released. It returns errSlow if it
// could not lock the count until limit, unless that is zero.
func (l *Lease) unlinkMarked(h *Hold, ended *ending, locked bool, limit time.Time) (left int, err error) {
	for ended == nil && !locked {
		ctx := l.whileTrusted(limit)
		err := l.lockCount(ctx)
		ctx.Stop()
		if err == nil {
			break
		}
		if errors.Is(err, ErrClosed) {
			l.end(endClosed)
		}
		ended = l.over() // nil if it was renewed meanwhile
		if ended == nil && isOver(limit) {
			return 0, errSlow
		}
	}
	if ended != nil {
		if l.unlink(h) == 0 {
			l.reap(ended)
		}
		return 0, ended.err
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
	end := l.until()
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
	case err != nil && isUnanswered(err) && isOver(limit) && l.client.background(l.recount):
		return slow(err)
	case err != nil:
		return unreleased(err)
	}
	if !there {
		l.end(l.loss(LostForced, nil))
		return l.Err()
	}
	return nil
}

// release hands the lease off, or releases it in Redis. If Redis does not answer until
// limit, unless that is zero, the release goes on in the background. The caller has locked
// the count.
func (l *Lease) release(limit time.Time) error {
	if l.handOff() {
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
	if err != nil && isUnanswered(err) && isOver(limit) && l.releaseLater(ctx.Latest(), doubt) {
		l.owner.remove(l)
		l.end(endReleased)
		return slow(err)
	}
	return l.finishRelease(released, doubt, err)
}

// releaseStopped releases a lease that is not renewed any more. It tries until ctx ends. room is for the
// words of the first attempt, and may be nil.
func (l *Lease) releaseStopped(ctx context.Context, room *script.ReleaseRoom) (released, doubt bool, err error) {
	keeps := l.keeps()
	doubt, err = l.client.call(ctx, -1, func(ctx context.Context) (err error) {
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
	return l.client.background(func(ctx context.Context) {
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
	ended := l.over()
	l.reap(ended)
	return ended.err
}

// finishRelease ends a lease after the script that released it, and returns the error of
// the release.
func (l *Lease) finishRelease(released, doubt bool, err error) error {
	l.owner.remove(l)
	l.end(endReleased)
	if released && !l.keeps() {
		l.client.releases.note(l)
	}
	switch failed := err != nil && !released; {
	case failed && l.keeps():
		l.client.background(l.keepLost)
	case failed, l.doubt:
		l.abandon()
	}
	switch {
	case err != nil:
		return unreleased(err)
	case !released && doubt:
		return ErrUnknownOutcome
	case !released:
		return l.unreportedLoss().err
	}
	return nil
}

// unreleased returns the error of an unlock that Redis did not answer, or refused.
func unreleased(err error) error {
	err = impersonal(err)
	if isUnanswered(err) || driver.ClassOf(err) == driver.Closed {
		return fmt.Errorf("%w; the lock ends by itself with its lease", Meaning(err))
	}
	return Meaning(err)
}

// slow returns the error of an unlock that goes on in the background.
func slow(err error) error {
	if errors.Is(err, context.DeadlineExceeded) { // its own, not that of a caller
		return errSlow
	}
	return fmt.Errorf("%w: %w", errSlow, err)
}

// isUnanswered reports whether Redis has neither done nor refused what failed with err, so
// that it is worth trying again.
func isUnanswered(err error) bool {
	switch driver.ClassOf(err) {
	case driver.NotSent, driver.Unknown, driver.Passing:
		return true
	}
	return false
}

// isSilence reports whether err is of a call that has waited for Redis in vain.
func isSilence(err error) bool {
	cut := errors.Is(err, ErrNotDurable) && errors.Is(err, context.DeadlineExceeded) // nothing came, from Redis or its replicas
	return cut || errors.Is(Meaning(err), ErrUnreachable)
}

// reap removes a lost lease after its last hold was released. If Redis may still have the
// lease, or a part of a group or of several permits, reap releases that in the background:
// now the work that the lease protected is known to have stopped.
func (l *Lease) reap(why *ending) {
	l.owner.remove(l)
	switch {
	case why.loss && !why.gone && l.keeps():
		l.client.background(l.keepLost)
	case why.gone: // end has already abandoned a lease in doubt
		if l.traits.Partial {
			l.abandon()
		}
	case why.loss, l.doubt && why != endReleased: // a lease handed off goes on
		l.abandon()
	}
}

// release releases the lock of id, whatever its count, and reports whether id had it.
// Like Ops.Release, it may report true together with an error.
func (k *Lock) release(ctx context.Context, id string) (bool, error) {
	return k.releaseAs(ctx, id, k.turns(0), false)
}

// releaseAs is release with the given turns, and moves the fence of the lock on if it is to and has one.
func (k *Lock) releaseAs(ctx context.Context, id string, t script.Turns, fenced bool) (bool, error) {
	freed, err := k.releaseOp(ctx, id, t, fenced)
	if freed.Again > 0 {
		k.recheckAfter(freed.Again)
	}
	if k.traits.Pause != nil {
		k.spinOn()
	}
	return k.released(freed.Released), err
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

// turns returns how a release of the lock passes it to the next client. streak is how
// often in a row the lock was granted.
func (k *Lock) turns(streak int) script.Turns {
	if !k.traits.Turns {
		if k.site().claims() {
			_, keep := k.shares()
			return script.Turns{Keep: keep}
		}
		return script.Turns{}
	}
	t := script.Turns{Command: k.client.conn.TurnCommand(), Row: streak}
	t.Shared, t.Keep = k.shares()
	return t
}

// released notes the outcome of a release, and reports whether the lock was released.
func (k *Lock) released(became script.Released) bool {
	switch became {
	case script.ReleasedLeft:
		k.left()
	case script.ReleasedGranted:
		k.granted()
	}
	return became != script.NotHeld
}
