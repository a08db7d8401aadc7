//go:build server

package script_test

import (
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// Without a right nothing is changed, and what was not changed is not
// remembered either: a repeat by a user that has the right succeeds.
func TestNumbersWithoutRights(t *testing.T) {
	server := redistest.Single(t)
	for name, test := range numberCalls {
		for _, right := range test.rights {
			t.Run(name+"/"+right, func(t *testing.T) {
				w := realWorld(t, server)
				test.setup(t, w)
				sub := w.listen(t, test.on, false)
				before := w.claimed(t)
				ok, err := test.call(t.Context(), w.login(t, "+@all", "~*", "&*", "-"+right), script.Classic)
				if ok || driver.ClassOf(err) != driver.Denied {
					t.Errorf("got %v, %v, want an error of class denied", ok, err)
				}
				w.wantDump(t, job, test.before)
				w.wantTTL(t, job, test.ttl)
				if after := w.claimed(t); after != before && after != "" { // a missing claim is claimed again
					t.Errorf("%q are claimed, were %q", after, before)
				}
				sub.want(t)
				if ok, err := test.call(t.Context(), w, script.Classic); !ok || err != nil {
					t.Errorf("once more, with the right: %v, %v, want true", ok, err)
				}
			})
		}
		t.Run(name+"/all", func(t *testing.T) {
			w := realWorld(t, server)
			test.setup(t, w)
			rules := []string{"~" + job, "~" + keyspace.Operation(job, "*"), "~" + claims, "&" + test.on, "+eval", "+evalsha", "+publish", "+spublish"}
			for _, right := range test.rights {
				rules = append(rules, "+"+right)
			}
			if ok, err := test.call(t.Context(), w.login(t, rules...), script.Both); !ok || err != nil {
				t.Errorf("with the rights %v: %v, %v, want true", rules, ok, err)
			}
		})
	}
}

// If Redis refuses a message, the change of the number is reported nevertheless.
func TestNumbersThatNobodyMayHear(t *testing.T) {
	server := redistest.Single(t)
	for name, test := range numberCalls {
		if test.received == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			w := realWorld(t, server)
			for p, both := range map[script.Publish][2]int{script.Classic: {1, 0}, script.Sharded: {0, 1}, script.Both: {1, 1}} {
				w.must(t, "FLUSHALL")
				test.setup(t, w)
				classic, sharded := w.listen(t, test.on, false), w.listen(t, test.on, true)
				if ok, err := test.call(t.Context(), w, p); !ok || err != nil {
					t.Errorf("got %v, %v, want true", ok, err)
				}
				classic.want(t, []string{test.received}[:both[0]]...)
				sharded.want(t, []string{test.received}[:both[1]]...)
			}
			w.must(t, "FLUSHALL")
			test.setup(t, w)
			restricted := w.login(t, "+@all", "~*", "resetchannels")
			ok, err := test.call(t.Context(), restricted, script.Both)
			if !ok || driver.ClassOf(err) != driver.Denied {
				t.Errorf("without the channel: %v, %v, want true and class denied", ok, err)
			}
			if w.dump(t, job) == test.before {
				t.Error("nothing was changed")
			}
			changed := w.dump(t, job)
			_, _ = test.call(t.Context(), w, script.Both) // the same once more
			w.wantDump(t, job, changed)
		})
	}
}
