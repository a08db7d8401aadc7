package script_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

var fenceKey = keyspace.Fence(job)

// A lock that is released by force draws a token, and its fence is moved on to it. A repeat, and what
// is not released, moves nothing.
func TestLockForce(t *testing.T) {
	const most = "9007199254740991"
	server := single(t)
	for _, r := range []struct {
		name          string
		setup         setup
		token, fence  string // before
		want          answer
		after         string
		tokens, moved string // afterwards
		ttl           time.Duration
		messages      []string
	}{
		{"no tokens", held(lease, me, "2"), "", "7", yes, nothingThere, nothingThere, "string 7", absent, []string{"0"}},
		{"no fence", held(lease, me, "2"), "41", "", yes, nothingThere, "string 42", "string 42", absent, []string{"0"}},
		{"an older fence", held(lease, me, "1"), "41", "9", yes, nothingThere, "string 42", "string 42", absent, []string{"0"}},
		{"the holder's fence", held(none, me, "1"), "99", "99", yes, nothingThere, "string 100", "string 100", absent, []string{"0"}},
		{"a newer fence", held(lease, me, "1"), "41", "1000", yes, nothingThere, "string 42", "string 1000", absent, []string{"0"}},
		{"a fence that is no number", held(lease, me, "1"), "41", "x", yes, nothingThere, "string 42", "string x", absent, []string{"0"}},
		{"a fence of 40 digits", held(lease, me, "1"), "41", strings.Repeat("9", 40), yes, nothingThere, "string 42", "string " + strings.Repeat("9", 40), absent, []string{"0"}},
		{"tokens that are no number", held(lease, me, "1"), "x", "9", yes, nothingThere, "string x", "string 9", absent, []string{"0"}},
		{"tokens at their end", held(lease, me, "1"), most, "9", yes, nothingThere, "string 9007199254740992", "string 9", absent, []string{"0"}},
		{"tokens below 0", held(lease, me, "1"), "-7", "9", yes, nothingThere, "string -6", "string 9", absent, []string{"0"}},
		{"free", nothing, "41", "9", no, nothingThere, "string 41", "string 9", absent, nil},
		{"Java's", held(lease, java, "1"), "41", "9", no, "hash " + java + "=1", "string 41", "string 9", lease, nil},
		{"a string", text, "41", "9", refused("wrong type"), "string 5", "string 41", "string 9", 10 * time.Minute, nil},
	} {
		t.Run(r.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				sub := w.listen(t, channel, false)
				r.setup(t, w)
				for key, value := range map[string]string{tokenKey: r.token, fenceKey: r.fence} {
					if value != "" {
						w.must(t, "SET", key, value)
					}
				}
				force := func(d driver.Driver) answer {
					ok, err := released(script.LockForce(t.Context(), d, job, me, script.Classic, script.Turns{}))
					return answered(ok, script.Holder{}, err)
				}
				check := func() {
					t.Helper()
					row{after: r.after, ttl: r.ttl}.check(t, w)
					w.wantDump(t, tokenKey, r.tokens)
					w.wantDump(t, fenceKey, r.moved)
				}
				w.wantAnswer(t, force(w), r.want)
				check()
				sub.want(t, r.messages...)
				again := r.want
				if again == yes {
					again = no
				}
				w.wantAnswer(t, force(w), again)
				check()
				sub.want(t)
			})
		})
	}
}

// A reply that is lost does not move the fence twice.
func TestLockForceWithALostReply(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		held(lease, me, "1")(t, w)
		w.must(t, "SET", tokenKey, "41")
		if _, err := script.LockForce(t.Context(), lossy{w}, job, me, script.Classic, script.Turns{}); driver.ClassOf(err) != driver.Unknown {
			t.Errorf("with a lost reply: %v, want the class unknown", err)
		}
		if became, err := script.LockForce(t.Context(), w, job, me, script.Classic, script.Turns{}); became != script.NotHeld || err != nil {
			t.Errorf("the repeat: %v, %v, want that it was not held", became, err)
		}
		w.wantDump(t, tokenKey, "string 42")
		w.wantDump(t, fenceKey, "string 42")
	})
}

// The next client in the turns gets the lock, and its tokens are newer than the fence.
func TestLockForceGrants(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		held(lease, me, "1")(t, w)
		w.must(t, "SET", tokenKey, "41")
		w.must(t, "ZADD", keyspace.Turns(job), "1", mine2)
		turn := w.listen(t, keyspace.TurnChannel(job, script.ClientOf(mine2)), false)
		became, err := script.LockForce(t.Context(), w, job, me, script.Classic, script.Turns{Command: "publish"})
		if became == script.NotHeld || err != nil {
			t.Fatalf("%v, %v, want a release", became, err)
		}
		turn.want(t, mine2+" 1")
		w.wantDump(t, job, "hash "+mine2+"=1")
		w.wantDump(t, fenceKey, "string 42")
		if token, _, _, err := script.FencedAcquire(t.Context(), w, job, mine2, lease, ""); token != 43 || err != nil {
			t.Errorf("the next token is %d, %v, want 43", token, err)
		}
	})
}
