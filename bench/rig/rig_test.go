package rig

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/workload"
)

// TestMain lets the test's program be a worker: a real one, or one that fails in the way its
// argument says.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] != "" && !strings.HasPrefix(os.Args[1], "-") {
		os.Exit(behave(os.Args[1]))
	}
	// Under the race detector, every process sleeps for a second at its end.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise tests only take longer
	os.Exit(m.Run())
}

func behave(how string) int {
	switch how {
	case "silent": // it reads its commands, does nothing, and does not end
		signal.Ignore(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, os.Stdin)
		select {}
	case "broken":
		_, _ = os.Stderr.WriteString("the disk is full\n")
		return 1
	}
	err := Serve(context.Background(), os.Stdin, os.Stdout, func(system string) Open {
		if system != "test" {
			return nil
		}
		return func(context.Context, string) (workload.Locker, func(), error) {
			if how == "unopened" {
				return nil, nil, errors.New("no such server")
			}
			return locker(how), func() {}, nil
		}
	})
	if err != nil {
		return 1
	}
	return 0
}

// locker is a system with locks in the process: they exclude no other process. As "cpus" it fails
// unless it has one CPU.
type locker string

func (l locker) Lock(context.Context, string) (workload.Hold, error) {
	if l == "cpus" && runtime.NumCPU() != 1 {
		return nil, errors.New("there are several CPUs")
	}
	return l, nil
}

func (locker) Unlock() error { return nil }

func (l locker) Read() workload.Locker { return l }

func (locker) Permit(context.Context, string, int) error { return nil }

func program(how string) func() *exec.Cmd {
	return func() *exec.Cmd { return exec.Command(os.Args[0], how) }
}

// still is a server that does nothing.
type still struct{ stopped *bool }

func (still) Addr() string          { return "nowhere:1" }
func (still) Usage() (Usage, error) { return Usage{}, nil }
func (s still) Stop()               { *s.stopped = true }

func trialOf(how string, specs ...workload.Spec) (*Trial, *bool) {
	stopped := new(bool)
	return &Trial{
		System: "test",
		Server: func(bool) (Server, error) { return still{stopped}, nil },
		Worker: program(how),
		Specs:  specs,
		Window: 20 * time.Millisecond,
		Limit:  30 * time.Second,
	}, stopped
}

func spec(process int) workload.Spec {
	return workload.Spec{Kind: workload.Cycle, N: 1, Key: "k", Shared: true, Inside: time.Millisecond, Process: process}
}

func TestProcessesThatExcludeNobodyOverlap(t *testing.T) {
	trial, stopped := trialOf("works", spec(0), spec(1))
	o, err := trial.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Result.Counts) != 2 || o.Result.Starved() != 0 {
		t.Errorf("counts %v, want those of 2 goroutines", o.Result.Counts)
	}
	if o.Result.Overlaps == 0 {
		t.Error("no overlaps of processes that exclude nobody: they share no gate")
	}
	if !*stopped {
		t.Error("the server was not stopped")
	}
}

func TestSharedLocksThatExcludeNobodyOverlap(t *testing.T) {
	for what, change := range map[string]func(*workload.Spec){
		"a reader beside a writer": func(s *workload.Spec) { s.Sides, s.Writers = true, 1-s.Process },
		"two writers":              func(s *workload.Spec) { s.Sides, s.Writers = true, 1 },
		"a permit too many":        func(s *workload.Spec) { s.N, s.Permits = 2, 3 },
	} {
		specs := []workload.Spec{spec(0), spec(1)}
		for i := range specs {
			change(&specs[i])
		}
		trial, _ := trialOf("works", specs...)
		o, err := trial.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if o.Result.Overlaps == 0 || o.Result.Busy <= 0 {
			t.Errorf("%s: %d overlaps of processes, busy for %v s", what, o.Result.Overlaps, o.Result.Busy)
		}
	}
	specs := []workload.Spec{spec(0), spec(1)}
	for i := range specs {
		specs[i].Sides = true
	}
	trial, _ := trialOf("works", specs...)
	if o, err := trial.Run(t.Context()); err != nil || o.Result.Overlaps != 0 {
		t.Errorf("%+v, %v: readers may be inside together", o, err)
	}
}

func TestEverySecondWorkerIsOfTheSecondSystem(t *testing.T) {
	trial, _ := trialOf("works", spec(0), spec(1), spec(2))
	trial.Second = &Member{"test", program("silent")}
	trial.Limit = 200 * time.Millisecond
	if _, err := trial.Run(t.Context()); !errors.Is(err, ErrHung) || !strings.Contains(err.Error(), "worker 2 of 3") {
		t.Errorf("error %v, want that the second worker hangs", err)
	}
	trial.Second = &Member{"another", program("works")}
	trial.Limit = 30 * time.Second
	if _, err := trial.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `"another"`) {
		t.Errorf("error %v, want that the worker does not know the second system", err)
	}
	// Two goroutines of three are of the first system.
	trial.Second.System = "test"
	o, err := trial.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counts := o.Result.Processes
	want := float64(counts[1]) / float64(counts[0]+counts[1]+counts[2]) * 3
	if got := o.SecondShare; got < 0.99*want || got > 1.01*want || got == 0 {
		t.Errorf("acquisitions %v: the second system has %v of its even share, want %v", counts, got, want)
	}
}

func TestAWorkerThatDoesNotAnswerIsKilled(t *testing.T) {
	trial, stopped := trialOf("silent", spec(0))
	trial.Limit = 200 * time.Millisecond
	if _, err := trial.Run(t.Context()); !errors.Is(err, ErrHung) {
		t.Fatalf("error %v, want %v", err, ErrHung)
	}
	if !*stopped {
		t.Error("the server was not stopped")
	}
}

func TestATrialHasALimit(t *testing.T) {
	trial, stopped := trialOf("works", spec(0))
	trial.Window, trial.Limit = time.Hour, time.Second
	if _, err := trial.Run(t.Context()); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not done within 1s") {
		t.Errorf("error %v, want that it took too long", err)
	}
	if !*stopped {
		t.Error("the server was not stopped")
	}
}

func TestAWorkerThatEndsIsNamedWithWhatItSaid(t *testing.T) {
	trial, _ := trialOf("broken", spec(0))
	_, err := trial.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "worker 1 of 1") || !strings.Contains(err.Error(), "the disk is full") {
		t.Fatalf("error %v, want which worker, and what it said", err)
	}
}

func TestAWorkerSaysWhatItCannotDo(t *testing.T) {
	trial, _ := trialOf("unopened", spec(0))
	if _, err := trial.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no such server") {
		t.Errorf("error %v, want why it could not be opened", err)
	}
	trial, _ = trialOf("works", workload.Spec{Kind: workload.Cycle})
	if _, err := trial.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "needs a number") {
		t.Errorf("error %v, want what is wrong with the load", err)
	}
	trial, _ = trialOf("works", spec(0))
	trial.System = "another"
	if _, err := trial.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `"another"`) {
		t.Errorf("error %v, want which system there is not", err)
	}
}

func TestCommandsOutOfOrderAreRefused(t *testing.T) {
	var out bytes.Buffer
	in := strings.NewReader(`{"do":"begin"}{"do":"end"}{"do":"start"}{"do":"open"}{"do":"dance"}`)
	if err := Serve(t.Context(), in, &out, func(string) Open { return nil }); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "makes no sense"); n != 5 {
		t.Errorf("answers:\n%s\nwant 5 refusals", &out)
	}
}

func TestWorkersBesideAreNotMeasured(t *testing.T) {
	trial, _ := trialOf("works", workload.Spec{Kind: workload.Keep, N: 1, Key: "k", Shared: true}, spec(1))
	trial.Unmeasured = 1
	o, err := trial.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if o.Result.Each != nil || len(o.Result.Counts) != 1 {
		t.Errorf("result %+v, want that of the second worker only", o.Result)
	}
}

func TestGates(t *testing.T) {
	if g, err := mapGate(""); g != nil || err != nil {
		t.Errorf("no file: %v, %v; want no gate", g, err)
	}
	if _, err := mapGate(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there was mapped")
	}
}

func TestRedisTellsWhatItHasDone(t *testing.T) {
	s, err := StartRedis(false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	before, err := s.Usage()
	if err != nil {
		t.Fatal(err)
	}
	admin := s.(*redis).admin
	for _, command := range [][]string{
		{"SET", "k", "v"}, {"EVAL", "return redis.call('get', KEYS[1])", "1", "k"}, {"CONFIG", "GET", "port"}, {"GET", "k"},
	} {
		if _, err := admin.Do(command...); err != nil {
			t.Fatal(err)
		}
	}
	after, err := s.Usage()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"set": 1, "eval": 1, "get": 2}
	if got := after.Since(before).Commands; !maps.Equal(got, want) {
		t.Errorf("commands %v, want %v: inner calls too, what looks at the server not", got, want)
	}
	if after.CPU < before.CPU || after.CPU == 0 {
		t.Errorf("CPU %v after %v", after.CPU, before.CPU)
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	t.Setenv("REDIS_SERVER_BIN", filepath.Join(t.TempDir(), "none"))
	if _, err := StartRedis(false); err == nil || !strings.Contains(err.Error(), "REDIS_SERVER_BIN") {
		t.Errorf("error %v, want what to do", err)
	}
}

func TestStopReturnsWhenTheServerIsGone(t *testing.T) {
	s, err := StartRedis(false)
	if err != nil {
		t.Fatal(err)
	}
	r := s.(*redis)
	s.Stop()
	select {
	case <-r.exited:
	default:
		t.Error("the server still runs")
	}
	if _, err := os.Stat(r.dir); !os.IsNotExist(err) {
		t.Errorf("its directory is left: %v", err)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var out tail
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			for range 1000 {
				_, _ = out.Write([]byte("0123456789\n"))
			}
		})
	}
	writers.Wait()
	_, _ = out.Write([]byte("the end\n"))
	if got := out.String(); len(got) > 2000 || !strings.HasSuffix(got, "the end") {
		t.Errorf("%d bytes that end with %q", len(got), got[max(0, len(got)-20):])
	}
}
