package script_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
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
	setup setup             // of another kind; then the other fields are ignored
	mode  string            // empty if there is no lock
	ttl   time.Duration     // of the lock
	count map[string]string // by owner
	holds map[string]time.Duration
}

// reading returns a read lock.
func reading(ttl time.Duration, parts ...func(*rw)) rw { return newRW("read", ttl, parts) }

// writing returns a write lock.
func writing(ttl time.Duration, parts ...func(*rw)) rw { return newRW("write", ttl, parts) }

func newRW(mode string, ttl time.Duration, parts []func(*rw)) rw {
	l := rw{mode: mode, ttl: ttl, count: map[string]string{}, holds: map[string]time.Duration{}}
	for _, part := range parts {
		part(&l)
	}
	return l
}

// by puts a reader into a lock, with the TTL of its holds: 0 for one that is
// over.
func by(owner, count string, holds ...time.Duration) func(*rw) {
	return func(l *rw) {
		l.count[owner] = count
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
	if l.setup != nil {
		l.setup(t, w)
		return
	}
	if l.mode != "" {
		w.must(t, "HSET", job, "mode", l.mode)
		for owner, count := range l.count {
			w.must(t, "HSET", job, owner, count)
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
		fields := maps.Clone(l.count)
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
	setup    rw
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
				sub := w.listen(t, rwChannel, false)
				r.setup.put(t, w)
				w.wantAnswer(t, call(t.Context(), w), r.want)
				r.after.found(t, w)
				sub.want(t, r.messages...)
				w.wantAnswer(t, call(t.Context(), w), repeat)
				r.after.found(t, w)
				sub.want(t)

				w.must(t, "FLUSHALL")
				r.setup.put(t, w)
				if got := call(t.Context(), lossy{w}); got.err != "unknown" {
					t.Errorf("with a lost reply the answer is %+v, want the class unknown", got)
				}
				w.wantAnswer(t, call(t.Context(), w), repeat)
				r.after.found(t, w)
				sub.want(t, r.messages...)
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
		{name: "plain lock", setup: held(lease, java, "2"), want: want, after: "hash " + java + "=2", ttl: lease},
		{name: "plain lock of another number", setup: held(lease, mine2, "1"), want: want, after: "hash " + mine2 + "=1", ttl: lease},
		{name: "hash of another mode", setup: held(lease, "mode", "x", java, "1"), want: want, after: "hash " + java + "=1 mode=x", ttl: lease},
		{name: "string", setup: text, want: refused("wrong type"), after: "string 5", ttl: 10 * time.Minute},
		{name: "list", setup: list, want: refused("wrong type"), after: `list ["a"]`, ttl: none},
	} {
		t.Run(r.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				sub := w.listen(t, rwChannel, false)
				r.setup(t, w)
				for range 2 {
					w.wantAnswer(t, call(t.Context(), w), r.want)
					r.check(t, w)
				}
				sub.want(t)
				if n := elements(w.must(t, "KEYS", "*")); len(n) != 1 {
					t.Errorf("there are %d keys now", len(n))
				}
			})
		})
	}
}
