package composite

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
)

// finish marks the hold as released, or as ended by why if that is not nil. It returns the members to release, and how many of
// them have not ended. It fails if the hold was lost before, or released.
func (c *composite) finish(why error) (members []*member, left int, err error) {
	c.Expire()
	c.mu.Lock()
	switch c.state {
	case compositeReleased:
		err = outcome.ErrReleased
	case compositeLost:
		err = c.lossError()
		fallthrough
	default:
		members, left = slices.Clone(c.members), c.left()
	}
	c.state = compositeReleased
	c.mu.Unlock()
	c.hold.Conclude(why)
	return members, left, err
}

// Unlock releases all members at the same time. Once others can acquire the whole, it
// waits for the rest only as long again as it took until then; the rest is released in
// the background, and does not keep the caller from acquiring the lock again. If Redis does
// not answer before Config.UnlockFor is over, all that is left is released there.
func (c *composite) Unlock(h *lease.Hold) error {
	err := c.release()
	if !errors.Is(err, outcome.ErrReleased) {
		h.ReportReleased(err)
	}
	return err
}

// release is unlock for a caller that reports it.
func (c *composite) release() error {
	members, left, lost := c.finish(nil)
	const least = 10 * time.Millisecond
	start := time.Now()
	var enough *time.Timer
	var late <-chan time.Time
	results := releaseMembers(members)
	limit := alarmAt(unlockLimit(members))
	errs := make([]error, c.total) // in the order of the members
	for range members {
		select {
		case r := <-results:
			if r.err != nil {
				errs[r.of.nth] = c.memberError(r.of, r.err)
			} else if left--; left <= c.total-c.need && enough == nil {
				enough = time.NewTimer(max(time.Since(start), least))
				defer enough.Stop()
				late = enough.C
			}
		case <-late:
			return lost
		case <-limit:
			if lost == nil && enough == nil {
				lost = errors.Join(append(errs, slowMembers(members))...)
			}
			return lost
		}
	}
	if lost != nil || enough != nil {
		return lost
	}
	return errors.Join(errs...)
}

// slowMembers returns the error of an unlock of members that goes on in the background, with the last
// failure of one of their clients.
func slowMembers(members []*member) error {
	for _, m := range members {
		if failed := m.of.Client().LastFailure(); failed != nil {
			return lease.Slow(failed)
		}
	}
	return lease.ErrSlow
}

// unlockLimit returns until when a caller of unlock waits for Redis: the latest time that
// the clients of the members allow, and zero for no limit.
func unlockLimit(members []*member) (limit time.Time) {
	for _, m := range members {
		one := m.of.Client().UnlockLimit()
		if one.IsZero() {
			return one
		}
		limit = lease.Latest(limit, one)
	}
	return limit
}

// alarmAt returns a channel that receives at that time, and nil if it is zero.
func alarmAt(at time.Time) <-chan time.Time {
	if at.IsZero() {
		return nil
	}
	return time.After(time.Until(at))
}

// restart gives back all members of a composite that is being formed and goes on, because of why. It asks again soon, so it
// does not wait for longer than a poll takes.
func (c *composite) restart(ctx context.Context, why error) {
	c.mu.Lock()
	members := c.members
	c.members = nil
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, outcome.Poll)
	defer cancel()
	releaseAndWait(ctx, members, why)
}

// releaseAndWait releases members that cannot be used because of why. It waits for that until ctx ends, and no longer than an
// unlock does; then the release continues in the background. If why says that Redis does not answer, the caller has waited
// for that already, and releaseAndWait does not wait again.
func releaseAndWait(ctx context.Context, members []*member, why error) {
	results := releaseMembers(members)
	if outcome.IsSilence(why) {
		return
	}
	limit := alarmAt(unlockLimit(members))
	for range members {
		select {
		case <-results:
		case <-limit:
			return
		case <-ctx.Done():
			return
		}
	}
}

// releaseResult is what came of the release of one member.
type releaseResult struct {
	of  *member
	err error
}

// releaseMembers releases members, all at the same time, in the background. It sends the
// result of each when it is known.
func releaseMembers(members []*member) <-chan releaseResult {
	results := make(chan releaseResult, len(members))
	for _, g := range releaseGroups(members) {
		run := func(context.Context) {
			for i, err := range g.unlock() {
				results <- releaseResult{g[i], err}
			}
		}
		if !g[0].of.Client().Background(run) {
			run(nil) // closed: it ends at once
		}
	}
	return results
}
