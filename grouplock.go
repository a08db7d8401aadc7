package mortise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/fieldhash"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
)

// GroupLock locks any values of a group at once, all or none: two GroupLocks of
// one group exclude each other if they have a value in common. It is the
// counterpart of Redisson's getMultiLock(group, values), since 3.38, for values that
// are Strings on a client with the default codec, Kryo5Codec. **With another codec, or
// for other values, a Java client locks something else**: both sides have the same
// lock only if the codec writes the same bytes, which [Client.GroupLockBytes] takes. A
// thousand values take one round trip, like a single one, and the order of the values
// cannot cause a deadlock.
//
// In Redis the values of a group are fields of one hash, each with an owner, a
// count and an expiry of its own. A value whose holder has died is free when its
// lease is over.
//
// An owner re-enters with the same values. Acquiring other values that overlap
// with those it holds fails at once with [ErrReentry], because it would deadlock
// with itself; values that do not overlap are another lock.
//
// What it does not guarantee, in addition to Lock: exclusion of Redisson clients
// whose clock is wrong. They compare the end of a lease with their own clock,
// mortise with that of the server; a client whose clock is ahead by more than a
// lease acquires values that others still hold. There is no order among waiters
// in general; only goroutines of one client that wait for the same values acquire
// them in the order in which they asked.
type GroupLock struct {
	locker
	script script.GroupLock // its fields are sorted, each once
}

// MaxValues is the maximum number of values of a [GroupLock].
const MaxValues = 1000

// GroupLock returns the lock on values of the group; see [Client.Lock] for names
// of groups. A value is any text, and may be empty; duplicates count once. There
// must be at least one value, and at most [MaxValues]. GroupLock does no I/O.
func (c *Client) GroupLock(group string, values ...string) *GroupLock {
	return c.groupOf(group, len(values), func(i int) string { return fieldhash.Text(values[i]) })
}

// GroupLockBytes is GroupLock for values as the codec of a Java client writes them: with
// StringCodec the bytes of a text in UTF-8. The value "a" of GroupLock and the value
// []byte("a") of GroupLockBytes are two: GroupLock's text has other bytes, see
// docs/protocol.md.
func (c *Client) GroupLockBytes(group string, values ...[]byte) *GroupLock {
	return c.groupOf(group, len(values), func(i int) string { return fieldhash.Of(values[i]) })
}

// useGroup is the use of GroupLock; the name of its place includes the values.
var useGroup = lease.NewUse(lease.Class{})

var groupTraits = lease.Traits{Use: useGroup, Kind: "grouplock", Parted: true, Partial: true, Admission: refuseOverlap}

// groupOf returns the lock on n values, of which field returns the fields.
func (c *Client) groupOf(group string, n int, field func(i int) string) *GroupLock {
	var flaw error
	switch {
	case n == 0:
		flaw = outcome.Invalid("no values are given; a GroupLock needs one at least")
	case n > MaxValues:
		flaw = outcome.Invalid("%d values are given; a GroupLock takes %d at most", n, MaxValues)
	}
	if flaw != nil {
		k := c.groupLock(group, nil)
		k.lock.SetFlaw(flaw)
		return k
	}
	fields := make([]string, n)
	for i := range fields {
		fields[i] = field(i)
	}
	slices.Sort(fields)
	return c.groupLock(group, slices.Compact(fields))
}

// groupLock returns the lock on these fields.
func (c *Client) groupLock(group string, fields []string) *GroupLock {
	o := c.core.Object(group)
	k := &GroupLock{script: c.core.Conn().GroupLock(script.Group{Name: o.Key(), Fields: fields})}
	k.lock.Init(o, &groupTraits, &k.script)
	return k
}

// With returns a handle to the same lock that acquires it with these options.
func (k *GroupLock) With(options LockOptions) *GroupLock {
	with := *k
	with.lock.SetOptions(options.core())
	return &with
}

// Inspect reads the holders of any of the values from the master. State.TTL is
// that of the value that is held longest, and a holder's count is the number of
// the values it holds. It changes nothing, and blocks only for Redis' reply. It
// does not return [ErrWrongKind]: if the name is used for something else,
// [State.Kind] says so. [Client.Inspect] shows all values of the group, including
// those whose lease is over.
//
// Errors: those of every method; see the package documentation.
func (k *GroupLock) Inspect(ctx context.Context) (State, error) {
	s := State{Name: k.Name(), Kind: KindGroupLock}
	held, err := k.holders(ctx, "inspect")
	if errors.Is(err, ErrWrongKind) {
		return reader(k.lock.Client()).Inspect(ctx, k.Name())
	}
	for _, h := range held {
		s.Locked, s.TTL = true, max(s.TTL, h.until)
		s.Holders = append(s.Holders, Holder{Owner: h.owner, Count: len(h.fields)})
		s.Mine = s.Mine || k.lock.LeaseID(ctx) == h.owner
	}
	if err == nil && !s.Locked {
		s.Kind = KindNone
	}
	return s, err
}

// groupHolder is a holder of some of the values.
type groupHolder struct {
	owner  string
	fields []string
	until  time.Duration // the longest TTL
}

// holders reads the holders of any of the values, sorted by owner.
func (k *GroupLock) holders(ctx context.Context, op string) (held []groupHolder, err error) {
	if flaw := k.lock.Traits().Flaw; flaw != nil {
		return nil, k.fail(op, flaw)
	}
	var by []script.Holder // by index of the field
	err = k.operate(ctx, op, func(ctx context.Context, _ script.Publish) (err error) {
		by, err = script.GroupInspect(ctx, k.lock.Client().Config().Driver, k.script.Group)
		return err
	})
	index := make(map[string]int)
	for i, h := range by {
		if h.Owner == "" {
			continue
		}
		at, ok := index[h.Owner]
		if !ok {
			at = len(held)
			index[h.Owner] = at
			held = append(held, groupHolder{owner: h.Owner})
		}
		held[at].fields = append(held[at].fields, k.script.Fields[i])
		held[at].until = max(held[at].until, h.TTL)
	}
	slices.SortFunc(held, func(a, b groupHolder) int { return strings.Compare(a.owner, b.owner) })
	return held, err
}

// ForceUnlock takes the values from all holders of some of them, and returns
// these holders with the number of values that each lost. In Redis they keep
// their other values of the group, but a holder that loses one value has lost its
// lock: it learns of it as with [Lock.ForceUnlock]. Waiters are woken.
//
// It reads the holders, then frees them one after the other, with a round trip
// for each; owners that acquire the values meanwhile keep them. If it fails on
// the way, it returns the holders freed so far with the error. Errors are those
// of [Lock.ForceUnlock].
func (k *GroupLock) ForceUnlock(ctx context.Context) (freed []Holder, err error) {
	const op = "force unlock"
	held, err := k.holders(ctx, op)
	for _, h := range held {
		ok, ferr := k.part(h.fields).free(ctx, op, h.owner)
		if ok {
			freed = append(freed, Holder{Owner: h.owner, Count: len(h.fields)})
		}
		if ok || errors.Is(ferr, ErrUnknownOutcome) {
			k.robbed(h)
		}
		err = errors.Join(err, ferr)
		if ferr != nil && !ok {
			break
		}
	}
	return freed, err
}

// UnlockOwner takes the values from owner, a [Holder.Owner] or [Hold.Owner], if
// it holds any of them, whatever the count, and reports whether it did. It is a
// tool for operators: the holder is not asked. Everything else is as with
// [GroupLock.ForceUnlock].
func (k *GroupLock) UnlockOwner(ctx context.Context, owner string) (bool, error) {
	const op = "unlock owner"
	held, err := k.holders(ctx, op)
	for _, h := range held {
		if h.owner != owner {
			continue
		}
		ok, err := k.part(h.fields).free(ctx, op, owner)
		if ok || errors.Is(err, ErrUnknownOutcome) {
			k.robbed(h)
		}
		return ok, err
	}
	return false, err
}

// UnlockGroup takes all values of the group from owner, a [Holder.Owner], and
// reports whether it held any. It is for operators: Redis shows them how many
// values an owner holds, but not which. It fails for a group of which more than
// 333 values are held.
//
// Everything else is as with [GroupLock.UnlockOwner].
func (c *Client) UnlockGroup(ctx context.Context, group, owner string) (bool, error) {
	const op = "unlock group"
	o := c.object(group)
	key, err := read(ctx, op, &o.core.Object)
	if err != nil || key.Type == "none" {
		return false, err
	}
	switch s := state(group, key); {
	case s.Kind != KindGroupLock:
		return false, o.fail(op, fmt.Errorf("%w: it holds a %s that is no group", ErrWrongKind, key.Type))
	case s.Unlisted > 0:
		return false, o.fail(op, outcome.Invalid("more than 333 values of the group are held: name those to release, with GroupLock.UnlockOwner"))
	}
	var fields []string
	for field, by := range key.Fields {
		if _, counted := key.Fields[field+":"+owner+":lock_count"]; counted && by == owner {
			fields = append(fields, field)
		}
	}
	if len(fields) == 0 {
		return false, nil
	}
	slices.Sort(fields)
	return c.groupLock(group, fields).UnlockOwner(ctx, owner)
}

// part returns the lock on these fields of the group.
func (k *GroupLock) part(fields []string) *GroupLock {
	return reader(k.lock.Client()).groupLock(k.Name(), fields)
}

// robbed ends the lease of a holder that lost values, if it is of this client.
func (k *GroupLock) robbed(h groupHolder) {
	k.lock.Forced(useGroup, func(id string) bool { return id == h.owner })
}

// refuseOverlap returns an error for an owner that holds some of the values, but not
// exactly these: it would deadlock with itself.
func refuseOverlap(k *lease.Lock, o *lease.Owner) (ask lease.Ops, past bool, err error) {
	wants := k.Ops().(*script.GroupLock)
	held, err := o.HasPart(k, func(has lease.Ops) bool { return overlap(has.(*script.GroupLock).Fields, wants.Fields) })
	if held {
		err = fmt.Errorf("%w, with other values of the group: acquire all of them in one call", ErrReentry)
	}
	return k.Ops(), false, err
}

// overlap reports whether two sorted lists have an element in common.
func overlap(a, b []string) bool {
	for len(a) > 0 && len(b) > 0 {
		switch strings.Compare(a[0], b[0]) {
		case 0:
			return true
		case -1:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return false
}
