package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestDemoScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/demo*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts: %v, %v", files, err)
	}
	testscript.Run(t, testscript.Params{Files: files, RequireExplicitExec: true})
}

// watched is an output that calls a function for every line.
type watched struct {
	mu     sync.Mutex
	bytes  bytes.Buffer
	online func(line string)
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.bytes.Write(p)
	w.mu.Unlock()
	if w.online != nil {
		w.online(string(p))
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes.String()
}

// newDemo returns a demonstration in this process, whose workers are those of
// the real program.
func newDemo(t *testing.T, out *watched) *demo {
	t.Helper()
	exe, err := exec.LookPath("mortise") // TestMain has put it there
	if err != nil {
		t.Fatal(err)
	}
	return &demo{out: out, exe: exe, arg0: "mortise", workers: 3, duration: 4 * time.Second}
}

// ended fails the test if a process of d is there, or its directory.
func ended(t *testing.T, d *demo) {
	t.Helper()
	if len(d.processes) != d.workers {
		t.Errorf("%d processes were started, want %d", len(d.processes), d.workers)
	}
	for _, p := range d.processes {
		if p.cmd.ProcessState == nil {
			t.Errorf("worker-%d is still there", p.number)
		}
	}
	if _, err := os.Stat(d.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory %s: %v, want none", d.dir, err)
	}
}

// A file that somebody has changed is not exact, in whatever direction.
func TestDemoTampered(t *testing.T) {
	t.Parallel()
	out := &watched{}
	d := newDemo(t, out)
	defer func() { _ = os.RemoveAll(d.dir) }()
	err := d.perform(t.Context())
	d.end()
	if err != nil {
		t.Fatalf("perform: %v\n%s", err, out)
	}
	for _, test := range []struct{ by, want int }{{0, 0}, {-1, 1}, {+2, 1}, {-1, 0}} {
		tamper(t, d, test.by)
		if err := d.conclude(); exitCode(err) != test.want {
			t.Errorf("after adding %+d: exit code %d (%v), want %d\n%s", test.by, exitCode(err), err, test.want, out)
		}
	}
}

func tamper(t *testing.T, d *demo, by int) {
	t.Helper()
	f, err := os.OpenFile(d.file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := readCounter(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeCounter(f, n+by); err != nil {
		t.Fatal(err)
	}
}

// An interrupt ends it at any time, with its workers, and leaves nothing.
func TestDemoInterrupted(t *testing.T) {
	for _, when := range []string{"An embedded Redis", "asks for the lock", "stops right there", "after the kill", "tells the workers"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			out := &watched{online: func(line string) {
				if strings.Contains(line, when) {
					cancel(signalled(os.Interrupt))
				}
			}}
			d := newDemo(t, out)
			err := d.run(ctx)
			if exitCode(err) != 130 {
				t.Errorf("exit code %d (%v), want 130\n%s", exitCode(err), err, out)
			}
			if strings.Contains(out.String(), "lost updates") {
				t.Errorf("what was interrupted gave a result:\n%s", out)
			}
			if when == "An embedded Redis" {
				d.workers = len(d.processes) // it may not have come to that
			}
			ended(t, d)
		})
	}
}

// A worker that dies without having been killed by the demonstration makes it
// fail, with the worker's own words.
func TestDemoWorkerFails(t *testing.T) {
	t.Parallel()
	var d *demo
	out := &watched{}
	out.online = func(line string) {
		if strings.Contains(line, "has written 1") {
			d.server.Close() // whoever asks next is told so
		}
	}
	d = newDemo(t, out)
	err := d.run(t.Context())
	if exitCode(err) != exitBug || err == nil || !regexp.MustCompile(`^worker-[123] \(pid \d+\) failed: exit status \d+: mortise: .*demo:counter`).MatchString(err.Error()) {
		t.Errorf("error: %v, want that of a worker that cannot reach Redis\n%s", err, out)
	}
	ended(t, d)
}

// A demonstration that cannot come to its end is given up.
func TestDemoIsBounded(t *testing.T) {
	t.Parallel()
	var d *demo
	out := &watched{}
	stopped := false
	out.online = func(line string) {
		if !stopped && strings.Contains(line, "asks for the lock") {
			stopped = true
			if err := d.processes[1].order("mistake"); err != nil { // not understood, so ignored
				t.Error(err)
			}
			d.processes[1].orders = nowhere{} // and deaf to what follows
		}
	}
	d = newDemo(t, out)
	begun := time.Now()
	err := d.run(t.Context())
	if exitCode(err) != exitBug || err == nil || !strings.Contains(err.Error(), "is not over after 9s") {
		t.Errorf("error: %v, want that it took too long\n%s", err, out)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("took %v, want at most 20s", took)
	}
	ended(t, d)
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

func (nowhere) Close() error { return nil }

// With the most workers it still does not flood the terminal.
func TestDemoIsShort(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "mortise", "demo", "--workers", strconv.Itoa(demoMostWorkers), "--duration", "4s").CombinedOutput()
	if err != nil {
		t.Fatalf("mortise demo: %v\n%s", err, out)
	}
	if lines := bytes.Count(out, []byte("\n")); lines > 40 {
		t.Errorf("%d lines, want at most 40:\n%s", lines, out)
	}
}
