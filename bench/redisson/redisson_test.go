//go:build interop && linux

package redisson_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise/bench/peer"
	"github.com/mortise-go/mortise/bench/redisson"
	"github.com/mortise-go/mortise/bench/rig"
	"github.com/mortise-go/mortise/internal/workload"
)

// TestMain lets the test's program be a worker in Go: one that locks with mortise, or one whose
// lock excludes nothing.
func TestMain(m *testing.M) {
	opens := map[string]rig.Open{
		"excludes":         peer.Find("mortise/rueidis").Open,
		"keeps nobody out": func(context.Context, string) (workload.Locker, func(), error) { return open{}, func() {}, nil },
	}
	if len(os.Args) == 2 && opens[os.Args[1]] != nil {
		if err := rig.Serve(context.Background(), os.Stdin, os.Stdout, func(string) rig.Open { return opens[os.Args[1]] }); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// open is a lock that excludes nothing.
type open struct{}

func (o open) Lock(context.Context, string) (workload.Hold, error) { return o, nil }

func (open) Unlock() error { return nil }

func (o open) Read() workload.Locker { return o }

func (open) Permit(context.Context, string, int) error { return nil }

// run runs a load of Redisson in one process per spec; the last of these processes are in Go.
func run(t *testing.T, system string, specs []workload.Spec, inGo ...string) *workload.Result {
	t.Helper()
	if err := redisson.Build(); err != nil {
		t.Fatal(err)
	}
	started := 0
	trial := &rig.Trial{
		System: system, Server: rig.StartRedis, Specs: specs,
		Worker: func() *exec.Cmd {
			started++
			if i := started - 1 - (len(specs) - len(inGo)); i >= 0 {
				return exec.Command(os.Args[0], inGo[i])
			}
			return redisson.Worker()
		},
		Warmup: 100 * time.Millisecond, Window: time.Second, Limit: 2 * time.Minute,
	}
	o, err := trial.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := o.Result
	if r.Failures != 0 || r.Hung != 0 || r.Seconds < 0.9 || r.CPU <= 0 {
		t.Errorf("%d failures (%s), %d hung, %v s, %v s of CPU", r.Failures, r.Failure, r.Hung, r.Seconds, r.CPU)
	}
	if n := r.Acquisitions(); n == 0 || r.Waits.Count()+r.WriteWaits.Count() < n || r.Waits.Max() <= 0 {
		t.Errorf("%d acquisitions after %d waits, of %v at most", n, r.Waits.Count(), r.Waits.Max())
	}
	return r
}

// contending returns the specs of processes that contend for one lock.
func contending(processes, threads int) (specs []workload.Spec) {
	for p := range processes {
		specs = append(specs, workload.Spec{
			Kind: workload.Cycle, N: threads, Key: "bench:one", Shared: true, Inside: 100 * time.Microsecond, Process: p,
		})
	}
	return specs
}

func TestThreadsWithLocksOfTheirOwn(t *testing.T) {
	r := run(t, "Redisson", []workload.Spec{{Kind: workload.Cycle, N: 3, Key: "bench:own"}})
	if len(r.Counts) != 3 || slices.Min(r.Counts) == 0 || r.HandOvers != 0 {
		t.Errorf("counts %v, %d hand-overs; want three with locks, and no hand-over", r.Counts, r.HandOvers)
	}
}

func TestProcessesThatContend(t *testing.T) {
	for _, system := range []string{"Redisson", "Redisson fair"} {
		t.Run(system, func(t *testing.T) {
			r := run(t, system, contending(2, 2))
			if r.Across == 0 || r.Across > r.HandOvers || r.AcrossGap.Count() != r.Across || r.Gaps.Count() != r.HandOvers-r.Across {
				t.Errorf("%d hand-overs, %d of them to the other process; gaps of %d and %d", r.HandOvers, r.Across, r.Gaps.Count(), r.AcrossGap.Count())
			}
			if r.Overlaps != 0 || r.Inside <= 0 || r.Inside > r.Seconds {
				t.Errorf("%d overlaps, %v s inside in %v s", r.Overlaps, r.Inside, r.Seconds)
			}
		})
	}
}

// Processes in Java and in Go see each other in one gate.
func TestJavaAndGoShareAGate(t *testing.T) {
	r := run(t, "Redisson", contending(2, 1), "excludes")
	if r.Overlaps != 0 || r.Across == 0 {
		t.Errorf("%d overlaps, %d hand-overs between Java and Go; want none, and some", r.Overlaps, r.Across)
	}
	// A hand-over can be as short as a message, and is no longer than the window.
	if p50 := r.AcrossGap.Quantile(0.5); p50 <= 0 || p50 > time.Second {
		t.Errorf("a hand-over takes %v; are the clocks the same?", p50)
	}
	if r := run(t, "Redisson", contending(2, 1), "keeps nobody out"); r.Overlaps == 0 {
		t.Error("no overlap was seen of a lock that keeps nobody out")
	}
}

// readingAndWriting returns the specs of two processes, of which the first one writes too.
func readingAndWriting() []workload.Spec {
	specs := contending(2, 3)
	for i := range specs {
		specs[i].Sides = true
	}
	specs[0].Writers = 1
	return specs
}

func TestReadersAndAWriter(t *testing.T) {
	const system = "Redisson RReadWriteLock"
	r := run(t, system, readingAndWriting())
	if r.Overlaps != 0 || len(r.Writers) != 1 || len(r.Counts) != 5 || slices.Min(r.Counts) == 0 {
		t.Errorf("%d overlaps, writers %v, readers %v; want none, one, and five with locks", r.Overlaps, r.Writers, r.Counts)
	}
	if r.Busy <= 0 || r.Busy > r.Seconds || r.WriteWaits.Count() == 0 {
		t.Errorf("held for %v s of %v, %d waits to write", r.Busy, r.Seconds, r.WriteWaits.Count())
	}
	if r := run(t, system, readingAndWriting(), "keeps nobody out"); r.Overlaps == 0 {
		t.Error("no overlap was seen of readers that keep no writer out")
	}
}

func TestPermits(t *testing.T) {
	for _, system := range []string{"Redisson RSemaphore", "Redisson RPermitExpirableSemaphore"} {
		t.Run(system, func(t *testing.T) {
			specs := contending(2, 4)
			for i := range specs {
				specs[i].Permits = 2
			}
			if r := run(t, system, specs); r.Overlaps != 0 || r.Busy <= 0 || r.Busy > r.Seconds {
				t.Errorf("%d overlaps, held for %v s of %v; want none, and a part of it", r.Overlaps, r.Busy, r.Seconds)
			}
			if r := run(t, system, specs, "keeps nobody out"); r.Overlaps == 0 {
				t.Error("no overlap was seen of permits that nobody has")
			}
		})
	}
}
