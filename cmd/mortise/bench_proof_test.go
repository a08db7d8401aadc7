//go:build unix && proof

package main

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise/cmd/mortise/internal/loadtest"
	"github.com/mortise-go/mortise/internal/redistest"
)

// However it is told to end, it leaves nothing behind.
func TestBenchGivesEverythingBackWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	for _, after := range []string{
		"a round trip", "one lock, one goroutine", "8 locks, 8 goroutines", "one lock, 8 goroutines", "4 clients", "locks held",
	} {
		t.Run("after "+after, func(t *testing.T) {
			s := begin(t, server.Addr(), "bench", "--time", "20s") // each part is long enough for the signal
			s.await(t, after)
			redistest.Eventually(t, "locks are held", func() error {
				if server.Int(t, "DBSIZE") == 0 {
					return errors.New("there is no key")
				}
				return nil
			})
			s.signal(t, syscall.SIGINT)
			s.wantStatus(t, 130)
			if keys := server.Must(t, "KEYS", "*").([]any); len(keys) > 0 {
				t.Errorf("%v stay behind", keys)
				for _, key := range keys { // of whom they are
					what, err := server.Do("HGETALL", key.(string))
					t.Log(key, what, err)
				}
			}
			if text := s.out.text(); !strings.Contains(text, "ended by a signal: interrupt") {
				t.Errorf("it wrote %q, want that the signal has ended it", text)
			}
		})
	}
}

// benchmark runs mortise bench with JSON against a server, as user.
func benchmark(t *testing.T, url string, args ...string) (v loadtest.Report) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "mortise", append([]string{"bench", "--time", "5s", "--json"}, args...)...)
	cmd.Env = append(os.Environ(), "MORTISE_REDIS_URL="+url)
	var messages strings.Builder
	cmd.Stderr = &messages
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &v)
	}
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, &messages)
	}
	return v
}

func TestBenchCountsWhatTheServerCounts(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	v := benchmark(t, "redis://"+server.Addr())
	for what, c := range map[string]loadtest.Cycle{"alone": v.Alone, "own keys": v.Own} {
		// A pair can begin before the counted window, or end after it.
		cut := 2 * float64(c.Goroutines) / (c.Rate * loadtest.Window(5*time.Second).Seconds())
		if math.Abs(c.Commands-2) > 0.01+cut {
			t.Errorf("%s: %.3f commands for a lock and its unlock, want 2 ± %.3f", what, c.Commands, cut)
		}
	}
	if n := v.One.Overlaps + v.Between.Overlaps; n != 0 {
		t.Errorf("%d overlaps, want none", n)
	}
	if v.Held.Locks < 100 || v.Held.Locks > loadtest.MaxHeld || v.Held.Renewed < 1 || v.Held.Renewed > 100 {
		t.Errorf("%+v, want 100 to %d locks, of which 1 to 100 are renewed by one command", v.Held, loadtest.MaxHeld)
	}
	if v.Waiting.Waiters != loadtest.Waiters || v.Waiting.Rate > 20 {
		t.Errorf("%+v, want %d waiters that hardly ever ask", v.Waiting, loadtest.Waiters)
	}
	if v.Cost == nil || v.NoCost != "" || !strings.HasPrefix(server.Must(t, "INFO", "server").(string), "# Server\r\nredis_version:"+v.Cost.Version) || v.Cost.Script <= 0 {
		t.Errorf("cost %+v (%s), want what the server tells", v.Cost, v.NoCost)
	}
}

func TestBenchOnACluster(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t, 0)
	v := benchmark(t, "redis+cluster://"+strings.Join(set.Addrs(), ","))
	if n := v.One.Overlaps + v.Between.Overlaps; n != 0 || v.Between.Across == 0 || v.Held.Rate == 0 || v.Cost == nil {
		t.Errorf("%+v, want hand-overs between clients, renewals, no overlap, and what one server tells", v)
	}
	for _, master := range set.Masters {
		if n := master.Int(t, "DBSIZE"); n != 0 {
			t.Errorf("%d keys stay behind on %s", n, master.Addr())
		}
	}
}

// It needs no rights beyond those in docs/protocol.md; without the right to INFO it reports that.
func TestBenchNeedsTheRightsOfLocksOnly(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```\n(ACL SETUSER .*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/protocol.md does not show the rights")
	}
	server := redistest.Single(t)
	server.Must(t, redistest.Rules(t, strings.Fields(string(block[1]))...)...)
	v := benchmark(t, "redis://locks:SECRET@"+server.Addr(), "--prefix", "app:bench:")
	if v.Cost != nil || !strings.Contains(v.NoCost, "INFO") || !strings.Contains(strings.Join(v.Meaning, " "), v.NoCost) {
		t.Errorf("cost %+v (%q), want none, and that the right to INFO is missing, in %q", v.Cost, v.NoCost, v.Meaning)
	}
	if v.Between.HandOvers == 0 || strings.Contains(v.Server, "SECRET") {
		t.Errorf("%+v, want hand-overs between clients, and no password", v)
	}
}
