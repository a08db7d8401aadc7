package mortisetest

import (
	"context"
	"fmt"
	"slices"

	"github.com/mortise-go/mortise"
)

// Lock acquires a lock as [mortise.Lock.Lock] does, for a client, and records it. The client is
// a name for stories; give each mortise client one of its own. It panics if k is a
// [mortise.GroupLock] or a [mortise.MultiLock], whose parts the history cannot know: use
// [History.LockGroup] and [History.LockAll]. It panics, too, if k is a type of your own, see
// [History.Claim]. For a [mortise.Redlock] there is [History.LockRedlock].
func (h *History) Lock(ctx context.Context, client string, k mortise.Locker) (*Hold, context.Context, error) {
	return h.lock(ctx, client, []Object{object(k)}, true, k.Lock)
}

// TryLock is Lock for [mortise.Lock.TryLock]. TryLockGroup, TryLockAll and TryLockRedlock are it for
// the kinds that it refuses.
func (h *History) TryLock(ctx context.Context, client string, k mortise.Locker) (*Hold, context.Context, error) {
	return h.lock(ctx, client, []Object{object(k)}, false, k.TryLock)
}

// LockGroup is Lock for a GroupLock with these values.
func (h *History) LockGroup(ctx context.Context, client string, k *mortise.GroupLock, values ...string) (*Hold, context.Context, error) {
	return h.lock(ctx, client, group(k, values), true, k.Lock)
}

// TryLockGroup is LockGroup for the method TryLock.
func (h *History) TryLockGroup(ctx context.Context, client string, k *mortise.GroupLock, values ...string) (*Hold, context.Context, error) {
	return h.lock(ctx, client, group(k, values), false, k.TryLock)
}

// LockAll is Lock for a MultiLock of these locks. It panics if m is not one of these, or if one of
// them is itself a MultiLock or a GroupLock.
func (h *History) LockAll(ctx context.Context, client string, m *mortise.MultiLock, locks ...mortise.Locker) (*Hold, context.Context, error) {
	return h.lock(ctx, client, parts(m, locks), true, m.Lock)
}

// TryLockAll is LockAll for the method TryLock.
func (h *History) TryLockAll(ctx context.Context, client string, m *mortise.MultiLock, locks ...mortise.Locker) (*Hold, context.Context, error) {
	return h.lock(ctx, client, parts(m, locks), false, m.TryLock)
}

// LockRedlock is Lock for a Redlock.
func (h *History) LockRedlock(ctx context.Context, client string, k *mortise.Redlock) (*Hold, context.Context, error) {
	return h.lock(ctx, client, redlock(k), true, k.Lock)
}

// TryLockRedlock is LockRedlock for the method TryLock.
func (h *History) TryLockRedlock(ctx context.Context, client string, k *mortise.Redlock) (*Hold, context.Context, error) {
	return h.lock(ctx, client, redlock(k), false, k.TryLock)
}

// Acquire takes permits as [mortise.PermitSemaphore.Acquire] does, for a client, and records
// it. The number is that of the PermitOptions of s.
func (h *History) Acquire(ctx context.Context, client string, s *mortise.PermitSemaphore, permits int) (*Hold, context.Context, error) {
	return h.lock(ctx, client, []Object{{Sort: Permits, Name: s.Name(), Kind: "PermitSemaphore", Permits: permits, Queue: OfClient}}, true, s.Acquire)
}

func group(k *mortise.GroupLock, values []string) []Object {
	return []Object{{Sort: Group, Name: k.Name(), Kind: "GroupLock", Values: slices.Clone(values)}}
}

func redlock(k *mortise.Redlock) []Object {
	return []Object{{Sort: Redundant, Name: k.Name(), Kind: "Redlock"}}
}

// parts says what the locks of a MultiLock exclude.
func parts(m *mortise.MultiLock, locks []mortise.Locker) (objects []Object) {
	if is, told := m.Name(), mortise.NewMultiLock(locks...).Name(); is != told {
		panic(fmt.Sprintf("mortisetest: a history is told that the locks of a MultiLock are %q, and they are %q", told, is))
	}
	for _, k := range locks {
		o := object(k)
		o.Kind, o.Queue, o.Tokens = o.Kind+" in a MultiLock", Unordered, false
		objects = append(objects, o)
	}
	return objects
}

// object says what a lock excludes.
func object(k mortise.Locker) Object {
	o := Object{Sort: Exclusive, Name: k.Name(), Queue: OfClient}
	switch k.(type) {
	case *mortise.Lock:
		o.Kind = "Lock"
	case *mortise.SpinLock:
		o.Kind = "SpinLock"
	case *mortise.FencedLock:
		o.Kind, o.Tokens = "FencedLock", true
	case *mortise.FairLock:
		o.Kind, o.Queue = "FairLock", Fair
	case *mortise.ReadLock:
		o.Kind, o.Sort, o.Queue = "ReadLock", Reading, Unordered
	case *mortise.WriteLock:
		o.Kind, o.Sort, o.Queue = "WriteLock", Writing, Unordered
	case *mortise.GroupLock:
		panic(fmt.Sprintf("mortisetest: a history cannot know the values of the GroupLock %q: use its methods LockGroup and TryLockGroup", o.Name))
	case *mortise.MultiLock:
		panic(fmt.Sprintf("mortisetest: a history cannot know the locks of the MultiLock %q: use its methods LockAll and TryLockAll, with locks that are none", o.Name))
	default:
		panic(fmt.Sprintf("mortisetest: a history does not know the kind %T of %q: record it with Claim", k, o.Name))
	}
	return o
}

type lockFunc = func(context.Context) (*mortise.Hold, context.Context, error)

// lock records a request for objects, which are granted together or not at all.
func (h *History) lock(ctx context.Context, client string, objects []Object, waits bool, lock lockFunc) (*Hold, context.Context, error) {
	by, _ := ctx.Value(ownerKey{}).(*owner)
	if by == nil {
		by = new(owner) // one for all of them
	}
	ctx2 := context.WithValue(ctx, ownerKey{}, by)
	var requests []*Claim
	for _, o := range objects {
		requests = append(requests, h.claim(ctx2, holding{Object: o, client: client, waits: waits, part: len(objects) > 1}))
	}
	hold, held, err := lock(ctx)
	if err != nil {
		for _, q := range requests {
			q.Refused(err)
		}
		return nil, ctx, err
	}
	var begins []func()
	var ends []func(error)
	var lctx context.Context
	for _, q := range requests {
		q.knows(hold)
		c, begin, end := q.Granted(held, hold.Token())
		lctx, begins, ends = c, append(begins, begin), append(ends, end)
	}
	return &Hold{
		Hold: hold,
		begin: func() {
			for _, f := range begins {
				f()
			}
		},
		end: func(err error) {
			for _, f := range ends {
				f(err)
			}
		},
	}, lctx, nil
}
