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
	rwReadAcquire  = load("rw_read_acquire", "rw")
	rwReadReenter  = load("rw_read_reenter", "rw")
	rwReadLeave    = load("rw_read_leave", "rw")
	rwReadRelease  = load("rw_read_release", "redissons", "rw")
	rwReadRenew    = load("rw_read_renew")
	rwWriteAcquire = load("rw_write_acquire", "foreign", "rw")
	rwWriteRelease = load("rw_write_release", "redissons", "rw", "rw_write")
	rwWriteKeep    = load("rw_write_keep", "redissons", "rw", "rw_write")
)

// RWWriter is the suffix of the owner of a write lock.
const RWWriter = ":write"

// ReadLock is the operations of the read side of a lock.
type ReadLock struct {
	hash
	writer string // the writer behind which it may be acquired
}

// ReadLock returns the operations of the lock called name.
func (c *Conn) ReadLock(name string) ReadLock { return ReadLock{hash: hash{c, name}} }

// Behind returns the operations for the owner of the lease writer on the write side.
func (k *ReadLock) Behind(writer string) *ReadLock { return &ReadLock{k.hash, writer} }

// Channel returns the channel on which releases are announced.
func (k *ReadLock) Channel() string { return keyspace.RWChannel(k.name) }

// Acquire acquires the side, as [RWReadAcquire] does.
func (k *ReadLock) Acquire(ctx context.Context, a Attempt) (g Grant, err error) {
	g.OK, g.By, err = RWReadAcquire(ctx, k.driver(), k.name, a.ID, k.writer, a.Lease)
	return g, err
}

// Reentry sets the count of a reader, as [RWReadReentry] does.
func (k *ReadLock) Reentry(id string, count int, lease time.Duration) Reentry {
	return RWReadReentry(k.name, id, count, lease)
}

// Leave sets the count of a reader that keeps its lease.
func (k *ReadLock) Leave(ctx context.Context, id string, count int) (bool, error) {
	return RWReadLeave(ctx, k.driver(), k.name, id, count)
}

// Release takes a reader out of the lock.
func (k *ReadLock) Release(ctx context.Context, id string, _ Turns) (Freed, error) {
	became, err := RWReadRelease(ctx, k.driver(), k.name, id, k.Channel(), k.conn.Publish())
	return Freed{Released: became}, err
}

// Renewal extends the lease of a reader.
func (k *ReadLock) Renewal(id string, lease time.Duration) Renewal {
	return RWReadRenewal(k.name, id, lease)
}

// WriteLock is the operations of the write side of a lock.
type WriteLock struct{ hash }

// WriteLock returns the operations of the lock called name.
func (c *Conn) WriteLock(name string) WriteLock { return WriteLock{hash{c, name}} }

// Channel returns the channel on which releases are announced.
func (k *WriteLock) Channel() string { return keyspace.RWChannel(k.name) }

// Acquire acquires the side, as [RWWriteAcquire] does.
func (k *WriteLock) Acquire(ctx context.Context, a Attempt) (g Grant, err error) {
	g.OK, g.By, err = RWWriteAcquire(ctx, k.driver(), k.name, a.ID, a.Lease)
	return g, err
}

// Release takes a writer out of the lock.
func (k *WriteLock) Release(ctx context.Context, id string, _ Turns) (Freed, error) {
	became, err := RWWriteRelease(ctx, k.driver(), k.name, id, k.Channel(), k.conn.Publish())
	return Freed{Released: became}, err
}

// Keep takes a writer out of the lock, but leaves it taken, as [RWWriteKeep] does. With longer
// set it lasts no less than it would anyway, also next to a reader with the same owner in the
// process.
func (k *WriteLock) Keep(ctx context.Context, id string, left time.Duration, longer bool) (Released, error) {
	keeper := strings.TrimSuffix(id, RWWriter) + kept + RWWriter
	if longer {
		return LockKeep(ctx, k.driver(), k.name, id, keeper, left, longer)
	}
	return RWWriteKeep(ctx, k.driver(), k.name, id, keeper, left, k.Channel(), k.conn.Publish())
}

// A writer's count and lease are those of any lock: it uses [LockReentry], [LockLeave]
// and [LockRenewal].

// RWReadAcquire acquires the read side of the lock key for owner, which must not
// have held it before. It may read behind writer, if that is not empty. If it does not
// acquire, it returns the writer that holds the lock.
func RWReadAcquire(ctx context.Context, d driver.Driver, key, owner, writer string, lease time.Duration) (ok bool, by Holder, err error) {
	return rwAcquire(ctx, d, rwCall(rwReadAcquire, key, owner, millis(lease), writer))
}

// RWWriteAcquire acquires the write side of the lock key for owner, which ends
// with [RWWriter] and must not have held it before. If it does not acquire, it returns
// the holder: the writer, or the reader with the longest lease.
func RWWriteAcquire(ctx context.Context, d driver.Driver, key, owner string, lease time.Duration) (ok bool, by Holder, err error) {
	return rwAcquire(ctx, d, rwCall(rwWriteAcquire, key, owner, millis(lease)))
}

// RWReadReentry sets the count of a reader and extends its lease.
func RWReadReentry(key, owner string, count int, lease time.Duration) Reentry {
	return reentryOf(rwCall(rwReadReenter, key, owner, strconv.Itoa(count), millis(lease)))
}

// RWReadLeave sets the count of a reader that keeps its lease. It reports false
// if it is not in the lock.
func RWReadLeave(ctx context.Context, d driver.Driver, key, owner string, count int) (bool, error) {
	return flag(ctx, d, rwCall(rwReadLeave, key, owner, strconv.Itoa(count)))
}

// RWReadRelease takes a reader out of the lock. As with [LockRelease] an error may
// come with a result.
func RWReadRelease(ctx context.Context, d driver.Driver, key, owner, channel string, p Publish) (Released, error) {
	return became(ctx, d, rwCall(rwReadRelease, key, owner, append([]string{channel}, p.commands()...)...))
}

// RWWriteRelease takes a writer out of the lock. As with [LockRelease] an error may
// come with a result.
func RWWriteRelease(ctx context.Context, d driver.Driver, key, owner, channel string, p Publish) (Released, error) {
	return became(ctx, d, rwCall(rwWriteRelease, key, owner, append([]string{channel}, p.commands()...)...))
}

// RWWriteKeep takes a writer out of the lock, but leaves it taken for that long, under the name
// keeper, which ends with [RWWriter]: unless a reader with the same owner in the process stays,
// then it is [RWWriteRelease].
func RWWriteKeep(ctx context.Context, d driver.Driver, key, owner, keeper string, left time.Duration, channel string, p Publish) (Released, error) {
	return became(ctx, d, rwCall(rwWriteKeep, key, owner, append([]string{channel, keeper, millis(left)}, p.commands()...)...))
}

// RWReadRenewal extends the lease of a reader.
func RWReadRenewal(key, owner string, lease time.Duration) Renewal {
	return Renewal{Script: rwReadRenew, Key: key, Args: []string{owner, keyspace.RWHolds(key), millis(lease)}}
}

func rwCall(s *driver.Script, key, owner string, args ...string) driver.Call {
	return driver.Call{Script: s, Keys: []string{key}, Args: append([]string{owner, keyspace.RWHolds(key)}, args...)}
}

func rwAcquire(ctx context.Context, d driver.Driver, call driver.Call) (ok bool, by Holder, err error) {
	v, err := d.Eval(ctx, call)
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
	return false, Holder{}, unexpected(call.Script, v)
}
