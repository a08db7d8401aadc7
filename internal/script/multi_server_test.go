//go:build server

package script_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// Redis does not roll a script back: without one right, nothing is acquired or
// released, and no key is left without TTL.
func TestMultiWithEachMissingRight(t *testing.T) {
	server := redistest.Single(t)
	mine := of(time.Minute, me, "2")
	for name, test := range map[string]struct {
		rights []string
		setup  lot
		call   func(ctx context.Context, d driver.Driver) (bool, error)
	}{
		"acquire": {[]string{"hlen", "hset", "pexpire"}, lot{}, func(ctx context.Context, d driver.Driver) (bool, error) {
			ok, _, _, err := script.MultiAcquire(ctx, d, several, me, lease, false)
			return ok, err
		}},
		"acquire once more": {[]string{"hlen", "pttl", "hgetall", "pexpire"}, lot{mine, mine, mine}, func(ctx context.Context, d driver.Driver) (bool, error) {
			ok, _, _, err := script.MultiAcquire(ctx, d, several, me, lease, false)
			return ok, err
		}},
		"release": {[]string{"hexists", "del"}, lot{mine, mine, mine}, func(ctx context.Context, d driver.Driver) (bool, error) {
			released, err := script.MultiRelease(ctx, d, releases(me, me, me), script.Both)
			return released != nil, err
		}},
	} {
		for _, right := range test.rights {
			t.Run(name+"/"+right, func(t *testing.T) {
				w := realWorld(t, server)
				test.setup.put(t, w)
				ok, err := test.call(t.Context(), w.login(t, "+@all", "~*", "&*", "-"+right))
				if ok || err == nil || driver.ClassOf(err) != driver.Denied {
					t.Errorf("got %v, %v, want an error of class denied", ok, err)
				}
				test.setup.want(t, w)
			})
		}
		t.Run(name+"/all", func(t *testing.T) {
			w := realWorld(t, server)
			test.setup.put(t, w)
			rules := []string{"~{job}:*", "&redisson_lock__channel:{job}:*", "+eval", "+evalsha", "+publish", "+spublish", "+del"}
			for _, right := range test.rights {
				rules = append(rules, "+"+right)
			}
			if ok, err := test.call(t.Context(), w.login(t, rules...)); !ok || err != nil {
				t.Errorf("with the rights %v: %v, %v, want true", rules, ok, err)
			}
		})
	}
}

// A change that Redis refuses in the middle of the script is undone: here a key that may
// be read but not written, and a lease out of range.
func TestMultiAcquireIsAllOrNothing(t *testing.T) {
	server := redistest.Single(t)
	w := realWorld(t, server)
	lot{}.put(t, w)
	d := w.login(t, "+@all", "&*", "~{job}:a", "~{job}:b", "%R~{job}:c")
	if ok, _, _, err := script.MultiAcquire(t.Context(), d, several, me, lease, false); ok || err == nil || driver.ClassOf(err) != driver.Denied {
		t.Errorf("got %v, %v, want an error of class denied", ok, err)
	}
	lot{}.want(t, w)

	var acquire driver.Call
	seen := spy{w, func(c driver.Call) { acquire = c }}
	if ok, _, _, err := script.MultiAcquire(t.Context(), seen, several, me, lease, false); !ok || err != nil {
		t.Fatal(err)
	}
	w.must(t, append([]string{"DEL"}, several...)...)
	acquire.Args = []string{me, "9223372036854775807"}
	if _, err := w.Eval(t.Context(), acquire); err == nil || driver.ClassOf(err) != driver.Other {
		t.Errorf("got %v, want an error of class other", err)
	}
	lot{}.want(t, w)
}

// A message that Redis refuses hides neither the release nor other messages.
func TestMultiReleaseWithARefusedMessage(t *testing.T) {
	server := redistest.Single(t)
	w := realWorld(t, server)
	mine := of(lease, me, "1")
	lot{mine, mine, mine}.put(t, w)
	received := w.listen(t, keyspace.LockChannel(several[2]), false)
	d := w.login(t, "+@all", "~*", "resetchannels", "&"+keyspace.LockChannel(several[2]))
	released, err := script.MultiRelease(t.Context(), d, releases(me, me, me), script.Classic)
	if !slices.Equal(freed(released), []bool{true, true, true}) || err == nil || driver.ClassOf(err) != driver.Denied {
		t.Errorf("got %v, %v, want all released and an error of class denied", released, err)
	}
	lot{}.want(t, w)
	received.want(t, "0")
}
