package peer

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/bench/report"
	"github.com/mortise-go/mortise/bench/rig"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/workload"
)

// ours are the systems that this program opens itself, on Redis.
func ours(t *testing.T) (systems []*System) {
	t.Helper()
	for _, s := range Systems() {
		if s.Open != nil && s.Server == nil && s.Beside == "" {
			systems = append(systems, s)
		}
	}
	if len(systems) < 14 {
		t.Fatalf("%d systems, want at least 14", len(systems))
	}
	return systems
}

// Each system excludes, hands over if it can wait, and releases its locks; and the split between
// commands sent by its clients and called by its scripts agrees with Redis' own.
func TestSystems(t *testing.T) {
	for _, s := range ours(t) {
		t.Run(s.Name, func(t *testing.T) {
			server, err := rig.StartRedis(false)
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			before, err := server.Usage()
			if err != nil {
				t.Fatal(err)
			}
			seen := monitor(t, server.Addr())
			waits := !strings.HasPrefix(s.Name, "raw")
			spec := workload.Spec{Kind: workload.Cycle, N: 3, Key: "k", Shared: waits, Sides: s.Sides}
			if s.Sides {
				spec.Writers = 1
			}
			if s.Permits {
				spec.Permits = 2
			}
			r := drive(t, s, server.Addr(), spec)
			usage, err := server.Usage()
			if err != nil {
				t.Fatal(err)
			}
			if r.Acquisitions() < 2 || s.Sides && r.Writes() == 0 || r.Overlaps != 0 || r.Failures != 0 || r.Hung != 0 {
				t.Errorf("%d acquisitions, %d overlaps, %d failures (%s), %d hung",
					r.Acquisitions(), r.Overlaps, r.Failures, r.Failure, r.Hung)
			}
			told, called := seen()
			commands := usage.Since(before).Commands
			delete(commands, "monitor")
			sent, inner := report.Split(commands, s.Sends)
			if want := total(told); sent != want {
				t.Errorf("%d commands sent of %v, but Redis saw %d: %v", sent, commands, want, told)
			}
			if want := total(called); inner != want {
				t.Errorf("%d commands called by scripts of %v, but Redis saw %d: %v", inner, commands, want, called)
			}
		})
	}
}

// The metrics of etcd count what its clients send. Without etcd, the report says so, and there is
// nothing to test.
func TestEtcd(t *testing.T) {
	for _, s := range []*System{etcdSystem, etcdInMemory} {
		t.Run(s.Name, func(t *testing.T) {
			if why := s.Available(); why != nil {
				t.Logf("not run: %v", why)
				return
			}
			server, err := s.Server(false)
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			before, err := server.Usage()
			if err != nil {
				t.Fatal(err)
			}
			r := drive(t, s, server.Addr(), workload.Spec{Kind: workload.Cycle, N: 3, Key: "k", Shared: true})
			usage, err := server.Usage()
			if err != nil {
				t.Fatal(err)
			}
			if r.Acquisitions() < 2 || r.HandOvers == 0 || r.Overlaps != 0 || r.Failures != 0 || r.Hung != 0 {
				t.Errorf("%d acquisitions, %d hand-overs, %d overlaps, %d failures (%s), %d hung",
					r.Acquisitions(), r.HandOvers, r.Overlaps, r.Failures, r.Failure, r.Hung)
			}
			commands := usage.Since(before).Commands
			if sent, inner := report.Split(commands, s.Sends); sent < 2*r.Acquisitions() || inner != 0 {
				t.Errorf("%v for %d acquisitions, want two commands at least for each, and none that is not sent", commands, r.Acquisitions())
			}
		})
	}
}

// drive runs a load through s in this process.
func drive(t *testing.T, s *System, addr string, spec workload.Spec) *workload.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	locker, end, err := s.Open(ctx, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	r, err := workload.Do(ctx, locker, spec, 0, 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// monitor records what a server runs. The returned function stops it, and returns how often clients
// sent and scripts called each command.
func monitor(t *testing.T, addr string) func() (sent, called map[string]int64) {
	t.Helper()
	conn, err := redistest.Dial(addr, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Do("MONITOR"); err != nil {
		t.Fatal(err)
	}
	sent, called := map[string]int64{}, map[string]int64{}
	done := make(chan error, 1)
	go func() {
		for {
			line, err := conn.Receive(20 * time.Second)
			if err != nil {
				done <- err
				return
			}
			_, rest, _ := strings.Cut(line.(string), "[0 ")
			from, command, _ := strings.Cut(rest, "] ")
			name := strings.ToLower(strings.Trim(strings.Fields(command)[0], `"`))
			switch {
			case name == "info":
				done <- nil // everything before it has been read
				return
			case from == "lua":
				called[name]++
			default:
				sent[name]++
			}
		}
	}()
	return func() (map[string]int64, map[string]int64) {
		t.Helper()
		err := <-done
		conn.Close()
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
		return maps.Clone(sent), maps.Clone(called)
	}
}

func total(counts map[string]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

func TestMortiseKeepsLocks(t *testing.T) {
	for _, s := range ours(t) {
		// rueidislock sometimes hangs when many goroutines contend; a semaphore has no permits before they are set
		if s.Module != module || s.Permits {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			server, err := rig.StartRedis(false)
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			r := drive(t, s, server.Addr(), workload.Spec{Kind: workload.Keep, N: 200, Key: "k"})
			if r.Each.N != 200 || r.Each.Lost != 0 || r.Failures != 0 || r.Each.Bytes <= 0 {
				t.Errorf("%+v, %d failures: %s", r.Each, r.Failures, r.Failure)
			}
		})
	}
}

func TestNamesOfSystemsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Systems() {
		if seen[s.Name] || Find(s.Name) != s {
			t.Errorf("there are two systems %q", s.Name)
		}
		seen[s.Name] = true
		if (s.Open == nil) == (s.Worker == nil) {
			t.Errorf("%s: want either Open or Worker", s.Name)
		}
		if s.Settings == "" || s.Module == "" && s.Version == nil {
			t.Errorf("%s: the report cannot say what it is", s.Name)
		}
	}
	if Find("none") != nil {
		t.Error("a system was found that there is not")
	}
}
