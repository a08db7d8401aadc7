package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// TestMain lets the test's program be a worker.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "worker" {
		main()
		return
	}
	// Under the race detector, every process sleeps for a second at its end.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise tests only take longer
	os.Exit(m.Run())
}

// Stacks, leaf first, that lead to Lock of package mortise or to nothing.
var attributions = []struct {
	stack []string
	want  cost
}{
	{[]string{core + "Acquire", mortise + ".(*Lock).Lock", "main.main"}, cost{manager, manager}},
	{[]string{"runtime.memmove", core + "Acquire"}, cost{manager, manager}},
	{[]string{"context.WithCancel", core + "Acquire"}, cost{manager, manager}},
	{[]string{mortise + ".(*Lock).Lock", mortise + "/bench/peer.lock"}, cost{public, public}},
	{[]string{mortise + "/internal/keyspace.Channel", core + "Acquire"}, cost{scripts, scripts}},
	{[]string{mortise + "/internal/pipeline.(*Pipeline[go.shape.struct {}]).Run", core + "x"}, cost{drivers, drivers}},
	{[]string{"runtime.memclrNoHeapPointers", "runtime.mallocgc", "runtime.newobject", core + "newLease"}, cost{alloc, manager}},
	{[]string{"runtime.scanobject", "runtime.gcDrainN", "runtime.gcAssistAlloc", "runtime.mallocgc", core + "newLease"}, cost{collect, manager}},
	{[]string{"runtime.scanobject", "runtime.gcDrain", "runtime.gcBgMarkWorker"}, cost{collect, rest}},
	{[]string{"runtime.nanotime1", "runtime.nanotime", "time.runtimeNano", "time.Since", mortise + "/internal/watchdog.x"}, cost{clock, watchdogs}},
	{[]string{"runtime.nanotime1"}, cost{clock, rest}},
	{[]string{"runtime.nanotime1", "runtime.nanotime", "runtime.findRunnable", "runtime.schedule"}, cost{schedule, rest}},
	{[]string{"runtime.(*timer).modify", "time.resetTimer", "net.(*conn).SetDeadline", "github.com/redis/go-redis/v9/internal/pool.x"}, cost{timers, library}},
	{[]string{"runtime.procyield", "runtime.semacquire1", "internal/sync.(*Mutex).lockSlow", "sync.(*Mutex).Lock", core + "x"}, cost{mutexes, manager}},
	{[]string{"runtime.futex", "runtime.futexwakeup", "runtime.notewakeup", "runtime.startm", "runtime.wakep", "runtime.ready", "runtime.goready", "runtime.chansend", core + "x"}, cost{threads, manager}},
	{[]string{"internal/runtime/syscall/linux.Syscall6", "internal/runtime/syscall/linux.EpollWait", "runtime.netpoll", "runtime.findRunnable"}, cost{threads, rest}},
	{[]string{"internal/runtime/syscall/linux.Syscall6", "syscall.RawSyscall6", "syscall.Syscall", "syscall.write", "internal/poll.(*FD).Write", "net.(*conn).Write", "bufio.(*Writer).Flush", "github.com/redis/rueidis.(*pipe).syncDo"}, cost{sockets, library}},
	{[]string{"runtime.reentersyscall", "runtime.entersyscall", "syscall.Syscall", "internal/poll.(*FD).Write", "github.com/redis/rueidis.x"}, cost{schedule, library}},
	{[]string{"internal/poll.(*fdMutex).rwlock", "internal/poll.(*FD).Write", "github.com/redis/rueidis.x"}, cost{network, library}},
	{[]string{mortise + "/internal/workload.(*cyclist).entered"}, cost{benchmark, benchmark}},
	{[]string{"racecall"}, cost{benchmark, benchmark}},
	{[]string{"runtime.unheardOf"}, cost{rest, rest}},
}

// allocating is the number of the sample that allocates.
const allocating = 7

const core = mortise + "/internal/waiting."

func TestAttribution(t *testing.T) {
	for _, a := range attributions {
		if got := attribute(a.stack); got != a.want {
			t.Errorf("%s: %v, want %v", strings.Join(a.stack, " < "), got, a.want)
		}
	}
}

// handMade returns a profile with a sample for each of attributions, taken n times for the nth. The leaf
// is inlined in the second function.
func handMade() *profile.Profile {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}}
	for i, a := range attributions {
		s := &profile.Sample{Value: []int64{int64(i + 1), int64(i+1) * 4e6}}
		for j, name := range a.stack {
			line := profile.Line{Function: &profile.Function{Name: name}}
			if j == 1 {
				s.Location[0].Line = append(s.Location[0].Line, line)
				continue
			}
			s.Location = append(s.Location, &profile.Location{Line: []profile.Line{line}})
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

func TestTheSamplesDivideTheTimeOfTheClient(t *testing.T) {
	c := &column{client: 40, costs: map[cost]float64{}}
	c.divide([]*profile.Profile{handMade(), handMade()})
	n := float64(len(attributions))
	if want := n * (n + 1); c.samples != want {
		t.Fatalf("%v samples, want %v", c.samples, want)
	}
	var sum float64
	for _, in := range order {
		sum += c.layerSum(in)
	}
	if fixed(sum, 6) != fixed(c.client, 6) {
		t.Errorf("the layers take %v µs, want %v", sum, c.client)
	}
	if got, want := c.costs[cost{alloc, manager}], allocating*2/c.samples*40; fixed(got, 6) != fixed(want, 6) {
		t.Errorf("the allocations of the core take %v µs, want %v", got, want)
	}
}

func TestTheServersCommandsAreParsed(t *testing.T) {
	got := parse("# CPU\r\nused_cpu_sys:1.5\r\nused_cpu_user:0.25\r\n# Stats\r\ntotal_reads_processed:7\r\ntotal_writes_processed:8\r\n# Commandstats\r\n" +
		"cmdstat_evalsha:calls=4,usec=20,usec_per_call=5.00,rejected_calls=0,failed_calls=0\r\ncmdstat_info:calls=1,usec=90,usec_per_call=90\r\n")
	if got.sys != 1.5e6 || got.user != 0.25e6 || got.reads != 7 || got.writes != 8 || len(got.commands) != 1 || got.commands["evalsha"] != (spent{4, 20}) {
		t.Errorf("%+v", got)
	}
}

func TestPlaces(t *testing.T) {
	stack := []string{
		"runtime.selectgo", mortise + "/internal/pipeline.(*Pipeline[go.shape.struct { a/b.c []d/e.f }]).Run",
		"sync.(*Once).Do", mortise + "/driver/rueidis.(*Driver).run", core + "Acquire",
	}
	if got, want := place(stack), "runtime.selectgo ← pipeline.(*Pipeline).Run ← rueidis.(*Driver).run"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestChoose(t *testing.T) {
	got, err := choose([]string{"w3"}, []string{"limit: in the process"})
	if err != nil || len(got) != 1 || len(got[0].pairs) != 1 || got[0].pairs[0] != (pair{least: "limit: in the process"}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, args := range [][]string{{"-only", "W9"}, {"-systems", "nothing"}, {"dance"}} {
		if err := command(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

// Real processes on a real server: what is printed has every layer, and the profile names nearly all of them.
func TestARun(t *testing.T) {
	loads, err := choose([]string{"W3", "W1"}, []string{"mortise/rueidis", "raw/rueidis"})
	if err != nil {
		t.Fatal(err)
	}
	m := &measurement{window: 500 * time.Millisecond, also: kinds{mutex: true, block: true}, profiles: t.TempDir()}
	for _, l := range loads {
		columns, err := m.load(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range columns {
			wantMeasured(t, l, c)
		}
		text := section(l, columns, true)
		for _, want := range []string{"### " + l.name, "mortise/rueidis", string(manager), "EVALSHA", "on behalf of", "block profile"} {
			if !strings.Contains(text, want) {
				t.Errorf("the section of %s does not say %q:\n%s", l.name, want, text)
			}
		}
	}
	if files, err := os.ReadDir(m.profiles); err != nil || len(files) != 3*3 {
		t.Errorf("%d profiles were kept, want three of each system: %v", len(files), err)
	}
}

// wantMeasured demands that the figures of a system are there, and of the window.
func wantMeasured(t *testing.T, l *load, c *column) {
	t.Helper()
	if unknown := c.layerSum(rest); c.samples == 0 || unknown > 0.1*c.client {
		t.Errorf("%s, %s: %v of %v µs are not attributed, in %v samples", l.name, c.system, unknown, c.client, c.samples)
	}
	if len(c.waits["block"]) == 0 || c.client == 0 || c.user+c.sys == 0 {
		t.Errorf("%s, %s: %+v", l.name, c.system, c)
	}
	if sent := total(c.sent).calls; l.name == "W1" && (sent < 1.9 || sent > 2.1) {
		t.Errorf("%s: %v commands for a pair, want 2: the server was not looked at in the window", c.system, sent)
	}
}

func TestAnInterruptedRunEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := command(ctx, []string{"-only", "W1", "-window", "1m"}, &bytes.Buffer{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
	}
}
