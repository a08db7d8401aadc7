package watch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

// Owners in stories.
const (
	a = idA + ":1"
	b = idB + ":1"
	r = idR + ":77"
)

// stories are what looks see, and what is told of it.
var stories = []struct {
	name  string
	story []sight
	want  string
}{
	{"nothing", []sight{see(0), see(250)}, ""},
	{"what there is at first", []sight{see(5000, recordOf(idA, holds("job", 1, 1000)), recordOf(idB, waits("job", 3000)))},
		"1000 held job api-7 held 4000; 3000 waiting job api-9 for api-7"},
	{"a hold", []sight{see(0), see(500, recordOf(idA, holds("job", 1, 200))), see(1000, recordOf(idA)).with(key("job", 0)), see(1250)},
		"200 acquired job api-7; 1000 released job api-7 held 800"},
	{"another pattern", []sight{see(0), see(500, recordOf(idA, holds("other", 1, 200), waits("other2", 200))).with(key("other", 1000, r))}, ""},
	{"the record is deleted", []sight{see(0), see(500, recordOf(idA, holds("job", 1, 200))), see(1000).with(key("job", 0))},
		"200 acquired job api-7; 1000 released job api-7 held 800"},
	{"the record is gone, but the hold is not", []sight{see(0), see(500, recordOf(idA, holds("job", 1, 200))), see(1000).with(key("job", 9000, a)), see(1500).with(key("job", 9000, a)), see(2000).with(key("job", 0))},
		"200 acquired job api-7; 2000 released job api-7 held 1800"},
	{"a grant", []sight{
		see(0, recordOf(idA, holds("job", 1, -500))), see(500, recordOf(idA, holds("job", 1, -500)), recordOf(idB, waits("job", 100))),
		see(1500, recordOf(idA), recordOf(idB, waits("job", 100))).with(key("job", 9000, b)), see(1750, recordOf(idB, holds("job", 1, 1400))).with(key("job", 9000, b)),
	}, "-500 held job api-7 held 500; 100 waiting job api-9 for api-7; 1400 released job api-7 held 1900; 1400 granted job api-9 from api-7 waited 1300"},
	{"a grant, and the former holder's record is late", []sight{
		see(0, recordOf(idA, holds("job", 1, -500))), see(500, recordOf(idA, holds("job", 1, -500)), recordOf(idB, waits("job", 100))),
		see(1500, recordOf(idA, holds("job", 1, -500)), recordOf(idB, holds("job", 1, 1400))), see(1750, recordOf(idA), recordOf(idB, holds("job", 1, 1400))),
	}, "-500 held job api-7 held 500; 100 waiting job api-9 for api-7; 1400 granted job api-9 from api-7 waited 1300; 1400 released job api-7 held 1900"},
	{"a wait that is over before the hold is recorded", []sight{
		see(0), see(500, recordOf(idB, waits("job", 100))), see(750, recordOf(idB)).with(key("job", 900, b)), see(1250, recordOf(idB, holds("job", 1, 700))),
	}, "100 waiting job api-9; 700 acquired job api-9 waited 600"},
	{"a wait that is given up", []sight{see(0), see(500, recordOf(idB, waits("job", 100))), see(1000, recordOf(idB)), see(1500, recordOf(idB)), see(2500, recordOf(idB))},
		"100 waiting job api-9; 1000 gave_up job api-9 waited 900"},
	{"a waiter that has gone", []sight{see(0), see(500, recordOf(idB, waits("job", 100))), see(1000)},
		"100 waiting job api-9; 1000 gave_up job api-9 waited 900"},
	{"two waiters of a client", []sight{see(0), see(500, recordOf(idB, waits("job", 100), waits("job", 100))), see(1500, recordOf(idB, waits("job", 100), holds("job", 1, 900)))},
		"100 waiting job api-9; 100 waiting job api-9; 900 acquired job api-9 waited 800"},
	{"acquired again by the same owner", []sight{see(0), see(500, recordOf(idA, holds("job", 1, 100))), see(1500, recordOf(idA, holds("job", 1, 1200)))},
		"100 acquired job api-7; 1200 released job api-7 held 1100; 1200 acquired job api-7"},
	{"a client dies", []sight{
		see(0, recordOf(idA, holds("job", 1, -1000))), see(1000, recordOf(idA, holds("job", 1, -1000), silentFor(20*time.Second))).with(key("job", 500, a)),
		see(2000, recordOf(idA, holds("job", 1, -1000), silentFor(21*time.Second))).with(key("job", 0)),
		see(4600, recordOf(idA, holds("job", 1, -1000), silentFor(24*time.Second))).with(key("job", 0)),
		see(5000, recordOf(idA, holds("job", 1, -1000), silentFor(24*time.Second))),
	}, "-1000 held job api-7 held 1000; 2000 lost job api-7 held 3000"},
	{"a record that is late", []sight{
		see(0, recordOf(idA, holds("job", 1, -1000))), see(500, recordOf(idA, holds("job", 1, -1000))).with(key("job", 0)), see(1000, recordOf(idA)).with(key("job", 0)),
	}, "-1000 held job api-7 held 1000; 1000 released job api-7 held 2000"},
	{"Redisson's holder after a dead one", []sight{
		see(0, recordOf(idA, holds("job", 1, -1000))), see(500, recordOf(idA, holds("job", 1, -1000))).with(key("job", 30_000, r)),
		see(2500, recordOf(idA, holds("job", 1, -1000))).with(key("job", 30_000, r)), see(3250, recordOf(idA, holds("job", 1, -1000))).with(key("job", 30_000, r)),
		see(3500, recordOf(idA, holds("job", 1, -1000))).with(key("job", 30_000, r)),
	}, "-1000 held job api-7 held 1000; 500 lost job api-7 held 1500; 500 acquired job " + r},
	{"a claim that the key does not have, from the start", []sight{
		see(0, recordOf(idA, holds("job", 1, -1000))).with(key("job", 0)), see(5000, recordOf(idA, holds("job", 1, -1000))).with(key("job", 0)),
	}, ""},
	{"a dead client's record ends first", []sight{
		see(0, recordOf(idA, holds("job", 1, -1000), silentFor(29*time.Second))), see(500).with(key("job", 30_000, a)), see(6000).with(key("job", 0)),
	}, "-1000 held job api-7 held 1000; 6000 lost job api-7 held 7000"},
	{"Redisson's holder, in view", []sight{
		see(0).with(key("job", 0)), see(250).with(key("job", 30_000, r)), see(2000).with(key("job", 28_000, r)), see(2250).with(key("job", 0)),
	}, "250 acquired job " + r + "; 2250 released job " + r + " held 2000"},
	{"Redisson's holder, found", []sight{
		see(0), see(250).with(key("job", 30_000, r)), see(2000).with(key("job", 28_000, r)), see(2250).with(key("job", 0)),
	}, "250 held job " + r + "; 2250 released job " + r},
	{"Redisson's holder, found by a later search", []sight{
		see(0), {ms: 250, later: true, keys: []mortise.State{key("job", 30_000, r)}}, {ms: 2000, later: true, keys: []mortise.State{key("job", 28_000, r)}},
	}, "250 acquired job " + r},
	{"Redisson's holder dies", []sight{
		see(0).with(key("job", 0)), see(250).with(key("job", 3000, r)), see(2000).with(key("job", 1250, r)), see(3300).with(key("job", 0)),
	}, "250 acquired job " + r + "; 3300 lost job " + r + " held 3050"},
	{"too short to be named", []sight{see(0).with(key("job", 0)), see(250).with(key("job", 30_000, a)), see(500).with(key("job", 0))},
		"250 acquired job " + a + "; 500 released job " + a},
	{"named by a record in time", []sight{see(0).with(key("job", 0)), see(250).with(key("job", 30_000, a)), see(500, recordOf(idA, holds("job", 1, 100)))},
		"100 acquired job api-7"},
	{"a gap", []sight{see(0, recordOf(idA, holds("job", 1, -1000))), {ms: 60_000, gap: true}},
		"-1000 held job api-7 held 1000; 60000 released job api-7 held 61000 unsure"},
	{"asked, once", []sight{
		see(0, recordOf(idA, holds("job", 1, -1000))), see(500, recordOf(idA, holds("job", 1, -1000), askedFor(1, "ops pid 1"))), see(750, recordOf(idA, holds("job", 1, -1000), askedFor(1, "ops pid 1"))),
	}, "-1000 held job api-7 held 1000; 500 asked job api-7 held 1500 by ops pid 1"},
	{"a key that does not list all", []sight{
		see(0, recordOf(idA, reads("job", 1, -1000))).with(readers("job", 0, a, r)), see(2000, recordOf(idA, reads("job", 1, -1000))).with(readers("job", 0, a, r)),
		see(3000, recordOf(idA, reads("job", 1, -1000)), recordOf(idB, reads("job", 1, 2500))).with(readers("job", 900, "x:1")),
		see(9000, recordOf(idA, reads("job", 1, -1000)), recordOf(idB, reads("job", 1, 2500))).with(readers("job", 900, "x:2")),
		see(9500, recordOf(idB, reads("job", 1, 2500))).with(readers("job", 0, b)),
	}, "-1000 held job api-7 held 1000; 0 held job " + r + "; 2500 acquired job api-9; 9500 released job api-7 held 10500; 9500 released job " + r},
	{"a record that does not list all", []sight{
		see(0, recordOf(idA, holds("job", 1, -1000))), see(500, recordOf(idA, func(c *mortise.ClientState) { c.HoldCount = 100 })),
	}, "-1000 held job api-7 held 1000"},
}

// What is told of two looks, or more.
func TestStories(t *testing.T) {
	for _, test := range stories {
		t.Run(test.name, func(t *testing.T) {
			if got := strings.Join(told(t, test.story), "; "); got != test.want {
				t.Errorf("told\n%s\nwant\n%s", strings.ReplaceAll(got, "; ", "\n"), strings.ReplaceAll(test.want, "; ", "\n"))
			}
		})
	}
}

// A look reads first the keys that decide, and then those that were read the longest ago.
func TestNames(t *testing.T) {
	all := func(string) bool { return true }
	last := Merge(nil, Sighting{At: at(0), Clients: []mortise.ClientState{recordOf(idA, holds("gone", 1, 0), holds("kept", 2, 0))}}, all)
	clients := []mortise.ClientState{recordOf(idA, holds("kept", 2, 0)), recordOf(idB, waits("w1", 0), waits("w2", 0), waits("w3", 0))}
	gone := last.Holds[HoldKey{"gone", idA + ":1"}]
	seen := make(map[string]bool)
	for turn := range 3 {
		names := Names(last, clients, all, 2)
		if len(names) != 3 || names[0] != "gone" || names[2] != "kept" {
			t.Errorf("turn %d reads %q, want the hold that is gone, a wait, and the hold that is kept", turn, names)
			continue
		}
		seen[names[1]] = true
		last = Merge(last, Sighting{At: at(20_000 * (turn + 1)), Clients: clients, States: map[string]mortise.State{names[1]: key(names[1], 0)}}, all)
		last.Holds[HoldKey{"gone", idA + ":1"}] = gone
	}
	if len(seen) != 3 {
		t.Errorf("the waits that are read are %v, want each once", seen)
	}
	if names := Names(last, clients, func(string) bool { return false }, 9); len(names) > 0 {
		t.Errorf("it reads %q, which are not wanted", names)
	}
	if names := Names(nil, nil, all, 9); len(names) > 0 {
		t.Errorf("without clients it reads %q", names)
	}
}

// The lease of permits is that of the one that ends first, of those that the hold has.
func TestLeaseOfPermits(t *testing.T) {
	c := recordOf(idA)
	c.Holds = []mortise.ClientHold{{Lock: "pool", Kind: permitKind, Owner: "aa,bb", Since: at(0)}}
	semaphore := mortise.State{Name: "pool", Kind: mortise.KindPermits, TTL: -1, Permits: []mortise.Permit{
		{ID: "cc", TTL: time.Second}, {ID: "aa", TTL: 9 * time.Second}, {ID: "bb", TTL: 7 * time.Second}, {ID: "dd", TTL: -1},
	}}
	for _, test := range []struct {
		permits []mortise.Permit
		want    time.Time
	}{{semaphore.Permits, at(7000)}, {semaphore.Permits[:2], at(9000)}, {semaphore.Permits[3:], time.Time{}}, {nil, time.Time{}}} {
		s := semaphore
		s.Permits = test.permits
		snapshot := Merge(nil, Sighting{At: at(0), States: map[string]mortise.State{"pool": s}, Clients: []mortise.ClientState{c}}, func(string) bool { return true })
		if h := snapshot.Holds[HoldKey{"pool", "aa,bb"}]; h == nil || !h.Until.Equal(test.want) {
			t.Errorf("of %+v it makes %+v, want a hold until %v", test.permits, h, test.want)
		}
	}
}

// Merge does not change the snapshot before.
func TestMergeChangesNothing(t *testing.T) {
	all := func(string) bool { return true }
	last := Merge(nil, Sighting{
		At: at(0), States: map[string]mortise.State{"job": key("job", 9000, idA+":1"), "short": key("short", 9000, idA+":2")},
		Clients: []mortise.ClientState{recordOf(idA, holds("job", 1, -100), holds("job2", 3, -100)), recordOf(idB, waits("job", -50), waits("job2", -50))},
	}, all)
	first := Diff(nil, last)
	if len(first) != 4 {
		t.Fatalf("it tells %v, want two holds and two waits", first)
	}
	next := Merge(last, Sighting{
		At: at(250), States: map[string]mortise.State{"job": key("job", 9000, idB+":1"), "short": key("short", 0)},
		Clients: []mortise.ClientState{recordOf(idB, holds("job", 1, 100))}, Gap: true,
	}, all)
	if events := Diff(last, next); len(events) != 5 {
		t.Fatalf("it tells %v, want two ends, a grant, and a short hold", events)
	}
	if again := Diff(nil, last); !slices.EqualFunc(first, again, func(a, b Event) bool { return line(&a) == line(&b) }) {
		t.Errorf("it told %v before, and %v after", first, again)
	}
}
