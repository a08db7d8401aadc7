package script_test

import (
	"context"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// permitOperations are the operations on a permit semaphore without an owner.
var permitOperations = map[string]func(s permitWorld, ctx context.Context, d driver.Driver) string{
	"try":    permitSetting(script.PermitTry, 7),
	"set":    permitSetting(script.PermitAll, 7),
	"add":    permitSetting(script.PermitAdd, 7),
	"remove": permitSetting(script.PermitAdd, -7),
	"delete": func(s permitWorld, ctx context.Context, d driver.Driver) string {
		ok, err := script.PermitDelete(ctx, d, permits, op)
		return permitAnswer(s, ok, script.PermitRefusal{}, err)
	},
	"extend": func(s permitWorld, ctx context.Context, d driver.Driver) string {
		ok, err := script.PermitExtend(ctx, d, permits, op, one, 3*time.Minute)
		return permitAnswer(s, ok, script.PermitRefusal{}, err)
	},
	"release": func(s permitWorld, ctx context.Context, d driver.Driver) string {
		n, _, err := script.PermitRelease(ctx, d, permits, op, []string{one, two})
		return permitAnswer(s, n, script.PermitRefusal{}, err)
	},
}

func permitSetting(how script.PermitChange, n int) func(s permitWorld, ctx context.Context, d driver.Driver) string {
	return func(s permitWorld, ctx context.Context, d driver.Driver) string {
		ok, err := script.PermitSet(ctx, d, permits, op, how, n)
		return permitAnswer(s, ok, script.PermitRefusal{}, err)
	}
}

// An operation without an owner counts once, whatever its outcome: its reply
// is lost, it is repeated, others change the semaphore, and then another copy of
// it arrives.
func TestPermitOperationsCountOnce(t *testing.T) {
	server := single(t)
	clear := func(s permitWorld) { s.must(s.t, "DEL", job, keyspace.PermitExpiries(job), keyspace.Claims(job)) }
	states := map[string]func(s permitWorld){
		"nothing":          func(s permitWorld) {},
		"none left":        func(s permitWorld) { s.set("0") },
		"some":             func(s permitWorld) { s.set("3").taken(time.Minute, one, alien) },
		"one for longer":   func(s permitWorld) { s.set("3").taken(time.Hour, one) },
		"a dead one":       func(s permitWorld) { s.set("3").taken(-time.Minute, one) },
		"no number":        func(s permitWorld) { s.set("1").taken(time.Minute, one).must(s.t, "DEL", job) },
		"as many as can":   func(s permitWorld) { s.set("2147483647").taken(time.Minute, one) },
		"text":             func(s permitWorld) { s.set("five") },
		"a list":           func(s permitWorld) { s.must(s.t, "RPUSH", job, "a") },
		"another's permit": func(s permitWorld) { s.set("3").must(s.t, "RPUSH", keyspace.PermitExpiries(job), "a") },
	}
	for name, run := range permitOperations {
		t.Run(name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				s := permitWorld{w, t}
				sub := w.listen(t, keyspace.SemaphoreChannel(job), false)
				for first, setup := range states {
					for then, change := range states {
						w.must(t, "FLUSHALL")
						setup(s)
						if got := run(s, t.Context(), lossy{w}); got != "unknown" {
							t.Fatalf("with a lost reply the answer is %q, want %q", got, "unknown")
						}
						want := run(s, t.Context(), w)
						clear(s)
						change(s)
						before := s.String()
						sub.received(t)
						if got := run(s, t.Context(), w); got != want {
							t.Errorf("%s, then %s: the late copy answers %q, the call was answered %q", first, then, got, want)
						}
						if after := s.String(); after != before {
							t.Errorf("%s, then %s: the late copy leaves %q, want %q", first, then, after, before)
						}
						sub.want(t)
					}
				}
			})
		})
	}
}
