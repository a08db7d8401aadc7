//go:build server

package gentle

import (
	"slices"
	"testing"

	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/internal/redistest"
)

func TestSearchOfARealServer(t *testing.T) { testSearch(t, redistest.Single(t).Addr(), 2000) }

// A user who may only use the keys of a prefix can search for them.
func TestSearchWithFewRights(t *testing.T) {
	server := redistest.Single(t)
	server.Must(t, "ACL", "SETUSER", "ops", "on", ">pw", "resetkeys", "~app:*", "nocommands", "+hello", "+ping", "+client|id", "+client|setname",
		"+eval", "+evalsha", "+time", "+scan", "+type", "+hlen", "+hkeys", "+hget", "+hstrlen")
	for _, key := range []string{"app:job", "job"} {
		server.Must(t, "HSET", key, "8f1c2b3a-0000-4000-8000-000000000001:7", "1")
	}
	d, err := connect.Open(t.Context(), "redis://ops:pw@"+server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, _, err := NewClock(d).Time(t.Context()); err != nil {
		t.Error(err)
	}
	s := &Searcher{Driver: Driver{Driver: d, Meter: NewMeter(1e6)}, Pages: NewMeter(1e6), Share: 0.5}
	var keys []string
	if err := s.Scan(t.Context(), "*", func(page []string) error { keys = append(keys, page...); return nil }); err != nil || !slices.Equal(keys, []string{"app:job"}) {
		t.Errorf("it finds %q, %v; want app:job", keys, err)
	}
}

// On a cluster the keys of all masters are searched.
func TestSearchOfACluster(t *testing.T) {
	cluster := redistest.Cluster(t, 0)
	d, err := connect.Open(t.Context(), "redis+cluster://"+cluster.Masters[0].Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var want []string
	for _, master := range cluster.Masters {
		key := cluster.KeyOn(t, master, "job")
		master.Must(t, "HSET", key, "8f1c2b3a-0000-4000-8000-000000000001:7", "1")
		want = append(want, key)
	}
	slices.Sort(want)
	s := &Searcher{Driver: Driver{Driver: d, Meter: NewMeter(1e6)}, Pages: NewMeter(1e6), Share: 0.5}
	var keys []string
	if err := s.Scan(t.Context(), "job*", func(page []string) error { keys = append(keys, page...); return nil }); err != nil {
		t.Fatal(err)
	}
	if slices.Sort(keys); !slices.Equal(slices.Compact(keys), want) {
		t.Errorf("it finds %q, want %q", keys, want)
	}
}
