package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// scriptGroup is one member of a composite, or several that one script can acquire or
// release.
type scriptGroup []*member

// oneScript reports whether one script can handle both locks: plain ones of one
// client, and on a cluster of one slot.
func oneScript(a, b *Lock) bool {
	return a.traits.Batched && b.traits.Batched && a.client == b.client &&
		(!a.client.conn.Cluster() || keyspace.Slot(a.name) == keyspace.Slot(b.name))
}

// releaseGroups combines members that one script can release, in the order in which locks
// are acquired.
func releaseGroups(members []*member) (groups []scriptGroup) {
	members = slices.SortedStableFunc(slices.Values(members), func(a, b *member) int { return lockOrder(a.of, b.of) })
	for _, m := range members {
		i := slices.IndexFunc(groups, func(g scriptGroup) bool { return oneScript(g[0].of, m.of) })
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
	yields = yields && g.shared()
	if len(g) > 1 || yields && g[0].of.traits.Batched && !c.owner.has(g[0].of) {
		nth, err = g.acquireAtOnce(ctx, c, yields)
		if !errors.Is(err, ErrLocked) || !slices.ContainsFunc(g, func(m *member) bool { return c.owner.has(m.of) }) {
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

// shared reports whether Redisson's threads are known to take part in one of the locks.
func (g scriptGroup) shared() bool {
	c := g[0].of.client
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(g, func(m *member) bool { return m.of.takesTurns() && c.sharing.shared(m.of.sharedAs()) != nil })
}

// acquireAtOnce is acquire with one script.
func (g scriptGroup) acquireAtOnce(ctx context.Context, c *composite, yields bool) (nth int, err error) {
	client := g[0].of.client
	if err := client.begin(); err != nil {
		return g[0].nth, err
	}
	defer client.running.done()
	if ctx.Err() != nil {
		return g[0].nth, ContextError(ctx)
	}
	var keys []string
	for _, m := range g {
		keys = append(keys, m.of.name)
	}
	r := &request{owner: c.owner, id: client.NewID()}
	var got bool
	var at int
	var by script.Holder
	r.doubt, err = client.call(ctx, client.config.RetryFor, func(ctx context.Context) (err error) {
		r.start = time.Now()
		got, at, by, err = script.MultiAcquire(ctx, client.driver, keys, r.id, g[0].of.ttl(), yields)
		return err
	})
	if got && err == nil {
		return g.granted(ctx, c, r)
	}
	if r.doubt {
		g.abandon(r.id)
	}
	switch {
	case errors.Is(err, script.ErrKind):
		return g[at].nth, fmt.Errorf("%q: %w", g[at].of.Name(), err)
	case err != nil:
		return g[0].nth, err
	}
	return g[at].nth, (&refusal{by: by}).asError(client.errors)
}

// granted makes the locks of the group, which Redis has granted to r, members of c.
func (g scriptGroup) granted(ctx context.Context, c *composite, r *request) (nth int, err error) {
	for i, m := range g {
		one := &request{lock: m.of, owner: r.owner, id: r.id, start: r.start, doubt: r.doubt}
		hold, err := one.newHold(ctx, 0, m.of.ttl())
		if err != nil {
			g[i:].abandon(r.id)
			return m.nth, err
		}
		if err := c.add(m, hold); err != nil {
			if i+1 < len(g) {
				g[i+1:].abandon(r.id)
			}
			return m.nth, err
		}
	}
	return 0, nil
}

// abandon makes sure that no lock of the group stays in Redis with that id.
func (g scriptGroup) abandon(id string) {
	c := g[0].of.client
	select {
	case <-c.done:
		_, _ = g.release(c.lingerer, id) // Close waits a moment for this
	default:
		c.janitor.abandon(g, id, g[0].of.ttl())
	}
}

// release releases the locks of the group that id holds, and reports whether it held any.
func (g scriptGroup) release(ctx context.Context, id string) (bool, error) {
	c := g[0].of.client
	var locks []script.Release
	for _, m := range g {
		locks = append(locks, script.Release{Key: m.of.name, Owner: id, Channel: m.of.ops.Channel(), Turns: m.of.turns(0)})
	}
	released, err := script.MultiRelease(ctx, c.driver, locks, c.conn.Publish())
	return slices.ContainsFunc(released, func(r script.Released) bool { return r != script.NotHeld }), err
}

// unlock releases the holds of the members, and returns the error of each. It locks the
// counts of all leases, in the order of the group, until Redis has answered: two holds of
// one owner share the same leases, and each of them would otherwise wait for a count that
// the other has locked.
func (g scriptGroup) unlock() []error {
	errs := make([]error, len(g))
	if len(g) == 1 {
		errs[0] = g[0].lease().unlock(g[0].hold)
		return errs
	}
	var last scriptGroup // the members whose last hold this is
	var at []int         // their indexes
	var end time.Time
	for i, m := range g {
		l := m.lease()
		left, err := l.removeHold(m.hold)
		if err != nil {
			errs[i] = err
			continue
		}
		defer l.unlockCount()
		if end = latest(end, l.until()); left > 0 {
			errs[i] = l.decrementCount(left, time.Time{})
		} else if err := l.stopRenewal(); err != nil {
			errs[i] = err
		} else {
			last, at = append(last, m), append(at, i)
		}
	}
	for j, err := range last.releaseStopped(end) {
		errs[at[j]] = err
	}
	return errs
}

// releaseStopped releases leases that are not renewed any more, with one script, and returns the
// error of each. It tries until end.
func (g scriptGroup) releaseStopped(end time.Time) []error {
	if len(g) == 0 {
		return nil
	}
	c := g[0].of.client
	var locks []script.Release
	for _, m := range g {
		l := m.lease()
		locks = append(locks, script.Release{Key: l.place().name, Owner: l.id, Channel: m.of.ops.Channel(), Turns: l.turns(int(l.row))})
	}
	ctx := driver.Until(end)
	defer ctx.Stop()
	var released []script.Released
	doubt, err := c.call(ctx, -1, func(ctx context.Context) (err error) {
		released, err = script.MultiRelease(ctx, c.driver, locks, c.conn.Publish())
		return err
	})
	errs := make([]error, len(g))
	for i, m := range g {
		l, became := m.lease(), script.NotHeld
		if released != nil {
			became = released[i]
		}
		errs[i] = l.finishRelease(l.released(became), doubt, err)
	}
	return errs
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
