package script_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// unused makes keys look as if they were not used for a day.
func (w *world) unused(t *testing.T, keys ...string) {
	t.Helper()
	if !w.real {
		time.Sleep(24 * time.Hour)
		return
	}
	for _, key := range keys {
		w.must(t, "RESTORE", key, "0", w.must(t, "DUMP", key).Str(), "REPLACE", "IDLETIME", "86400")
	}
}

const (
	anHour = time.Hour
	aDay   = 24 * time.Hour
)

// Counters and fences expire together, if neither was used, and nobody has the lock or waits for it.
func TestTokens(t *testing.T) {
	server := single(t)
	token, fence, inBraces := keyspace.Token(job), keyspace.Fence(job), "{"+job+"}"
	pair := []string{token, fence}
	for name, row := range map[string]struct {
		keys []string // set to 7, and not used for a day
		more func(t *testing.T, w *world)
		want script.Tokens
		left []string // keys that do not expire
	}{
		"nothing":          {nil, nothing, script.Tokens{Idle: -1, TTL: -1}, nil},
		"a counter":        {pair[:1], nothing, script.Tokens{Idle: aDay, Counter: true, TTL: anHour, Expiring: true}, nil},
		"a fence":          {pair[1:], nothing, script.Tokens{Idle: aDay, Fences: 1, TTL: anHour, Expiring: true}, nil},
		"both":             {pair, nothing, script.Tokens{Idle: aDay, Counter: true, Fences: 1, TTL: anHour, Expiring: true}, nil},
		"two fences":       {[]string{fence, keyspace.Fence(inBraces)}, nothing, script.Tokens{Idle: aDay, Fences: 2, TTL: anHour, Expiring: true}, nil},
		"a fence of today": {pair, func(t *testing.T, w *world) { w.must(t, "GET", fence) }, script.Tokens{Counter: true, Fences: 1, TTL: -1}, pair},
		"held":             {pair, held(lease, java, "1"), script.Tokens{Idle: aDay, Counter: true, Fences: 1, TTL: -1, Held: true}, pair},
		"held, in braces": {pair, func(t *testing.T, w *world) { w.hold(t, inBraces, lease, java, "1") },
			script.Tokens{Idle: aDay, Counter: true, Fences: 1, TTL: -1, Held: true}, pair},
		"in turns": {pair, func(t *testing.T, w *world) { w.must(t, "ZADD", keyspace.Turns(job), "1", "x") },
			script.Tokens{Idle: aDay, Counter: true, Fences: 1, TTL: -1, Awaited: true}, pair},
		"in a queue": {pair, func(t *testing.T, w *world) { w.must(t, "RPUSH", keyspace.FairQueue(job), java) },
			script.Tokens{Idle: aDay, Counter: true, Fences: 1, TTL: -1, Awaited: true}, pair},
		"a guarded text of the name": {pair, text, script.Tokens{Idle: aDay, Counter: true, Fences: 1, TTL: anHour, Expiring: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				for _, key := range row.keys {
					w.must(t, "SET", key, "7")
				}
				w.unused(t, row.keys...)
				row.more(t, w)
				look := row.want
				look.Expiring, look.TTL = false, -1
				for range 2 { // to look is no use
					w.wantTokens(t, look, 0, 0)
				}
				w.wantTokens(t, look, 2*aDay, anHour)
				w.wantTokens(t, row.want, aDay, anHour)
				for _, key := range row.left {
					w.wantTTL(t, key, none)
				}
				if row.want.Expiring {
					for _, key := range row.keys {
						w.wantTTL(t, key, anHour)
					}
				}
			})
		})
	}
}

func (w *world) wantTokens(t *testing.T, want script.Tokens, idle, expire time.Duration) {
	t.Helper()
	names, _ := keyspace.CountedNames(keyspace.Token(job))
	r := script.InspectTokens(t.Context(), w, idle, expire, names)[0]
	got := r.Tokens
	if w.real && got.Idle > want.Idle && got.Idle < want.Idle+time.Minute {
		got.Idle = want.Idle
	}
	if w.near(got.TTL, want.TTL) {
		got.TTL = want.TTL
	}
	if r.Err != nil || got != want {
		t.Errorf("the tokens are %+v, %v, want %+v", got, r.Err, want)
	}
}

// An acquisition of the lock, by mortise, takes back that its counter expires.
func TestTokensThatAreUsedAgainStay(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		w.must(t, "SET", keyspace.Token(job), "7", "PX", "600000")
		k := script.NewConn(w).FencedLock(job)
		if g, err := k.Acquire(t.Context(), script.Attempt{ID: me, Lease: lease}); err != nil || g.Token != 8 {
			t.Errorf("Acquire = %+v, %v, want the token 8", g, err)
		}
		w.wantTTL(t, keyspace.Token(job), none)
	})
}

func TestCountedNames(t *testing.T) {
	for _, name := range []string{"job", "{job}", "{order}:42", "a{b}c{d}", "a:b:", "名", "{a}::", "x:{y}::"} {
		for key, fence := range map[string]bool{keyspace.Token(name): false, keyspace.Fence(name): true} {
			names, is := keyspace.CountedNames(key)
			if is != fence || !strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ") || !keyspace.CountsTokens(key) {
				t.Errorf("CountedNames(%q) = %q, %v, want %q among them, and %v", key, names, is, name, fence)
			}
			for _, other := range names {
				if keyspace.Token(other) != keyspace.Token(name) {
					t.Errorf("%q is said to share the counter of %q", other, name)
				}
			}
		}
	}
	for _, key := range []string{"job", "redisson_lock_token:job", "redisson_lock_token:", "redisson_lock_token:{}", "mortise:fence:", "mortise:fence:job", "mortise:fence:{job}:", fmt.Sprint("x", keyspace.Token("job"))} {
		if names, _ := keyspace.CountedNames(key); len(names) > 0 {
			t.Errorf("CountedNames(%q) = %q, want none", key, names)
		}
	}
}
