package script_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/script"
)

func readAcquire(writer string) func(ctx context.Context, d driver.Driver) answer {
	return func(ctx context.Context, d driver.Driver) answer {
		return answered(script.RWReadAcquire(ctx, d, job, me, writer, lease))
	}
}

func writeAcquire(ctx context.Context, d driver.Driver) answer {
	return answered(script.RWWriteAcquire(ctx, d, job, meW, lease))
}

func readReenter(ctx context.Context, d driver.Driver) answer {
	ok, err := reenter(ctx, d, script.RWReadReentry(job, me, 2, lease))
	return answered(ok, script.Holder{}, err)
}

func readLeave(ctx context.Context, d driver.Driver) answer {
	ok, err := script.RWReadLeave(ctx, d, job, me, 1)
	return answered(ok, script.Holder{}, err)
}

func readRelease(ctx context.Context, d driver.Driver) answer {
	ok, err := released(script.RWReadRelease(ctx, d, job, me, rwChannel, script.Classic))
	return answered(ok, script.Holder{}, err)
}

func writeRelease(ctx context.Context, d driver.Driver) answer {
	ok, err := released(script.RWWriteRelease(ctx, d, job, meW, rwChannel, script.Classic))
	return answered(ok, script.Holder{}, err)
}

func writeKeep(ctx context.Context, d driver.Driver) answer {
	ok, err := released(script.RWWriteKeep(ctx, d, job, meW, keptW, lease, rwChannel, script.Classic))
	return answered(ok, script.Holder{}, err)
}

// keptW is the name in the place of a writer that was released before its time.
const keptW = me + ":kept:write"

const (
	minute = time.Minute
	long   = 10 * time.Minute
	longer = 20 * time.Minute
)

func TestRWReadAcquire(t *testing.T) {
	rwForeign(t, refused("kind"), readAcquire(""))
	rwTable(t, readAcquire(""), []rwRow{
		{name: "free", setup: unlocked, want: yes, after: reading(lease, by(me, "1", lease))},
		{name: "free, with a hold left of somebody", setup: rw{holds: map[string]time.Duration{rwHold(java, 1): minute}},
			want: yes, after: reading(lease, by(me, "1", lease), stray(java, 1, minute))},
		// An earlier copy of this call has run.
		{name: "mine", setup: reading(minute, by(me, "1", minute)), want: yes, after: reading(lease, by(me, "1", lease))},
		{name: "mine, re-entered since", setup: reading(minute, by(me, "2", minute, minute)), want: yes,
			after: reading(lease, by(me, "2", lease, minute))},
		{name: "mine, for longer", setup: reading(long, by(me, "1", long)), want: yes, after: reading(long, by(me, "1", long))},
		{name: "mine, without a hold", setup: reading(long, by(me, "1")), want: yes, after: reading(long, by(me, "1", lease))},
		{name: "mine, beside a writer of mine", setup: writing(minute, by(meW, "1"), by(me, "1", minute)), want: yes,
			after: writing(lease, by(meW, "1"), by(me, "1", lease))},
		// With other readers.
		{name: "Java reads", setup: reading(minute, by(java, "1", minute)), want: yes,
			after: reading(lease, by(java, "1", minute), by(me, "1", lease))},
		{name: "Java reads for longer", setup: reading(long, by(java, "2", minute, long)), want: yes,
			after: reading(long, by(java, "2", minute, long), by(me, "1", lease))},
		{name: "a reader without a lease", setup: reading(long, by(java, "1")), want: yes,
			after: reading(long, by(java, "1"), by(me, "1", lease))},
		{name: "without TTL", setup: reading(none, by(java, "1", minute)), want: yes,
			after: reading(lease, by(java, "1", minute), by(me, "1", lease))},
		{name: "count that is no number", setup: reading(minute, by(java, "x")), want: yes,
			after: reading(lease, by(java, "x"), by(me, "1", lease))},
		{name: "nobody reads", setup: reading(minute), want: yes, after: reading(lease, by(me, "1", lease))},
		// Behind a writer.
		{name: "Java writes", setup: writing(lease, by(javaW, "2")), want: heldBy(javaW, 2, lease), after: writing(lease, by(javaW, "2"))},
		{name: "Java writes and reads", setup: writing(lease, by(javaW, "1"), by(java, "1", minute)), want: heldBy(javaW, 1, lease),
			after: writing(lease, by(javaW, "1"), by(java, "1", minute))},
		{name: "Java writes, without TTL", setup: writing(none, by(javaW, "1")), want: heldBy(javaW, 1, -1), after: writing(none, by(javaW, "1"))},
		{name: "a writer of the same name, not told", setup: writing(lease, by(meW, "1")), want: heldBy(meW, 1, lease), after: writing(lease, by(meW, "1"))},
		{name: "nobody writes", setup: writing(minute), want: yes, after: writing(lease, by(me, "1", lease))},
	})
}

// The owner's own writer does not obstruct it, and no other writer is ignored.
func TestRWReadAcquireBehindAWriter(t *testing.T) {
	mine := mine2 + ":write"
	rwTable(t, readAcquire(mine), []rwRow{
		{name: "mine writes", setup: writing(minute, by(mine, "3")), want: yes, after: writing(lease, by(mine, "3"), by(me, "1", lease))},
		{name: "mine writes for longer", setup: writing(long, by(mine, "3")), want: yes, after: writing(long, by(mine, "3"), by(me, "1", lease))},
		{name: "Java writes", setup: writing(lease, by(javaW, "1")), want: heldBy(javaW, 1, lease), after: writing(lease, by(javaW, "1"))},
		{name: "free", setup: unlocked, want: yes, after: reading(lease, by(me, "1", lease))},
	})
}

func TestRWReadReenter(t *testing.T) {
	rwForeign(t, no, readReenter)
	rwTable(t, readReenter, []rwRow{
		{name: "mine", setup: reading(minute, by(me, "1", minute)), want: yes, after: reading(lease, by(me, "2", lease, lease))},
		{name: "mine, entered already", setup: reading(minute, by(me, "2", minute, minute)), want: yes, after: reading(lease, by(me, "2", lease, lease))},
		{name: "mine, counted too high", setup: reading(minute, by(me, "4", minute, minute, minute, long)), want: yes,
			after: reading(lease, by(me, "2", lease, lease))},
		{name: "mine, for longer", setup: reading(long, by(me, "1", long)), want: yes, after: reading(long, by(me, "2", long, lease))},
		{name: "mine, without TTL", setup: reading(none, by(me, "1", none)), want: yes, after: reading(lease, by(me, "2", lease, lease))},
		{name: "mine, cut by Redisson", setup: reading(minute, by(me, "1", long)), want: yes, after: reading(lease, by(me, "2", long, lease))},
		{name: "mine, count that is no number", setup: reading(minute, by(me, "x", minute)), want: yes, after: reading(lease, by(me, "2", lease, lease))},
		{name: "among others", setup: reading(long, by(java, "1", long), by(me, "1", minute)), want: yes,
			after: reading(long, by(java, "1", long), by(me, "2", lease, lease))},
		{name: "beside a writer of mine", setup: writing(minute, by(meW, "1"), by(me, "1", minute)), want: yes,
			after: writing(lease, by(meW, "1"), by(me, "2", lease, lease))},
		{name: "my lease is over", setup: reading(long, by(java, "1", long), by(me, "1")), want: no,
			after: reading(long, by(java, "1", long), by(me, "1"))},
		{name: "free", setup: unlocked, want: no, after: unlocked},
		{name: "Java's", setup: reading(lease, by(java, "1", lease)), want: no, after: reading(lease, by(java, "1", lease))},
	})
}

func TestRWReadLeave(t *testing.T) {
	rwForeign(t, no, readLeave)
	rwTable(t, readLeave, []rwRow{
		{name: "mine", setup: reading(lease, by(me, "2", lease, lease)), want: yes, after: reading(lease, by(me, "1", lease))},
		{name: "mine, left already", setup: reading(lease, by(me, "1", lease)), want: yes, after: reading(lease, by(me, "1", lease))},
		{name: "mine, counted too high", setup: reading(lease, by(me, "9", lease, lease, lease)), want: yes, after: reading(lease, by(me, "1", lease))},
		{name: "mine, without TTL", setup: reading(none, by(me, "2", lease, lease)), want: yes, after: reading(none, by(me, "1", lease))},
		{name: "beside a writer of mine", setup: writing(long, by(meW, "1"), by(me, "2", lease, lease)), want: yes,
			after: writing(long, by(meW, "1"), by(me, "1", lease))},
		{name: "free", setup: unlocked, want: no, after: unlocked},
		{name: "Java's", setup: reading(lease, by(java, "2", lease, lease)), want: no, after: reading(lease, by(java, "2", lease, lease))},
	})
}

func TestRWReadRelease(t *testing.T) {
	freed := []string{"0"}
	rwForeign(t, no, readRelease)
	rwTable(t, readRelease, []rwRow{
		{name: "the only one", setup: reading(lease, by(me, "1", lease)), want: yes, after: unlocked, messages: freed, repeat: &no},
		{name: "whatever the count", setup: reading(lease, by(me, "3", lease, lease, lease)), want: yes, after: unlocked, messages: freed, repeat: &no},
		{name: "without TTL", setup: reading(none, by(me, "1", lease)), want: yes, after: unlocked, messages: freed, repeat: &no},
		{name: "my lease is over", setup: reading(lease, by(me, "1")), want: yes, after: unlocked, messages: freed, repeat: &no},
		{name: "count that is no number", setup: reading(lease, by(me, "x", lease)), want: yes, after: unlocked, messages: freed, repeat: &no},
		// Other readers.
		{name: "Java reads for less", setup: reading(long, by(me, "1", long), by(java, "1", lease)), want: yes,
			after: reading(lease, by(java, "1", lease)), repeat: &no},
		{name: "Java reads for longer", setup: reading(long, by(me, "1", lease), by(java, "1", long)), want: yes,
			after: reading(long, by(java, "1", long)), repeat: &no},
		{name: "Java reads for longer than the lock lasts", setup: reading(lease, by(me, "1", lease), by(java, "2", minute, long)), want: yes,
			after: reading(long, by(java, "2", minute, long)), repeat: &no},
		{name: "several", setup: reading(longer, by(me, "1", longer), by(java, "2", lease, minute), by(javaN, "1", long), by(mine2, "1")), want: yes,
			after: reading(long, by(java, "2", lease, minute), by(javaN, "1", long), by(mine2, "1")), repeat: &no},
		{name: "a hold beyond the count", setup: reading(long, by(me, "1", long), by(java, "1", lease), stray(java, 2, long)), want: yes,
			after: reading(lease, by(java, "1", lease), stray(java, 2, long)), repeat: &no},
		{name: "the others have no lease", setup: reading(long, by(me, "1", lease), by(java, "2"), by(javaN, "1")), want: yes,
			after: unlocked, messages: freed, repeat: &no},
		{name: "Java reads without the key of a hold", setup: reading(long, by(me, "1", lease), by(java, "1"), by(mine2, "1", minute)), want: yes,
			after: reading(minute, by(java, "1"), by(mine2, "1", minute)), repeat: &no},
		{name: "Java's hold without TTL", setup: reading(long, by(me, "1", lease), by(java, "1", none)), want: yes,
			after: reading(long, by(java, "1", none)), repeat: &no},
		{name: "Java's count is beyond belief", setup: reading(long, by(me, "1", lease), by(java, "1001")), want: yes,
			after: reading(long, by(java, "1001")), repeat: &no},
		{name: "Java's count is no number", setup: reading(long, by(me, "1", lease), by(java, "x")), want: yes,
			after: reading(long, by(java, "x")), repeat: &no},
		// A writer of mine: only the TTL says anything about its lease.
		{name: "beside a writer of mine", setup: writing(long, by(meW, "1"), by(me, "1", lease)), want: yes,
			after: writing(long, by(meW, "1")), repeat: &no},
		{name: "beside a writer with another reader", setup: writing(long, by(meW, "1"), by(me, "1", lease), by(mine2, "1", minute)), want: yes,
			after: writing(long, by(meW, "1"), by(mine2, "1", minute)), repeat: &no},
		{name: "mode of a writer that is not there", setup: writing(long, by(me, "1", lease)), want: yes, after: unlocked, messages: freed, repeat: &no},
		{name: "writer in a read lock", setup: reading(long, by(javaW, "1"), by(me, "1", lease)), want: yes, after: unlocked, messages: freed, repeat: &no},
		{name: "free", setup: unlocked, want: no, after: unlocked},
		{name: "Java's", setup: reading(lease, by(java, "1", lease)), want: no, after: reading(lease, by(java, "1", lease))},
		{name: "Java writes", setup: writing(lease, by(javaW, "1")), want: no, after: writing(lease, by(javaW, "1"))},
	})
}

func TestRWWriteAcquire(t *testing.T) {
	mine := writing(lease, by(meW, "1"))
	rwForeign(t, refused("kind"), writeAcquire)
	rwTable(t, writeAcquire, []rwRow{
		{name: "free", setup: unlocked, want: yes, after: mine},
		// An earlier copy of this call has run.
		{name: "mine", setup: writing(minute, by(meW, "1")), want: yes, after: mine},
		{name: "mine, re-entered since", setup: writing(minute, by(meW, "2")), want: yes, after: writing(lease, by(meW, "2"))},
		{name: "mine, for longer", setup: writing(long, by(meW, "1")), want: yes, after: writing(long, by(meW, "1"))},
		{name: "mine, without TTL", setup: writing(none, by(meW, "1")), want: yes, after: mine},
		{name: "mine, and I read", setup: writing(minute, by(meW, "1"), by(me, "1", minute)), want: yes,
			after: writing(lease, by(meW, "1"), by(me, "1", minute))},
		// Others.
		{name: "Java writes", setup: writing(lease, by(javaW, "2")), want: heldBy(javaW, 2, lease), after: writing(lease, by(javaW, "2"))},
		{name: "Java writes, without TTL", setup: writing(none, by(javaW, "1")), want: heldBy(javaW, 1, -1), after: writing(none, by(javaW, "1"))},
		{name: "Java writes and reads", setup: writing(lease, by(javaW, "1"), by(java, "1", long)), want: heldBy(javaW, 1, lease),
			after: writing(lease, by(javaW, "1"), by(java, "1", long))},
		{name: "Java reads", setup: reading(long, by(java, "2", minute, lease)), want: heldBy(java, 2, lease),
			after: reading(long, by(java, "2", minute, lease))},
		{name: "Java reads, with the first hold over", setup: reading(long, by(java, "2", 0, lease)), want: heldBy(java, 2, lease),
			after: reading(long, by(java, "2", 0, lease))},
		{name: "the longest of several", setup: reading(longer, by(java, "1", lease), by(javaN, "1", long), by(javaT, "1"), by(mine2, "1", minute)),
			want:  heldBy(javaN, 1, long),
			after: reading(longer, by(java, "1", lease), by(javaN, "1", long), by(javaT, "1"), by(mine2, "1", minute))},
		{name: "I read", setup: reading(lease, by(me, "1", lease)), want: heldBy(me, 1, lease), after: reading(lease, by(me, "1", lease))},
		{name: "a hold without TTL", setup: reading(long, by(java, "1", none)), want: heldBy(java, 1, long), after: reading(long, by(java, "1", none))},
		{name: "a count beyond belief", setup: reading(long, by(java, "1001")), want: heldBy(java, 1001, long), after: reading(long, by(java, "1001"))},
		{name: "a count that is no number", setup: reading(none, by(java, "x")), want: heldBy(java, -1, -1), after: reading(none, by(java, "x"))},
		// No reader has a lease.
		{name: "dead readers", setup: reading(long, by(mine2, "2")), want: yes, after: mine},
		{name: "Java reads, with nothing but the lock's TTL", setup: reading(long, by(java, "1")), want: heldBy(java, 1, long),
			after: reading(long, by(java, "1"))},
		{name: "Java reads so, beside the dead", setup: reading(long, by(java, "2"), by(mine2, "2")), want: heldBy(java, 2, long),
			after: reading(long, by(java, "2"), by(mine2, "2"))},
		{name: "dead readers, without TTL", setup: reading(none, by(java, "1")), want: yes, after: mine},
		{name: "a hold beyond the count", setup: reading(long, by(mine2, "1"), stray(mine2, 2, minute)), want: yes,
			after: writing(lease, by(meW, "1"), stray(mine2, 2, minute))},
		{name: "count of nothing", setup: reading(long, by(java, "0", minute)), want: yes, after: writing(lease, by(meW, "1"), stray(java, 1, minute))},
		{name: "nobody reads", setup: reading(long), want: yes, after: mine},
		{name: "nobody writes", setup: writing(long), want: yes, after: mine},
		{name: "nobody writes, but somebody reads", setup: writing(long, by(java, "1", minute)), want: heldBy(java, 1, minute),
			after: writing(long, by(java, "1", minute))},
	})
}

func TestRWWriteRelease(t *testing.T) {
	told := []string{"1", "00", "00", "00"}
	rwForeign(t, no, writeRelease)
	rwTable(t, writeRelease, []rwRow{
		{name: "mine", setup: writing(lease, by(meW, "1")), want: yes, after: unlocked, messages: told, repeat: &no},
		{name: "whatever the count", setup: writing(lease, by(meW, "7")), want: yes, after: unlocked, messages: told, repeat: &no},
		{name: "without TTL", setup: writing(none, by(meW, "1")), want: yes, after: unlocked, messages: told, repeat: &no},
		{name: "count that is no number", setup: writing(lease, by(meW, "x")), want: yes, after: unlocked, messages: told, repeat: &no},
		// A downgrade: readers that wait for the writer may acquire the lock.
		{name: "I read", setup: writing(long, by(meW, "1"), by(me, "2", lease, minute)), want: yes,
			after: reading(lease, by(me, "2", lease, minute)), messages: told, repeat: &no},
		{name: "I read for longer", setup: writing(minute, by(meW, "1"), by(me, "1", long)), want: yes,
			after: reading(long, by(me, "1", long)), messages: told, repeat: &no},
		{name: "my read lease is over", setup: writing(long, by(meW, "1"), by(me, "1")), want: yes, after: unlocked, messages: told, repeat: &no},
		{name: "my read hold has no TTL", setup: writing(long, by(meW, "1"), by(me, "1", none)), want: yes,
			after: reading(long, by(me, "1", none)), messages: told, repeat: &no},
		{name: "free", setup: unlocked, want: no, after: unlocked},
		{name: "Java's", setup: writing(lease, by(javaW, "2")), want: no, after: writing(lease, by(javaW, "2"))},
		{name: "Java reads", setup: reading(lease, by(java, "1", lease)), want: no, after: reading(lease, by(java, "1", lease))},
	})
}

func TestRWWriteKeep(t *testing.T) {
	told := []string{"1", "00", "00", "00"}
	stays := writing(lease, by(keptW, "1"))
	rwForeign(t, no, writeKeep)
	rwTable(t, writeKeep, []rwRow{
		{name: "mine", setup: writing(lease, by(meW, "1")), want: yes, after: stays},
		{name: "whatever the count", setup: writing(lease, by(meW, "7")), want: yes, after: stays},
		{name: "mine, for a shorter time", setup: writing(minute, by(meW, "1")), want: yes, after: stays},
		{name: "mine, for longer", setup: writing(long, by(meW, "1")), want: yes, after: stays},
		{name: "without TTL", setup: writing(none, by(meW, "1")), want: yes, after: stays},
		{name: "a half-done copy of this call", setup: writing(long, by(meW, "1"), by(keptW, "1")), want: yes, after: stays},
		{name: "kept", setup: stays, want: yes, after: stays},
		{name: "kept, and this copy is late", setup: writing(minute, by(keptW, "1")), want: yes, after: writing(minute, by(keptW, "1"))},
		{name: "kept, and this copy cuts it", setup: writing(long, by(keptW, "1")), want: yes, after: stays},
		// A downgrade: the lock is a read lock, and nothing is kept.
		{name: "I read", setup: writing(long, by(meW, "1"), by(me, "2", lease, minute)), want: yes,
			after: reading(lease, by(me, "2", lease, minute)), messages: told, repeat: &no},
		{name: "I read for longer", setup: writing(minute, by(meW, "1"), by(me, "1", long)), want: yes,
			after: reading(long, by(me, "1", long)), messages: told, repeat: &no},
		{name: "my read hold has no TTL", setup: writing(long, by(meW, "1"), by(me, "1", none)), want: yes,
			after: reading(long, by(me, "1", none)), messages: told, repeat: &no},
		{name: "my read lease is over", setup: writing(long, by(meW, "1"), by(me, "1")), want: yes, after: stays},
		{name: "free", setup: unlocked, want: no, after: unlocked},
		{name: "Java's", setup: writing(lease, by(javaW, "2")), want: no, after: writing(lease, by(javaW, "2"))},
		{name: "Java reads", setup: reading(lease, by(java, "1", lease)), want: no, after: reading(lease, by(java, "1", lease))},
	})
}

// A writer that was kept is nobody's: late copies of the scripts of its owner, and of a reader
// with the same owner, do not change it.
func TestRWWriterKeptIsNobodys(t *testing.T) {
	stays := writing(minute, by(keptW, "1"))
	refusal := heldBy(keptW, 1, minute)
	for _, late := range []struct {
		name string
		call func(ctx context.Context, d driver.Driver) answer
		want answer
	}{
		{"write", writeAcquire, refusal},
		{"stop writing", writeRelease, no},
		{"read", readAcquire(""), refusal},
		{"read behind the writer", readAcquire(meW), refusal},
		{"read again", func(ctx context.Context, d driver.Driver) answer {
			ok, err := reenter(ctx, d, script.RWReadReentry(job, me, 2, lease))
			return answered(ok, script.Holder{}, err)
		}, no},
		{"stop reading", readRelease, no},
		{"renew reading", func(ctx context.Context, d driver.Driver) answer {
			got := script.Renew(ctx, d, [][]script.Renewal{{script.RWReadRenewal(job, me, long)}})[0]
			return answered(got.Err == nil && got.States[0] == script.Renewed, script.Holder{}, got.Err)
		}, no},
	} {
		rwTable(t, late.call, []rwRow{{name: late.name, setup: stays, want: late.want, after: stays}})
	}
}

// A writer's count and lease are those of any lock.
func TestRWWriterIsALock(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		writing(minute, by(meW, "1"), by(me, "1", minute)).put(t, w)
		sub := w.listen(t, rwChannel, false)
		for range 2 {
			if ok, err := reenter(t.Context(), w, script.LockReentry(job, meW, 2, lease)); !ok || err != nil {
				t.Errorf("LockReenter: %v, %v, want true", ok, err)
			}
			writing(lease, by(meW, "2"), by(me, "1", minute)).found(t, w)
		}
		for range 2 {
			if ok, err := script.LockLeave(t.Context(), w, job, meW, 1); !ok || err != nil {
				t.Errorf("LockLeave: %v, %v, want true", ok, err)
			}
			writing(lease, by(meW, "1"), by(me, "1", minute)).found(t, w)
		}
		for _, r := range []struct {
			owner string
			state int
		}{{meW, script.Renewed}, {javaW, script.Taken}} {
			got := script.Renew(t.Context(), w, [][]script.Renewal{{script.LockRenewal(job, r.owner, long)}})[0]
			if got.Err != nil || got.States[0] != r.state {
				t.Errorf("renewal of %s: %v, %v, want %d", r.owner, got.States, got.Err, r.state)
			}
		}
		writing(long, by(meW, "1"), by(me, "1", minute)).found(t, w)
		sub.want(t)
	})
}

func TestRWReadRenew(t *testing.T) {
	server := single(t)
	for _, test := range []struct {
		name         string
		setup, after rw
		state        int
	}{
		{"mine", reading(minute, by(me, "1", minute)), reading(lease, by(me, "1", lease)), script.Renewed},
		{"mine, counted", reading(minute, by(me, "3", minute, minute, minute)), reading(lease, by(me, "3", lease, lease, lease)), script.Renewed},
		{"mine, for longer", reading(long, by(me, "2", long, minute)), reading(long, by(me, "2", long, lease)), script.Renewed},
		{"mine, without TTL", reading(none, by(me, "1", none)), reading(lease, by(me, "1", lease)), script.Renewed},
		{"mine, in a lock that Redisson has cut", reading(minute, by(me, "1", long)), reading(long, by(me, "1", long)), script.Renewed},
		{"mine, count that is no number", reading(minute, by(me, "x", minute)), reading(lease, by(me, "x", lease)), script.Renewed},
		{"among others", reading(minute, by(me, "1", minute), by(java, "1", minute), by(javaN, "1")),
			reading(lease, by(me, "1", lease), by(java, "1", minute), by(javaN, "1")), script.Renewed},
		{"beside a writer of mine", writing(minute, by(meW, "1"), by(me, "1", minute)), writing(lease, by(meW, "1"), by(me, "1", lease)), script.Renewed},
		{"my lease is over", reading(long, by(me, "1"), by(java, "1", minute)), reading(long, by(me, "1"), by(java, "1", minute)), script.Gone},
		{"gone", unlocked, unlocked, script.Gone},
		{"gone, with a hold left", rw{holds: map[string]time.Duration{rwHold(me, 1): minute}}, rw{holds: map[string]time.Duration{rwHold(me, 1): minute}}, script.Gone},
		{"others read", reading(lease, by(java, "1", lease)), reading(lease, by(java, "1", lease)), script.Gone},
		{"Java writes", writing(lease, by(javaW, "1")), writing(lease, by(javaW, "1")), script.Taken},
		{"plain lock", rw{setup: held(lease, java, "1")}, rw{}, script.Taken},
		{"string", rw{setup: text}, rw{}, script.Taken},
	} {
		t.Run(test.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				sub := w.listen(t, rwChannel, false)
				test.setup.put(t, w)
				before := w.dump(t, job)
				for range 2 {
					r := script.Renew(t.Context(), w, [][]script.Renewal{{script.RWReadRenewal(job, me, lease)}})[0]
					if r.Err != nil || !slices.Equal(r.States, []int{test.state}) {
						t.Errorf("got %v, %v, want %d", r.States, r.Err, test.state)
					}
					if test.setup.setup != nil {
						w.wantDump(t, job, before)
					} else {
						test.after.found(t, w)
					}
				}
				sub.want(t)
			})
		})
	}
}

// A lost or broken one must not harm its neighbours in the batch, and
// each has its own lease.
func TestRWReadRenewBatch(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		var group []script.Renewal
		var want []int
		key := func(i int) string { return "job:" + strconv.Itoa(i) }
		for i := range script.RenewBatch {
			switch i % 5 {
			case 0, 1:
				if _, _, err := script.RWReadAcquire(t.Context(), w, key(i), me, "", minute); err != nil {
					t.Fatal(err)
				}
				want = append(want, script.Renewed)
			case 2:
				w.must(t, "SET", key(i), "5")
				want = append(want, script.Taken)
			case 3:
				want = append(want, script.Gone)
			case 4:
				w.hold(t, key(i), lease, "mode", "write", javaW, "1")
				want = append(want, script.Taken)
			}
			group = append(group, script.RWReadRenewal(key(i), me, lease+time.Duration(i)*minute))
		}
		r := script.Renew(t.Context(), w, [][]script.Renewal{group})[0]
		if r.Err != nil || !slices.Equal(r.States, want) {
			t.Errorf("got %v, %v, want %v", r.States, r.Err, want)
		}
		for i := range group {
			if want[i] == script.Renewed {
				w.wantTTL(t, key(i), lease+time.Duration(i)*minute)
				w.wantTTL(t, "{"+key(i)+"}:"+me+":rwlock_timeout:1", lease+time.Duration(i)*minute)
			}
		}
	})
}

func init() {
	for name, call := range map[string]func(ctx context.Context, d driver.Driver) error{
		"RWReadAcquire": func(ctx context.Context, d driver.Driver) error {
			ok, by, err := script.RWReadAcquire(ctx, d, job, me, "", lease)
			return unless(ok || by != (script.Holder{}), err)
		},
		"RWWriteAcquire": func(ctx context.Context, d driver.Driver) error {
			ok, by, err := script.RWWriteAcquire(ctx, d, job, meW, lease)
			return unless(ok || by != (script.Holder{}), err)
		},
		"RWReadReenter": func(ctx context.Context, d driver.Driver) error {
			ok, err := reenter(ctx, d, script.RWReadReentry(job, me, 2, lease))
			return unless(ok, err)
		},
		"RWReadLeave": func(ctx context.Context, d driver.Driver) error {
			ok, err := script.RWReadLeave(ctx, d, job, me, 1)
			return unless(ok, err)
		},
		"RWReadRelease": func(ctx context.Context, d driver.Driver) error {
			ok, err := released(script.RWReadRelease(ctx, d, job, me, rwChannel, script.Classic))
			return unless(ok, err)
		},
		"RWWriteRelease": func(ctx context.Context, d driver.Driver) error {
			ok, err := released(script.RWWriteRelease(ctx, d, job, meW, rwChannel, script.Classic))
			return unless(ok, err)
		},
		"RWWriteKeep": func(ctx context.Context, d driver.Driver) error {
			ok, err := released(script.RWWriteKeep(ctx, d, job, meW, keptW, lease, rwChannel, script.Classic))
			return unless(ok, err)
		},
		"RWReadRenewal": func(ctx context.Context, d driver.Driver) error {
			r := script.Renew(ctx, d, [][]script.Renewal{{script.RWReadRenewal(job, me, lease), script.RWReadRenewal("x", me, lease)}})[0]
			return unless(r.States != nil, r.Err)
		},
	} {
		everyCall[name] = call
	}
}

// Leases that end one after the other.
func TestRWLeasesThatEnd(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		reading(long, by(java, "1", minute), by(mine2, "1", long)).put(t, w)
		w.wantAnswer(t, writeAcquire(t.Context(), w), heldBy(mine2, 1, long))
		w.lapse(t, rwHold(java, 1))
		if got := writeAcquire(t.Context(), w); got.ok || got.by.Owner != mine2 {
			t.Errorf("got %+v, want to be refused for %s", got, mine2)
		}
		w.lapse(t, rwHold(mine2, 1))
		w.must(t, "HSET", job, "mode", "read", java, "1", mine2, "1")
		w.must(t, "PEXPIRE", job, fmt.Sprint(long.Milliseconds())) // as a renewal by an old Redisson does
		w.wantAnswer(t, writeAcquire(t.Context(), w), heldBy(java, 1, long))
		w.must(t, "HDEL", job, java)
		w.wantAnswer(t, writeAcquire(t.Context(), w), yes)
		writing(lease, by(meW, "1")).found(t, w)
	})
}
