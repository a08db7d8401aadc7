package mortise

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/script"
)

// RWLock is a read/write lock across processes, the counterpart of Redisson's
// RReadWriteLock: many may hold its read side at the same time, or one its write
// side. Both sides are locks like [Lock], to be had from [RWLock.Read] and
// [RWLock.Write]; all of both processes' readers and writers, Java's included,
// mean the same lock.
//
// An owner that holds the write side may take the read side too, and give back
// the write side first: others can read with it from then on, and nobody can
// write in between. Holds that overlap in this way need an owner of their own,
// see [WithOwner]. The reverse is not possible: two readers that both want to
// write would wait for each other for ever. So taking the write side with an
// owner that holds only the read side is an error at once, [ErrReentry].
//
// What it does not guarantee, beyond what Lock does not: that a writer has its
// turn. There is no order between readers and writers, here as in Redisson;
// readers that come without a gap keep writers out.
//
// An RWLock holds no resources. Its methods are safe for concurrent use.
type RWLock struct{ object }

// RWLock returns the read/write lock called name; see [Client.Lock] for names.
// It does no I/O.
func (c *Client) RWLock(name string) *RWLock { return &RWLock{object{c, name}} }

// Read returns the side for those who only look. It does no I/O.
func (k *RWLock) Read() *ReadLock {
	r := &ReadLock{script: k.client.conn.ReadLock(k.name)}
	r.init(k.object, &readTraits, &r.script)
	return r
}

// Write returns the side for those who change something. It does no I/O.
func (k *RWLock) Write() *WriteLock {
	w := &WriteLock{script: k.client.conn.WriteLock(k.name)}
	w.init(k.object, &writeTraits, &w.script)
	return w
}

// readGuard is how often the lease of a reader is looked after at least.
// Redisson's readers cut the TTL of the lock to their lockWatchdogTimeout, 30 s
// by default, when they renew; up to 4.3 also that of other readers' holds. If
// they die then, those who have a longer lease must have repaired it in time.
const readGuard = 10 * time.Second

// The write side comes after the read side; see order.
var (
	useRead  = newUse(class{shared: true, admits: true})
	useWrite = newUse(class{}).otherSideOf(useRead)
)

var (
	readTraits  = traits{use: useRead, guard: readGuard, beside: besideWriter}
	writeTraits = traits{use: useWrite, mark: script.RWWriter, beside: besideReader}
)

// ReadLock is the side of an [RWLock] that any number of owners may hold at the
// same time, while nobody but one of themselves holds the write side. Its
// methods are safe for concurrent use.
type ReadLock struct {
	rwSide
	script script.ReadLock
}

// WriteLock is the side of an [RWLock] that one owner holds while nobody else
// holds either side. Its methods are safe for concurrent use.
//
// Taking it with an owner that holds the read side already, and not this one,
// fails at once with [ErrReentry].
type WriteLock struct {
	rwSide
	script script.WriteLock
}

// With returns the same lock, to be taken with these options.
func (k *ReadLock) With(options LockOptions) *ReadLock {
	k = k.client.RWLock(k.name).Read()
	k.options = &options
	return k
}

// With returns the same lock, to be taken with these options.
func (k *WriteLock) With(options LockOptions) *WriteLock {
	k = k.client.RWLock(k.name).Write()
	k.options = &options
	return k
}

// ForceUnlock takes the read side from all who hold it, and returns them. Who
// holds the write side keeps it. Holders learn of it as with
// [Lock.ForceUnlock]; others who wait are woken.
//
// It looks who holds the lock and frees it of one after the other, with a round
// trip for each; those who take it meanwhile keep it. If it fails on the way it
// returns those that it has freed with the error. Errors are those of
// [Lock.ForceUnlock].
func (k *ReadLock) ForceUnlock(ctx context.Context) (freed []Holder, err error) {
	const op = "force unlock"
	readers, err := k.holders(ctx, op)
	for _, by := range readers {
		ok, ferr := k.free(ctx, op, by.Owner)
		if ok {
			freed = append(freed, by)
		}
		err = errors.Join(err, ferr)
		if ferr != nil && !ok {
			break
		}
	}
	return freed, err
}

// ForceUnlock takes the write side from who holds it, and returns that holder,
// or nil if nobody did. The read side, if the same owner holds it too, stays.
// Everything else is as with [Lock.ForceUnlock].
func (k *WriteLock) ForceUnlock(ctx context.Context) (*Holder, error) {
	const op = "force unlock"
	for {
		writer, err := k.holders(ctx, op)
		if err != nil || len(writer) == 0 {
			return nil, err
		}
		if freed, err := k.free(ctx, op, writer[0].Owner); freed {
			return &writer[0], err
		} else if err != nil {
			return nil, err
		}
	}
}

// rwSide is what both sides have in common.
type rwSide struct{ locker }

// UnlockOwner takes this side of the lock from owner, as [Holder.Owner] or
// [Hold.Owner] show it, if it still holds it, whatever the count, and reports
// whether it did. It is a tool for operators: the holder is not asked.
// Everything else is as with [Lock.ForceUnlock].
func (k *rwSide) UnlockOwner(ctx context.Context, owner string) (bool, error) {
	const op = "unlock owner"
	holders, err := k.holders(ctx, op)
	for _, by := range holders {
		if by.Owner == owner {
			return k.free(ctx, op, owner)
		}
	}
	return false, err
}

// holders reads who holds this side.
func (k *rwSide) holders(ctx context.Context, op string) (holders []Holder, err error) {
	key, err := k.read(ctx, op)
	if err != nil || key.Type == "none" {
		return nil, err
	}
	s := state(k.name, key)
	if s.Kind != KindRWLock {
		err := fmt.Errorf("%w: it holds a %s that is no read/write lock", ErrWrongKind, key.Type)
		return nil, &Error{Op: op, Name: k.name, Err: err}
	}
	for _, by := range s.Holders {
		if writes := strings.HasSuffix(by.Owner, script.RWWriter); writes == (k.place.use == useWrite) {
			holders = append(holders, by)
		}
	}
	return holders, nil
}

// opposite returns the owner's lease on the other side, unless it is over.
func (k *locker) opposite(o *owner) (*lease, error) {
	l := o.lease(k.client, k.place.other())
	if l == nil {
		return nil, nil
	}
	switch err := l.state(); err {
	case nil:
		return l, nil
	case ErrReleased:
		return nil, nil
	default:
		return nil, err
	}
}

// besideWriter lets a reader in behind its own writer: it would dead-lock if it queued
// with those who wait for that writer.
func besideWriter(k *locker, o *owner) (ask ops, past bool, err error) {
	writer, err := k.opposite(o)
	if writer == nil {
		return k.ops, false, err
	}
	return k.ops.(*script.ReadLock).Behind(writer.id), true, nil
}

// besideReader keeps out a writer that reads: it would wait for itself for ever.
func besideReader(k *locker, o *owner) (ask ops, past bool, err error) {
	reader, err := k.opposite(o)
	if reader != nil {
		err = fmt.Errorf("%w, for reading: give that back first, a reader cannot become a writer", ErrReentry)
	}
	return k.ops, false, err
}
