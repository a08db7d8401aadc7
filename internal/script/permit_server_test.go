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
		permitWorld{w, t}.set("0").taken(time.Minute, one)
		classic, sharded := w.listen(t, keyspace.SemaphoreChannel(job), false), w.listen(t, keyspace.SemaphoreChannel(job), true)
		if n, _, err := script.PermitRelease(t.Context(), w, script.Permits{Name: job, Publish: how}, "", []string{one}); n != 1 || err != nil {
			t.Errorf("got %v, %v, want 1", n, err)
		}
		classic.want(t, want[0]...)
		sharded.want(t, want[1]...)
	}
}

// If Redis refuses one command of a script, nothing of its work remains. If it
// refuses the message, everything does.
func TestPermitsWithoutRights(t *testing.T) {
	server := redistest.Single(t)
	for name, test := range permitCalls {
		for _, right := range test.rights {
			t.Run(name+"/"+right, func(t *testing.T) { test.wantDenied(t, permitWorld{realWorld(t, server), t}, right, name != "inspect") })
		}
	}
	for name, call := range map[string]func(ctx context.Context, d driver.Driver) (any, error){"release": permitsReleased, "add": permitsSet(script.PermitAdd)} {
		t.Run(name+"/publish", func(t *testing.T) {
			s := permitWorld{realWorld(t, server), t}
			s.set("2").taken(time.Minute, one, two)
			done, err := call(t.Context(), s.login(t, "+@all", "~*", "&*", "-publish"))
			if done != true || err == nil || driver.ClassOf(err) != driver.Denied {
				t.Errorf("got %v, %v, want done, and an error of class denied", done, err)
			}
		})
	}
	t.Run("acquire, the rest come back/publish", func(t *testing.T) {
		s := permitWorld{realWorld(t, server), t}
		s.set("5").taken(-time.Minute, alien)
		if ok, err := permitsAcquired(t.Context(), s.login(t, "+@all", "~*", "&*", "-publish")); ok != true || err != nil {
			t.Errorf("got %v, %v, want two permits", ok, err)
		}
	})
}

// wantDenied runs the call without a right, and then with it.
func (test permitCall) wantDenied(t *testing.T, s permitWorld, right string, writes bool) {
	sub := s.listen(t, keyspace.SemaphoreChannel(job), false)
	test.setup(s)
	before := s.String()
	done, err := test.call(t.Context(), s.login(t, "+@all", "~*", "&*", "-"+right))
	if done != false || err == nil || driver.ClassOf(err) != driver.Denied {
		t.Errorf("got %v, %v, want an error of class denied", done, err)
	}
	if after := s.String(); after != before {
		t.Errorf("there are %q, want %q as before", after, before)
	}
	sub.want(t)
	// With the right, the same call succeeds.
	if _, err := test.call(t.Context(), s); err != nil {
		t.Error(err)
	}
	if after := s.String(); after == before && writes {
		t.Errorf("there are still %q", after)
	}
}

// permitCall is an operation and the commands that it needs.
type permitCall struct {
	rights []string
	setup  func(s permitWorld)
	call   func(ctx context.Context, d driver.Driver) (any, error)
}

var permitCalls = map[string]permitCall{
	"acquire": {[]string{"time", "getrange", "zscore", "zrangebyscore", "incrby", "zadd", "zrem", "pttl", "pexpire"},
		func(s permitWorld) { s.set("2").taken(-time.Minute, alien).must(s.t, "PEXPIRE", job, "600000") }, permitsAcquired},
	"acquire, claimed": {[]string{"hgetall", "hdel"}, func(s permitWorld) { s.set("5").claim(2, one) }, permitsAcquired},
	"acquire, refused": {[]string{"zrangebyscore", "zcard", "hset", "pexpire"}, func(s permitWorld) { s.set("0").taken(time.Minute, alien).taken(-time.Minute, three) }, permitsAcquired},
	"acquire again":    {[]string{"zadd"}, func(s permitWorld) { s.set("1").taken(time.Minute, one, two) }, permitsAcquired},
	"release": {[]string{"time", "getrange", "zscore", "set", "incrby", "zrem"},
		func(s permitWorld) { s.set("2").taken(time.Minute, one, two, three) }, permitsReleased},
	"release a claim": {[]string{"hexists", "hdel"}, func(s permitWorld) { s.set("2").claim(2, one) }, permitsReleased},
	"try":             {[]string{"time", "get", "getrange", "zcount", "set"}, func(s permitWorld) {}, permitsSet(script.PermitTry)},
	"set":             {[]string{"zcount", "incrby"}, func(s permitWorld) { s.set("3").taken(time.Minute, one) }, permitsSet(script.PermitAll)},
	"add":             {[]string{"incrby"}, func(s permitWorld) { s.set("3") }, permitsSet(script.PermitAdd)},
	"extend": {[]string{"getrange", "zscore", "zadd"}, func(s permitWorld) { s.set("3").taken(time.Minute, one) },
		func(ctx context.Context, d driver.Driver) (any, error) {
			ok, err := script.PermitExtend(ctx, d, permits, op, one, time.Hour)
			return ok, err
		}},
	"inspect": {[]string{"getrange", "zcount", "zrangebyscore"}, func(s permitWorld) { s.set("3").taken(time.Minute, one) },
		func(ctx context.Context, d driver.Driver) (any, error) {
			_, err := script.PermitInspect(ctx, d, permits, 1)
			return false, err
		}},
	"renew": {[]string{"time", "zscore", "zadd"}, func(s permitWorld) { s.set("3").taken(time.Minute, one) },
		func(ctx context.Context, d driver.Driver) (any, error) {
			return false, script.Renew(ctx, d, [][]script.Renewal{{script.PermitRenewal(job, []string{one}, lease)}})[0].Err
		}},
	"delete": {[]string{"getrange", "zcard", "set", "del"}, func(s permitWorld) { s.set("3").taken(time.Minute, one) },
		func(ctx context.Context, d driver.Driver) (any, error) {
			ok, err := script.PermitDelete(ctx, d, permits, op)
			return ok, err
		}},
}

func permitsSet(how script.PermitChange) func(ctx context.Context, d driver.Driver) (any, error) {
	return func(ctx context.Context, d driver.Driver) (any, error) {
		ok, err := script.PermitSet(ctx, d, permits, op, how, 7)
		return ok, err
	}
}

func permitsReleased(ctx context.Context, d driver.Driver) (any, error) {
	n, _, err := script.PermitRelease(ctx, d, permits, op, []string{one, two})
	return n > 0, err
}

func permitsAcquired(ctx context.Context, d driver.Driver) (any, error) {
	ok, _, err := script.PermitAcquire(ctx, d, permits, []string{one, two}, lease, true, "")
	return ok, err
}
