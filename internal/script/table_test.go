package script_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/script"
)

// setup puts something under a key.
type setup func(t *testing.T, w *world)

func nothing(*testing.T, *world) {}

func held(ttl time.Duration, fields ...string) setup {
	return func(t *testing.T, w *world) { w.hold(t, job, ttl, fields...) }
}

func text(t *testing.T, w *world) { w.must(t, "SET", job, "5", "PX", "600000") }
func list(t *testing.T, w *world) { w.must(t, "RPUSH", job, "a") }

// answer is the result of a script's function.
type answer struct {
	ok  bool
	by  script.Holder
	err string // its class, or "kind" for ErrKind
}

func answered(ok bool, by script.Holder, err error) answer {
	return answer{ok: ok, by: by, err: classOf(err)}
}

// classOf names an error: "kind" for ErrKind, and else its class. One that no class covers is its text, so that a mistake in
// a script shows.
func classOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, script.ErrKind):
		return "kind"
	case driver.ClassOf(err) == driver.Other:
		return err.Error()
	}
	return driver.ClassOf(err).String()
}

func TestTablesShowMistakesInScripts(t *testing.T) {
	everywhere(t, single(t), func(t *testing.T, w *world) {
		_, err := w.Eval(t.Context(), driver.Call{Script: driver.NewScript("mistaken", "retrun 1")})
		for _, got := range []string{answered(false, script.Holder{}, err).err, said(err), saidFate(script.Fate{}, err), permitAnswer(permitWorld{}, false, script.PermitRefusal{}, err)} {
			if !strings.Contains(got, "Error compiling script") {
				t.Errorf("a table shows %q, want the text %v", got, err)
			}
		}
	})
}

func (w *world) wantAnswer(t *testing.T, got, want answer) {
	t.Helper()
	same := got
	if w.near(got.by.TTL, want.by.TTL) {
		same.by.TTL = want.by.TTL
	}
	if same != want {
		t.Errorf("the answer is %+v, want %+v", got, want)
	}
}

// row is one case of a script's table.
type row struct {
	name     string
	setup    setup
	want     answer
	after    string        // the content of the key afterwards
	ttl      time.Duration // its TTL, -1 for none, -2 if there is nothing
	messages []string      // on the channel, in order
	repeat   *answer       // to the same call once more, if different
}

const (
	none   = time.Duration(-1) // no TTL
	absent = time.Duration(-2) // no key
)

var yes, no = answer{ok: true}, answer{}

func refused(class string) answer { return answer{err: class} }

func heldBy(owner string, count int, ttl time.Duration) answer {
	return answer{by: script.Holder{Owner: owner, Count: count, TTL: ttl}}
}

// table runs every row with both servers, and each in two ways: the call and
// the same call again, which must change nothing more; and with the first
// reply lost, after which the repeat must lead to the same end.
func table(t *testing.T, call func(ctx context.Context, d driver.Driver) answer, rows []row) {
	t.Helper()
	server := single(t)
	for _, r := range rows {
		repeat := r.want
		if r.repeat != nil {
			repeat = *r.repeat
		}
		t.Run(r.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				sub := w.listen(t, channel, false)
				r.setup(t, w)
				w.wantAnswer(t, call(t.Context(), w), r.want)
				r.check(t, w)
				sub.want(t, r.messages...)
				w.wantAnswer(t, call(t.Context(), w), repeat)
				r.check(t, w)
				sub.want(t)

				w.must(t, "DEL", job)
				r.setup(t, w)
				if got := call(t.Context(), lossy{w}); got.err != "unknown" {
					t.Errorf("with a lost reply the answer is %+v, want the class unknown", got)
				}
				w.wantAnswer(t, call(t.Context(), w), repeat)
				r.check(t, w)
				sub.want(t, r.messages...)
			})
		})
	}
}

// check compares the state that the call left behind.
func (r row) check(t *testing.T, w *world) {
	t.Helper()
	w.wantDump(t, job, r.after)
	w.wantTTL(t, job, r.ttl)
}
