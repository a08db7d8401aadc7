package script_test

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// Ids of permits, as hex digits. The first bytes cannot be part of a text.
const (
	one   = "00ff0a0d800000000000000000000001"
	two   = "00ff0a0d800000000000000000000002"
	three = "00ff0a0d800000000000000000000003"
	alien = "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0" // of another client
)

// endless is Redisson's end of a permit without limit.
const endless = "922337203685477"

var permits = script.Permits{Name: job}

// shelf is a permit semaphore in a test: the available permits, and those in use.
type shelf struct {
	*world
	t *testing.T
}

func (s shelf) now() int64 { return fair{world: s.world, t: s.t}.now() }

func (s shelf) set(value string) shelf {
	s.must(s.t, "SET", job, value)
	return s
}

// give adds permits that end after a while, as Redisson would.
func (s shelf) give(left time.Duration, ids ...string) shelf {
	s.t.Helper()
	for _, id := range ids {
		raw, err := hex.DecodeString(id)
		if err != nil {
			s.t.Fatal(err)
		}
		s.put(fmt.Sprint(s.now()+left.Milliseconds()), string(raw))
	}
	return s
}

// forever adds a permit without an end.
func (s shelf) forever(id string) shelf {
	raw, _ := hex.DecodeString(id)
	return s.put(endless, string(raw))
}

func (s shelf) put(score, member string) shelf {
	s.t.Helper()
	s.must(s.t, "ZADD", keyspace.PermitExpiries(job), score, member)
	return s
}

// claim adds a waiter behind the present ones.
func (s shelf) claim(number int, id string) shelf {
	key := keyspace.Claims(job)
	order := 1 + s.must(s.t, "HLEN", key).Int()
	s.must(s.t, "HSET", key, id, fmt.Sprint(order, " ", number, " ", s.now()+2900))
	s.must(s.t, "PEXPIRE", key, "2900")
	return s
}

// String shows all of it: the number available; each permit and the rest of its lease,
// in whole minutes where time is real; the claim.
func (s shelf) String() string {
	var b strings.Builder
	b.WriteString(strings.TrimPrefix(s.dump(s.t, job), "string "))
	if kind := s.must(s.t, "TYPE", keyspace.PermitExpiries(job)).Str(); kind != "zset" && kind != "none" {
		return b.String() + " and a " + kind
	}
	v := s.must(s.t, "ZRANGE", keyspace.PermitExpiries(job), "0", "-1", "WITHSCORES")
	now := s.now()
	var given []string
	for i := 0; i < v.Len(); i += 2 {
		id := v.At(i).Str()
		if len(id) == 16 {
			id = strings.TrimPrefix(hex.EncodeToString([]byte(id)), one[:31])
		} else {
			id = strconv.Quote(id)
		}
		left := "forever"
		if score := v.At(i + 1).Str(); score != endless {
			end, err := strconv.ParseInt(score, 10, 64)
			if err != nil {
				s.t.Fatalf("the score of %s is no integer: %v", id, err)
			}
			if left = "past"; end > now {
				left = s.minutes(time.Duration(end-now) * time.Millisecond).String()
			}
		}
		given = append(given, " "+id+":"+left)
	}
	slices.Sort(given)
	b.WriteString(strings.Join(given, ""))
	if claims := s.must(s.t, "HGETALL", keyspace.Claims(job)); claims.Len() > 0 {
		if left := s.ttl(s.t, keyspace.Claims(job)); left <= 0 || left > 3*time.Second {
			s.t.Errorf("the claims last for another %v", left)
		}
		var all []string
		for i := 0; i < claims.Len(); i += 2 {
			order, rest, _ := strings.Cut(claims.At(i+1).Str(), " ")
			number, _, _ := strings.Cut(rest, " ")
			all = append(all, fmt.Sprint(" ", order, "st of ", strings.TrimPrefix(claims.At(i).Str(), one[:31]), " for ", number))
		}
		slices.Sort(all)
		b.WriteString(" claims:" + strings.Join(all, ""))
	}
	if left := s.ttl(s.t, keyspace.Operation(job, op)); left == none {
		s.t.Error("the record of the operation has no TTL")
	}
	return b.String()
}

// minutes makes durations in real time comparable.
func (s shelf) minutes(d time.Duration) time.Duration {
	if s.real && d > 0 {
		return (d + time.Minute - 1).Truncate(time.Minute)
	}
	return d
}

func permitAnswer(s shelf, ok any, why script.PermitRefusal, err error) string {
	switch {
	case err == script.ErrNumber:
		return "no semaphore"
	case err == script.ErrTooMany:
		return "too many"
	case err != nil:
		return driver.ClassOf(err).String()
	case why != (script.PermitRefusal{}):
		left := ""
		if why.Left != 0 {
			left = fmt.Sprintf(" less %d", why.Left)
		}
		return fmt.Sprintf("%d available%s, next in %v", why.Available, left, s.minutes(why.Next))
	}
	return fmt.Sprint(ok)
}

// shelfRow is one case of a table.
type shelfRow struct {
	name     string
	given    func(s shelf)
	want     string
	after    string
	messages []string
	repeat   string // the reply to the same call once more, if different
}

// shelfTable runs every row with both servers, twice and with the first reply
// lost, as table does.
func shelfTable(t *testing.T, call func(s shelf, ctx context.Context, d driver.Driver) string, rows []shelfRow) {
	t.Helper()
	server := single(t)
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				s := shelf{w, t}
				ear := w.listen(t, keyspace.SemaphoreChannel(job), false)
				try := func(d driver.Driver, want string) {
					t.Helper()
					if got := call(s, t.Context(), d); got != want {
						t.Errorf("the answer is %q, want %q", got, want)
					}
				}
				look := func(messages ...string) {
					t.Helper()
					if got := s.String(); got != r.after {
						t.Errorf("there are %q, want %q", got, r.after)
					}
					ear.want(t, messages...)
				}
				repeat := cmp.Or(r.repeat, r.want)
				r.given(s)
				try(w, r.want)
				look(r.messages...)
				try(w, repeat)
				look()

				w.must(t, "DEL", job, keyspace.PermitExpiries(job), keyspace.Claims(job), keyspace.Operation(job, op))
				r.given(s)
				try(deaf{w}, "unknown")
				try(w, repeat)
				look(r.messages...)
			})
		})
	}
}

// Keys that no script of a permit semaphore may touch.
func alienShelves() []shelfRow {
	return []shelfRow{
		{name: "a lock", given: func(s shelf) { s.hold(s.t, job, lease, java, "1") }, want: "wrong type", after: "hash " + java + "=1"},
		{name: "a list", given: func(s shelf) { s.must(s.t, "RPUSH", job, "a") }, want: "wrong type", after: `list ["a"]`},
		{name: "text", given: func(s shelf) { s.set("five") }, want: "no semaphore", after: "five"},
		{name: "a fraction", given: func(s shelf) { s.set("1.5") }, want: "no semaphore", after: "1.5"},
		{name: "empty text", given: func(s shelf) { s.set("") }, want: "no semaphore", after: ""},
		{name: "more than can be counted", given: func(s shelf) { s.set("9999999999999999") }, want: "no semaphore", after: "9999999999999999"},
		{name: "another's zset", given: func(s shelf) { s.set("3").must(s.t, "RPUSH", keyspace.PermitExpiries(job), "a") },
			want: "wrong type", after: "3 and a list"},
	}
}

func acquireCall(claim bool, ids ...string) func(s shelf, ctx context.Context, d driver.Driver) string {
	return func(s shelf, ctx context.Context, d driver.Driver) string {
		ok, why, err := script.PermitAcquire(ctx, d, permits, ids, lease, claim)
		return permitAnswer(s, ok, why, err)
	}
}

func TestPermitAcquireOne(t *testing.T) {
	shelfTable(t, acquireCall(true, one), append(alienShelves(), []shelfRow{
		{name: "nothing there", given: func(s shelf) {}, want: "0 available, next in -1ns", after: "nothing"},
		{name: "the last", given: func(s shelf) { s.set("1") }, want: "true", after: "0 1:2m0s"},
		{name: "among others", given: func(s shelf) { s.set("5").give(time.Minute, alien).forever(three) }, want: "true",
			after: "4 1:2m0s 3:forever " + alien + ":1m0s"},
		{name: "none left", given: func(s shelf) { s.set("0").give(3*time.Minute, alien) }, want: "0 available, next in 3m0s", after: "0 " + alien + ":3m0s claims: 1st of 1 for 1"},
		{name: "none left, without limit", given: func(s shelf) { s.set("0").forever(alien) }, want: "0 available, next in -1ns", after: "0 " + alien + ":forever claims: 1st of 1 for 1"},
		{name: "fewer than none", given: func(s shelf) { s.set("-3").give(time.Minute, alien) }, want: "-3 available, next in 1m0s", after: "-3 " + alien + ":1m0s"},
		// An earlier copy has run.
		{name: "mine", given: func(s shelf) { s.set("4").give(time.Minute, one) }, want: "true", after: "4 1:2m0s"},
		{name: "mine, for longer", given: func(s shelf) { s.set("4").give(5*time.Minute, one) }, want: "true", after: "4 1:5m0s"},
		{name: "mine, for ever", given: func(s shelf) { s.set("4").forever(one) }, want: "true", after: "4 1:forever"},
		{name: "mine, over", given: func(s shelf) { s.set("0").give(-time.Minute, one) }, want: "true", after: "0 1:2m0s"},
		{name: "mine, over, and none", given: func(s shelf) { s.set("-1").give(-time.Minute, one) }, want: "0 available, next in -1ns", after: "0"},
		// Expired permits come back.
		{name: "over", given: func(s shelf) { s.set("0").give(0, alien) }, want: "true", after: "0 1:2m0s"},
		{name: "several over", given: func(s shelf) { s.set("0").give(-time.Minute, two, three, alien) }, want: "true", after: "2 1:2m0s", messages: []string{"2"}},
		{name: "over, and still none", given: func(s shelf) { s.set("-1").give(-time.Minute, alien).give(time.Minute, two) },
			want: "0 available, next in 1m0s", after: "0 2:1m0s claims: 1st of 1 for 1"},
		// Redisson's up to 3.16: the digits themselves.
		{name: "old permits", given: func(s shelf) { s.set("1").put(fmt.Sprint(s.now()+60000), alien) }, want: "true",
			after: `0 "` + alien + `":1m0s 1:2m0s`},
		{name: "old permits over", given: func(s shelf) { s.set("0").put(fmt.Sprint(s.now()-1), alien) }, want: "true", after: "0 1:2m0s"},
		{name: "negative end", given: func(s shelf) { s.set("0").put("-5", "x") }, want: "0 available, next in -1ns", after: `0 "x":past claims: 1st of 1 for 1`},
		{name: "another's claim", given: func(s shelf) { s.set("3").claim(3, alien) }, want: "3 available less 3, next in -1ns",
			after: "3 claims: 1st of " + alien + " for 3 2st of 1 for 1"},
		{name: "claims before and behind mine", given: func(s shelf) { s.set("3").claim(2, alien).claim(1, one).claim(9, two) }, want: "true",
			after: "2 1:2m0s claims: 1st of " + alien + " for 2 3st of 2 for 9"},
		{name: "a claim that is over", given: func(s shelf) {
			s.set("1").claim(1, alien).must(s.t, "HSET", keyspace.Claims(job), alien, fmt.Sprint("1 1 ", s.now()))
		}, want: "true", after: "0 1:2m0s claims: 1st of " + alien + " for 1"},
	}...))
}

func TestPermitAcquireSeveral(t *testing.T) {
	three := []string{one, two, three}
	shelfTable(t, acquireCall(true, three...), []shelfRow{
		{name: "all", given: func(s shelf) { s.set("3") }, want: "true", after: "0 1:2m0s 2:2m0s 3:2m0s"},
		{name: "too few", given: func(s shelf) { s.set("2").give(time.Minute, alien) }, want: "2 available, next in 1m0s",
			after: "2 " + alien + ":1m0s claims: 1st of 1 for 3"},
		{name: "more than there are", given: func(s shelf) { s.set("2") }, want: "2 available, next in -1ns", after: "2"},
		{name: "enough come back", given: func(s shelf) { s.set("1").give(-time.Minute, alien, alien[:31]+"1") }, want: "true",
			after: "0 1:2m0s 2:2m0s 3:2m0s"},
		{name: "some come back", given: func(s shelf) { s.set("0").give(-time.Minute, alien, alien[:31]+"1").forever(alien[:31] + "2") },
			want: "2 available, next in -1ns", after: "2 " + alien[:31] + "2:forever claims: 1st of 1 for 3", messages: []string{"2"}},
		// An earlier copy has run; another client has taken one of them away since.
		{name: "some are there", given: func(s shelf) { s.set("9").give(time.Minute, one, three[2]) }, want: "true", after: "9 1:2m0s 3:2m0s"},
		{name: "my claim", given: func(s shelf) { s.set("3").claim(3, one) }, want: "true", after: "0 1:2m0s 2:2m0s 3:2m0s"},
		{name: "my claim goes on", given: func(s shelf) { s.set("2").give(time.Minute, alien).claim(3, one) }, want: "2 available, next in 1m0s",
			after: "2 " + alien + ":1m0s claims: 1st of 1 for 3"},
		{name: "another's claim", given: func(s shelf) { s.set("4").give(time.Minute, two[:31]+"f").claim(2, alien) }, want: "4 available less 2, next in 1m0s",
			after: "4 f:1m0s claims: 1st of " + alien + " for 2 2st of 1 for 3"},
	})
}

// A request that does not wait claims nothing.
func TestPermitTryAcquireSeveral(t *testing.T) {
	shelfTable(t, acquireCall(false, one, two), []shelfRow{
		{name: "all", given: func(s shelf) { s.set("2") }, want: "true", after: "0 1:2m0s 2:2m0s"},
		{name: "too few", given: func(s shelf) { s.set("1").give(time.Minute, alien) }, want: "1 available, next in 1m0s", after: "1 " + alien + ":1m0s"},
	})
}

// The permits of a semaphore with a TTL end with it.
func TestPermitAcquireCopiesTheTTL(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		s := shelf{w, t}
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
		release := func(ids ...string) func(s shelf, ctx context.Context, d driver.Driver) string {
			return func(s shelf, ctx context.Context, d driver.Driver) string {
				n, err := script.PermitRelease(ctx, d, permits, operation, ids)
				return permitAnswer(s, n, script.PermitRefusal{}, err)
			}
		}
		t.Run(name+"/one", func(t *testing.T) {
			shelfTable(t, release(one), append(alienShelves(), []shelfRow{
				{name: "nothing there", given: func(s shelf) {}, want: "0", after: "nothing"},
				{name: "not mine", given: func(s shelf) { s.set("2").give(time.Minute, alien) }, want: "0", after: "2 " + alien + ":1m0s"},
				{name: "mine", given: func(s shelf) { s.set("2").give(time.Minute, one, alien) }, want: "1", repeat: again("1", "0"),
					after: "3 " + alien + ":1m0s", messages: []string{"3"}},
				{name: "for ever", given: func(s shelf) { s.set("0").forever(one) }, want: "1", repeat: again("1", "0"), after: "1", messages: []string{"1"}},
				{name: "over", given: func(s shelf) { s.set("0").give(-time.Minute, one) }, want: "0", after: "1", messages: []string{"1"}},
				{name: "below none", given: func(s shelf) { s.set("-1").give(time.Minute, one) }, want: "1", repeat: again("1", "0"), after: "0"},
				{name: "far below none", given: func(s shelf) { s.set("-4").give(time.Minute, one) }, want: "1", repeat: again("1", "0"), after: "-3"},
				{name: "old form", given: func(s shelf) { s.set("1").put(fmt.Sprint(s.now()+60000), one) }, want: "1", repeat: again("1", "0"),
					after: "2", messages: []string{"2"}},
				{name: "without the number", given: func(s shelf) { s.give(time.Minute, one) }, want: "1", repeat: again("1", "0"), after: "1", messages: []string{"1"}},
				{name: "in vain", given: func(s shelf) { s.set("2").claim(3, one) }, want: "0", after: "2", messages: []string{"2"}},
				{name: "in vain, none", given: func(s shelf) { s.set("0").claim(3, one) }, want: "0", after: "0"},
				{name: "another's claim", given: func(s shelf) { s.set("2").claim(3, alien) }, want: "0", after: "2 claims: 1st of " + alien + " for 3"},
			}...))
		})
		t.Run(name+"/several", func(t *testing.T) {
			shelfTable(t, release(one, two, three), []shelfRow{
				{name: "all", given: func(s shelf) { s.set("5").give(time.Minute, one, two, three) }, want: "3", repeat: again("3", "0"),
					after: "8", messages: []string{"3"}},
				{name: "some", given: func(s shelf) { s.set("5").give(time.Minute, one).give(-time.Minute, two) }, want: "1", repeat: again("1", "0"),
					after: "7", messages: []string{"2"}},
				{name: "below none", given: func(s shelf) { s.set("-9").give(time.Minute, one, two, three) }, want: "3", repeat: again("3", "0"), after: "-6"},
			})
		})
	}
}

func TestPermitSet(t *testing.T) {
	set := func(how script.PermitChange, n int) func(s shelf, ctx context.Context, d driver.Driver) string {
		return func(s shelf, ctx context.Context, d driver.Driver) string {
			ok, err := script.PermitSet(ctx, d, permits, op, how, n)
			return permitAnswer(s, ok, script.PermitRefusal{}, err)
		}
	}
	some := func(s shelf) { s.set("3").give(time.Minute, one).give(-time.Minute, two) }
	const gone = " 1:1m0s 2:past"
	t.Run("try", func(t *testing.T) {
		shelfTable(t, set(script.PermitTry, 5), append(alienShelves(), []shelfRow{
			{name: "nothing there", given: func(s shelf) {}, want: "true", after: "5", messages: []string{"5"}},
			{name: "there", given: some, want: "false", after: "3" + gone},
			{name: "none left", given: func(s shelf) { s.set("0") }, want: "false", after: "0"},
		}...))
	})
	t.Run("set", func(t *testing.T) {
		shelfTable(t, set(script.PermitAll, 5), append(alienShelves(), []shelfRow{
			{name: "nothing there", given: func(s shelf) {}, want: "true", after: "5", messages: []string{"5"}},
			{name: "the same", given: some, want: "true", after: "3" + gone},
			{name: "more", given: func(s shelf) { s.set("1").give(time.Minute, one) }, want: "true", after: "4 1:1m0s", messages: []string{"5"}},
			{name: "fewer", given: func(s shelf) { s.set("9").give(time.Minute, one) }, want: "true", after: "4 1:1m0s", messages: []string{"5"}},
		}...))
		shelfTable(t, set(script.PermitAll, 0), []shelfRow{
			{name: "none", given: func(s shelf) { s.set("1").give(time.Minute, one, two) }, want: "true", after: "-2 1:1m0s 2:1m0s", messages: []string{"0"}},
		})
	})
	t.Run("add", func(t *testing.T) {
		shelfTable(t, set(script.PermitAdd, 5), append(alienShelves(), []shelfRow{
			{name: "nothing there", given: func(s shelf) {}, want: "true", after: "5", messages: []string{"5"}},
			{name: "more", given: some, want: "true", after: "8" + gone, messages: []string{"5"}},
			{name: "from below none", given: func(s shelf) { s.set("-7") }, want: "true", after: "-2", messages: []string{"5"}},
			{name: "beyond Java", given: func(s shelf) { s.set("2147483643") }, want: "too many", after: "2147483643"},
			{name: "as many as Java can count", given: func(s shelf) { s.set("2147483642") }, want: "true", after: "2147483647", messages: []string{"5"}},
		}...))
		shelfTable(t, set(script.PermitAdd, -5), []shelfRow{
			{name: "fewer", given: some, want: "true", after: "-2" + gone},
			{name: "fewer than nothing", given: func(s shelf) {}, want: "true", after: "-5"},
		})
	})
}

func TestPermitExtend(t *testing.T) {
	for name, test := range map[string]struct {
		lease time.Duration
		left  string
	}{"longer": {10 * time.Minute, "10m0s"}, "shorter": {time.Minute, "1m0s"}, "for ever": {-1, "forever"}} {
		t.Run(name, func(t *testing.T) {
			shelfTable(t, func(s shelf, ctx context.Context, d driver.Driver) string {
				ok, err := script.PermitExtend(ctx, d, permits, op, one, test.lease)
				return permitAnswer(s, ok, script.PermitRefusal{}, err)
			}, append(alienShelves(), []shelfRow{
				{name: "nothing there", given: func(s shelf) {}, want: "false", after: "nothing"},
				{name: "not mine", given: func(s shelf) { s.set("0").give(time.Minute, two) }, want: "false", after: "0 2:1m0s"},
				{name: "mine", given: func(s shelf) { s.set("0").give(2*time.Minute, one) }, want: "true", after: "0 1:" + test.left},
				{name: "without limit", given: func(s shelf) { s.set("0").forever(one) }, want: "true", after: "0 1:" + test.left},
				{name: "over", given: func(s shelf) { s.set("0").give(-time.Minute, one) }, want: "false", after: "0 1:past"},
				{name: "old form", given: func(s shelf) { s.set("1").put(fmt.Sprint(s.now()+120000), one) }, want: "true",
					after: `1 "` + one + `":` + test.left},
			}...))
		})
	}
}

func TestPermitInspect(t *testing.T) {
	shelfTable(t, func(s shelf, ctx context.Context, d driver.Driver) string {
		p, err := script.PermitInspect(ctx, d, permits, 3)
		for i := range p.List {
			p.List[i].Left = s.minutes(p.List[i].Left)
		}
		return permitAnswer(s, fmt.Sprint(p.Available, " ", p.Given, " ", p.List), script.PermitRefusal{}, err)
	}, append(alienShelves(), []shelfRow{
		{name: "nothing there", given: func(s shelf) {}, want: "0 0 []", after: "nothing"},
		{name: "some", given: func(s shelf) {
			s.set("-1").give(time.Minute, two).forever(three).give(-time.Minute, alien).put(fmt.Sprint(s.now()+120000), alien)
		}, want: "0 3 [{" + two + " 1m0s} {" + alien + " 2m0s} {" + three + " -1ns}]",
			after: `-1 "` + alien + `":2m0s 2:1m0s 3:forever ` + alien + ":past"},
		{name: "more than are listed", given: func(s shelf) { s.set("7").give(time.Minute, one, two, three).forever(alien) },
			want:  "7 4 [{" + one + " 1m0s} {" + two + " 1m0s} {" + three + " 1m0s}]",
			after: "7 1:1m0s 2:1m0s 3:1m0s " + alien + ":forever"},
	}...))
}

func TestPermitDelete(t *testing.T) {
	shelfTable(t, func(s shelf, ctx context.Context, d driver.Driver) string {
		ok, err := script.PermitDelete(ctx, d, permits, op)
		return permitAnswer(s, ok, script.PermitRefusal{}, err)
	}, append(alienShelves(), []shelfRow{
		{name: "nothing there", given: func(s shelf) {}, want: "false", after: "nothing"},
		{name: "all of it", given: func(s shelf) { s.set("3").give(time.Minute, one).claim(4, two) }, want: "true", after: "nothing"},
		{name: "without the number", given: func(s shelf) { s.give(time.Minute, one) }, want: "true", after: "nothing"},
	}...))
}

// A batch of semaphores in different states: one that is lost or broken must
// not harm its neighbours.
func TestPermitRenew(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		raw := func(id string) string {
			b, _ := hex.DecodeString(id)
			return string(b)
		}
		rows := []struct {
			name  string
			ids   []string
			given map[string]time.Duration // minus 1 means without limit
			list  bool
			state int
			after map[string]time.Duration
		}{
			{"mine", []string{one}, map[string]time.Duration{one: time.Minute}, false, script.Renewed, map[string]time.Duration{one: lease}},
			{"several", []string{one, two}, map[string]time.Duration{one: time.Minute, two: time.Minute, alien: time.Minute}, false, script.Renewed,
				map[string]time.Duration{one: lease, two: lease, alien: time.Minute}},
			{"for longer", []string{one}, map[string]time.Duration{one: time.Hour}, false, script.Renewed, map[string]time.Duration{one: time.Hour}},
			{"for ever", []string{one}, map[string]time.Duration{one: -1}, false, script.Renewed, map[string]time.Duration{one: -1}},
			{"one is gone", []string{one, two}, map[string]time.Duration{two: time.Minute}, false, script.Gone, map[string]time.Duration{two: time.Minute}},
			{"one is over", []string{one, two}, map[string]time.Duration{one: -time.Minute, two: time.Minute}, false, script.Gone,
				map[string]time.Duration{one: -time.Minute, two: time.Minute}},
			{"all gone", []string{one}, nil, false, script.Gone, nil},
			{"a list", []string{one, two}, nil, true, script.Gone, nil},
		}
		var group []script.Renewal
		for i, r := range rows {
			key := fmt.Sprint("job", i)
			if r.list {
				w.must(t, "RPUSH", keyspace.PermitExpiries(key), "a")
			}
			for id, left := range r.given {
				score := fmt.Sprint(shelf{w, t}.now() + left.Milliseconds())
				if left == -1 {
					score = endless
				}
				w.must(t, "ZADD", keyspace.PermitExpiries(key), score, raw(id))
			}
			group = append(group, script.PermitRenewal(key, r.ids, lease))
		}
		for range 2 {
			result := script.Renew(t.Context(), w, [][]script.Renewal{group})[0]
			if result.Err != nil {
				t.Fatal(result.Err)
			}
			for i, r := range rows {
				if result.States[i] != r.state {
					t.Errorf("%s: state %d, want %d", r.name, result.States[i], r.state)
				}
				if r.list {
					continue
				}
				key := keyspace.PermitExpiries(fmt.Sprint("job", i))
				if n := w.must(t, "ZCARD", key).Int(); n != int64(len(r.after)) {
					t.Errorf("%s: there are %d permits, want %d", r.name, n, len(r.after))
				}
				for id, left := range r.after {
					score, _ := strconv.ParseInt(w.must(t, "ZSCORE", key, raw(id)).Str(), 10, 64)
					got := time.Duration(score-shelf{w, t}.now()) * time.Millisecond
					if left == -1 && fmt.Sprint(score) != endless || left < -1 && got > 0 || left > 0 && !w.near(got, left) {
						t.Errorf("%s: %s has %v left, want %v", r.name, id, got, left)
					}
				}
			}
		}
	})
}

// Many expired permits come back bit by bit: no script takes long.
func TestPermitManyOver(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		s := shelf{w, t}
		s.set("0")
		add := []string{"ZADD", keyspace.PermitExpiries(job)}
		for i := range 1500 {
			add = append(add, fmt.Sprint(s.now()-1), fmt.Sprintf("%016d", i))
		}
		w.must(t, add...)
		for i, want := range []int{1000, 1500, 1500} {
			_, _, err := script.PermitAcquire(t.Context(), w, permits, []string{fmt.Sprintf("%032x", i)}, lease, true)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.must(t, "GET", job).Str(); got != fmt.Sprint(want-i-1) {
				t.Errorf("%s are available, want %d", got, want-i-1)
			}
		}
		if p, err := script.PermitInspect(t.Context(), w, permits, 0); err != nil || p.Available != 1497 || p.Given != 3 || p.List != nil {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// The most permits that one lease can consist of, on either server.
func TestPermitAcquireAThousand(t *testing.T) {
	server := single(t)
	everywhere(t, server, func(t *testing.T, w *world) {
		shelf{w, t}.set("1000")
		var ids []string
		for i := range 1000 {
			ids = append(ids, fmt.Sprintf("%032x", i))
		}
		for range 2 {
			if ok, why, err := script.PermitAcquire(t.Context(), w, permits, ids, lease, true); !ok || err != nil {
				t.Fatalf("%+v, %v", why, err)
			}
		}
		if r := script.Renew(t.Context(), w, [][]script.Renewal{{script.PermitRenewal(job, ids, lease)}})[0]; r.Err != nil || r.States[0] != script.Renewed {
			t.Fatal(r)
		}
		if n, err := script.PermitRelease(t.Context(), w, permits, "", ids); n != 1000 || err != nil {
			t.Fatal(n, err)
		}
		if got := (shelf{w, t}).String(); got != "1000" {
			t.Errorf("%q", got)
		}
	})
}

func init() {
	for name, call := range map[string]func(ctx context.Context, d driver.Driver) error{
		"PermitAcquire": func(ctx context.Context, d driver.Driver) error {
			ok, why, err := script.PermitAcquire(ctx, d, permits, []string{one}, lease, true)
			return unless(ok || why != (script.PermitRefusal{}), err)
		},
		"PermitRelease": func(ctx context.Context, d driver.Driver) error {
			n, err := script.PermitRelease(ctx, d, permits, op, []string{one})
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
