package script_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/script"
)

// now is the server's time in ms.
func (w *world) now(t *testing.T) int64 {
	t.Helper()
	v := w.must(t, "TIME")
	s, err := strconv.ParseInt(v.At(0).Str(), 10, 64)
	us, uerr := strconv.ParseInt(v.At(1).Str(), 10, 64)
	if err != nil || uerr != nil {
		t.Fatalf("TIME is %v", v)
	}
	return s*1000 + us/1000
}

// has is an owner's entry for one field of a group: its end, in minutes from now, and
// its count.
type has struct {
	field, owner string
	minutes      int
	count        string
}

// group puts a group there as Redisson or mortise would.
func group(ttl time.Duration, entries ...has) setup {
	return func(t *testing.T, w *world) {
		t.Helper()
		now := w.now(t)
		for _, e := range entries {
			w.must(t, "HSET", job, e.field, e.owner, e.field+":"+e.owner+":lock_count", e.count,
				e.field+":"+e.owner+":expire_time", fmt.Sprint(now+int64(e.minutes)*60_000))
		}
		if ttl >= 0 {
			w.must(t, "PEXPIRE", job, fmt.Sprint(ttl.Milliseconds()))
		}
	}
}

// with combines several givens.
func with(all ...setup) setup {
	return func(t *testing.T, w *world) {
		for _, g := range all {
			g(t, w)
		}
	}
}

// set overwrites a field.
func set(field, value string) setup {
	return func(t *testing.T, w *world) { w.must(t, "HSET", job, field, value) }
}

// gone removes a field.
func gone(field string) setup {
	return func(t *testing.T, w *world) { w.must(t, "HDEL", job, field) }
}

// groupDump shows the content of the key, with times in minutes from now.
func (w *world) groupDump(t *testing.T) string {
	t.Helper()
	if w.must(t, "TYPE", job).Str() != "hash" {
		return w.dump(t, job)
	}
	now, v, entries := w.now(t), w.must(t, "HGETALL", job), map[string]string{}
	for i := 0; i < v.Len(); i += 2 {
		field, value := v.At(i).Str(), v.At(i+1).Str()
		if strings.HasSuffix(field, ":expire_time") {
			if at, err := strconv.ParseInt(value, 10, 64); err == nil {
				if minutes := math.Round(float64(at-now)/60_000) + 0; minutes < 1e6 {
					value = fmt.Sprintf("%+.0fm", minutes)
				}
			}
		}
		field = strings.NewReplacer(me, "ME", java, "JAVA", ":expire_time", ":e", ":lock_count", ":n").Replace(field)
		entries[field] = strings.NewReplacer(me, "ME", java, "JAVA").Replace(value)
	}
	var b strings.Builder
	for _, f := range slices.Sorted(maps.Keys(entries)) {
		fmt.Fprintf(&b, " %s=%s", f, entries[f])
	}
	return "hash" + b.String()
}

// groupTable is table for groups. Want is also the reply to repeats, unless
// they have their own.
func groupTable(t *testing.T, call func(ctx context.Context, d driver.Driver) answer, rows []row) {
	t.Helper()
	server := single(t)
	for _, r := range rows {
		repeat := r.want
		if r.repeat != nil {
			repeat = *r.repeat
		}
		t.Run(r.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				sub := w.listen(t, channel, false)
				check := func(messages ...string) {
					t.Helper()
					if got := w.groupDump(t); got != r.after {
						t.Errorf("under the key lies\n%s, want\n%s", got, r.after)
					}
					w.wantTTL(t, job, r.ttl)
					sub.want(t, messages...)
				}
				r.setup(t, w)
				w.wantAnswer(t, call(t.Context(), w), r.want)
				check(r.messages...)
				w.wantAnswer(t, call(t.Context(), w), repeat)
				check()

				w.must(t, "DEL", job)
				r.setup(t, w)
				if got := call(t.Context(), lossy{w}); got.err != "unknown" {
					t.Errorf("with a lost reply the answer is %+v, want the class unknown", got)
				}
				w.wantAnswer(t, call(t.Context(), w), repeat)
				check(r.messages...)
			})
		})
	}
}

var ab = script.Group{Name: job, Fields: []string{"a", "b"}}

// linger is how long the key of a group outlasts its longest lease.
const linger = 100 * time.Millisecond

// lease is two minutes.
const mineAB = "hash a=ME a:ME:e=+2m a:ME:n=1 b=ME b:ME:e=+2m b:ME:n=1"

// Keys that no script of a group may touch.
func foreignGroup(want answer) []row {
	return []row{
		{name: "read lock", setup: held(lease, "mode", "read", java, "1"), want: want, after: "hash JAVA=1 mode=read", ttl: lease},
		{name: "plain lock", setup: held(lease, java, "1"), want: want, after: "hash JAVA=1", ttl: lease},
		{name: "string", setup: text, want: refused("wrong type"), after: "string 5", ttl: 10 * time.Minute},
		{name: "list", setup: list, want: refused("wrong type"), after: `list ["a"]`, ttl: none},
	}
}

func TestGroupAcquire(t *testing.T) {
	groupTable(t, func(ctx context.Context, d driver.Driver) answer {
		return answered(script.GroupAcquire(ctx, d, ab, me, lease))
	}, append(foreignGroup(refused("kind")), []row{
		{name: "free", setup: nothing, want: yes, after: mineAB, ttl: lease + linger},
		{name: "beside others", setup: group(10*time.Minute, has{"c", java, 10, "1"}), want: yes,
			after: mineAB + " c=JAVA c:JAVA:e=+10m c:JAVA:n=1", ttl: 10 * time.Minute},
		{name: "beside others with less time", setup: group(time.Minute, has{"c", java, 1, "1"}), want: yes,
			after: mineAB + " c=JAVA c:JAVA:e=+1m c:JAVA:n=1", ttl: lease + linger},
		{name: "mine", setup: group(time.Minute, has{"a", me, 1, "1"}, has{"b", me, 1, "1"}), want: yes, after: mineAB, ttl: lease + linger},
		{name: "mine, re-entered since", setup: group(10*time.Minute, has{"a", me, 10, "3"}, has{"b", me, 1, "3"}), want: yes,
			after: "hash a=ME a:ME:e=+10m a:ME:n=3 b=ME b:ME:e=+2m b:ME:n=3", ttl: 10 * time.Minute},
		{name: "one of them is Java's", setup: group(lease, has{"b", java, 2, "17"}), want: heldBy(java, 17, lease),
			after: "hash b=JAVA b:JAVA:e=+2m b:JAVA:n=17", ttl: lease + linger},
		{name: "Java's, of a clock that is ahead", setup: group(lease, has{"b", java, 10, "1"}), want: heldBy(java, 1, 10*time.Minute),
			after: "hash b=JAVA b:JAVA:e=+10m b:JAVA:n=1", ttl: lease},
		{name: "both, one for longer", setup: group(10*time.Minute, has{"a", mine2, 10, "1"}, has{"b", java, 2, "1"}), want: heldBy(mine2, 1, 10*time.Minute),
			after: "hash a=" + mine2 + " a:" + mine2 + ":e=+10m a:" + mine2 + ":n=1 b=JAVA b:JAVA:e=+2m b:JAVA:n=1", ttl: 10*time.Minute + linger},
		{name: "Java's time is over", setup: group(10*time.Minute, has{"a", java, 0, "4"}, has{"c", java, 0, "4"}), want: yes,
			after: mineAB + " c=JAVA c:JAVA:e=+0m c:JAVA:n=4", ttl: 10 * time.Minute},
		{name: "beside the dead", setup: group(10*time.Minute, has{"c", java, -2, "4"}, has{"d", java, 0, "4"}, has{"f", java, 10, "4"}), want: yes,
			after: mineAB + " d=JAVA d:JAVA:e=+0m d:JAVA:n=4 f=JAVA f:JAVA:e=+10m f:JAVA:n=4", ttl: 10 * time.Minute},
		{name: "beside what the dead left when others came", setup: with(group(10*time.Minute, has{"c", mine2, 0, "1"}, has{"d", mine2, 0, "1"}, has{"e", mine2, 5, "1"}),
			group(10*time.Minute, has{"c", java, 5, "1"}, has{"e", java, 5, "1"}), gone("d")), want: yes,
			after: mineAB + " c=JAVA c:JAVA:e=+5m c:JAVA:n=1 e=JAVA e:" + mine2 + ":e=+5m e:" + mine2 + ":n=1 e:JAVA:e=+5m e:JAVA:n=1", ttl: 10 * time.Minute},
		{name: "Java's, its time unreadable", setup: with(group(10*time.Minute, has{"a", java, 5, "4"}), set("a:"+java+":expire_time", "x")), want: yes,
			after: mineAB, ttl: 10 * time.Minute},
		{name: "Java's, its count unreadable", setup: with(group(10*time.Minute, has{"a", java, 2, "x"})), want: heldBy(java, -1, lease),
			after: "hash a=JAVA a:JAVA:e=+2m a:JAVA:n=x", ttl: 10 * time.Minute},
		{name: "without TTL", setup: group(none, has{"c", java, 10, "1"}), want: yes,
			after: mineAB + " c=JAVA c:JAVA:e=+10m c:JAVA:n=1", ttl: 10*time.Minute + linger},
		{name: "without TTL, and little in it", setup: group(none, has{"c", java, 1, "1"}), want: yes,
			after: mineAB + " c=JAVA c:JAVA:e=+1m c:JAVA:n=1", ttl: lease + linger},
	}...))
}

// A time beyond what Go can represent in nanoseconds.
func TestGroupAcquireAgainstAnAbsurdTime(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		group(lease, has{"a", java, 5, "4"})(t, w)
		w.must(t, "HSET", job, "a:"+java+":expire_time", "99999999999999999")
		ok, by, err := script.GroupAcquire(t.Context(), w, ab, me, lease)
		if ok || err != nil || by.Owner != java || by.Count != 4 || by.TTL < 200*365*24*time.Hour {
			t.Errorf("got %v, %+v, %v, want Java as the holder for centuries", ok, by, err)
		}
	})
}

func TestGroupReenter(t *testing.T) {
	groupTable(t, func(ctx context.Context, d driver.Driver) answer {
		ok, err := reenter(ctx, d, script.GroupReentry(ab, me, 2, lease))
		return answered(ok, script.Holder{}, err)
	}, append(foreignGroup(no), []row{
		{name: "mine", setup: group(time.Minute, has{"a", me, 1, "1"}, has{"b", me, 1, "1"}), want: yes,
			after: "hash a=ME a:ME:e=+2m a:ME:n=2 b=ME b:ME:e=+2m b:ME:n=2", ttl: lease + linger},
		{name: "mine, for longer, counted too high", setup: group(10*time.Minute, has{"a", me, 10, "9"}, has{"b", me, 1, "1"}), want: yes,
			after: "hash a=ME a:ME:e=+10m a:ME:n=2 b=ME b:ME:e=+2m b:ME:n=2", ttl: 10 * time.Minute},
		{name: "mine, without TTL", setup: group(none, has{"a", me, 1, "1"}, has{"b", me, 1, "1"}), want: yes,
			after: "hash a=ME a:ME:e=+2m a:ME:n=2 b=ME b:ME:e=+2m b:ME:n=2", ttl: lease + linger},
		{name: "one of them was taken", setup: group(lease, has{"a", me, 1, "1"}, has{"b", java, 1, "1"}), want: no,
			after: "hash a=ME a:ME:e=+1m a:ME:n=1 b=JAVA b:JAVA:e=+1m b:JAVA:n=1", ttl: lease},
		{name: "one of them is gone", setup: group(lease, has{"b", me, 1, "1"}), want: no,
			after: "hash b=ME b:ME:e=+1m b:ME:n=1", ttl: lease},
		{name: "free", setup: nothing, want: no, after: "nothing", ttl: absent},
	}...))
}

func TestGroupLeave(t *testing.T) {
	groupTable(t, func(ctx context.Context, d driver.Driver) answer {
		ok, err := script.GroupLeave(ctx, d, ab, me, 1)
		return answered(ok, script.Holder{}, err)
	}, append(foreignGroup(no), []row{
		{name: "mine", setup: group(lease, has{"a", me, 2, "2"}, has{"b", me, 2, "9"}), want: yes, after: mineAB, ttl: lease},
		{name: "one of them was taken", setup: group(lease, has{"a", me, 1, "2"}, has{"b", java, 1, "1"}), want: no,
			after: "hash a=ME a:ME:e=+1m a:ME:n=2 b=JAVA b:JAVA:e=+1m b:JAVA:n=1", ttl: lease},
		{name: "free", setup: nothing, want: no, after: "nothing", ttl: absent},
	}...))
}

func TestGroupRelease(t *testing.T) {
	zero := []string{"0"}
	groupTable(t, func(ctx context.Context, d driver.Driver) answer {
		ok, err := released(script.GroupRelease(ctx, d, ab, me, channel, script.Classic))
		return answered(ok, script.Holder{}, err)
	}, append(foreignGroup(no), []row{
		{name: "mine", setup: group(lease, has{"a", me, 2, "7"}, has{"b", me, 2, "1"}), want: yes, after: "nothing", ttl: absent, messages: zero, repeat: &no},
		{name: "mine, beside others", setup: group(10*time.Minute, has{"a", me, 2, "1"}, has{"b", me, 2, "1"}, has{"c", java, 10, "1"}), want: yes,
			after: "hash c=JAVA c:JAVA:e=+10m c:JAVA:n=1", ttl: 10 * time.Minute, messages: zero, repeat: &no},
		{name: "mine, the time is over, but nobody came", setup: group(lease, has{"a", me, -1, "1"}, has{"b", me, -1, "1"}), want: yes,
			after: "nothing", ttl: absent, messages: zero, repeat: &no},
		{name: "one of them was taken", setup: with(group(lease, has{"a", me, 1, "1"}, has{"b", me, -1, "1"}), group(lease, has{"b", java, 1, "1"})), want: no,
			after: "hash b=JAVA b:JAVA:e=+1m b:JAVA:n=1", ttl: lease, messages: zero},
		{name: "one of them is gone", setup: group(lease, has{"b", me, 1, "1"}), want: no, after: "nothing", ttl: absent, messages: zero},
		{name: "one of them is gone, but for its entries", setup: with(group(lease, has{"a", me, 1, "1"}, has{"b", me, 1, "1"}), gone("a")), want: no,
			after: "nothing", ttl: absent, messages: zero},
		{name: "another's", setup: group(lease, has{"a", java, 1, "1"}, has{"b", mine2, 1, "1"}), want: no,
			after: "hash a=JAVA a:JAVA:e=+1m a:JAVA:n=1 b=" + mine2 + " b:" + mine2 + ":e=+1m b:" + mine2 + ":n=1", ttl: lease},
		{name: "free", setup: nothing, want: no, after: "nothing", ttl: absent},
	}...))
}

func TestGroupRenewIsOneByOne(t *testing.T) {
	server := single(t)
	for _, r := range []struct {
		name  string
		setup setup
		state int
		after string
		ttl   time.Duration
	}{
		{"mine", group(time.Minute, has{"a", me, 1, "1"}, has{"b", me, 1, "1"}), script.Renewed, mineAB, lease + linger},
		{"mine, for longer", group(10*time.Minute, has{"a", me, 10, "1"}, has{"b", me, 1, "1"}), script.Renewed,
			"hash a=ME a:ME:e=+10m a:ME:n=1 b=ME b:ME:e=+2m b:ME:n=1", 10 * time.Minute},
		{"mine, the time is over, but nobody came", group(time.Minute, has{"a", me, -1, "1"}, has{"b", me, -1, "1"}), script.Renewed, mineAB, lease + linger},
		{"one of them was taken", group(lease, has{"a", me, 1, "1"}, has{"b", java, 1, "1"}), script.Taken,
			"hash a=ME a:ME:e=+1m a:ME:n=1 b=JAVA b:JAVA:e=+1m b:JAVA:n=1", lease},
		{"one is gone, one taken", group(lease, has{"a", java, 1, "1"}), script.Taken, "hash a=JAVA a:JAVA:e=+1m a:JAVA:n=1", lease},
		{"one of them is gone", group(lease, has{"b", me, 1, "1"}), script.Gone, "hash b=ME b:ME:e=+1m b:ME:n=1", lease},
		{"free", nothing, script.Gone, "nothing", absent},
		{"plain lock", held(lease, java, "1"), script.Gone, "hash JAVA=1", lease},
		{"string", text, script.Taken, "string 5", 10 * time.Minute},
	} {
		t.Run(r.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				r.setup(t, w)
				// A neighbour in the same batch, before and after.
				w.must(t, "HSET", "other", "x", me, "x:"+me+":expire_time", "1", "x:"+me+":lock_count", "1")
				other := script.GroupRenewal(script.Group{Name: "other", Fields: []string{"x"}}, me, lease)
				renewals := []script.Renewal{other, script.GroupRenewal(ab, me, lease), other}
				for range 2 {
					got := script.Renew(t.Context(), w, [][]script.Renewal{renewals})[0]
					if want := []int{script.Renewed, r.state, script.Renewed}; !slices.Equal(got.States, want) {
						t.Fatalf("the states are %v, %v, want %v", got.States, got.Err, want)
					}
					if got := w.groupDump(t); got != r.after {
						t.Errorf("under the key lies\n%s, want\n%s", got, r.after)
					}
					w.wantTTL(t, job, r.ttl)
				}
			})
		})
	}
}

func TestGroupInspect(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		inspect := func() ([]script.Holder, error) {
			return script.GroupInspect(t.Context(), w, script.Group{Name: job, Fields: []string{"a", "b", "c"}})
		}
		if got, err := inspect(); got != nil || err != nil {
			t.Errorf("inspection of nothing: %v, %v, want nil", got, err)
		}
		group(lease, has{"a", java, 10, "4"}, has{"c", me, -1, "1"})(t, w)
		got, err := inspect()
		if err != nil || len(got) != 3 {
			t.Fatalf("got %v, %v, want three holders", got, err)
		}
		for i, want := range []script.Holder{{Owner: java, Count: 4, TTL: 10 * time.Minute}, {}, {}} {
			if got[i].Owner != want.Owner || got[i].Count != want.Count || !w.near(got[i].TTL, want.TTL) && got[i].TTL != want.TTL {
				t.Errorf("field %d: %+v, want %+v", i, got[i], want)
			}
		}
		w.must(t, "DEL", job)
		w.hold(t, job, lease, java, "1")
		if _, err := inspect(); driver.ClassOf(err) != driver.WrongType {
			t.Errorf("inspection of a plain lock: %v, want the class wrong type", err)
		}
	})
}

// The highest number of values that the library allows.
func TestGroupOfManyFields(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		g := script.Group{Name: job}
		for i := range 1000 {
			g.Fields = append(g.Fields, fmt.Sprintf("%022d", i))
		}
		wantYes := func(what string, ok bool, err error) {
			t.Helper()
			if !ok || err != nil {
				t.Fatalf("%s: %v, %v, want true", what, ok, err)
			}
		}
		ok, _, err := script.GroupAcquire(t.Context(), w, g, me, lease)
		wantYes("acquire", ok, err)
		ok, err = reenter(t.Context(), w, script.GroupReentry(g, me, 2, lease))
		wantYes("reenter", ok, err)
		ok, err = script.GroupLeave(t.Context(), w, g, me, 1)
		wantYes("leave", ok, err)
		r := script.Renew(t.Context(), w, [][]script.Renewal{{script.GroupRenewal(g, me, lease)}})[0]
		wantYes("renew", slices.Equal(r.States, []int{script.Renewed}), r.Err)
		holders, err := script.GroupInspect(t.Context(), w, g)
		wantYes("inspect", len(holders) == 1000 && holders[999].Owner == me, err)
		ok, err = released(script.GroupRelease(t.Context(), w, g, me, channel, script.Classic))
		wantYes("release", ok, err)
		w.wantDump(t, job, "nothing")
	})
}

// redissonGroupAcquire does to a field what Redisson's acquisition does: it
// sets no TTL on a key whose TTL is 0 ms, but not over.
const redissonGroupAcquire = `
local t = redis.call('time')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local exists = redis.call('exists', KEYS[1]) == 1
local by = redis.call('hget', KEYS[1], ARGV[1])
if by and by ~= ARGV[2] and tonumber(redis.call('hget', KEYS[1], ARGV[1] .. ':' .. by .. ':expire_time')) > now then return 0 end
redis.call('hset', KEYS[1], ARGV[1], ARGV[2], ARGV[1] .. ':' .. ARGV[2] .. ':expire_time', string.format('%.0f', now + ARGV[3]))
redis.call('hincrby', KEYS[1], ARGV[1] .. ':' .. ARGV[2] .. ':lock_count', 1)
local left = redis.call('pttl', KEYS[1])
if not exists or left > 0 and left < tonumber(ARGV[3]) then redis.call('pexpire', KEYS[1], ARGV[3]) end
return 1`

// At the instant at which a dead holder's lease ends, Redisson takes the fields.
// The key must not end while it holds them: the next one would acquire them as well.
func TestGroupOfADeadHolderPassesOn(t *testing.T) {
	parallel(t)
	for name, holder := range deadHolders(150 * time.Millisecond) {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, w *world) {
				time.Sleep(700 * time.Microsecond) // the time in the millisecond before a lease's end
				holder.passesOn(t, w, 500*time.Microsecond)
			})
		})
	}
}

// passesOn looks every so often whether the lease has ended.
func (d deadHolder) passesOn(t *testing.T, w *world, every time.Duration) {
	d.hold(t, w)
	ends, err := strconv.ParseInt(w.must(t, "HGET", job, "a:"+d.owner+":expire_time").Str(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for w.now(t) < ends {
		time.Sleep(every)
	}
	if w.must(t, "EVAL", redissonGroupAcquire, "1", job, "a", java, "60000").Int() != 1 {
		t.Fatal("Redisson does not get it at the end of the lease")
	}
	time.Sleep(3 * time.Millisecond) // the key would have ended
	if ok, by, err := script.GroupAcquire(t.Context(), w, onlyA, me, lease); ok || err != nil || by.Owner != java {
		t.Errorf("got %v, %+v, %v, want Redisson's thread as the holder", ok, by, err)
	}
}

var onlyA = script.Group{Name: job, Fields: []string{"a"}}

// deadHolder is a holder of a group that does nothing more.
type deadHolder struct {
	owner string
	hold  func(t *testing.T, w *world) // the last action of the holder
}

// deadHolders are those of a lease that is short, but longer than what each of them does.
func deadHolders(short time.Duration) map[string]deadHolder {
	return map[string]deadHolder{
		"mortise": {mine2, func(t *testing.T, w *world) {
			if ok, _, err := script.GroupAcquire(t.Context(), w, onlyA, mine2, short); !ok || err != nil {
				t.Fatalf("got %v, %v, want true", ok, err)
			}
		}},
		"mortise, renewed": {mine2, func(t *testing.T, w *world) {
			if ok, _, err := script.GroupAcquire(t.Context(), w, onlyA, mine2, short/2); !ok || err != nil {
				t.Fatalf("got %v, %v, want true", ok, err)
			}
			if r := script.Renew(t.Context(), w, [][]script.Renewal{{script.GroupRenewal(onlyA, mine2, short)}})[0]; r.Err != nil || r.States[0] != script.Renewed {
				t.Fatal(r)
			}
		}},
		"mortise, re-entered": {mine2, func(t *testing.T, w *world) {
			if ok, _, err := script.GroupAcquire(t.Context(), w, onlyA, mine2, short/2); !ok || err != nil {
				t.Fatalf("got %v, %v, want true", ok, err)
			}
			if ok, err := reenter(t.Context(), w, script.GroupReentry(onlyA, mine2, 2, short)); !ok || err != nil {
				t.Fatalf("got %v, %v, want true", ok, err)
			}
		}},
		"Redisson, mortise waits": {javaN, func(t *testing.T, w *world) {
			if w.must(t, "EVAL", redissonGroupAcquire, "1", job, "a", javaN, fmt.Sprint(short.Milliseconds())).Int() != 1 {
				t.Fatal("Redisson does not get what nobody has")
			}
			if ok, by, err := script.GroupAcquire(t.Context(), w, onlyA, me, lease); ok || err != nil || by.Owner != javaN {
				t.Fatal(ok, by, err)
			}
		}},
	}
}
