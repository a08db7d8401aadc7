package mortise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// composite is a hold of several members. It lasts as long as at least need of them do.
type composite struct {
	name  string
	owner *owner
	total int // members when it is complete
	need  int
	// fallen is called after a member has ended, if the composite has not. It must
	// not block. It is nil for a MultiLock, whose composite ends then.
	fallen func(m *member)

	mu       sync.Mutex // guards the fields below
	hold     *Hold
	members  []*member // all that were taken and must be given back
	formed   bool      // all that are needed were taken
	released bool
	end      *ending // why the hold was lost
}

// ending is the loss of the member that ended a composite.
type ending struct {
	of  *member
	why error
}

// member is one held lock of a composite.
type member struct {
	of   *locker
	nth  int // its index among all
	hold *Hold
	gone bool // it has ended; guarded by composite.mu
}

func (m *member) lease() *lease { return m.hold.of.(*lease) } // composites do not nest

// newComposite begins a hold whose context descends from parent. Its members
// must be taken with that context.
func newComposite(parent context.Context, name string, total, need int) *composite {
	c := &composite{name: name, owner: ownerOf(parent), total: total, need: need}
	if c.owner == nil {
		c.owner = new(owner)
	}
	c.hold = &Hold{of: c, parent: parent}
	return c
}

// join adds a member that was taken. It reports false if the composite is over.
func (c *composite) join(m *member) bool {
	c.mu.Lock()
	if c.released || c.end != nil {
		c.mu.Unlock()
		return false
	}
	c.members = append(c.members, m)
	c.mu.Unlock()
	m.lease().watchFor(m.hold, func(why error) { c.fell(m, why) })
	return true
}

// over reports whether the hold was released or lost, so that it accepts no more
// members.
func (c *composite) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.released || c.end != nil
}

// form completes the taking of members. It fails if too few of them are left.
func (c *composite) form() error {
	c.expire()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil {
		return c.about(c.end.of, c.end.why)
	}
	if c.alive() < c.need {
		return fmt.Errorf("%w while the others were asked", ErrLost)
	}
	c.formed = true
	return nil
}

// alive counts the members that have not ended. It must be called with c.mu held.
func (c *composite) alive() (n int) {
	for _, m := range c.members {
		if !m.gone {
			n++
		}
	}
	return n
}

// fell records the end of a member.
func (c *composite) fell(m *member, why error) {
	c.mu.Lock()
	if c.released || c.end != nil || !slices.Contains(c.members, m) {
		c.mu.Unlock()
		return
	}
	m.gone = true
	enough := c.alive() >= c.need
	if !c.formed { // the others may still be granted
		enough = len(c.members)-c.alive() <= c.total-c.need
	}
	if !enough {
		c.end = &ending{m, why}
	}
	c.mu.Unlock()
	if enough {
		c.fallen(m)
		return
	}
	if c.fallen != nil {
		why = c.about(m, why)
	}
	c.hold.cancel(&Error{Op: "hold", Name: m.of.name, Err: why})
}

// about adds to an error the member that it is of.
func (c *composite) about(m *member, err error) error {
	if c.fallen != nil {
		return fmt.Errorf("server %d of %d: %w", m.nth+1, c.total, err)
	}
	return fmt.Errorf("%q: %w", m.of.name, err)
}

// held returns the members that have not ended.
func (c *composite) held() (members []*member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if !m.gone {
			members = append(members, m)
		}
	}
	return members
}

// bury removes a member that has ended.
func (c *composite) bury(m *member) {
	c.mu.Lock()
	c.members = slices.DeleteFunc(c.members, func(have *member) bool { return have == m })
	c.mu.Unlock()
	_ = m.lease().unlock(m.hold) // so that the owner can take it again
}

// finish marks the hold as released. It returns the members to give back, and how many
// of them have not ended. It fails if the hold was lost before, or released.
func (c *composite) finish(why error) (members []*member, left int, err error) {
	c.expire()
	c.mu.Lock()
	switch {
	case c.released:
		err = ErrReleased
	case c.end != nil:
		err = c.about(c.end.of, c.end.why)
		fallthrough
	default:
		members, left = slices.Clone(c.members), c.alive()
	}
	c.released = true
	c.mu.Unlock()
	c.hold.cancel(why)
	return members, left, err
}

// The following methods implement what a hold needs.

func (c *composite) actor() *owner { return c.owner }
func (c *composite) fence() int64  { return 0 }

func (c *composite) label() (name, id string) {
	var ids []string
	for _, m := range c.held() {
		if id := m.lease().id; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return c.name, strings.Join(ids, ", ")
}

// until returns the end of the last member that is needed, as far as is known.
func (c *composite) until() time.Time {
	var ends []time.Time
	for _, m := range c.held() {
		ends = append(ends, m.lease().until())
	}
	if len(ends) < c.need {
		return time.Time{}
	}
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	return ends[c.need-1]
}

func (c *composite) expire() {
	for _, m := range c.held() {
		m.lease().expire()
	}
}

func (c *composite) valid(*Hold) bool {
	alive := 0
	for _, m := range c.held() {
		if m.lease().valid(m.hold) {
			alive++
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return alive >= c.need && !c.released && c.end == nil
}

// unlock gives back all members at the same time. Once others can acquire the
// whole, it waits for the rest only as long again as it took until then; the rest
// is given back in the background, and does not keep the caller from taking the lock
// again.
func (c *composite) unlock(*Hold) error {
	members, left, lost := c.finish(ErrReleased)
	const least = 10 * time.Millisecond
	start := time.Now()
	var enough *time.Timer
	var late <-chan time.Time
	results := giveBack(members)
	errs := make([]error, c.total) // in the order of the members
	for range members {
		select {
		case r := <-results:
			if r.err != nil {
				errs[r.of.nth] = c.about(r.of, r.err)
			} else if left--; left <= c.total-c.need && enough == nil {
				enough = time.NewTimer(max(time.Since(start), least))
				defer enough.Stop()
				late = enough.C
			}
		case <-late:
			return lost
		}
	}
	if lost != nil || enough != nil {
		return lost
	}
	return errors.Join(errs...)
}

// given is the result of giving back one member.
type given struct {
	of  *member
	err error
}

// giveBack releases members, all at the same time, in the background. It sends the
// result of each when it is known.
func giveBack(members []*member) <-chan given {
	results := make(chan given, len(members))
	for _, group := range groups(members) {
		run := func(context.Context) {
			for i, err := range releaseAtOnce(group) {
				results <- given{group[i], err}
			}
		}
		if !group[0].of.client.background(run) {
			run(nil) // closed: it ends at once
		}
	}
	return results
}

// groups combines members that one script can release, in the order in which locks
// are taken.
func groups(members []*member) (groups [][]*member) {
	members = slices.SortedStableFunc(slices.Values(members), func(a, b *member) int { return order(a.of, b.of) })
	for _, m := range members {
		i := slices.IndexFunc(groups, func(g []*member) bool { return atOnce(g[0].of, m.of) })
		if i < 0 {
			groups = append(groups, []*member{m})
		} else {
			groups[i] = append(groups[i], m)
		}
	}
	return groups
}

// atOnce reports whether one script can handle both locks: plain ones of one
// client, and on a cluster of one slot.
func atOnce(a, b *locker) bool {
	return a.traits.batched && b.traits.batched && a.client == b.client &&
		(!a.client.conn.Cluster() || keyspace.Slot(a.name) == keyspace.Slot(b.name))
}

// releaseAtOnce releases the members of one group, with one script if possible.
// It keeps the turns of all leases until Redis has answered, and takes them in the
// order of the group: two holds of one owner share the same leases, and each of
// them would otherwise wait for a turn that the other has.
func releaseAtOnce(group []*member) []error {
	errs := make([]error, len(group))
	if len(group) == 1 {
		errs[0] = group[0].lease().unlock(group[0].hold)
		return errs
	}
	c := group[0].of.client
	var last []int // the indexes of members whose last hold this is
	var locks []script.Release
	var end time.Time
	for i, m := range group {
		l := m.lease()
		rest, err := l.withdraw(m.hold)
		if err != nil {
			errs[i] = err
			continue
		}
		defer l.pass()
		if end = latest(end, l.until()); rest > 0 {
			ctx := l.whileTrusted()
			errs[i] = l.leave(ctx, rest)
			ctx.Stop()
		} else if err := l.retire(); err != nil {
			errs[i] = err
		} else {
			last = append(last, i)
			locks = append(locks, script.Release{Key: l.place.name, Owner: l.id, Channel: m.of.ops.Channel()})
		}
	}
	if len(last) == 0 {
		return errs
	}
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	var released []script.Released
	doubt, err := c.call(ctx, -1, func(ctx context.Context) (err error) {
		released, err = script.MultiRelease(ctx, c.driver, locks, c.conn.Publish(), script.Turns{Command: c.conn.TurnCommand()})
		return err
	})
	for j, i := range last {
		l, became := group[i].lease(), script.NotHeld
		if released != nil {
			became = released[j]
		}
		errs[i] = l.settle(l.released(became), doubt, err)
	}
	return errs
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
