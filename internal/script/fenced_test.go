package script_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

var tokenKey = keyspace.Token(job)

// fencedRow is one case of a script that draws tokens.
type fencedRow struct {
	name   string
	setup  setup
	token  string // the content of the token's key before; empty for nothing
	want   answer
	drawn  int64 // the token that the call returns; a repeat returns the next one
	after  string
	ttl    time.Duration
	tokens string // the content of the token's key after the call; after a repeat, one more
	repeat string
}

func fencedTable(t *testing.T, call func(ctx context.Context, d driver.Driver) (int64, answer), rows []fencedRow) {
	t.Helper()
	server := single(t)
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				sub := w.listen(t, channel, false)
				for _, d := range []driver.Driver{w, lossy{w}} { // the second loses the first reply
					w.must(t, "DEL", job, tokenKey)
					r.setup(t, w)
					if r.token != "" {
						w.must(t, "SET", tokenKey, r.token, "PX", "600000") // as Java's expire() leaves it
					}
					token, got := call(t.Context(), d)
					if d == driver.Driver(w) {
						w.wantAnswer(t, got, r.want)
						if token != r.drawn {
							t.Errorf("the token is %d, want %d", token, r.drawn)
						}
					} else if got.err != "unknown" {
						t.Errorf("with a lost reply the answer is %+v, want the class unknown", got)
					}
					r.check(t, w, r.tokens)

					token, got = call(t.Context(), w)
					w.wantAnswer(t, got, r.want)
					if r.drawn > 0 && token != r.drawn+1 {
						t.Errorf("the token of the repeat is %d, want %d", token, r.drawn+1)
					}
					r.check(t, w, r.repeat)
				}
				sub.want(t)
			})
		})
	}
}

func (r fencedRow) check(t *testing.T, w *world, tokens string) {
	t.Helper()
	w.wantDump(t, job, r.after)
	w.wantTTL(t, job, r.ttl)
	w.wantDump(t, tokenKey, tokens)
	if r.drawn > 0 {
		w.wantTTL(t, tokenKey, none)
	}
}

const nothingThere = "nothing"

func TestFencedAcquire(t *testing.T) {
	mine, javas := "hash "+me+"=1", "hash "+java+"=17"
	fencedTable(t, func(ctx context.Context, d driver.Driver) (int64, answer) {
		token, by, _, err := script.FencedAcquire(ctx, d, job, me, lease, "")
		a := answered(token > 0, by, err)
		if errors.Is(err, script.ErrToken) {
			a.err = "token"
		}
		return token, a
	}, []fencedRow{
		{name: "free", setup: nothing, want: yes, drawn: 1, after: mine, ttl: lease, tokens: "string 1", repeat: "string 2"},
		{name: "free, with tokens drawn", setup: nothing, token: "41", want: yes, drawn: 42, after: mine, ttl: lease, tokens: "string 42", repeat: "string 43"},
		{name: "mine", setup: held(time.Minute, me, "3"), token: "41", want: yes, drawn: 42, after: "hash " + me + "=3", ttl: lease, tokens: "string 42", repeat: "string 43"},
		{name: "mine, for longer", setup: held(10*time.Minute, me, "1"), token: "41", want: yes, drawn: 42, after: mine, ttl: 10 * time.Minute, tokens: "string 42", repeat: "string 43"},
		{name: "Java's", setup: held(lease, java, "17"), token: "41", want: heldBy(java, 17, lease), after: javas, ttl: lease, tokens: "string 41", repeat: "string 41"},
		{name: "Java's, without TTL", setup: held(none, java, "17"), token: "41", want: heldBy(java, 17, -1), after: javas, ttl: none, tokens: "string 41", repeat: "string 41"},
		{name: "another number of this client", setup: held(lease, mine2, "1"), want: heldBy(mine2, 1, lease), after: "hash " + mine2 + "=1", ttl: lease, tokens: nothingThere, repeat: nothingThere},
		{name: "read lock with me in it", setup: held(lease, "mode", "read", me, "1"), want: refused("kind"), after: "hash " + me + "=1 mode=read", ttl: lease, tokens: nothingThere, repeat: nothingThere},
		{name: "a string", setup: text, want: refused("wrong type"), after: "string 5", ttl: 10 * time.Minute, tokens: nothingThere, repeat: nothingThere},
		{name: "a list", setup: list, want: refused("wrong type"), after: `list ["a"]`, ttl: none, tokens: nothingThere, repeat: nothingThere},
		{name: "the token is no number", setup: nothing, token: "x", want: refused("token"), after: nothingThere, ttl: absent, tokens: "string x", repeat: "string x"},
		{name: "the token is at its end", setup: nothing, token: "9223372036854775807", want: refused("token"), after: nothingThere, ttl: absent, tokens: "string 9223372036854775807", repeat: "string 9223372036854775807"},
		{name: "the token is the last that Lua counts", setup: nothing, token: "9007199254740989", want: yes, drawn: 9007199254740990, after: mine, ttl: lease, tokens: "string 9007199254740990", repeat: "string 9007199254740991"},
		{name: "the token is past what Lua counts", setup: nothing, token: "9007199254740991", want: refused("token"), after: nothingThere, ttl: absent, tokens: "string 9007199254740992", repeat: "string 9007199254740993"},
		{name: "the token is negative", setup: nothing, token: "-7", want: refused("token"), after: nothingThere, ttl: absent, tokens: "string -6", repeat: "string -5"},
	})
}

func TestFencedReenter(t *testing.T) {
	fencedTable(t, func(ctx context.Context, d driver.Driver) (int64, answer) {
		token, err := reenterFenced(ctx, d, script.FencedReentry(job, me, 2, lease))
		a := answered(token > 0, script.Holder{}, err)
		if errors.Is(err, script.ErrToken) {
			a.err = "token"
		}
		return token, a
	}, []fencedRow{
		{name: "mine", setup: held(time.Minute, me, "1"), token: "41", want: yes, drawn: 42, after: "hash " + me + "=2", ttl: lease, tokens: "string 42", repeat: "string 43"},
		{name: "mine, never drawn", setup: held(time.Minute, me, "1"), want: yes, drawn: 1, after: "hash " + me + "=2", ttl: lease, tokens: "string 1", repeat: "string 2"},
		{name: "mine, counted too high", setup: held(10*time.Minute, me, "9"), token: "41", want: yes, drawn: 42, after: "hash " + me + "=2", ttl: 10 * time.Minute, tokens: "string 42", repeat: "string 43"},
		{name: "free", setup: nothing, token: "41", want: no, after: nothingThere, ttl: absent, tokens: "string 41", repeat: "string 41"},
		{name: "Java's", setup: held(lease, java, "1"), token: "41", want: no, after: "hash " + java + "=1", ttl: lease, tokens: "string 41", repeat: "string 41"},
		{name: "a string", setup: text, want: refused("wrong type"), after: "string 5", ttl: 10 * time.Minute, tokens: nothingThere, repeat: nothingThere},
		{name: "the token is no number", setup: held(lease, me, "1"), token: "x", want: refused("token"), after: "hash " + me + "=1", ttl: lease, tokens: "string x", repeat: "string x"},
	})
}

func TestFencedToken(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		want := func(want int64, class string) {
			t.Helper()
			got, err := script.FencedToken(t.Context(), w, job)
			if a := answered(false, script.Holder{}, err); got != want || a.err != class {
				t.Errorf("got %d, %v, want %d and the class %q", got, err, want, class)
			}
		}
		want(0, "")
		w.must(t, "SET", tokenKey, "9007199254740993")
		want(9007199254740993, "")
		w.must(t, "SET", tokenKey, "x")
		want(0, "wrong type")
		w.must(t, "DEL", tokenKey)
		w.must(t, "RPUSH", tokenKey, "x")
		want(0, "wrong type")
	})
}

// The token's key is a list: nothing is acquired.
func TestFencedAcquireBesideAForeignToken(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		w.must(t, "RPUSH", tokenKey, "x")
		_, _, _, err := script.FencedAcquire(t.Context(), w, job, me, lease, "")
		if driver.ClassOf(err) != driver.WrongType {
			t.Errorf("got %v, want the class wrong type", err)
		}
		w.wantDump(t, job, "nothing")
		w.wantDump(t, tokenKey, `list ["x"]`)
	})
}
