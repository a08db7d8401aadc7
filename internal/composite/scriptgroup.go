package composite

import (
	"context"
	"errors"
	"slices"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/waiting"
)

// scriptGroup is one member of a composite, or several that one script can acquire or
// release.
type scriptGroup []*member

// releaseGroups combines members that one script can release, in the order in which locks
// are acquired.
func releaseGroups(members []*member) (groups []scriptGroup) {
	members = slices.SortedStableFunc(slices.Values(members), func(a, b *member) int { return lockOrder(a.of, b.of) })
	for _, m := range members {
		i := slices.IndexFunc(groups, func(g scriptGroup) bool { return g[0].of.Together(m.of) })
		if i < 0 {
			groups = append(groups, scriptGroup{m})
		} else {
			groups[i] = append(groups[i], m)
		}
	}
	return groups
}

// acquire acquires the locks of the group without waiting, and makes them members of c. If yields is true, it leaves them to
// Redisson's threads where it is their turn. If it fails, it returns the index of the lock that failed.
func (g scriptGroup) acquire(ctx context.Context, c *composite, yields bool) (nth int, err error) {
	yields = yields && slices.ContainsFunc(g, func(m *member) bool { return waiting.IsShared(m.of) })
	if len(g) > 1 || yields && g[0].of.Traits().Batched && !c.owner.Has(g[0].of) {
		nth, err = g.acquireAtOnce(ctx, c, yields)
		if !errors.Is(err, outcome.ErrLocked) || !slices.ContainsFunc(g, func(m *member) bool { return c.owner.Has(m.of) }) {
			return nth, err
		}
		// Another request of the same owner was faster with that one.
	}
	for _, m := range g {
		if err := c.acquire(ctx, m, false); err != nil {
			return m.nth, err
		}
	}
	return 0, nil
}

// acquireAtOnce is acquire with one script.
func (g scriptGroup) acquireAtOnce(ctx context.Context, c *composite, yields bool) (nth int, err error) {
	var locks []*lease.Lock
	for _, m := range g {
		locks = append(locks, m.of)
	}
	holds, at, err := lease.AcquireSeveral(ctx, locks, c.owner, yields)
	for i, hold := range holds {
		if failed := c.add(g[i], hold); failed != nil && err == nil {
			at, err = i, failed
		}
	}
	return g[at].nth, err
}

// unlock releases the holds of the members, and returns the error of each.
func (g scriptGroup) unlock() []error {
	if len(g) == 1 {
		return []error{g[0].lease().Unlock(g[0].hold)}
	}
	var holds []*lease.Hold
	for _, m := range g {
		holds = append(holds, m.hold)
	}
	return lease.UnlockSeveral(holds)
}
