package script_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// announcers are the scripts that publish. Each releases the lock of me.
var announcers = map[string]func(ctx context.Context, d driver.Driver, p script.Publish) (bool, error){
	"release": func(ctx context.Context, d driver.Driver, p script.Publish) (bool, error) {
		return released(script.LockRelease(ctx, d, job, me, p, script.Turns{}))
	},
}

// login creates a user with the given rules, and returns a connection of that user.
func (w *world) login(t *testing.T, rules ...string) *wire {
	t.Helper()
	w.must(t, append([]string{"ACL", "SETUSER", "restricted", "reset", "on", "nopass"}, redistest.Rules(t, rules...)...)...)
	c := w.connect(t)
	c.must(t, "AUTH", "restricted", "x")
	return c
}

// A server without SPUBLISH still releases, and wakes the waiters it can.
func TestPublishUnknownToTheServer(t *testing.T) {
	server := single(t, without(t, "SPUBLISH")...)
	check := func(t *testing.T, w *world) {
		sub := w.listen(t, channel, false)
		for _, free := range announcers {
			for p, want := range map[script.Publish][]string{script.Sharded: nil, script.Both: {"0"}} {
				w.hold(t, job, lease, me, "1")
				ok, err := free(t.Context(), w, p)
				if !ok || err == nil || driver.ClassOf(err) != driver.Other {
					t.Errorf("got %v, %v, want true and an error of class other", ok, err)
				} else if w.real && !strings.Contains(err.Error(), "it has no SPUBLISH") {
					t.Errorf("the error does not say that there is no SPUBLISH: %v", err)
				}
				w.wantDump(t, job, "nothing")
				sub.want(t, want...)
			}
		}
	}
	everywhere(t, server, check)
}

// The other scripts publish nothing: there is no news for a waiter.
func TestNothingElsePublishes(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		s, sub := steps{w, t}, w.listen(t, channel, false)
		s.acquire(me, lease, yes)
		s.acquire(java, lease, heldBy(me, 1, lease))
		s.reenter(me, 2, lease, true)
		s.leave(me, 1, true)
		s.renew(me, 10*time.Minute, script.Renewed)
		script.Inspect(t.Context(), w, job)
		sub.want(t)
	})
}
