//go:build proof

package main

import (
	"fmt"
	"regexp"
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
			gone := cluster.Masters[2]
			if cluster.Owner(t, index) == gone {
				gone = cluster.Masters[1]
			}
			var living []string
			var c *mortise.Client
			for i := range 30 {
				switch {
				case i == 0: // else it may be that no record is missing
					c = recordedOn(t, cluster, fmt.Sprintf("api-%d", i), gone)
				case i%3 == 0:
					c = clusterClient(t, cluster, fmt.Sprintf("api-%d", i))
				}
				name := fmt.Sprint("job:", i)
				if _, _, err := c.Lock(name).Lock(t.Context()); err != nil {
					t.Fatal(err)
				}
				if cluster.Owner(t, name) != gone {
					living = append(living, name)
				}
			}
			hosts := hostsWithout(t, cluster, c, gone)
			take(t, gone)
			text := wantWritten(t, cluster, exitUnreachable, append(living, gone.Addr(), "what these have is missing here"), "ls")
			if rows := strings.Count(text, "job:"); rows != len(living) {
				t.Errorf("ls shows %d locks, want %d:\n%s", rows, len(living), text)
			}
			wantWritten(t, cluster, 0, append(living, gone.Addr()+" of the cluster cannot be read"), "watch", "--for", "8s")
			text = wantWritten(t, cluster, exitUnreachable, append(hosts, gone.Addr(), "what these have is missing here"), "who")
			if n := strings.Count(text, " pid "); n != len(hosts) {
				t.Errorf("who shows %d processes, want %d:\n%s", n, len(hosts), text)
			}
			wantWritten(t, cluster, exitUnreachable, []string{"Tried " + gone.Addr()}, "show", cluster.KeyOn(t, gone, "job"))
			text = wantWritten(t, cluster, 2, []string{gone.Addr(), "CRITICAL"}, "doctor")
			if !strings.Contains(text, "[eviction]") && !strings.Contains(text, "nothing is evicted") {
				t.Errorf("doctor does not examine the others:\n%s", text)
			}
		})
	}
}

// wantWritten runs a command that must end with that status and write those words, and returns what it wrote.
func wantWritten(t *testing.T, cluster *redistest.ClusterSet, status int, words []string, command ...string) string {
	t.Helper()
	s := begin(t, cluster.Addrs()[0], command...)
	s.wantStatus(t, status)
	text := s.out.text()
	for _, want := range words {
		if !regexp.MustCompile(regexp.QuoteMeta(want) + `\b[^0-9]`).MatchString(text) {
			t.Errorf("%s does not name %s:\n%s", command[0], want, text)
		}
	}
	return text
}

// index is the key of the index of records.
const index = "mortise:clients:{all}"

// clusterClient returns a client of a cluster whose process tells of that host.
func clusterClient(t *testing.T, cluster *redistest.ClusterSet, host string) *mortise.Client {
	t.Helper()
	d, err := connect.Open(t.Context(), "redis+cluster://"+cluster.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	c := mortise.New(d, &mortise.Options{Identity: mortise.Identity{Host: host}})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// recordedOn is clusterClient for a client whose record lies on that server.
func recordedOn(t *testing.T, cluster *redistest.ClusterSet, host string, s *redistest.Server) *mortise.Client {
	t.Helper()
	for {
		c := clusterClient(t, cluster, host)
		hold, _, err := c.Lock("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		id, _, _ := strings.Cut(hold.Owner(), ":")
		if err := hold.Unlock(); err != nil {
			t.Fatal(err)
		}
		if cluster.Owner(t, recordOf(id)) == s {
			return c
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// recordOf returns the key of the record of the client with that id.
func recordOf(id string) string { return "mortise:client:{" + id + "}" }

// hostsWithout waits until the ten clients have records, and returns the hosts of those whose records are not on a server.
func hostsWithout(t *testing.T, cluster *redistest.ClusterSet, c *mortise.Client, gone *redistest.Server) (hosts []string) {
	t.Helper()
	redistest.Eventually(t, "each client has a record", func() error {
		clients, err := c.Clients(t.Context())
		if err != nil || len(clients) < 10 {
			return fmt.Errorf("%d have one, %w", len(clients), err)
		}
		hosts = nil
		for i := range clients {
			if cluster.Owner(t, recordOf(clients[i].ID)) != gone {
				hosts = append(hosts, clients[i].Host+" pid")
			}
		}
		return nil
	})
	return hosts
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
