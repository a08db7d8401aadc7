package script_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

func acquireCall(claim bool, ids ...string) func(s permitWorld, ctx context.Context, d driver.Driver) string {
	return func(s permitWorld, ctx context.Context, d driver.Driver) string {
		ok, why, err := script.PermitAcquire(ctx, d, permits, ids, lease, claim, "")
		if ok {
			why = script.PermitRefusal{} // a repeat tells of no spare permits
		}
		return permitAnswer(s, ok, why, err)
	}
}

func TestPermitAcquireOne(t *testing.T) {
	permitTable(t, acquireCall(true, one), append(foreignPermits(), []permitRow{
		{name: "nothing there", setup: func(s permitWorld) {}, want: "0 available, unset, next in -1ns", after: "nothing"},
		{name: "the last", setup: func(s permitWorld) { s.set("1") }, want: "true", after: "0 1:2m0s"},
		{name: "among others", setup: func(s permitWorld) { s.set("5").taken(time.Minute, alien).forever(three) }, want: "true",
			after: "4 1:2m0s 3:forever " + alien + ":1m0s"},
		{name: "none left", setup: func(s permitWorld) { s.set("0").taken(3*time.Minute, alien) }, want: "0 available, next in 3m0s", after: "0 " + alien + ":3m0s claims: 1st of 1 for 1"},
		{name: "none left, without limit", setup: func(s permitWorld) { s.set("0").forever(alien) }, want: "0 available, next in -1ns", after: "0 " + alien + ":forever claims: 1st of 1 for 1"},
		{name: "fewer than none", setup: func(s permitWorld) { s.set("-3").taken(time.Minute, alien) }, want: "-3 available, next in 1m0s", after: "-3 " + alien + ":1m0s"},
		// An earlier copy has run.
		{name: "mine", setup: func(s permitWorld) { s.set("4").taken(time.Minute, one) }, want: "true", after: "4 1:2m0s"},
		{name: "mine, for longer", setup: func(s permitWorld) { s.set("4").taken(5*time.Minute, one) }, want: "true", after: "4 1:5m0s"},
		{name: "mine, forever", setup: func(s permitWorld) { s.set("4").forever(one) }, want: "true", after: "4 1:forever"},
		{name: "mine, over", setup: func(s permitWorld) { s.set("0").taken(-time.Minute, one) }, want: "true", after: "0 1:2m0s"},
		{name: "mine, over, and none", setup: func(s permitWorld) { s.set("-1").taken(-time.Minute, one) }, want: "0 available, next in -1ns", after: "0"},
		// Expired permits come back.
		{name: "over", setup: func(s permitWorld) { s.set("0").taken(0, alien) }, want: "true", after: "0 1:2m0s"},
		{name: "several over", setup: func(s permitWorld) { s.set("0").taken(-time.Minute, two, three, alien) }, want: "true", after: "2 1:2m0s", messages: []string{"2"}},
		{name: "over, and still none", setup: func(s permitWorld) { s.set("-1").taken(-time.Minute, alien).taken(time.Minute, two) },
			want: "0 available, next in 1m0s", after: "0 2:1m0s claims: 1st of 1 for 1"},
		// Redisson's up to 3.16: the digits themselves.
		{name: "old permits", setup: func(s permitWorld) { s.set("1").put(fmt.Sprint(s.now()+60000), alien) }, want: "true",
			after: `0 "` + alien + `":1m0s 1:2m0s`},
		{name: "old permits over", setup: func(s permitWorld) { s.set("0").put(fmt.Sprint(s.now()-1), alien) }, want: "true", after: "0 1:2m0s"},
		{name: "negative end", setup: func(s permitWorld) { s.set("0").put("-5", "x") }, want: "0 available, next in -1ns", after: `0 "x":past claims: 1st of 1 for 1`},
		{name: "another's claim", setup: func(s permitWorld) { s.set("3").claim(3, alien) }, want: "3 available less 3, next in -1ns",
			after: "3 claims: 1st of " + alien + " for 3 2st of 1 for 1"},
		{name: "claims before and behind mine", setup: func(s permitWorld) { s.set("3").claim(2, alien).claim(1, one).claim(9, two) }, want: "true",
			after: "2 1:2m0s claims: 1st of " + alien + " for 2 3st of 2 for 9"},
		{name: "a claim that is over", setup: func(s permitWorld) {
			s.set("1").claim(1, alien).must(s.t, "HSET", keyspace.Claims(job), alien, fmt.Sprint("1 1 ", s.now()))
		}, want: "true", after: "0 1:2m0s claims: 1st of " + alien + " for 1"},
	}...))
}

func TestPermitAcquireSeveral(t *testing.T) {
	three := []string{one, two, three}
	permitTable(t, acquireCall(true, three...), []permitRow{
		{name: "all", setup: func(s permitWorld) { s.set("3") }, want: "true", after: "0 1:2m0s 2:2m0s 3:2m0s"},
		{name: "too few", setup: func(s permitWorld) { s.set("2").taken(time.Minute, alien) }, want: "2 available, next in 1m0s",
			after: "2 " + alien + ":1m0s claims: 1st of 1 for 3"},
		{name: "more than there are", setup: func(s permitWorld) { s.set("2") }, want: "2 available, next in -1ns", after: "2"},
		{name: "enough come back", setup: func(s permitWorld) { s.set("1").taken(-time.Minute, alien, alien[:31]+"1") }, want: "true",
			after: "0 1:2m0s 2:2m0s 3:2m0s"},
		{name: "some come back", setup: func(s permitWorld) { s.set("0").taken(-time.Minute, alien, alien[:31]+"1").forever(alien[:31] + "2") },
			want: "2 available, next in -1ns", after: "2 " + alien[:31] + "2:forever claims: 1st of 1 for 3", messages: []string{"2"}},
		// An earlier copy has run; another client has taken one of them away since.
		{name: "some are there", setup: func(s permitWorld) { s.set("9").taken(time.Minute, one, three[2]) }, want: "true", after: "9 1:2m0s 3:2m0s"},
		{name: "my claim", setup: func(s permitWorld) { s.set("3").claim(3, one) }, want: "true", after: "0 1:2m0s 2:2m0s 3:2m0s"},
		{name: "my claim goes on", setup: func(s permitWorld) { s.set("2").taken(time.Minute, alien).claim(3, one) }, want: "2 available, next in 1m0s",
			after: "2 " + alien + ":1m0s claims: 1st of 1 for 3"},
		{name: "another's claim", setup: func(s permitWorld) { s.set("4").taken(time.Minute, two[:31]+"f").claim(2, alien) }, want: "4 available less 2, next in 1m0s",
			after: "4 f:1m0s claims: 1st of " + alien + " for 2 2st of 1 for 3"},
	})
}

// A request that does not wait claims nothing.
func TestPermitTryAcquireSeveral(t *testing.T) {
	permitTable(t, acquireCall(false, one, two), []permitRow{
		{name: "all", setup: func(s permitWorld) { s.set("2") }, want: "true", after: "0 1:2m0s 2:2m0s"},
		{name: "too few", setup: func(s permitWorld) { s.set("1").taken(time.Minute, alien) }, want: "1 available, next in 1m0s", after: "1 " + alien + ":1m0s"},
	})
}

// The permits of a semaphore with a TTL end with it.
func TestPermitAcquireCopiesTheTTL(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		s := permitWorld{w, t}
		s.set("2")
		acquire := acquireCall(true, one)
		w.must(t, "PEXPIRE", job, "5000")
		if got := acquire(s, t.Context(), w); got != "true" {
			t.Fatal(got)
		}
		w.wantTTL(t, job, 5*time.Second)
		w.wantTTL(t, keyspace.PermitExpiries(job), 5*time.Second)
		if _, err := script.PermitSet(t.Context(), w, permits, op, script.PermitAdd, 3); err != nil {
			t.Fatal(err)
		}
		w.wantTTL(t, job, 5*time.Second) // Redisson removes it
	})
}

func TestPermitRelease(t *testing.T) {
	for name, operation := range map[string]string{"of a hold": "", "by an operator": op} {
		again := func(first, later string) string {
			if operation == "" {
				return later
			}
			return first
		}
		release := func(ids ...string) func(s permitWorld, ctx context.Context, d driver.Driver) string {
			return func(s permitWorld, ctx context.Context, d driver.Driver) string {
				n, _, err := script.PermitRelease(ctx, d, permits, operation, ids)
				return permitAnswer(s, n, script.PermitRefusal{}, err)
			}
		}
		t.Run(name+"/one", func(t *testing.T) {
			permitTable(t, release(one), append(foreignPermits(), []permitRow{
				{name: "nothing there", setup: func(s permitWorld) {}, want: "0", after: "nothing"},
				{name: "not mine", setup: func(s permitWorld) { s.set("2").taken(time.Minute, alien) }, want: "0", after: "2 " + alien + ":1m0s"},
				{name: "mine", setup: func(s permitWorld) { s.set("2").taken(time.Minute, one, alien) }, want: "1", repeat: again("1", "0"),
					after: "3 " + alien + ":1m0s", messages: []string{"3"}},
				{name: "forever", setup: func(s permitWorld) { s.set("0").forever(one) }, want: "1", repeat: again("1", "0"), after: "1", messages: []string{"1"}},
				{name: "over", setup: func(s permitWorld) { s.set("0").taken(-time.Minute, one) }, want: "0", after: "1", messages: []string{"1"}},
				{name: "below none", setup: func(s permitWorld) { s.set("-1").taken(time.Minute, one) }, want: "1", repeat: again("1", "0"), after: "0"},
				{name: "far below none", setup: func(s permitWorld) { s.set("-4").taken(time.Minute, one) }, want: "1", repeat: again("1", "0"), after: "-3"},
				{name: "old form", setup: func(s permitWorld) { s.set("1").put(fmt.Sprint(s.now()+60000), one) }, want: "1", repeat: again("1", "0"),
					after: "2", messages: []string{"2"}},
				{name: "without the number", setup: func(s permitWorld) { s.taken(time.Minute, one) }, want: "1", repeat: again("1", "0"), after: "1", messages: []string{"1"}},
				{name: "a claim without a permit", setup: func(s permitWorld) { s.set("2").claim(3, one) }, want: "0", after: "2", messages: []string{"2"}},
				{name: "a claim without a permit, none left", setup: func(s permitWorld) { s.set("0").claim(3, one) }, want: "0", after: "0"},
				{name: "another's claim", setup: func(s permitWorld) { s.set("2").claim(3, alien) }, want: "0", after: "2 claims: 1st of " + alien + " for 3"},
			}...))
		})
		t.Run(name+"/several", func(t *testing.T) {
			permitTable(t, release(one, two, three), []permitRow{
				{name: "all", setup: func(s permitWorld) { s.set("5").taken(time.Minute, one, two, three) }, want: "3", repeat: again("3", "0"),
					after: "8", messages: []string{"3"}},
				{name: "some", setup: func(s permitWorld) { s.set("5").taken(time.Minute, one).taken(-time.Minute, two) }, want: "1", repeat: again("1", "0"),
					after: "7", messages: []string{"2"}},
				{name: "below none", setup: func(s permitWorld) { s.set("-9").taken(time.Minute, one, two, three) }, want: "3", repeat: again("3", "0"), after: "-6"},
			})
		})
	}
}

func TestPermitSet(t *testing.T) {
	set := func(how script.PermitChange, n int) func(s permitWorld, ctx context.Context, d driver.Driver) string {
		return func(s permitWorld, ctx context.Context, d driver.Driver) string {
			ok, err := script.PermitSet(ctx, d, permits, op, how, n)
			return permitAnswer(s, ok, script.PermitRefusal{}, err)
		}
	}
	some := func(s permitWorld) { s.set("3").taken(time.Minute, one).taken(-time.Minute, two) }
	const gone = " 1:1m0s 2:past"
	t.Run("try", func(t *testing.T) {
		permitTable(t, set(script.PermitTry, 5), append(foreignPermits(), []permitRow{
			{name: "nothing there", setup: func(s permitWorld) {}, want: "true", after: "5", messages: []string{"5"}},
			{name: "there", setup: some, want: "false", after: "3" + gone},
			{name: "none left", setup: func(s permitWorld) { s.set("0") }, want: "false", after: "0"},
		}...))
	})
	t.Run("set", func(t *testing.T) {
		permitTable(t, set(script.PermitAll, 5), append(foreignPermits(), []permitRow{
			{name: "nothing there", setup: func(s permitWorld) {}, want: "true", after: "5", messages: []string{"5"}},
			{name: "the same", setup: some, want: "true", after: "3" + gone},
			{name: "more", setup: func(s permitWorld) { s.set("1").taken(time.Minute, one) }, want: "true", after: "4 1:1m0s", messages: []string{"5"}},
			{name: "fewer", setup: func(s permitWorld) { s.set("9").taken(time.Minute, one) }, want: "true", after: "4 1:1m0s", messages: []string{"5"}},
		}...))
		permitTable(t, set(script.PermitAll, 0), []permitRow{
			{name: "none", setup: func(s permitWorld) { s.set("1").taken(time.Minute, one, two) }, want: "true", after: "-2 1:1m0s 2:1m0s", messages: []string{"0"}},
		})
	})
	t.Run("add", func(t *testing.T) {
		permitTable(t, set(script.PermitAdd, 5), append(foreignPermits(), []permitRow{
			{name: "nothing there", setup: func(s permitWorld) {}, want: "true", after: "5", messages: []string{"5"}},
			{name: "more", setup: some, want: "true", after: "8" + gone, messages: []string{"5"}},
			{name: "from below none", setup: func(s permitWorld) { s.set("-7") }, want: "true", after: "-2", messages: []string{"5"}},
			{name: "beyond Java", setup: func(s permitWorld) { s.set("2147483643") }, want: "too many", after: "2147483643"},
			{name: "as many as Java can count", setup: func(s permitWorld) { s.set("2147483642") }, want: "true", after: "2147483647", messages: []string{"5"}},
		}...))
		permitTable(t, set(script.PermitAdd, -5), []permitRow{
			{name: "fewer", setup: some, want: "true", after: "-2" + gone},
			{name: "fewer than nothing", setup: func(s permitWorld) {}, want: "true", after: "-5"},
		})
	})
}

func TestPermitExtend(t *testing.T) {
	for name, test := range map[string]struct {
		lease time.Duration
		left  string
	}{"longer": {10 * time.Minute, "10m0s"}, "shorter": {time.Minute, "1m0s"}, "forever": {-1, "forever"}} {
		t.Run(name, func(t *testing.T) {
			permitTable(t, func(s permitWorld, ctx context.Context, d driver.Driver) string {
				ok, err := script.PermitExtend(ctx, d, permits, op, one, test.lease)
				return permitAnswer(s, ok, script.PermitRefusal{}, err)
			}, append(foreignPermits(), []permitRow{
				{name: "nothing there", setup: func(s permitWorld) {}, want: "false", after: "nothing"},
				{name: "not mine", setup: func(s permitWorld) { s.set("0").taken(time.Minute, two) }, want: "false", after: "0 2:1m0s"},
				{name: "mine", setup: func(s permitWorld) { s.set("0").taken(2*time.Minute, one) }, want: "true", after: "0 1:" + test.left},
				{name: "without limit", setup: func(s permitWorld) { s.set("0").forever(one) }, want: "true", after: "0 1:" + test.left},
				{name: "over", setup: func(s permitWorld) { s.set("0").taken(-time.Minute, one) }, want: "false", after: "0 1:past"},
				{name: "old form", setup: func(s permitWorld) { s.set("1").put(fmt.Sprint(s.now()+120000), one) }, want: "true",
					after: `1 "` + one + `":` + test.left},
			}...))
		})
	}
}

func TestPermitInspect(t *testing.T) {
	permitTable(t, func(s permitWorld, ctx context.Context, d driver.Driver) string {
		p, err := script.PermitInspect(ctx, d, permits, 3)
		for i := range p.List {
			p.List[i].Left = s.minutes(p.List[i].Left)
		}
		return permitAnswer(s, fmt.Sprint(p.Available, " ", p.Given, " ", p.List), script.PermitRefusal{}, err)
	}, append(foreignPermits(), []permitRow{
		{name: "nothing there", setup: func(s permitWorld) {}, want: "0 0 []", after: "nothing"},
		{name: "some", setup: func(s permitWorld) {
			s.set("-1").taken(time.Minute, two).forever(three).taken(-time.Minute, alien).put(fmt.Sprint(s.now()+120000), alien)
		}, want: "0 3 [{" + two + " 1m0s} {" + alien + " 2m0s} {" + three + " -1ns}]",
			after: `-1 "` + alien + `":2m0s 2:1m0s 3:forever ` + alien + ":past"},
		{name: "more than are listed", setup: func(s permitWorld) { s.set("7").taken(time.Minute, one, two, three).forever(alien) },
			want:  "7 4 [{" + one + " 1m0s} {" + two + " 1m0s} {" + three + " 1m0s}]",
			after: "7 1:1m0s 2:1m0s 3:1m0s " + alien + ":forever"},
	}...))
}

func TestPermitDelete(t *testing.T) {
	permitTable(t, func(s permitWorld, ctx context.Context, d driver.Driver) string {
		ok, err := script.PermitDelete(ctx, d, permits, op)
		return permitAnswer(s, ok, script.PermitRefusal{}, err)
	}, append(foreignPermits(), []permitRow{
		{name: "nothing there", setup: func(s permitWorld) {}, want: "false", after: "nothing"},
		{name: "all of it", setup: func(s permitWorld) { s.set("3").taken(time.Minute, one).claim(4, two) }, want: "true", after: "nothing"},
		{name: "without the number", setup: func(s permitWorld) { s.taken(time.Minute, one) }, want: "true", after: "nothing"},
	}...))
}

// permitRenewal is a semaphore, the permits of it that are renewed, and what becomes of them.
type permitRenewal struct {
	name  string
	ids   []string
	setup map[string]time.Duration // minus 1 means without limit
	list  bool
	state int
	after map[string]time.Duration
}

var permitRenewals = []permitRenewal{
	{"mine", []string{one}, map[string]time.Duration{one: time.Minute}, false, script.Renewed, map[string]time.Duration{one: lease}},
	{"several", []string{one, two}, map[string]time.Duration{one: time.Minute, two: time.Minute, alien: time.Minute}, false, script.Renewed,
		map[string]time.Duration{one: lease, two: lease, alien: time.Minute}},
	{"for longer", []string{one}, map[string]time.Duration{one: time.Hour}, false, script.Renewed, map[string]time.Duration{one: time.Hour}},
	{"forever", []string{one}, map[string]time.Duration{one: -1}, false, script.Renewed, map[string]time.Duration{one: -1}},
	{"one is gone", []string{one, two}, map[string]time.Duration{two: time.Minute}, false, script.Gone, map[string]time.Duration{two: time.Minute}},
	{"one is over", []string{one, two}, map[string]time.Duration{one: -time.Minute, two: time.Minute}, false, script.Gone,
		map[string]time.Duration{one: -time.Minute, two: time.Minute}},
	{"all gone", []string{one}, nil, false, script.Gone, nil},
	{"a list", []string{one, two}, nil, true, script.Gone, nil},
}

// raw is the member of an id.
func raw(id string) string {
	b, _ := hex.DecodeString(id)
	return string(b)
}

func (r permitRenewal) put(t *testing.T, w *world, name string) {
	t.Helper()
	if r.list {
		w.must(t, "RPUSH", keyspace.PermitExpiries(name), "a")
	}
	for id, left := range r.setup {
		score := fmt.Sprint(permitWorld{w, t}.now() + left.Milliseconds())
		if left == -1 {
			score = endless
		}
		w.must(t, "ZADD", keyspace.PermitExpiries(name), score, raw(id))
	}
}

func (r permitRenewal) want(t *testing.T, w *world, name string) {
	t.Helper()
	if r.list {
		return
	}
	key := keyspace.PermitExpiries(name)
	if n := w.must(t, "ZCARD", key).Int(); n != int64(len(r.after)) {
		t.Errorf("%s: there are %d permits, want %d", r.name, n, len(r.after))
	}
	for id, left := range r.after {
		score, _ := strconv.ParseInt(w.must(t, "ZSCORE", key, raw(id)).Str(), 10, 64)
		got := time.Duration(score-permitWorld{w, t}.now()) * time.Millisecond
		if left == -1 && fmt.Sprint(score) != endless || left < -1 && got > 0 || left > 0 && !w.near(got, left) {
			t.Errorf("%s: %s has %v left, want %v", r.name, id, got, left)
		}
	}
}

// A batch of semaphores in different states: one that is lost or broken must
// not harm its neighbours.
func TestPermitRenew(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		var group []script.Renewal
		for i, r := range permitRenewals {
			name := fmt.Sprint("job", i)
			r.put(t, w, name)
			group = append(group, script.PermitRenewal(name, r.ids, lease))
		}
		for range 2 {
			result := script.Renew(t.Context(), w, [][]script.Renewal{group})[0]
			if result.Err != nil {
				t.Fatal(result.Err)
			}
			for i, r := range permitRenewals {
				if result.States[i] != r.state {
					t.Errorf("%s: state %d, want %d", r.name, result.States[i], r.state)
				}
				r.want(t, w, fmt.Sprint("job", i))
			}
		}
	})
}

// Many expired permits come back bit by bit: no script takes long.
func TestPermitManyOver(t *testing.T) {
	server := single(t)
	for _, ended := range []int{1, 999, 1000, 1001, 1500} {
		t.Run(strconv.Itoa(ended), func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				s := permitWorld{w, t}
				s.set("0")
				w.fill(t, ended, `redis.call('zadd', KEYS[1], now - 1, string.format('%016d', i))`, keyspace.PermitExpiries(job))
				w.pass(t)
				for i, back := range []int{min(ended, 1000), ended, ended} {
					ok, why, err := script.PermitAcquire(t.Context(), w, permits, []string{fmt.Sprintf("%032x", i)}, lease, true, "")
					if want := i < back; ok != want || err != nil {
						t.Fatalf("got %v, %+v, %v, want %v", ok, why, err, want)
					}
					if got, want := w.must(t, "GET", job).Str(), fmt.Sprint(back-min(i+1, back)); got != want {
						t.Errorf("%s are available, want %s", got, want)
					}
				}
				given := min(3, ended)
				if p, err := script.PermitInspect(t.Context(), w, permits, 0); err != nil || p.Available != ended-given || p.Given != given || p.List != nil {
					t.Errorf("got %+v, %v, want %d available, %d given and no list", p, err, ended-given, given)
				}
			})
		})
	}
}

// The most permits that one lease can consist of, on either server.
func TestPermitAcquireAThousand(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		permitWorld{w, t}.set("1000")
		var ids []string
		for i := range 1000 {
			ids = append(ids, fmt.Sprintf("%032x", i))
		}
		for range 2 {
			if ok, why, err := script.PermitAcquire(t.Context(), w, permits, ids, lease, true, ""); !ok || err != nil {
				t.Fatalf("got %+v, %v, want all permits", why, err)
			}
		}
		if r := script.Renew(t.Context(), w, [][]script.Renewal{{script.PermitRenewal(job, ids, lease)}})[0]; r.Err != nil || r.States[0] != script.Renewed {
			t.Fatal(r)
		}
		if n, _, err := script.PermitRelease(t.Context(), w, permits, "", ids); n != 1000 || err != nil {
			t.Fatalf("got %v, %v, want 1000", n, err)
		}
		if got := (permitWorld{w, t}).String(); got != "1000" {
			t.Errorf("got %q, want %q", got, "1000")
		}
	})
}

func init() {
	for name, call := range map[string]func(ctx context.Context, d driver.Driver) error{
		"PermitAcquire": func(ctx context.Context, d driver.Driver) error {
			ok, why, err := script.PermitAcquire(ctx, d, permits, []string{one}, lease, true, "")
			return unless(ok || why != (script.PermitRefusal{}), err)
		},
		"PermitRelease": func(ctx context.Context, d driver.Driver) error {
			n, _, err := script.PermitRelease(ctx, d, permits, op, []string{one})
			return unless(n > 0, err)
		},
		"PermitSet": func(ctx context.Context, d driver.Driver) error {
			ok, err := script.PermitSet(ctx, d, permits, op, script.PermitAdd, 1)
			return unless(ok, err)
		},
		"PermitExtend": func(ctx context.Context, d driver.Driver) error {
			ok, err := script.PermitExtend(ctx, d, permits, op, one, lease)
			return unless(ok, err)
		},
		"PermitInspect": func(ctx context.Context, d driver.Driver) error {
			p, err := script.PermitInspect(ctx, d, permits, 1)
			return unless(p.Available+p.Given+len(p.List) > 0, err)
		},
		"PermitDelete": func(ctx context.Context, d driver.Driver) error {
			ok, err := script.PermitDelete(ctx, d, permits, op)
			return unless(ok, err)
		},
		"PermitRenewal": func(ctx context.Context, d driver.Driver) error {
			r := script.Renew(ctx, d, [][]script.Renewal{{script.PermitRenewal(job, []string{one}, lease), script.PermitRenewal("x", []string{one}, lease)}})[0]
			return unless(r.States != nil, r.Err)
		},
	} {
		everyCall[name] = call
	}
}
