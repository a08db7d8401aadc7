//go:build server

package script_test

import (
	"context"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// If one right is missing, the script says so, and what it leaves behind is
// harmless: no key without TTL, no owner in the lock that was told it does not hold it,
// and no owner out of it that was told it does.
func TestRWWithoutRights(t *testing.T) {
	server := redistest.Single(t)
	reads, writes := reading(minute, by(me, "2", minute, minute)), writing(minute, by(meW, "2"))
	stays := func(l rw) func(*testing.T, *world) { return func(t *testing.T, w *world) { l.found(t, w) } }
	// A hold's key that the script has created already ends by itself.
	for name, test := range map[string]struct {
		rights []string // the commands that the script runs
		setup  rw
		after  func(t *testing.T, w *world)
		call   func(ctx context.Context, d driver.Driver) answer
	}{
		"read acquire": {[]string{"hexists", "hget", "exists", "pttl", "set"}, unlocked, stays(unlocked), readAcquire("")},
		"read acquire, the lock": {[]string{"hset"}, unlocked, func(t *testing.T, w *world) {
			w.wantDump(t, job, "nothing")
			w.wantTTL(t, rwHold(me, 1), lease)
		}, readAcquire("")},
		"read acquire, its TTL":    {[]string{"pexpire"}, unlocked, stays(unlocked), readAcquire("")},
		"read acquire, refused":    {[]string{"hexists", "hget", "hgetall", "pttl"}, writing(lease, by(javaW, "1")), stays(writing(lease, by(javaW, "1"))), readAcquire("")},
		"read reenter":             {[]string{"hget", "exists", "pttl", "set"}, reads, stays(reads), readReenter},
		"read leave":               {[]string{"hexists", "del"}, reads, stays(reads), readLeave},
		"read release":             {[]string{"hexists", "hgetall", "hget", "del"}, reads, stays(reads), readRelease},
		"write acquire":            {[]string{"hget", "exists", "hset", "pexpire"}, unlocked, stays(unlocked), writeAcquire},
		"write acquire, once more": {[]string{"hget", "hexists", "pttl", "pexpire"}, writes, stays(writes), writeAcquire},
		"write acquire, dead readers": {[]string{"hgetall", "del"}, reading(minute, by(mine2, "1")),
			stays(reading(minute, by(mine2, "1"))), writeAcquire},
		"write release": {[]string{"hexists", "hgetall", "del"}, writes, stays(writes), writeRelease},
	} {
		for _, right := range test.rights {
			t.Run(name+"/"+right, func(t *testing.T) {
				w := realWorld(t, server)
				sub := w.listen(t, rwChannel, false)
				test.setup.put(t, w)
				got := test.call(t.Context(), w.login(t, "+@all", "~*", "&*", "-"+right))
				if got != refused("denied") {
					t.Errorf("got %+v, want an error of class denied", got)
				}
				test.after(t, w)
				sub.want(t)
			})
		}
	}
}

// A releaser whose release fails half-way, because a right is missing, has stopped
// anyway; the same call, with the right, completes the release.
func TestRWReleaseHalfWay(t *testing.T) {
	server := redistest.Single(t)
	for name, test := range map[string]struct {
		right        string
		setup, after rw
		messages     []string
		call         func(ctx context.Context, d driver.Driver) answer
	}{
		"reader among others": {"-hdel", reading(long, by(me, "1", long), by(java, "1", minute)), reading(minute, by(java, "1", minute)), nil, readRelease},
		"reader, no TTL":      {"-pexpire", reading(long, by(me, "1", long), by(java, "1", minute)), reading(minute, by(java, "1", minute)), nil, readRelease},
		"downgrade, no mode":  {"-hset", writing(long, by(meW, "1"), by(me, "1", minute)), reading(minute, by(me, "1", minute)), []string{"1", "00", "00", "00"}, writeRelease},
		"downgrade, no TTL":   {"-pexpire", writing(long, by(meW, "1"), by(me, "1", minute)), reading(minute, by(me, "1", minute)), []string{"1", "00", "00", "00"}, writeRelease},
		"downgrade, no field": {"-hdel", writing(long, by(meW, "1"), by(me, "1", minute)), reading(minute, by(me, "1", minute)), []string{"1", "00", "00", "00"}, writeRelease},
		"kept, no name":       {"-hset", writing(long, by(meW, "1"), by(me, "1")), writing(lease, by(keptW, "1")), nil, writeKeep},
		"kept, no TTL":        {"-pexpire", writing(long, by(meW, "1"), by(me, "1")), writing(lease, by(keptW, "1")), nil, writeKeep},
		"kept, no field":      {"-hdel", writing(long, by(meW, "1"), by(me, "1")), writing(lease, by(keptW, "1")), nil, writeKeep},
	} {
		t.Run(name, func(t *testing.T) {
			w := realWorld(t, server)
			sub := w.listen(t, rwChannel, false)
			test.setup.put(t, w)
			if got := test.call(t.Context(), w.login(t, "+@all", "~*", "&*", test.right)); got != refused("denied") {
				t.Errorf("got %+v, want an error of class denied", got)
			}
			if ttl := w.ttl(t, job); ttl < 0 {
				t.Errorf("the TTL is %v, want 0 at least", ttl)
			}
			sub.want(t)
			w.wantAnswer(t, test.call(t.Context(), w), yes)
			test.after.found(t, w)
			sub.want(t, test.messages...)
		})
	}
}

func TestRWReadRenewWithoutRights(t *testing.T) {
	server := redistest.Single(t)
	for _, rule := range []string{"-hexists", "-pttl", "-pexpire", "resetkeys"} {
		t.Run(rule, func(t *testing.T) {
			w := realWorld(t, server)
			reading(minute, by(me, "1", minute)).put(t, w)
			d := w.login(t, "+@all", "~*", "&*", rule)
			r := script.Renew(t.Context(), d, [][]script.Renewal{{script.RWReadRenewal(job, me, lease)}})[0]
			if r.Err == nil || driver.ClassOf(r.Err) != driver.Denied {
				t.Errorf("got %v, %v, want class denied", r.States, r.Err)
			}
			reading(minute, by(me, "1", minute)).found(t, w)
		})
	}
}

// A message that Redis refuses does not hide that the lock was released.
func TestRWReleaseThatIsNotHeard(t *testing.T) {
	server := redistest.Single(t)
	w := realWorld(t, server)
	d := w.login(t, "+@all", "~*", "resetchannels")
	for name, test := range map[string]struct {
		before, after rw
		release       func() (bool, error)
	}{
		"read": {reading(lease, by(me, "1", lease)), unlocked, func() (bool, error) {
			return released(script.RWReadRelease(t.Context(), d, job, me, rwChannel, script.Both))
		}},
		"downgrade": {writing(lease, by(meW, "1"), by(me, "1", lease)), reading(lease, by(me, "1", lease)), func() (bool, error) {
			return released(script.RWWriteKeep(t.Context(), d, job, meW, keptW, lease, rwChannel, script.Both))
		}},
		"write": {writing(lease, by(meW, "1")), unlocked, func() (bool, error) {
			return released(script.RWWriteRelease(t.Context(), d, job, meW, rwChannel, script.Both))
		}},
	} {
		w.must(t, "FLUSHALL")
		test.before.put(t, w)
		if ok, err := test.release(); !ok || err == nil || driver.ClassOf(err) != driver.Denied {
			t.Errorf("%s: %v, %v, want true and an error of class denied", name, ok, err)
		}
		test.after.found(t, w)
	}
}
