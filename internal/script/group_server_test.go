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

func TestGroupWithoutARight(t *testing.T) {
	server := redistest.Single(t)
	two := group(time.Minute, has{"a", me, 1, "1"}, has{"b", me, 1, "1"})
	for name, test := range groupCalls(two) {
		for _, right := range test.rights {
			t.Run(name+"/"+right, func(t *testing.T) {
				w := realWorld(t, server)
				test.setup(t, w)
				ok, err := test.call(t.Context(), w.login(t, "+@all", "~*", "&*", "-"+right))
				if ok || driver.ClassOf(err) != driver.Denied {
					t.Errorf("got %v, %v, want an error of class denied", ok, err)
				}
				if got := w.groupDump(t); got != test.after {
					t.Errorf("under the key lies\n%s, want\n%s", got, test.after)
				}
				if w.ttl(t, job) == none {
					t.Error("the key has no TTL")
				}
			})
		}
	}
	t.Run("release/publish", func(t *testing.T) {
		w := realWorld(t, server)
		two(t, w)
		ok, err := released(script.GroupRelease(t.Context(), w.login(t, "+@all", "~*", "&*", "-publish"), ab, me, channel, script.Both))
		if !ok || driver.ClassOf(err) != driver.Denied {
			t.Errorf("got %v, %v, want true with an error of class denied", ok, err)
		}
	})
}

// groupCall is an operation and the commands that it needs.
type groupCall struct {
	rights []string
	setup  setup
	after  string
	call   func(ctx context.Context, d driver.Driver) (bool, error)
}

// groupCalls are the operations on a group. Two has ME hold both fields.
func groupCalls(two setup) map[string]groupCall {
	return map[string]groupCall{
		"acquire": {[]string{"hlen", "time", "hmget", "hset", "pexpire"}, nothing, "nothing",
			func(ctx context.Context, d driver.Driver) (bool, error) {
				ok, _, err := script.GroupAcquire(ctx, d, ab, me, lease)
				return ok, err
			}},
		"acquire beside others": {[]string{"hlen", "hexists", "time", "hmget", "hset", "pttl", "pexpire"},
			group(time.Minute, has{"c", java, 1, "1"}), "hash c=JAVA c:JAVA:e=+1m c:JAVA:n=1",
			func(ctx context.Context, d driver.Driver) (bool, error) {
				ok, _, err := script.GroupAcquire(ctx, d, ab, me, lease)
				return ok, err
			}},
		"acquire after others": {[]string{"hget", "hdel"},
			group(10*time.Minute, has{"a", java, -1, "1"}), "hash a=JAVA a:JAVA:e=-1m a:JAVA:n=1",
			func(ctx context.Context, d driver.Driver) (bool, error) {
				ok, _, err := script.GroupAcquire(ctx, d, ab, me, lease)
				return ok, err
			}},
		"reenter": {[]string{"time", "hmget", "hget", "hdel", "pttl", "pexpire", "hset"}, two, "hash a=ME a:ME:e=+1m a:ME:n=1 b=ME b:ME:e=+1m b:ME:n=1",
			func(ctx context.Context, d driver.Driver) (bool, error) {
				return reenter(ctx, d, script.GroupReentry(ab, me, 2, lease))
			}},
		"leave": {[]string{"hmget", "hdel", "hset"}, two, "hash a=ME a:ME:e=+1m a:ME:n=1 b=ME b:ME:e=+1m b:ME:n=1",
			func(ctx context.Context, d driver.Driver) (bool, error) {
				return script.GroupLeave(ctx, d, ab, me, 1)
			}},
		"release": {[]string{"hmget", "hdel"}, two, "hash a=ME a:ME:e=+1m a:ME:n=1 b=ME b:ME:e=+1m b:ME:n=1",
			func(ctx context.Context, d driver.Driver) (bool, error) {
				return released(script.GroupRelease(ctx, d, ab, me, channel, script.Both))
			}},
		"renew": {[]string{"time", "hmget", "hget", "hdel", "pttl", "pexpire", "hset"}, two, "hash a=ME a:ME:e=+1m a:ME:n=1 b=ME b:ME:e=+1m b:ME:n=1",
			func(ctx context.Context, d driver.Driver) (bool, error) {
				r := script.Renew(ctx, d, [][]script.Renewal{{script.GroupRenewal(ab, me, lease)}})[0]
				return r.States != nil, r.Err
			}},
		"inspect": {[]string{"hlen", "hexists", "time", "hmget", "hget"}, two, "hash a=ME a:ME:e=+1m a:ME:n=1 b=ME b:ME:e=+1m b:ME:n=1",
			func(ctx context.Context, d driver.Driver) (bool, error) {
				h, err := script.GroupInspect(ctx, d, ab)
				return h != nil, err
			}},
	}
}
