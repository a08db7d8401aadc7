//go:build proof

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/connect"
	"github.com/mortise-go/mortise/internal/redistest"
)

// With one of three masters frozen or dead, the locks of the others are listed, and the missing one is named.
func TestListWithoutAMaster(t *testing.T) {
	for what, take := range map[string]func(t *testing.T, s *redistest.Server){
		"frozen": func(t *testing.T, s *redistest.Server) { s.Pause(t) },
		"dead":   func(_ *testing.T, s *redistest.Server) { s.Kill() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.Cluster(t, 0, "--cluster-require-full-coverage", "no")
			d, err := connect.Open(t.Context(), "redis+cluster://"+cluster.Addrs()[0])
			if err != nil {
				t.Fatal(err)
			}
			c := mortise.New(d, &mortise.Options{Identity: mortise.Identity{Host: "api-7"}})
			t.Cleanup(func() { _ = c.Close() })
			gone := cluster.Masters[2]
			var living []string
			for i := range 30 {
				name := fmt.Sprint("job:", i)
				if _, _, err := c.Lock(name).Lock(t.Context()); err != nil {
					t.Fatal(err)
				}
				if cluster.Owner(t, name) != gone {
					living = append(living, name)
				}
			}
			take(t, gone)
			s := begin(t, cluster.Addrs()[0], "ls")
			s.wantStatus(t, exitUnreachable)
			text := s.out.text()
			if rows := strings.Count(text, "job:"); rows != len(living) {
				t.Errorf("it lists %d locks, want %d:\n%s", rows, len(living), text)
			}
			for _, want := range append(living, gone.Addr(), "what these have is missing here") {
				if !strings.Contains(text, want+" ") && !strings.Contains(text, want+".") && !strings.Contains(text, want+":") {
					t.Errorf("it does not name %s:\n%s", want, text)
				}
			}
			s = begin(t, cluster.Addrs()[0], "doctor")
			s.wantStatus(t, 2)
			if text := s.out.text(); !strings.Contains(text, gone.Addr()) || !strings.Contains(text, "CRITICAL") || !strings.Contains(text, "[eviction]") && !strings.Contains(text, "nothing is evicted") {
				t.Errorf("it does not name %s, or does not examine the others:\n%s", gone.Addr(), text)
			}
		})
	}
}

// A cluster that stops to serve with one of its masters, as by default, says so itself.
func TestListOfAClusterThatIsDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 0)
	d, err := connect.Open(t.Context(), "redis+cluster://"+cluster.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	c := mortise.New(d, nil)
	t.Cleanup(func() { _ = c.Close() })
	name := "job"
	for cluster.Owner(t, name) != cluster.Masters[0] {
		name += "+"
	}
	if _, _, err := c.Lock(name).Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	cluster.Masters[2].Kill()
	cluster.AwaitDown(t, cluster.Masters[:2])
	s := begin(t, cluster.Addrs()[0], "ls")
	s.wantStatus(t, exitUnreachable)
	if text := s.out.text(); !strings.Contains(text, "CLUSTERDOWN") {
		t.Errorf("it does not say that the cluster is down:\n%s", text)
	}
}
