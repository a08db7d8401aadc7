package script_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/script"
)

// A TTL that is longer than any client requested, because the clock was set back, is cut
// by the renewal if only its owner can have set it, with a count that it knows.
func TestRenewCutsWhatIsTooLong(t *testing.T) {
	server := single(t)
	for _, test := range renewCuts() {
		t.Run(test.name, func(t *testing.T) {
			everywhere(t, server, func(t *testing.T, w *world) {
				test.run(t, w)
			})
		})
	}
}

// ends are times to live, by key, or by key and field, or by key and member.
type ends map[string]time.Duration

// renewCut is a TTL and what a renewal makes of it.
type renewCut struct {
	name  string
	setup setup
	renew script.Renewal
	most  time.Duration
	count int
	after ends
}

func renewCuts() []renewCut {
	lock := func(owner string) script.Renewal { return script.LockRenewal(job, owner, lease) }
	reader, double := script.RWReadRenewal(job, me, lease), script.DoubleRenewal(job, me, lease)
	groups := script.GroupRenewal(ab, me, lease)
	permit := script.PermitRenewal(job, []string{one}, lease)
	permits, rawOne := keyspace.PermitExpiries(job), "\x00\xff\n\r\x80"+strings.Repeat("\x00", 10)+"\x01" // one
	const five = 5 * time.Minute
	return []renewCut{
		{"a lock", held(long, me, "1"), lock(me), lease, 1, ends{job: lease}},
		{"a counted lock", held(long, me, "3"), lock(me), lease, 3, ends{job: lease}},
		{"a lock that was asked for longer", held(long, me, "1"), lock(me), five, 1, ends{job: five}},
		{"a lock of another count", held(long, me, "2"), lock(me), lease, 1, ends{job: long}},
		{"a lock of nobody knows how long", held(long, me, "1"), lock(me), 0, 1, ends{job: long}},
		{"a little too long", held(lease+900*time.Millisecond, me, "1"), lock(me), lease, 1, ends{job: lease + 900*time.Millisecond}},
		{"another's lock", held(long, java, "1"), lock(me), lease, 1, ends{job: long}},
		{"a lock with another in it", held(long, me, "1", java, "1"), lock(me), lease, 1, ends{job: long}},
		{"a term", held(long, "mode", "election", "term", "1", "value", "", "edition", "0", me, "1"), lock(me), lease, 1, ends{job: lease}},
		{"a write lock", writing(long, by(meW, "1")).put, lock(meW), lease, 1, ends{job: lease}},
		{"a write lock with a reader", writing(long, by(meW, "1"), by(me, "1", long)).put, lock(meW), lease, 1, ends{job: long, rwHold(me, 1): long}},
		{"a read lock", reading(long, by(me, "2", long, five)).put, reader, lease, 2,
			ends{job: lease, rwHold(me, 1): lease, rwHold(me, 2): lease}},
		{"a read lock of others, too", reading(long, by(me, "1", long), by(java, "1", long)).put, reader, lease, 1,
			ends{job: long, rwHold(me, 1): lease, rwHold(java, 1): long}},
		{"a read lock of another count", reading(long, by(me, "2", long, long)).put, reader, lease, 1,
			ends{job: long, rwHold(me, 1): long, rwHold(me, 2): long}},
		{"a read lock that was asked for longer", reading(long, by(me, "1", long)).put, reader, five, 1, ends{job: five, rwHold(me, 1): five}},
		{"a group", group(long, has{"a", me, 10, "1"}, has{"b", me, 10, "2"}, has{"c", java, 10, "1"}), groups, lease, 1,
			ends{job: long, job + " a:" + me + ":expire_time": lease, job + " b:" + me + ":expire_time": long, job + " c:" + java + ":expire_time": long}},
		{"a double barrier", barrierOf(long, map[string]string{"mode": "doublebarrier", "parties": "3"}, seat{me, long, ""}, seat{you, long, ""}), double, lease, 1,
			ends{job: long, job + " " + me: lease, job + " " + you: long}},
		{"a permit, which an operator may have prolonged", func(t *testing.T, w *world) {
			w.must(t, "ZADD", permits, fmt.Sprint(permitWorld{w, t}.now()+long.Milliseconds()), rawOne)
		}, permit, lease, 1, ends{permits + " " + rawOne: long}},
	}
}

func (test renewCut) run(t *testing.T, w *world) {
	test.setup(t, w)
	test.renew.Most, test.renew.Count = test.most, test.count
	state := script.Renewed
	if test.name == "another's lock" {
		state = script.Taken
	}
	free := script.LockRenewal("free", me, lease) // a neighbour
	for range 2 {
		r := script.Renew(t.Context(), w, [][]script.Renewal{{test.renew}})[0]
		if r.Err != nil || !slices.Equal(r.States, []int{state}) {
			t.Fatalf("got %v, %v, want %d", r.States, r.Err, state)
		}
		if got, now := r.Clock.Milliseconds(), w.now(t); got > now || got < now-60_000 || !w.real && got != now {
			t.Errorf("the server says that it is %d, want %d", got, now)
		}
		for key, want := range test.after {
			if got := w.rest(t, key); !w.near(got, want) {
				t.Errorf("%s lasts for %v, want %v", key, got, want)
			}
		}
	}
	if test.renew.Script == free.Script {
		r := script.Renew(t.Context(), w, [][]script.Renewal{{free, test.renew, free}})[0]
		if want := []int{script.Gone, state, script.Gone}; !slices.Equal(r.States, want) {
			t.Errorf("among others: %v, %v, want %v", r.States, r.Err, want)
		}
	}
}

// rest returns how long the content of key lasts: the key, or if a space and more
// follow, a field or a member with the time of its end.
func (w *world) rest(t *testing.T, key string) time.Duration {
	t.Helper()
	name, part, found := strings.Cut(key, " ")
	if !found {
		return w.ttl(t, key)
	}
	v := w.must(t, "TYPE", name)
	command := "HGET"
	if v.Str() == "zset" {
		command = "ZSCORE"
	}
	end, err := strconv.ParseInt(w.must(t, command, name, part).Str(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(end-w.now(t)) * time.Millisecond
}
