package script_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// More holders: a writer is a field of its own.
const (
	meW   = me + ":write"
	javaW = java + ":write"
)

var rwChannel = keyspace.RWChannel(job)

// rwHold is the key of the i-th hold of a reader, in Redisson's form. It is
// written out here rather than taken from mortise, which is under test.
func rwHold(reader string, i int) string {
	return fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", job, reader, i)
}

// rw is a read/write lock in Redis.
type rw struct {
	given given         // of another kind; then the other fields are ignored
	mode  string        // empty if there is no lock
	ttl   time.Duration // of the lock
	who   map[string]string
	holds map[string]time.Duration
}

// reading returns a read lock.
func reading(ttl time.Duration, parts ...func(*rw)) rw { return newRW("read", ttl, parts) }

// writing returns a write lock.
func writing(ttl time.Duration, parts ...func(*rw)) rw { return newRW("write", ttl, parts) }

func newRW(mode string, ttl time.Duration, parts []func(*rw)) rw {
	l := rw{mode: mode, ttl: ttl, who: map[string]string{}, holds: map[string]time.Duration{}}
	for _, part := range parts {
		part(&l)
	}
	return l
}

// by puts a reader into a lock, with the TTL of its holds: 0 for one that is
// over.
func by(owner, count string, holds ...time.Duration) func(*rw) {
	return func(l *rw) {
		l.who[owner] = count
		for i, ttl := range holds {
			if ttl != 0 {
				l.holds[rwHold(owner, i+1)] = ttl
			}
		}
	}
}

// stray puts holds without a reader into a lock.
func stray(owner string, i int, ttl time.Duration) func(*rw) {
	return func(l *rw) { l.holds[rwHold(owner, i)] = ttl }
}

var unlocked = rw{}

func (l rw) put(t *testing.T, w *world) {
	t.Helper()
	if l.given != nil {
		l.given(t, w)
		return
	}
	if l.mode != "" {
		w.must(t, "HSET", job, "mode", l.mode)
		for who, count := range l.who {
			w.must(t, "HSET", job, who, count)
		}
		if l.ttl > 0 {
			w.must(t, "PEXPIRE", job, fmt.Sprint(l.ttl.Milliseconds()))
		}
	}
	for key, ttl := range l.holds {
		w.must(t, "SET", key, "1")
		if ttl > 0 {
			w.must(t, "PEXPIRE", key, fmt.Sprint(ttl.Milliseconds()))
		}
	}
}

// found checks that Redis contains this, and nothing else.
func (l rw) found(t *testing.T, w *world) {
	t.Helper()
	keys := []string{}
	if l.mode == "" {
		w.wantDump(t, job, "nothing")
	} else {
		keys = append(keys, job)
		fields := maps.Clone(l.who)
		fields["mode"] = l.mode
		var b strings.Builder
		for _, f := range slices.Sorted(maps.Keys(fields)) {
			fmt.Fprintf(&b, " %s=%s", f, fields[f])
		}
		w.wantDump(t, job, "hash"+b.String())
		w.wantTTL(t, job, l.ttl)
	}
	for key, ttl := range l.holds {
		keys = append(keys, key)
		w.wantDump(t, key, "string 1")
		w.wantTTL(t, key, ttl)
	}
	slices.Sort(keys)
	var all []string
	for _, v := range elements(w.must(t, "KEYS", "*")) {
		all = append(all, v.Str())
	}
	slices.Sort(all)
	if !slices.Equal(all, keys) {
		t.Errorf("the keys are %q, want %q", all, keys)
	}
}

func elements(v driver.Value) (vs []driver.Value) {
	for i := range v.Len() {
		vs = append(vs, v.At(i))
	}
	return vs
}

// rwRow is one case of a script's table.
type rwRow struct {
	name     string
	given    rw
	want     answer
	after    rw
	messages []string // on the channel, in order
	repeat   *answer  // to the same call once more, if different
}

// rwTable is table, for read/write locks.
func rwTable(t *testing.T, call func(ctx context.Context, d driver.Driver) answer, rows []rwRow) {
	t.Helper()
	server := single(t)
	for _, r := range rows {
		repeat := r.want
		if r.repeat != nil {
			repeat = *r.repeat
		}
		t.Run(r.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				ear := w.listen(t, rwChannel, false)
				r.given.put(t, w)
				w.wantAnswer(t, call(t.Context(), w), r.want)
				r.after.found(t, w)
				ear.want(t, r.messages...)
				w.wantAnswer(t, call(t.Context(), w), repeat)
				r.after.found(t, w)
				ear.want(t)

				w.must(t, "FLUSHALL")
				r.given.put(t, w)
				if got := call(t.Context(), deaf{w}); got.err != "unknown" {
					t.Errorf("with a lost reply the answer is %+v, want the class unknown", got)
				}
				w.wantAnswer(t, call(t.Context(), w), repeat)
				r.after.found(t, w)
				ear.want(t, r.messages...)
			})
		})
	}
}

// rwForeign are keys that the scripts must leave alone, because they are no read/write
// locks. want is the reply for a hash.
func rwForeign(t *testing.T, want answer, call func(ctx context.Context, d driver.Driver) answer) {
	t.Helper()
	server := single(t)
	for _, r := range []row{
		{name: "plain lock", given: held(lease, java, "2"), want: want, after: "hash " + java + "=2", ttl: lease},
		{name: "plain lock of another number", given: held(lease, mine2, "1"), want: want, after: "hash " + mine2 + "=1", ttl: lease},
		{name: "hash of another mode", given: held(lease, "mode", "x", java, "1"), want: want, after: "hash " + java + "=1 mode=x", ttl: lease},
		{name: "string", given: text, want: refused("wrong type"), after: "string 5", ttl: 10 * time.Minute},
		{name: "list", given: list, want: refused("wrong type"), after: `list ["a"]`, ttl: none},
	} {
		t.Run(r.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				ear := w.listen(t, rwChannel, false)
				r.given(t, w)
				for range 2 {
					w.wantAnswer(t, call(t.Context(), w), r.want)
					r.check(t, w)
				}
				ear.want(t)
				if n := elements(w.must(t, "KEYS", "*")); len(n) != 1 {
					t.Errorf("there are %d keys now", len(n))
				}
			})
		})
	}
}

func readAcquire(writer string) func(ctx context.Context, d driver.Driver) answer {
	return func(ctx context.Context, d driver.Driver) answer {
		return answered(script.RWReadAcquire(ctx, d, job, me, writer, lease))
	}
}

func writeAcquire(ctx context.Context, d driver.Driver) answer {
	return answered(script.RWWriteAcquire(ctx, d, job, meW, lease))
}

func readReenter(ctx context.Context, d driver.Driver) answer {
	ok, err := script.RWReadReenter(ctx, d, job, me, 2, lease)
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

const (
	minute = time.Minute
	long   = 10 * time.Minute
	longer = 20 * time.Minute
)

func TestRWReadAcquire(t *testing.T) {
	rwForeign(t, refused("kind"), readAcquire(""))
	rwTable(t, readAcquire(""), []rwRow{
		{name: "free", given: unlocked, want: yes, after: reading(lease, by(me, "1", lease))},
		{name: "free, with a hold left of somebody", given: rw{holds: map[string]time.Duration{rwHold(java, 1): minute}},
			want: yes, after: reading(lease, by(me, "1", lease), stray(java, 1, minute))},
		// An earlier copy of this call has run.
		{name: "mine", given: reading(minute, by(me, "1", minute)), want: yes, after: reading(lease, by(me, "1", lease))},
		{name: "mine, re-entered since", given: reading(minute, by(me, "2", minute, minute)), want: yes,
			after: reading(lease, by(me, "2", lease, minute))},
		{name: "mine, for longer", given: reading(long, by(me, "1", long)), want: yes, after: reading(long, by(me, "1", long))},
		{name: "mine, without a hold", given: reading(long, by(me, "1")), want: yes, after: reading(long, by(me, "1", lease))},
		{name: "mine, beside a writer of mine", given: writing(minute, by(meW, "1"), by(me, "1", minute)), want: yes,
			after: writing(lease, by(meW, "1"), by(me, "1", lease))},
		// With other readers.
		{name: "Java reads", given: reading(minute, by(java, "1", minute)), want: yes,
			after: reading(lease, by(java, "1", minute), by(me, "1", lease))},
		{name: "Java reads for longer", given: reading(long, by(java, "2", minute, long)), want: yes,
			after: reading(long, by(java, "2", minute, long), by(me, "1", lease))},
		{name: "a reader without a lease", given: reading(long, by(java, "1")), want: yes,
			after: reading(long, by(java, "1"), by(me, "1", lease))},
		{name: "without TTL", given: reading(none, by(java, "1", minute)), want: yes,
			after: reading(lease, by(java, "1", minute), by(me, "1", lease))},
		{name: "count that is no number", given: reading(minute, by(java, "x")), want: yes,
			after: reading(lease, by(java, "x"), by(me, "1", lease))},
		{name: "nobody reads", given: reading(minute), want: yes, after: reading(lease, by(me, "1", lease))},
		// Behind a writer.
		{name: "Java writes", given: writing(lease, by(javaW, "2")), want: heldBy(javaW, 2, lease), after: writing(lease, by(javaW, "2"))},
		{name: "Java writes and reads", given: writing(lease, by(javaW, "1"), by(java, "1", minute)), want: heldBy(javaW, 1, lease),
			after: writing(lease, by(javaW, "1"), by(java, "1", minute))},
		{name: "Java writes, without TTL", given: writing(none, by(javaW, "1")), want: heldBy(javaW, 1, -1), after: writing(none, by(javaW, "1"))},
		{name: "a writer of the same name, not told", given: writing(lease, by(meW, "1")), want: heldBy(meW, 1, lease), after: writing(lease, by(meW, "1"))},
		{name: "nobody writes", given: writing(minute), want: yes, after: writing(lease, by(me, "1", lease))},
	})
}

// The owner's own writer does not obstruct it, and no other writer is ignored.
func TestRWReadAcquireBehindAWriter(t *testing.T) {
	mine := mine2 + ":write"
	rwTable(t, readAcquire(mine), []rwRow{
		{name: "mine writes", given: writing(minute, by(mine, "3")), want: yes, after: writing(lease, by(mine, "3"), by(me, "1", lease))},
		{name: "mine writes for longer", given: writing(long, by(mine, "3")), want: yes, after: writing(long, by(mine, "3"), by(me, "1", lease))},
		{name: "Java writes", given: writing(lease, by(javaW, "1")), want: heldBy(javaW, 1, lease), after: writing(lease, by(javaW, "1"))},
		{name: "free", given: unlocked, want: yes, after: reading(lease, by(me, "1", lease))},
	})
}

func TestRWReadReenter(t *testing.T) {
	rwForeign(t, no, readReenter)
	rwTable(t, readReenter, []rwRow{
		{name: "mine", given: reading(minute, by(me, "1", minute)), want: yes, after: reading(lease, by(me, "2", lease, lease))},
		{name: "mine, entered already", given: reading(minute, by(me, "2", minute, minute)), want: yes, after: reading(lease, by(me, "2", lease, lease))},
		{name: "mine, counted too high", given: reading(minute, by(me, "4", minute, minute, minute, long)), want: yes,
			after: reading(lease, by(me, "2", lease, lease))},
		{name: "mine, for longer", given: reading(long, by(me, "1", long)), want: yes, after: reading(long, by(me, "2", long, lease))},
		{name: "mine, without TTL", given: reading(none, by(me, "1", none)), want: yes, after: reading(lease, by(me, "2", lease, lease))},
		{name: "mine, cut by Redisson", given: reading(minute, by(me, "1", long)), want: yes, after: reading(lease, by(me, "2", long, lease))},
		{name: "mine, count that is no number", given: reading(minute, by(me, "x", minute)), want: yes, after: reading(lease, by(me, "2", lease, lease))},
		{name: "among others", given: reading(long, by(java, "1", long), by(me, "1", minute)), want: yes,
			after: reading(long, by(java, "1", long), by(me, "2", lease, lease))},
		{name: "beside a writer of mine", given: writing(minute, by(meW, "1"), by(me, "1", minute)), want: yes,
			after: writing(lease, by(meW, "1"), by(me, "2", lease, lease))},
		{name: "my lease is over", given: reading(long, by(java, "1", long), by(me, "1")), want: no,
			after: reading(long, by(java, "1", long), by(me, "1"))},
		{name: "free", given: unlocked, want: no, after: unlocked},
		{name: "Java's", given: reading(lease, by(java, "1", lease)), want: no, after: reading(lease, by(java, "1", lease))},
	})
}

func TestRWReadLeave(t *testing.T) {
	rwForeign(t, no, readLeave)
	rwTable(t, readLeave, []rwRow{
		{name: "mine", given: reading(lease, by(me, "2", lease, lease)), want: yes, after: reading(lease, by(me, "1", lease))},
		{name: "mine, left already", given: reading(lease, by(me, "1", lease)), want: yes, after: reading(lease, by(me, "1", lease))},
		{name: "mine, counted too high", given: reading(lease, by(me, "9", lease, lease, lease)), want: yes, after: reading(lease, by(me, "1", lease))},
		{name: "mine, without TTL", given: reading(none, by(me, "2", lease, lease)), want: yes, after: reading(none, by(me, "1", lease))},
		{name: "beside a writer of mine", given: writing(long, by(meW, "1"), by(me, "2", lease, lease)), want: yes,
			after: writing(long, by(meW, "1"), by(me, "1", lease))},
		{name: "free", given: unlocked, want: no, after: unlocked},
		{name: "Java's", given: reading(lease, by(java, "2", lease, lease)), want: no, after: reading(lease, by(java, "2", lease, lease))},
	})
}

func TestRWReadRelease(t *testing.T) {
	freed := []string{"0"}
	rwForeign(t, no, readRelease)
	rwTable(t, readRelease, []rwRow{
		{name: "the only one", given: reading(lease, by(me, "1", lease)), want: yes, after: unlocked, messages: freed, repeat: &no},
		{name: "whatever the count", given: reading(lease, by(me, "3", lease, lease, lease)), want: yes, after: unlocked, messages: freed, repeat: &no},
		{name: "without TTL", given: reading(none, by(me, "1", lease)), want: yes, after: unlocked, messages: freed, repeat: &no},
		{name: "my lease is over", given: reading(lease, by(me, "1")), want: yes, after: unlocked, messages: freed, repeat: &no},
		{name: "count that is no number", given: reading(lease, by(me, "x", lease)), want: yes, after: unlocked, messages: freed, repeat: &no},
		// Other readers.
		{name: "Java reads for less", given: reading(long, by(me, "1", long), by(java, "1", lease)), want: yes,
			after: reading(lease, by(java, "1", lease)), repeat: &no},
		{name: "Java reads for longer", given: reading(long, by(me, "1", lease), by(java, "1", long)), want: yes,
			after: reading(long, by(java, "1", long)), repeat: &no},
		{name: "Java reads for longer than the lock lasts", given: reading(lease, by(me, "1", lease), by(java, "2", minute, long)), want: yes,
			after: reading(long, by(java, "2", minute, long)), repeat: &no},
		{name: "several", given: reading(longer, by(me, "1", longer), by(java, "2", lease, minute), by(javaN, "1", long), by(mine2, "1")), want: yes,
			after: reading(long, by(java, "2", lease, minute), by(javaN, "1", long), by(mine2, "1")), repeat: &no},
		{name: "a hold beyond the count", given: reading(long, by(me, "1", long), by(java, "1", lease), stray(java, 2, long)), want: yes,
			after: reading(lease, by(java, "1", lease), stray(java, 2, long)), repeat: &no},
		{name: "the others have no lease", given: reading(long, by(me, "1", lease), by(java, "2"), by(javaN, "1")), want: yes,
			after: unlocked, messages: freed, repeat: &no},
		{name: "Java's hold without TTL", given: reading(long, by(me, "1", lease), by(java, "1", none)), want: yes,
			after: reading(long, by(java, "1", none)), repeat: &no},
		{name: "Java's count is beyond belief", given: reading(long, by(me, "1", lease), by(java, "1001")), want: yes,
			after: reading(long, by(java, "1001")), repeat: &no},
		{name: "Java's count is no number", given: reading(long, by(me, "1", lease), by(java, "x")), want: yes,
			after: reading(long, by(java, "x")), repeat: &no},
		// A writer of mine: only the TTL says anything about its lease.
		{name: "beside a writer of mine", given: writing(long, by(meW, "1"), by(me, "1", lease)), want: yes,
			after: writing(long, by(meW, "1")), repeat: &no},
		{name: "beside a writer with another reader", given: writing(long, by(meW, "1"), by(me, "1", lease), by(mine2, "1", minute)), want: yes,
			after: writing(long, by(meW, "1"), by(mine2, "1", minute)), repeat: &no},
		{name: "mode of a writer that is not there", given: writing(long, by(me, "1", lease)), want: yes, after: unlocked, messages: freed, repeat: &no},
		{name: "writer in a read lock", given: reading(long, by(javaW, "1"), by(me, "1", lease)), want: yes, after: unlocked, messages: freed, repeat: &no},
		{name: "free", given: unlocked, want: no, after: unlocked},
		{name: "Java's", given: reading(lease, by(java, "1", lease)), want: no, after: reading(lease, by(java, "1", lease))},
		{name: "Java writes", given: writing(lease, by(javaW, "1")), want: no, after: writing(lease, by(javaW, "1"))},
	})
}

func TestRWWriteAcquire(t *testing.T) {
	mine := writing(lease, by(meW, "1"))
	rwForeign(t, refused("kind"), writeAcquire)
	rwTable(t, writeAcquire, []rwRow{
		{name: "free", given: unlocked, want: yes, after: mine},
		// An earlier copy of this call has run.
		{name: "mine", given: writing(minute, by(meW, "1")), want: yes, after: mine},
		{name: "mine, re-entered since", given: writing(minute, by(meW, "2")), want: yes, after: writing(lease, by(meW, "2"))},
		{name: "mine, for longer", given: writing(long, by(meW, "1")), want: yes, after: writing(long, by(meW, "1"))},
		{name: "mine, without TTL", given: writing(none, by(meW, "1")), want: yes, after: mine},
		{name: "mine, and I read", given: writing(minute, by(meW, "1"), by(me, "1", minute)), want: yes,
			after: writing(lease, by(meW, "1"), by(me, "1", minute))},
		// Others.
		{name: "Java writes", given: writing(lease, by(javaW, "2")), want: heldBy(javaW, 2, lease), after: writing(lease, by(javaW, "2"))},
		{name: "Java writes, without TTL", given: writing(none, by(javaW, "1")), want: heldBy(javaW, 1, -1), after: writing(none, by(javaW, "1"))},
		{name: "Java writes and reads", given: writing(lease, by(javaW, "1"), by(java, "1", long)), want: heldBy(javaW, 1, lease),
			after: writing(lease, by(javaW, "1"), by(java, "1", long))},
		{name: "Java reads", given: reading(long, by(java, "2", minute, lease)), want: heldBy(java, 2, lease),
			after: reading(long, by(java, "2", minute, lease))},
		{name: "Java reads, with the first hold over", given: reading(long, by(java, "2", 0, lease)), want: heldBy(java, 2, lease),
			after: reading(long, by(java, "2", 0, lease))},
		{name: "the longest of several", given: reading(longer, by(java, "1", lease), by(javaN, "1", long), by(javaT, "1"), by(mine2, "1", minute)),
			want:  heldBy(javaN, 1, long),
			after: reading(longer, by(java, "1", lease), by(javaN, "1", long), by(javaT, "1"), by(mine2, "1", minute))},
		{name: "I read", given: reading(lease, by(me, "1", lease)), want: heldBy(me, 1, lease), after: reading(lease, by(me, "1", lease))},
		{name: "a hold without TTL", given: reading(long, by(java, "1", none)), want: heldBy(java, 1, long), after: reading(long, by(java, "1", none))},
		{name: "a count beyond belief", given: reading(long, by(java, "1001")), want: heldBy(java, 1001, long), after: reading(long, by(java, "1001"))},
		{name: "a count that is no number", given: reading(none, by(java, "x")), want: heldBy(java, -1, -1), after: reading(none, by(java, "x"))},
		// No reader has a lease.
		{name: "dead readers", given: reading(long, by(java, "1"), by(mine2, "2")), want: yes, after: mine},
		{name: "dead readers, without TTL", given: reading(none, by(java, "1")), want: yes, after: mine},
		{name: "a hold beyond the count", given: reading(long, by(java, "1"), stray(java, 2, minute)), want: yes,
			after: writing(lease, by(meW, "1"), stray(java, 2, minute))},
		{name: "count of nothing", given: reading(long, by(java, "0", minute)), want: yes, after: writing(lease, by(meW, "1"), stray(java, 1, minute))},
		{name: "nobody reads", given: reading(long), want: yes, after: mine},
		{name: "nobody writes", given: writing(long), want: yes, after: mine},
		{name: "nobody writes, but somebody reads", given: writing(long, by(java, "1", minute)), want: heldBy(java, 1, minute),
			after: writing(long, by(java, "1", minute))},
	})
}

func TestRWWriteRelease(t *testing.T) {
	told := []string{"1", "00", "00", "00"}
	rwForeign(t, no, writeRelease)
	rwTable(t, writeRelease, []rwRow{
		{name: "mine", given: writing(lease, by(meW, "1")), want: yes, after: unlocked, messages: told, repeat: &no},
		{name: "whatever the count", given: writing(lease, by(meW, "7")), want: yes, after: unlocked, messages: told, repeat: &no},
		{name: "without TTL", given: writing(none, by(meW, "1")), want: yes, after: unlocked, messages: told, repeat: &no},
		{name: "count that is no number", given: writing(lease, by(meW, "x")), want: yes, after: unlocked, messages: told, repeat: &no},
		// A downgrade: readers that wait for the writer may acquire the lock.
		{name: "I read", given: writing(long, by(meW, "1"), by(me, "2", lease, minute)), want: yes,
			after: reading(lease, by(me, "2", lease, minute)), messages: told, repeat: &no},
		{name: "I read for longer", given: writing(minute, by(meW, "1"), by(me, "1", long)), want: yes,
			after: reading(long, by(me, "1", long)), messages: told, repeat: &no},
		{name: "my read lease is over", given: writing(long, by(meW, "1"), by(me, "1")), want: yes, after: unlocked, messages: told, repeat: &no},
		{name: "my read hold has no TTL", given: writing(long, by(meW, "1"), by(me, "1", none)), want: yes,
			after: reading(long, by(me, "1", none)), messages: told, repeat: &no},
		{name: "free", given: unlocked, want: no, after: unlocked},
		{name: "Java's", given: writing(lease, by(javaW, "2")), want: no, after: writing(lease, by(javaW, "2"))},
		{name: "Java reads", given: reading(lease, by(java, "1", lease)), want: no, after: reading(lease, by(java, "1", lease))},
	})
}

// A writer's count and lease are those of any lock.
func TestRWWriterIsALock(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		writing(minute, by(meW, "1"), by(me, "1", minute)).put(t, w)
		ear := w.listen(t, rwChannel, false)
		for range 2 {
			if ok, err := script.LockReenter(t.Context(), w, job, meW, 2, lease); !ok || err != nil {
				t.Errorf("LockReenter: %v, %v", ok, err)
			}
			writing(lease, by(meW, "2"), by(me, "1", minute)).found(t, w)
		}
		for range 2 {
			if ok, err := script.LockLeave(t.Context(), w, job, meW, 1); !ok || err != nil {
				t.Errorf("LockLeave: %v, %v", ok, err)
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
		ear.want(t)
	})
}

func TestRWReadRenew(t *testing.T) {
	server := single(t)
	for _, test := range []struct {
		name         string
		given, after rw
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
		{"plain lock", rw{given: held(lease, java, "1")}, rw{}, script.Taken},
		{"string", rw{given: text}, rw{}, script.Taken},
	} {
		t.Run(test.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				ear := w.listen(t, rwChannel, false)
				test.given.put(t, w)
				before := w.dump(t, job)
				for range 2 {
					r := script.Renew(t.Context(), w, [][]script.Renewal{{script.RWReadRenewal(job, me, lease)}})[0]
					if r.Err != nil || !slices.Equal(r.States, []int{test.state}) {
						t.Errorf("%v, %v, want %d", r.States, r.Err, test.state)
					}
					if test.given.given != nil {
						w.wantDump(t, job, before)
					} else {
						test.after.found(t, w)
					}
				}
				ear.want(t)
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
			t.Errorf("%v, %v, want %v", r.States, r.Err, want)
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
			ok, err := script.RWReadReenter(ctx, d, job, me, 2, lease)
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
			t.Errorf("%+v, want to be refused for %s", got, mine2)
		}
		w.lapse(t, rwHold(mine2, 1))
		w.must(t, "PEXPIRE", job, fmt.Sprint(long.Milliseconds())) // as a renewal by another version of Redisson does
		w.must(t, "HSET", job, "mode", "read", java, "1", mine2, "1")
		w.must(t, "PEXPIRE", job, fmt.Sprint(long.Milliseconds()))
		w.wantAnswer(t, writeAcquire(t.Context(), w), yes)
		writing(lease, by(meW, "1")).found(t, w)
	})
}
