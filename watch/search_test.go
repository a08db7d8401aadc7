package watch

import (
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/gentle"
	"github.com/mortise-go/mortise/mortisetest"
)

// What the first search has found was there before, also if another search finds it again before a look takes the names.
func TestNamesOfTheFirstSearchStayOld(t *testing.T) {
	server := mortisetest.NewServer()
	t.Cleanup(server.Close)
	hold := func(name string) {
		if _, err := server.Do("HSET", name, "8f1c2b3a-0000-4000-8000-000000000001:77", "1"); err != nil {
			t.Fatal(err)
		}
	}
	s := newSearch(&gentle.Driver{Driver: server.Link(), Meter: gentle.NewMeter(100)}, &Options{Pattern: "*", Load: 100})
	s.client = mortise.New(s.searcher, &mortise.Options{Identity: mortise.Identity{Hide: true}})
	t.Cleanup(func() { _ = s.client.Close() })
	for _, name := range []string{"old", "new"} {
		hold(name)
		if err := s.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.end(nil, 0)
	}
	all := make(map[string]*found)
	if first := s.take(all); first != 1 {
		t.Errorf("the first search has found %d names, want 1", first)
	}
	if f := all["old"]; f == nil || f.later {
		t.Errorf("old was found: %+v, want by the first search", f)
	}
	if f := all["new"]; f == nil || !f.later {
		t.Errorf("new was found: %+v, want by a later search", f)
	}
	if err := s.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.take(all)
	if f := all["old"]; f == nil || f.later {
		t.Errorf("old was found again: %+v, want by the first search", f)
	}
}

// A search leaves no more names to a look than it may, and goes on to read those that it has left already.
func TestNamesOfASearchAreBounded(t *testing.T) {
	s := newSearch(&gentle.Driver{}, &Options{Pattern: "*", Load: 100})
	for i := range mostFound + 1 {
		state := key(fmt.Sprint("job:", i), 1000, idR+":77")
		s.add(&state)
		if want := min(i+1, mostFound); len(s.found) != want || s.first != want {
			t.Fatalf("of %d names %d are left, %d of the first search, want %d", i+1, len(s.found), s.first, want)
		}
	}
	again := key("job:0", 5000, idR+":77")
	s.add(&again)
	all := map[string]*found{"job:0": {later: true}, "another": {}}
	if first := s.take(all); first != mostFound || len(all) != mostFound || all["job:0"].state.TTL != 5*time.Second || all["job:0"].later {
		t.Errorf("the look has %d names, of which %d are of the first search, and job:0 %+v", len(all), first, all["job:0"])
	}
}

// A look takes what a search has read, unless something newer is known.
func TestStatesOfASearch(t *testing.T) {
	const r = idR + ":77"
	fresh := func(name string, ttl int, age time.Duration) *found {
		return &found{state: key(name, ttl, r), at: time.Now().Add(-age), later: true}
	}
	for _, test := range []struct {
		name    string
		last    *sight // the look before; nil if there was none
		read    bool   // it has read the key itself
		clients []mortise.ClientState
		found   *found
		want    string // taken, left, or dropped
	}{
		{name: "nothing else is known", found: fresh("job", 30_000, 0), want: "taken"},
		{name: "a lease without an end", found: fresh("job", -1, time.Hour), want: "taken"},
		{name: "its lease is over", found: fresh("job", 1000, 2*time.Second), want: "dropped"},
		{name: "the look before has read it", last: &sight{}, read: true, found: fresh("job", 30_000, 0), want: "dropped"},
		{name: "known from its key", last: &sight{keys: []mortise.State{key("job", 30_000, r)}}, found: fresh("job", 30_000, 0), want: "taken"},
		{name: "in a record now", clients: []mortise.ClientState{recordOf(idA, holds("job", 1, 0))}, found: fresh("job", 30_000, 0), want: "left"},
		{name: "in a record before", last: &sight{clients: []mortise.ClientState{recordOf(idA, holds("job", 1, 0))}}, found: fresh("job", 30_000, 0), want: "dropped"},
		{name: "waited for", clients: []mortise.ClientState{recordOf(idA, waits("job", 0))}, found: fresh("job", 30_000, 0), want: "taken"},
	} {
		w := &Watcher{found: map[string]*found{"job": test.found}}
		if test.last != nil {
			w.last = Merge(nil, test.last.sighting(), func(string) bool { return true })
		}
		if test.read {
			w.read = map[string]mortise.State{"job": key("job", 0)}
		}
		s := Sighting{Clients: test.clients, States: make(map[string]mortise.State), Later: make(map[string]bool)}
		w.searched(&s)
		_, taken := s.States["job"]
		_, left := w.found["job"]
		got := map[[2]bool]string{{true, false}: "taken", {false, true}: "left", {false, false}: "dropped"}[[2]bool{taken, left}]
		if got != test.want || taken != s.Later["job"] {
			t.Errorf("%s: the state is %s, later %v; want %s", test.name, got, s.Later["job"], test.want)
		}
	}
}
