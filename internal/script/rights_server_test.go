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

// Redis does not roll a script back. If one right is missing, the script must
// say so, and must not leave anything behind that it did not intend to
// keep: above all no lock without TTL.
func TestEachMissingRightHasNoEffect(t *testing.T) {
	server := redistest.Single(t)
	for name, test := range lockCalls() {
		for _, right := range test.rights {
			t.Run(name+"/"+right, func(t *testing.T) {
				w := realWorld(t, server)
				sub := w.listen(t, channel, false)
				test.setup(t, w)
				d := w.login(t, "+@all", "~*", "&*", "-"+right)
				ok, err := test.call(t.Context(), d)
				if ok || err == nil || driver.ClassOf(err) != driver.Denied {
					t.Errorf("got %v, %v, want an error of class denied", ok, err)
				}
				w.wantDump(t, job, test.after)
				if got := w.ttl(t, job); got > test.ttl || got == none {
					t.Errorf("the TTL is %v, want %v", got, test.ttl)
				}
				sub.want(t)
			})
		}
		t.Run(name+"/all", func(t *testing.T) {
			w := realWorld(t, server)
			test.setup(t, w)
			rules := []string{"~" + job, "&" + channel, "+eval", "+evalsha", "+publish", "+spublish"}
			for _, right := range test.rights {
				rules = append(rules, "+"+right)
			}
			if name == "reenter" {
				rules = append(rules, "+hset")
			}
			if _, err := test.call(t.Context(), w.login(t, rules...)); err != nil {
				t.Errorf("with the rights %v: %v", rules, err)
			}
		})
	}
}

// lockCall is an operation and what the key holds if a right is missing.
type lockCall struct {
	rights []string // the commands that the script runs
	setup  setup
	after  string
	ttl    time.Duration
	call   func(ctx context.Context, d driver.Driver) (bool, error)
}

func lockCalls() map[string]lockCall {
	mine := "hash " + me + "=2"
	held := held(time.Minute, me, "2")
	return map[string]lockCall{
		"acquire": {[]string{"hlen", "hset", "pexpire"}, nothing, "nothing", absent,
			func(ctx context.Context, d driver.Driver) (bool, error) {
				ok, _, err := acquire(ctx, d, job, me, lease)
				return ok, err
			}},
		"acquire once more": {[]string{"hlen", "pttl", "hgetall", "pexpire"}, held, mine, time.Minute,
			func(ctx context.Context, d driver.Driver) (bool, error) {
				ok, _, err := acquire(ctx, d, job, me, lease)
				return ok, err
			}},
		"reenter": {[]string{"hget", "pttl", "pexpire"}, held, mine, time.Minute,
			func(ctx context.Context, d driver.Driver) (bool, error) {
				return reenter(ctx, d, script.LockReentry(job, me, 3, lease))
			}},
		"leave": {[]string{"hexists", "hdel", "hset"}, held, mine, time.Minute,
			func(ctx context.Context, d driver.Driver) (bool, error) {
				return script.LockLeave(ctx, d, job, me, 1)
			}},
		"release": {[]string{"hdel"}, held, mine, time.Minute,
			func(ctx context.Context, d driver.Driver) (bool, error) {
				return released(script.LockRelease(ctx, d, job, me, script.Both, script.Turns{}))
			}},
		"inspect": {[]string{"type", "pttl", "hlen", "hgetall"}, held, mine, time.Minute,
			func(ctx context.Context, d driver.Driver) (bool, error) {
				return false, script.Inspect(ctx, d, job)[0].Err
			}},
	}
}

// A lease that Redis cannot represent in milliseconds must leave nothing behind.
func TestAcquireForAnImpossibleLease(t *testing.T) {
	server := redistest.Single(t)
	acquired := driver.NewScript("", "") // replaced by what LockAcquire runs
	w := realWorld(t, server)
	seen := spy{w, func(c driver.Call) { acquired = c.Script }}
	if _, _, err := acquire(t.Context(), seen, job, me, lease); err != nil {
		t.Fatal(err)
	}
	w.must(t, "DEL", job)
	_, err := w.Eval(t.Context(), driver.Call{Script: acquired, Keys: []string{job}, Args: []string{me, "9223372036854775807"}})
	if err == nil || driver.ClassOf(err) != driver.Other {
		t.Errorf("got %v, want an error of class other", err)
	}
	w.wantDump(t, job, "nothing")
}

// spy is a driver that records the calls that go through it.
type spy struct {
	driver.Driver
	look func(driver.Call)
}

func (s spy) Eval(ctx context.Context, call driver.Call) (driver.Value, error) {
	s.look(call)
	return s.Driver.Eval(ctx, call)
}

func (s spy) Batch(ctx context.Context, calls []driver.Call) []driver.Result {
	for _, c := range calls {
		s.look(c)
	}
	return s.Driver.Batch(ctx, calls)
}
