package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/bench/peer"
	"github.com/mortise-go/mortise/bench/report"
	"github.com/mortise-go/mortise/internal/workload"
)

// TestMain lets the test's program be a worker.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "worker" {
		main()
		return
	}
	// Under the race detector, every process sleeps for a second at its end.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise tests only take longer
	os.Exit(m.Run())
}

func TestPlansMakeSense(t *testing.T) {
	for _, short := range []bool{false, true} {
		seen := map[string]bool{}
		for _, l := range plan(short) {
			if seen[l.Name] {
				t.Errorf("there are two loads %s", l.Name)
			}
			seen[l.Name] = true
			if l.Title == "" || l.window <= 0 || len(l.specs) <= l.unmeasured || (!l.Main && l.Growth == "") {
				t.Errorf("load %+v", l)
			}
			for _, name := range l.systems {
				if why := unfit(name, &l.specs[0]); why != "" {
					t.Errorf("%s: %s", l.Name, why)
				}
			}
			if l.Limit != "" && !slices.Contains(l.systems, l.Limit) {
				t.Errorf("%s: its limit, %s, is not run", l.Name, l.Limit)
			}
		}
		for _, name := range []string{"W1", "W2/64", "W2/512", "W3/2", "W3/64", "W4/16×1", "W4/16×8", "W5", "W6", "W7", "W8/8", "W8/8/apart", "W9/8", "W9/8/apart"} {
			if !seen[name] {
				t.Errorf("short %v: %s is missing", short, name)
			}
		}
	}
}

// unfit returns why a system cannot run a load, empty if it can.
func unfit(system string, spec *workload.Spec) string {
	s := peer.Find(system)
	if s == nil {
		return fmt.Sprintf("there is no system %q", system)
	}
	// A raw script is for one goroutine, to which sides and permits mean nothing.
	if fits := s.Sides == spec.Sides && s.Permits == (spec.Permits > 0); !fits && !strings.HasPrefix(system, "raw") {
		return "the locks of " + system + " are not of that kind"
	}
	return ""
}

func TestTheWholeFitsIntoItsTime(t *testing.T) {
	var all time.Duration
	usual, err := choose(plan(false), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range usual {
		for _, turn := range l.turnsOf(0) {
			all += time.Duration(len(l.in(turn))) * (l.warmup + l.window)
		}
	}
	// With all peers there it was 10m25s, and the round took 18m40s.
	if all > 11*time.Minute {
		t.Errorf("the first round measures for %v; with what lies between it cannot fit into 20 minutes", all)
	}
}

// Where a few per cent matter, mortise and its limits take turns more often than the others, and a sample
// knows its turn, so that ratios are taken within one.
func TestSystemsTakeTurns(t *testing.T) {
	l := tiny("tiny", 1, "redsync", "mortise/rueidis", "limit: granted")
	l.window, l.warmup = 5*time.Millisecond, 0
	l.rounds, l.turns, l.often = 1, fewTurns+2, []string{"mortise/rueidis", "limit: granted"}
	record := newRecord([]*load{l})
	r := &rounds{loads: []*load{l}, budget: time.Hour, most: 2, record: record, say: func(string, ...any) {}}
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	turns := map[string][]int{}
	for _, s := range record.Samples {
		turns[s.System] = append(turns[s.System], s.Round)
	}
	for system, want := range map[string]int{"redsync": fewTurns, "mortise/rueidis": l.turns, "limit: granted": l.turns} {
		if got := turns[system]; len(got) != want || got[want-1] != want-1 {
			t.Errorf("%s had the turns %v, want the first %d", system, got, want)
		}
	}
	if first, last := record.Samples[0].System, record.Samples[len(record.Samples)-2].System; first == last {
		t.Errorf("%s is first in the first turn and the last one: the order rotates", first)
	}
	w1 := (&windows{}).own()[0]
	if w1.turns < 20 || !w1.Pinned || w1.rounds != 1 {
		t.Errorf("W1 has %d turns in %d rounds, pinned %v; want 20 in one", w1.turns, w1.rounds, w1.Pinned)
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		only, systems, want string
	}{
		{"w1,W4/4×8", "redsync,mortise/rueidis", "W1: redsync mortise/rueidis; W4/4×8: redsync mortise/rueidis"},
		{"W4/4x8", "redsync", "W4/4×8: redsync"},
		{"W5", "redsync", ""},
		{"W99", "", ""},
		{"scale/held", "mortise/rueidis", "scale/held: mortise/rueidis"},
		{"seen/W1", "mortise hidden,mortise observed", "seen/W1: mortise hidden mortise observed"},
	} {
		chosen, err := choose(plan(false), list(c.only), list(c.systems))
		var parts []string
		for _, l := range chosen {
			parts = append(parts, l.Name+": "+strings.Join(l.systems, " "))
		}
		if got := strings.Join(parts, "; "); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("-only %q -systems %q: %q, %v; want %q", c.only, c.systems, got, err, c.want)
		}
	}
}

// tiny is a load that shows little, but is quick.
func tiny(name string, processes int, systems ...string) *load {
	w := &windows{warmup: 10 * time.Millisecond, window: 100 * time.Millisecond}
	l := w.among(report.Case{
		Name: name, Workload: "W4", Main: true, Title: "a test", Limit: "limit: granted",
	}, processes, 2, systems)
	l.grace = 30 * time.Second
	return l
}

// Real processes contend on a real server; the report is made from the record alone.
func TestARun(t *testing.T) {
	systems := []string{"limit: granted", "mortise/rueidis", "mortise fair"}
	two := tiny("tiny", 2, systems...)
	once := tiny("once", 1, "mortise/go-redis")
	once.rounds = 1
	loads := []*load{two, once}
	record := newRecord(loads)
	var said []string
	r := &rounds{loads: loads, budget: time.Hour, most: 2, record: record, say: func(format string, args ...any) {
		said = append(said, fmt.Sprintf(format, args...))
	}}
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSamples(t, record, systems)
	if text := strings.Join(said, "\n"); !strings.Contains(text, "round 2, load 1 of 2, tiny: a test") || !strings.Contains(text, "mortise fair") {
		t.Errorf("what was said meanwhile does not tell how far it is:\n%s", text)
	}
	wantReport(t, record, "## tiny: a test", "**mortise fair**", "rounds: 2", "Redis server")
}

// wantSamples demands two rounds of the load tiny with all systems, and one of the load once.
func wantSamples(t *testing.T, record *report.Record, systems []string) {
	t.Helper()
	if want := 2*len(systems) + 1; len(record.Samples) != want {
		t.Fatalf("%d samples, want %d", len(record.Samples), want)
	}
	for i, s := range record.Samples {
		if s.Error != "" || s.Acquisitions == 0 || s.Overlaps != 0 || s.Hung != 0 || s.Sent == 0 {
			t.Errorf("%+v: %+v", s, s.Figures)
		}
		if s.Case == "tiny" && s.Across == 0 {
			t.Errorf("%s: no hand-over to the other process", s.System)
		}
		if want := systems[1]; i == len(systems)+1 && s.System != want {
			t.Errorf("the second round begins with %s, want %s: the order rotates", s.System, want)
		}
	}
}

// wantReport demands that the report of a record, which is made from its file alone, says texts.
func wantReport(t *testing.T, record *report.Record, texts ...string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "run.json")
	if err := record.Write(path); err != nil {
		t.Fatal(err)
	}
	if err := command(t.Context(), []string{"report", path}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, report.File))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range texts {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report does not say %q:\n%s", want, text)
		}
	}
}

func TestNoRoundBeginsThatWouldEndTooLate(t *testing.T) {
	l := tiny("tiny", 1, "mortise/rueidis")
	record := newRecord([]*load{l})
	r := &rounds{loads: []*load{l}, budget: time.Nanosecond, most: 2, record: record, say: func(string, ...any) {}}
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(record.Samples) != 1 {
		t.Errorf("%d rounds, want the first only", len(record.Samples))
	}
}

func TestAnInterruptedRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := tiny("tiny", 1, "mortise/rueidis")
	l.window = time.Minute
	record := newRecord([]*load{l})
	r := &rounds{loads: []*load{l}, budget: time.Hour, most: 2, record: record, say: func(string, ...any) { cancel() }}
	if err := r.run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

func TestASystemThatFailsIsNoted(t *testing.T) {
	l := tiny("tiny", 1, "mortise/rueidis")
	l.specs = []workload.Spec{{Kind: "dance", N: 1, Key: "k"}}
	record := newRecord([]*load{l})
	r := &rounds{loads: []*load{l}, most: 1, record: record, say: func(string, ...any) {}}
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := record.Samples[0]; s.Figures != nil || !strings.Contains(s.Error, "dance") {
		t.Errorf("sample %+v, want why there are no figures", s)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{{"-only", "W99"}, {"dance"}, {"report", "nowhere.json"}} {
		if err := command(t.Context(), args); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}
