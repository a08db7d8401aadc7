//go:build server

package script_test

import (
	"context"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// A missing right may waste a token, and must leave no lock behind.
func TestFencedWithoutARight(t *testing.T) {
	server := redistest.Single(t)
	for name, test := range map[string]struct {
		rights []string
		setup  setup
		after  string
		ttl    time.Duration
		call   func(ctx context.Context, d driver.Driver) (int64, error)
	}{
		"acquire": {[]string{"hlen", "hgetall", "incr", "persist", "hset", "pexpire"}, nothing, "nothing", absent,
			func(ctx context.Context, d driver.Driver) (int64, error) {
				token, _, _, err := script.FencedAcquire(ctx, d, job, me, lease, "")
				return token, err
			}},
		"acquire once more": {[]string{"hlen", "hgetall", "incr", "persist", "pttl", "pexpire"}, held(time.Minute, me, "2"), "hash " + me + "=2", time.Minute,
			func(ctx context.Context, d driver.Driver) (int64, error) {
				token, _, _, err := script.FencedAcquire(ctx, d, job, me, lease, "")
				return token, err
			}},
		"reenter": {[]string{"hget", "incr", "persist", "pttl", "pexpire"}, held(time.Minute, me, "1"), "hash " + me + "=1", time.Minute,
			func(ctx context.Context, d driver.Driver) (int64, error) {
				return reenterFenced(ctx, d, script.FencedReentry(job, me, 2, lease))
			}},
		"token": {[]string{"get", "getrange"}, nothing, "nothing", absent,
			func(ctx context.Context, d driver.Driver) (int64, error) { return script.FencedToken(ctx, d, job) }},
	} {
		for _, right := range test.rights {
			t.Run(name+"/"+right, func(t *testing.T) {
				w := realWorld(t, server)
				test.setup(t, w)
				token, err := test.call(t.Context(), w.login(t, "+@all", "~*", "&*", "-"+right))
				if token != 0 || driver.ClassOf(err) != driver.Denied {
					t.Errorf("got %d, %v, want an error of class denied", token, err)
				}
				w.wantDump(t, job, test.after)
				if got := w.ttl(t, job); got > test.ttl || got == none {
					t.Errorf("the TTL is %v, want %v", got, test.ttl)
				}
			})
		}
	}
}
