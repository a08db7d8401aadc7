package mortise

import (
	"cmp"
	"context"

	"github.com/mortise-go/mortise/internal/composite"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
)

// Locker is any kind of lock of this package that a [MultiLock] can be made of.
// No other package can implement it.
type Locker interface {
	Name() string
	Lock(ctx context.Context) (*Hold, context.Context, error)
	TryLock(ctx context.Context) (*Hold, context.Context, error)

	locks() ([]*lease.Lock, error) // and why they cannot be acquired together, or nil
}

func (k *locker) locks() ([]*lease.Lock, error) { return []*lease.Lock{&k.lock}, nil }

// MultiLock is several locks that are acquired together: all of them or none, the
// counterpart of Redisson's MultiLock. They may be of different kinds, clients
// and servers. There is nothing in Redis but the locks themselves; the holder of one
// of them, and a waiter for one, contends with the MultiLock.
//
// It waits for the lock that refused it, and holds none of the others meanwhile. When
// it has that one it acquires the others; if another refuses it for more than a few
// milliseconds, it releases what it has and waits for that. Plain locks of one client, on
// a Redis Cluster of one slot, are tried with one round trip. To make progress under
// contention, after several refusals it acquires the locks in one order, which all
// processes share, however they are listed, and keeps those that it has while it waits
// for the next: for a tenth of a second at first, for twice as long each time, and then
// starts over. With a MaxHold, or where locks of one name are on several servers, it
// does not do that, so that none is used up before the last lock is acquired.
//
// The hold lasts as long as all of the locks do. If one of them is lost, its
// context ends with a cause that names it, an [*Error] that matches [ErrLost];
// the others are held until [Hold.Unlock].
//
// [Hold.Owner] lists the owners of all locks; [Hold.Until] is that of the lock
// that ends first. [Hold.Token] is 0: for the token of a [FencedLock] among the
// locks, re-enter that one with the returned context. To inspect a lock or to
// free it by force, use the lock itself.
//
// What it does not guarantee, in addition to its locks: an order with a holder of one
// of the locks that then asks for the MultiLock, or for the others one by one, or with
// GroupLocks whose values overlap: these may wait for each other until a context ends.
// To hold all at the same instant is to hold each; it is not a transaction over several
// servers.
//
// A MultiLock holds no resources. Its methods are safe for concurrent use.
type MultiLock struct {
	batch   *composite.Batch
	invalid error // what is wrong with it
}

// NewMultiLock returns a lock that consists of all the given ones, with the options
// that each has. It does no I/O. A lock that is listed twice counts once; if it has
// different options there, or no lock is given, using the MultiLock fails with
// [ErrInvalid].
func NewMultiLock(locks ...Locker) *MultiLock {
	var all []*lease.Lock
	var invalid error
	for _, l := range locks {
		if l == nil {
			invalid = outcome.Invalid("one of the locks is nil")
			continue
		}
		some, err := l.locks()
		all, invalid = append(all, some...), cmp.Or(invalid, err)
	}
	batch, err := composite.NewBatch(all)
	return &MultiLock{batch, cmp.Or(invalid, err)}
}

// Name returns the names of the locks, in the order in which they are acquired.
func (m *MultiLock) Name() string { return m.batch.Name() }

// With returns the same lock, with these options instead of those that each lock has.
func (m *MultiLock) With(options LockOptions) *MultiLock {
	return &MultiLock{m.batch.With(options.core()), m.invalid}
}

func (m *MultiLock) locks() ([]*lease.Lock, error) { return m.batch.Locks(), m.invalid }

// Do acquires all locks, calls f, and releases them. Everything else is as with
// [Lock.Do].
func (m *MultiLock) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return under(ctx, m.Lock, f)
}

// TryDo is Do if all locks are free. Otherwise it does not call f, and returns false and no error. Everything else is as
// with [Lock.TryDo] and [MultiLock.TryLock].
func (m *MultiLock) TryDo(ctx context.Context, f func(ctx context.Context) error) (done bool, err error) {
	return tryUnder(ctx, m.TryLock, f)
}

// Lock acquires all locks, and blocks until it has them, ctx ends, or [LockOptions.Wait] is
// over; if the locks have several such limits, the shortest holds for all. The returned
// context, and the owner that it carries, are as with [Lock.Lock]: with it, each of the
// locks can be re-entered, by itself or together.
//
// If it fails, it holds none of them that it did not hold before; those that it has when Redis
// stops answering are given back in the background. The error names the lock that refused it. Errors are those of [Lock.Lock] for each of the
// locks; [ErrLost] also if one was lost while it waited for another.
func (m *MultiLock) Lock(ctx context.Context) (*Hold, context.Context, error) {
	return m.enter(ctx, "lock", true)
}

// TryLock acquires all locks if each of them is free, or held by the owner that ctx
// carries, and none otherwise: [ErrLocked] names one that refused it.
// Everything else is as with [Lock.TryLock].
func (m *MultiLock) TryLock(ctx context.Context) (*Hold, context.Context, error) {
	return m.enter(ctx, "try lock", false)
}

func (m *MultiLock) enter(ctx context.Context, op string, wait bool) (*Hold, context.Context, error) {
	needContext(ctx)
	if m.invalid != nil {
		return nil, ctx, &Error{Op: op, Name: m.Name(), Err: m.invalid}
	}
	hold, at, err := m.batch.Acquire(ctx, wait)
	if err != nil {
		return nil, ctx, &Error{Op: op, Name: at, Err: err}
	}
	return (*Hold)(hold), hold.Context(), nil
}
