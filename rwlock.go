package mortise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/script"
)

// RWLock is a read/write lock across processes, the counterpart of Redisson's
// RReadWriteLock: many owners may hold its read side at the same time, or one
// owner its write side. Both sides are locks like [Lock], returned by
// [RWLock.Read] and [RWLock.Write]. Readers and writers in all processes, Java's
// included, contend for the same lock.
//
// An owner that holds the write side may acquire the read side too, and release
// the write side first: from then on other readers can enter, and no writer can
// in between. Holds that overlap in this way need an owner of their own, see
// [WithOwner]. The reverse is not possible: two readers that both wait to write
// would deadlock. So acquiring the write side with an owner that holds only the
// read side fails at once with [ErrReentry].
//
// What it does not guarantee, in addition to Lock: that a writer ever acquires
// it. There is no order between readers and writers, here as in Redisson; an
// uninterrupted series of readers starves writers.
//
// An RWLock holds no resources. Its methods are safe for concurrent use.
type RWLock struct{ object }

// RWLock returns the read/write lock called name; see [Client.Lock] for names.
// It does no I/O.
func (c *Client) RWLock(name string) *RWLock { return &RWLock{c.object(name)} }

// Read returns the read side. It does no I/O.
func (k *RWLock) Read() *ReadLock {
	r := &ReadLock{script: k.core.Client().Conn().ReadLock(k.core.Key())}
	r.lock.Init(k.core.Object, &readTraits, &r.script)
	return r
}

// Write returns the write side. It does no I/O.
func (k *RWLock) Write() *WriteLock {
	w := &WriteLock{script: k.core.Client().Conn().WriteLock(k.core.Key())}
	w.lock.Init(k.core.Object, &writeTraits, &w.script)
	return w
}

// readGuard is the maximum interval between checks of the TTL of a reader's lease.
// Redisson's readers cut the TTL of the lock to their lockWatchdogTimeout, 30 s
// by default, when they renew; up to 4.3 also that of other readers' holds. If
// such a reader then dies, readers with a longer lease must restore it in time.
const readGuard = 10 * time.Second

// The write side comes after the read side; see lockOrder in internal/composite.
var (
	useRead  = lease.NewUse(lease.Class{Shared: true, Admits: true})
	useWrite = lease.NewUse(lease.Class{}).OtherSideOf(useRead)
)

var (
	readTraits  = lease.Traits{Use: useRead, Kind: "rwlock.read", Guard: readGuard, Admission: admitWriter}
	writeTraits = lease.Traits{Use: useWrite, Kind: "rwlock.write", Keeps: true, Mark: script.RWWriter, Admission: refuseReader}
)

// ReadLock is the side of an [RWLock] that any number of owners may hold at the
// same time, while no owner other than one of them holds the write side. Its
// methods are safe for concurrent use.
type ReadLock struct {
	rwSide
	script script.ReadLock
}

// WriteLock is the side of an [RWLock] that one owner holds while no other owner
// holds either side. Its methods are safe for concurrent use.
//
// Acquiring it with an owner that holds only the read side fails at once with
// [ErrReentry].
type WriteLock struct {
	rwSide
	script script.WriteLock
}

// With returns a handle to the same lock that acquires it with these options.
func (k *ReadLock) With(options LockOptions) *ReadLock {
	with := *k
	with.lock.SetOptions(options.core())
	return &with
}

// With returns a handle to the same lock that acquires it with these options.
func (k *WriteLock) With(options LockOptions) *WriteLock {
	with := *k
	with.lock.SetOptions(options.core())
	return &with
}

// ForceUnlock takes the read side from all its holders, and returns them. The
// holder of the write side keeps it. Holders learn of the loss as with
// [Lock.ForceUnlock]; waiters are woken.
//
// It reads the holders, then frees them one after the other, with a round trip
// for each; owners that acquire the lock meanwhile keep it, unless there are more
// than a thousand: these it reads and frees in parts, and returns [ErrDenied]
// where the user has the right neither to HRANDFIELD nor to HSCAN. If it fails on the
// way, it returns the holders freed so far with the error. Errors are those of
// [Lock.ForceUnlock].
func (k *ReadLock) ForceUnlock(ctx context.Context) (freed []Holder, err error) {
	const op = "force unlock"
	for {
		readers, more, err := k.holders(ctx, op)
		some, ferr := k.freeAll(ctx, op, readers)
		freed = append(freed, some...)
		if err = errors.Join(err, ferr); err != nil || !more || len(some) == 0 {
			return freed, err
		}
	}
}

// freeAll takes the read side from these holders, until one of them cannot be freed.
func (k *ReadLock) freeAll(ctx context.Context, op string, readers []Holder) (freed []Holder, err error) {
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

// ForceUnlock takes the write side from its holder, and returns that holder, or
// nil if there was none. If the same owner holds the read side too, it keeps
// that. Everything else is as with [Lock.ForceUnlock].
func (k *WriteLock) ForceUnlock(ctx context.Context) (*Holder, error) {
	const op = "force unlock"
	for {
		writer, _, err := k.holders(ctx, op)
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

// UnlockOwner takes this side of the lock from owner, a [Holder.Owner] or
// [Hold.Owner], if it still holds it, whatever the count, and reports whether it
// did. It is a tool for operators: the holder is not asked. Everything else
// is as with [Lock.ForceUnlock].
func (k *rwSide) UnlockOwner(ctx context.Context, owner string) (bool, error) {
	const op = "unlock owner"
	holders, more, err := k.holders(ctx, op)
	if !slices.ContainsFunc(holders, func(h Holder) bool { return h.Owner == owner }) && (!more || !k.has(owner)) {
		return false, err
	}
	return k.free(ctx, op, owner)
}

// has reports whether an owner is one of this side.
func (k *rwSide) has(owner string) bool {
	return strings.HasSuffix(owner, script.RWWriter) == (k.lock.Traits().Use == useWrite)
}

// holders reads the holders of this side. More reports whether the lock has others that are not listed.
func (k *rwSide) holders(ctx context.Context, op string) (holders []Holder, more bool, err error) {
	key, err := read(ctx, op, &k.lock.Object)
	if err != nil || key.Type == "none" {
		return nil, false, err
	}
	s := state(k.Name(), key)
	if s.Kind != KindRWLock {
		err := fmt.Errorf("%w: it holds a %s that is no read/write lock", ErrWrongKind, key.Type)
		return nil, false, k.fail(op, err)
	}
	for _, by := range s.Holders {
		if k.has(by.Owner) {
			holders = append(holders, by)
		}
	}
	if err := nameless(s); err != nil {
		return nil, true, k.fail(op, err)
	}
	return holders, s.Unlisted > 0, nil
}

// admitWriter lets an owner that writes acquire the read side without queueing: it would
// deadlock behind the waiters that wait for it as the writer.
func admitWriter(k *lease.Lock, o *lease.Owner) (ask lease.Ops, past bool, err error) {
	writer, err := o.OtherSide(k)
	if writer == "" {
		return k.Ops(), false, err
	}
	return k.Ops().(*script.ReadLock).Behind(writer), true, nil
}

// refuseReader returns an error for a writer that reads: it would deadlock with itself.
func refuseReader(k *lease.Lock, o *lease.Owner) (ask lease.Ops, past bool, err error) {
	reader, err := o.OtherSide(k)
	if reader != "" {
		err = fmt.Errorf("%w, for reading: release that hold first; a reader cannot become a writer", ErrReentry)
	}
	return k.Ops(), false, err
}
