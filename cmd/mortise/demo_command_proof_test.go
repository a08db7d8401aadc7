//go:build proof

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mortise-go/mortise/cmd/mortise/internal/demo"
)

func TestDemoScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/demo/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts: %v, %v", files, err)
	}
	testscript.Run(t, testscript.Params{Files: files, RequireExplicitExec: true})
}

// Even with the most workers it does not flood the terminal.
func TestDemoIsShort(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "mortise", "demo", "--workers", strconv.Itoa(demo.MaxWorkers), "--duration", "4s").CombinedOutput()
	if err != nil {
		t.Fatalf("mortise demo: %v\n%s", err, out)
	}
	if lines := bytes.Count(out, []byte("\n")); lines > 40 {
		t.Errorf("%d lines, want at most 40:\n%s", lines, out)
	}
}

// pids returns the processes of the workers, once the demonstration has printed them.
func pids(t *testing.T, s *session) []int {
	t.Helper()
	s.await(t, "asks for the lock")
	list := regexp.MustCompile(`processes are ready; pids (.*)`).FindStringSubmatch(s.out.text())
	if list == nil {
		t.Fatal("it does not say the processes of its workers")
	}
	var pids []int
	for _, text := range strings.Split(list[1], ", ") {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// A signal ends the demonstration with the signal's exit code and no result.
func TestDemoEndsBySignals(t *testing.T) {
	t.Parallel()
	for s, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		d := begin(t, "", "demo")
		d.await(t, "asks for the lock")
		d.signal(t, s)
		d.wantStatus(t, want)
		if text := d.out.text(); !strings.Contains(text, "ended by a signal: ") || strings.Contains(text, "lost updates") {
			t.Errorf("%v: it wrote %q, want that the signal has ended it, and no result", s, text)
		}
	}
}

// A worker that something else kills is a failure of the demonstration.
func TestDemoWithoutAWorker(t *testing.T) {
	t.Parallel()
	s := begin(t, "", "demo")
	worker, err := os.FindProcess(pids(t, s)[2])
	if err == nil {
		err = worker.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.wantStatus(t, exitBug)
	if text := s.out.text(); !regexp.MustCompile(`worker-3 \(pid \d+\) failed: signal: killed`).MatchString(text) {
		t.Errorf("it wrote %q, want that worker-3 was killed", text)
	}
}
