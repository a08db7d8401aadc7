package script

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
)

var (
	groupAcquire = load("group_acquire", "group")
	groupReenter = load("group_reenter", "group")
	groupLeave   = load("group_leave", "group")
	groupRelease = load("group_release", "redissons", "group")
	groupRenew   = load("group_renew", "group")
	groupInspect = load("group_inspect", "group")
)

// Group is a set of fields of a lock group, each at most once.
type Group struct {
	Name   string
	Fields []string
}

func (g Group) call(s *driver.Script, args ...string) driver.Call {
	return driver.Call{Script: s, Keys: []string{g.Name}, Args: append(args, g.Fields...)}
}

// GroupLock is the operations of a lock on some fields of a group.
type GroupLock struct {
	Group
	conn *Conn
	part string
}

// GroupLock returns the operations of a lock on g.
func (c *Conn) GroupLock(g Group) GroupLock {
	return GroupLock{g, c, g.Name + "\n" + strings.Join(g.Fields, "")} // no name contains the separator
}

// Part names the fields.
func (k *GroupLock) Part() string { return k.part }

// Channel returns the channel on which releases are announced.
func (k *GroupLock) Channel() string { return keyspace.LockChannel(k.Name) }

// Acquire acquires all fields, as [GroupAcquire] does.
func (k *GroupLock) Acquire(ctx context.Context, a Attempt) (g Grant, err error) {
	g.OK, g.By, err = GroupAcquire(ctx, k.conn.driver, k.Group, a.ID, a.Lease)
	return g, err
}

// Reentry sets the counts of the fields, as [GroupReentry] does.
func (k *GroupLock) Reentry(id string, count int, lease time.Duration) Reentry {
	return GroupReentry(k.Group, id, count, lease)
}

// Leave sets the counts of fields that id keeps.
func (k *GroupLock) Leave(ctx context.Context, id string, count int) (bool, error) {
	return GroupLeave(ctx, k.conn.driver, k.Group, id, count)
}

// Release releases the fields entirely, as [GroupRelease] does.
func (k *GroupLock) Release(ctx context.Context, id string, _ Turns) (Freed, error) {
	became, err := GroupRelease(ctx, k.conn.driver, k.Group, id, k.Channel(), k.conn.Publish())
	return Freed{Released: became}, err
}

// Renewal extends the leases on the fields.
func (k *GroupLock) Renewal(id string, lease time.Duration) Renewal {
	return GroupRenewal(k.Group, id, lease)
}

// GroupAcquire acquires all fields for owner, which must not have held them
// before. If it does not, it returns the holder of one of them.
func GroupAcquire(ctx context.Context, d driver.Driver, g Group, owner string, lease time.Duration) (ok bool, by Holder, err error) {
	v, err := d.Eval(ctx, g.call(groupAcquire, owner, millis(lease)))
	if err != nil {
		return false, Holder{}, err
	}
	switch {
	case v.At(0).Int() == 1 && is(v, "i"):
		return true, Holder{}, nil
	case v.At(0).Int() == -1:
		return false, Holder{}, ErrKind
	case v.At(0).Int() == 0 && is(v, "iiss"):
		return false, holder(v.At(1), v.At(2), v.At(3)), nil
	}
	return false, Holder{}, unexpected(groupAcquire, v)
}

// GroupReentry sets the counts of fields that owner holds, if those are all of them, and extends
// their leases.
func GroupReentry(g Group, owner string, count int, lease time.Duration) Reentry {
	return reentryOf(g.call(groupReenter, owner, strconv.Itoa(count), millis(lease)))
}

// GroupLeave sets the counts of fields that owner holds and keeps. It
// reports false if owner does not hold all of them.
func GroupLeave(ctx context.Context, d driver.Driver, g Group, owner string, count int) (bool, error) {
	return flag(ctx, d, g.call(groupLeave, owner, strconv.Itoa(count)))
}

// GroupRelease releases the fields entirely. It reports [NotHeld] unless owner held
// all of them, and releases those that it held in any case. As with [LockRelease] an
// error may come with a result.
func GroupRelease(ctx context.Context, d driver.Driver, g Group, owner, channel string, p Publish) (Released, error) {
	return became(ctx, d, g.call(groupRelease, owner, channel, strings.Join(p.commands(), " ")))
}

// GroupRenewal extends the leases on fields of a group.
func GroupRenewal(g Group, owner string, lease time.Duration) Renewal {
	return Renewal{
		Script: groupRenew, Key: g.Name,
		Args: append([]string{owner, millis(lease), strconv.Itoa(len(g.Fields))}, g.Fields...),
	}
}

// GroupInspect returns the holder of each field, without an owner if the field is free.
// It returns nil if there is no such group.
func GroupInspect(ctx context.Context, d driver.Driver, g Group) ([]Holder, error) {
	v, err := d.Eval(ctx, g.call(groupInspect))
	if err != nil {
		return nil, err
	}
	switch {
	case v.At(0).Kind() != driver.Int:
		return nil, unexpected(groupInspect, v)
	case v.At(0).Int() == -1:
		return nil, ErrKind
	case v.At(0).Int() == 0 && is(v, "i"):
		return nil, nil
	case v.At(0).Int() != 1 || v.Len() != 1+3*len(g.Fields):
		return nil, unexpected(groupInspect, v)
	}
	holders := make([]Holder, len(g.Fields))
	for i := range holders {
		if v.At(3*i+1).Kind() != driver.String || v.At(3*i+2).Kind() != driver.Int || v.At(3*i+3).Kind() != driver.String {
			return nil, unexpected(groupInspect, v)
		}
		if v.At(3*i+1).Str() != "" { // else nobody holds it
			holders[i] = holder(v.At(3*i+2), v.At(3*i+1), v.At(3*i+3))
		}
	}
	return holders, nil
}
