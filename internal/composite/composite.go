package composite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/waiting"
)

// composite is a hold of several members. It lasts as long as at least need of them do.
type composite struct {
	name  string
	owner *lease.Owner
	total int // members when it is complete
	need  int
	// replace is called after a member has ended, if the composite has not. It must
	// not block. It is nil for a MultiLock, whose composite ends then.
	replace func(m *member)

	mu      sync.Mutex // guards the fields below
	hold    *lease.Hold
	members []*member // all that were acquired and must be released
	state   compositeState
	formed  bool    // it was held at some time
	lostFor *member // whose end lost the hold; nil while it is not lost
}

// compositeState is where a composite is in its life.
type compositeState uint8

const (
	compositeForming  compositeState = iota // members are acquired, until complete or finish
	compositeHeld                           // it has all members that it needs, until too few are left or finish
	compositeLost                           // too few members are left; finish releases those
	compositeReleased                       // finish has returned the members to release
)

// member is one lock of a composite.
type member struct {
	of    *lease.Lock
	nth   int         // its index among all
	hold  *lease.Hold // nil until it is acquired
	ended error       // why it has ended, nil while it lasts; guarded by composite.mu
	// late says that it was asked for again after it was lost, or not had. While it was
	// missing, too few may have been left, unknown to this process. So it does not count
	// until that is ruled out; see Quorum.rejoin. Guarded by composite.mu.
	late bool
}

// counts reports whether m is one of those that the composite needs. It must be called with
// composite.mu held.
func (m *member) counts() bool { return m.ended == nil && !m.late }

func (m *member) lease() *lease.Lease { return m.hold.Lease() } // composites do not nest

// newComposite begins a hold whose context descends from parent. Its members
// must be acquired with that context.
func newComposite(parent context.Context, name string, total, need int) *composite {
	c := &composite{name: name, owner: lease.OwnerOf(parent), total: total, need: need}
	if c.owner == nil {
		c.owner = new(lease.Owner)
	}
	c.hold = lease.NewHold(c, parent)
	return c
}

// acquire acquires the lock of m, and makes m a member.
func (c *composite) acquire(ctx context.Context, m *member, wait bool) error {
	hold, err := waiting.AcquirePart(ctx, m.of, wait)
	if err != nil {
		return err
	}
	return c.add(m, hold)
}

// add makes m, whose lock was acquired with hold, a member. If the composite is over, it
// releases hold instead.
func (c *composite) add(m *member, hold *lease.Hold) error {
	m.hold = hold
	c.mu.Lock()
	over := c.state >= compositeLost
	if !over {
		m.late = m.late && c.formed // else nothing was held while it was missing
		c.members = append(c.members, m)
	}
	c.mu.Unlock()
	if over {
		_ = hold.Release()
		return outcome.ErrLost // c has the member that was lost
	}
	m.lease().SetOnEnd(hold, func(why error) { c.memberEnded(m, why) })
	return nil
}

// over reports whether the hold was released or lost, so that it accepts no more
// members.
func (c *composite) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state >= compositeLost
}

// complete ends the forming. It fails if too few members are left.
func (c *composite) complete() error {
	c.Expire()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == compositeLost {
		return c.lossError()
	}
	if c.counting() < c.need {
		return fmt.Errorf("%w while the others were asked", outcome.ErrLost)
	}
	c.state, c.formed = compositeHeld, true
	return nil
}

// left counts the members that have not ended. It must be called with c.mu held.
func (c *composite) left() (n int) {
	for _, m := range c.members {
		if m.ended == nil {
			n++
		}
	}
	return n
}

// counting is how many members count. It must be called with c.mu held.
func (c *composite) counting() (n int) {
	for _, m := range c.members {
		if m.counts() {
			n++
		}
	}
	return n
}

// memberEnded records the end of a member.
func (c *composite) memberEnded(m *member, why error) {
	c.mu.Lock()
	if m.ended != nil { // another goroutine reports it, too
		c.mu.Unlock()
		c.tell()
		return
	}
	if !c.formed {
		m.lease().ReleaseUnused(m.hold)
	}
	if c.state >= compositeLost || !slices.Contains(c.members, m) {
		c.mu.Unlock()
		return
	}
	m.ended = why
	enough := c.counting() >= c.need
	if c.state == compositeForming { // the others may still be granted
		enough = len(c.members)-c.left() <= c.total-c.need
	}
	if !enough {
		c.state, c.lostFor = compositeLost, m
	}
	c.mu.Unlock()
	if enough {
		c.replace(m)
		return
	}
	c.tell()
}

// tell ends the context of the hold if that was lost.
func (c *composite) tell() {
	c.mu.Lock()
	m := c.lostFor
	if m == nil {
		c.mu.Unlock()
		return
	}
	why := m.ended
	c.mu.Unlock()
	if c.replace != nil {
		why = c.memberError(m, why)
	}
	c.hold.Lose(m.of.LossCause(why), lease.ReasonOf(why))
}

// memberError adds to an error the member that it is about.
func (c *composite) memberError(m *member, err error) error {
	if c.replace != nil {
		return fmt.Errorf("server %d of %d: %w", m.nth+1, c.total, err)
	}
	return fmt.Errorf("%q: %w", m.of.Name(), err)
}

// lossError returns why the hold was lost. It must be called with Client.Mu held.
func (c *composite) lossError() error { return c.memberError(c.lostFor, c.lostFor.ended) }

// lasting returns the members that have not ended.
func (c *composite) lasting() (members []*member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if m.ended == nil {
			members = append(members, m)
		}
	}
	return members
}

// needed returns the members that count.
func (c *composite) needed() (members []*member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if m.counts() {
			members = append(members, m)
		}
	}
	return members
}

// awaits reports whether m is a late member that may count one day.
func (c *composite) awaits(m *member) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return m.late && m.ended == nil && c.state == compositeHeld
}

// count makes a late member count, and reports true, unless the hold is over.
func (c *composite) count(m *member) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != compositeHeld {
		return false
	}
	m.late = false
	return true
}

// drop releases a late member, which may be nil, of a hold that was lost before it counted:
// others can have the lock, and it would only obstruct them.
func (c *composite) drop(m *member) {
	c.mu.Lock()
	lost := m != nil && m.late && m.ended == nil && c.state == compositeLost
	c.mu.Unlock()
	if lost {
		c.remove(m)
	}
}

// remove removes a member that has ended, or does not count.
func (c *composite) remove(m *member) {
	c.mu.Lock()
	c.members = slices.DeleteFunc(c.members, func(have *member) bool { return have == m })
	c.mu.Unlock()
	_ = m.lease().Unlock(m.hold) // so that the owner can acquire it again
}

// The following methods implement what a hold needs; unlock is in composite_release.go.

func (c *composite) ContextOwner() *lease.Owner { return c.owner }
func (c *composite) FencingToken() int64        { return 0 }

func (c *composite) NameAndID() (name, id string) {
	var ids []string
	for _, m := range c.lasting() {
		if id := m.lease().ID(); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return c.name, strings.Join(ids, ", ")
}

// Until returns the end of the last member that is needed, as far as is known.
func (c *composite) Until() time.Time {
	var ends []time.Time
	for _, m := range c.needed() {
		ends = append(ends, m.lease().Until())
	}
	if len(ends) < c.need {
		return time.Time{}
	}
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	return ends[c.need-1]
}

func (c *composite) Expire() {
	for _, m := range c.lasting() {
		if c.over() { // the contexts of members that end ask this one
			break
		}
		m.lease().Expire()
	}
	c.tell()
}

func (c *composite) Valid(*lease.Hold) bool {
	valid := 0
	for _, m := range c.needed() {
		if m.lease().Valid(m.hold) {
			valid++
		}
	}
	return valid >= c.need && !c.over()
}

// limit returns when the first member that lasts ends by its limit, or zero if none has one.
func (c *composite) limit() (first lease.Limit) {
	for _, m := range c.lasting() {
		end := m.lease().Limit()
		if first.IsZero() || !end.IsZero() && end.Until.Before(first.Until) {
			first = end
		}
	}
	return first
}

// Parts returns the leases of the members that last. A Redlock keeps nobody out by one of its parts, and neither does what is
// still being acquired, or is over.
func (c *composite) Parts() (leases []*lease.Lease, whole bool) {
	for _, m := range c.lasting() {
		leases = append(leases, m.lease())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return leases, c.state == compositeHeld && c.need == c.total
}
