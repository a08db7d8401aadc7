//go:build server

package script_test

import (
	"context"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// The ways to publish.
func TestPermitPublishes(t *testing.T) {
	server := redistest.Single(t)
	for how, want := range map[script.Publish][2][]string{
		script.Classic: {{"1"}, {}}, script.Sharded: {{}, {"1"}}, script.Both: {{"1"}, {"1"}},
	} {
		w := realWorld(t, server)
		shelf{w, t}.set("0").give(time.Minute, one)
		classic, sharded := w.listen(t, keyspace.SemaphoreChannel(job), false), w.listen(t, keyspace.SemaphoreChannel(job), true)
		if n, err := script.PermitRelease(t.Context(), w, script.Permits{Name: job, Publish: how}, "", []string{one}); n != 1 || err != nil {
			t.Error(n, err)
		}
		classic.want(t, want[0]...)
		sharded.want(t, want[1]...)
	}
}

// If Redis refuses one command of a script, nothing of its work remains. If it
// refuses the message, everything does.
func TestPermitsWithoutRights(t *testing.T) {
	server := redistest.Single(t)
	acquire := func(ctx context.Context, d driver.Driver) (any, error) {
		ok, _, err := script.PermitAcquire(ctx, d, permits, []string{one, two}, lease, true)
		return ok, err
	}
	release := func(ctx context.Context, d driver.Driver) (any, error) {
		n, err := script.PermitRelease(ctx, d, permits, op, []string{one, two})
		return n > 0, err
	}
	set := func(how script.PermitChange) func(ctx context.Context, d driver.Driver) (any, error) {
		return func(ctx context.Context, d driver.Driver) (any, error) {
			ok, err := script.PermitSet(ctx, d, permits, op, how, 7)
			return ok, err
		}
	}
	for name, test := range map[string]struct {
		rights []string
		given  func(s shelf)
		call   func(ctx context.Context, d driver.Driver) (any, error)
	}{
		"acquire": {[]string{"time", "get", "zscore", "zrangebyscore", "incrby", "zadd", "zrem", "pttl", "pexpire"},
			func(s shelf) { s.set("2").give(-time.Minute, alien).must(s.t, "PEXPIRE", job, "600000") }, acquire},
		"acquire, claimed": {[]string{"hgetall", "hdel"}, func(s shelf) { s.set("5").claim(2, one) }, acquire},
		"acquire, refused": {[]string{"zrangebyscore", "zcard", "hset", "pexpire"}, func(s shelf) { s.set("0").give(time.Minute, alien).give(-time.Minute, three) }, acquire},
		"acquire again":    {[]string{"zadd"}, func(s shelf) { s.set("1").give(time.Minute, one, two) }, acquire},
		"release": {[]string{"time", "get", "zscore", "set", "incrby", "zrem"},
			func(s shelf) { s.set("2").give(time.Minute, one, two, three) }, release},
		"release a claim": {[]string{"hexists", "hdel"}, func(s shelf) { s.set("2").claim(2, one) }, release},
		"try":             {[]string{"time", "get", "zcount", "set"}, func(s shelf) {}, set(script.PermitTry)},
		"set":             {[]string{"zcount", "incrby"}, func(s shelf) { s.set("3").give(time.Minute, one) }, set(script.PermitAll)},
		"add":             {[]string{"incrby"}, func(s shelf) { s.set("3") }, set(script.PermitAdd)},
		"extend": {[]string{"get", "zscore", "zadd"}, func(s shelf) { s.set("3").give(time.Minute, one) },
			func(ctx context.Context, d driver.Driver) (any, error) {
				ok, err := script.PermitExtend(ctx, d, permits, op, one, time.Hour)
				return ok, err
			}},
		"inspect": {[]string{"get", "zcount", "zrangebyscore"}, func(s shelf) { s.set("3").give(time.Minute, one) },
			func(ctx context.Context, d driver.Driver) (any, error) {
				_, err := script.PermitInspect(ctx, d, permits, 1)
				return false, err
			}},
		"renew": {[]string{"time", "zscore", "zadd"}, func(s shelf) { s.set("3").give(time.Minute, one) },
			func(ctx context.Context, d driver.Driver) (any, error) {
				return false, script.Renew(ctx, d, [][]script.Renewal{{script.PermitRenewal(job, []string{one}, lease)}})[0].Err
			}},
		"delete": {[]string{"get", "zcard", "set", "del"}, func(s shelf) { s.set("3").give(time.Minute, one) },
			func(ctx context.Context, d driver.Driver) (any, error) {
				ok, err := script.PermitDelete(ctx, d, permits, op)
				return ok, err
			}},
	} {
		for _, right := range test.rights {
			t.Run(name+"/"+right, func(t *testing.T) {
				s := shelf{realWorld(t, server), t}
				ear := s.listen(t, keyspace.SemaphoreChannel(job), false)
				test.given(s)
				before := s.String()
				done, err := test.call(t.Context(), s.login(t, "+@all", "~*", "&*", "-"+right))
				if done != false || err == nil || driver.ClassOf(err) != driver.Denied {
					t.Errorf("%v, %v, want an error of class denied", done, err)
				}
				if after := s.String(); after != before {
					t.Errorf("there are %q, want %q as before", after, before)
				}
				ear.want(t)
				// With the right, the same call succeeds.
				if _, err := test.call(t.Context(), s); err != nil {
					t.Error(err)
				}
				if after := s.String(); after == before && name != "inspect" {
					t.Errorf("there are still %q", after)
				}
			})
		}
	}
	for name, call := range map[string]func(ctx context.Context, d driver.Driver) (any, error){"release": release, "add": set(script.PermitAdd)} {
		t.Run(name+"/publish", func(t *testing.T) {
			s := shelf{realWorld(t, server), t}
			s.set("2").give(time.Minute, one, two)
			done, err := call(t.Context(), s.login(t, "+@all", "~*", "&*", "-publish"))
			if done != true || err == nil || driver.ClassOf(err) != driver.Denied {
				t.Errorf("%v, %v, want done, and an error of class denied", done, err)
			}
		})
	}
	t.Run("acquire, the rest come back/publish", func(t *testing.T) {
		s := shelf{realWorld(t, server), t}
		s.set("5").give(-time.Minute, alien)
		if ok, err := acquire(t.Context(), s.login(t, "+@all", "~*", "&*", "-publish")); ok != true || err != nil {
			t.Errorf("%v, %v, want two permits", ok, err)
		}
	})
}
