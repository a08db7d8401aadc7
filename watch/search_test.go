package watch

import (
	"testing"

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
	found := make(map[string]bool)
	s.take(found)
	if later, ok := found["old"]; !ok || later {
		t.Errorf("old was found: %v, by a later search: %v", ok, later)
	}
	if later, ok := found["new"]; !ok || !later {
		t.Errorf("new was found: %v, by a later search: %v", ok, later)
	}
}
