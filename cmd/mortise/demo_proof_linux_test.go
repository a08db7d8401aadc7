//go:build proof

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// No worker outlives a demonstration that was killed, not even the one that only holds the lock.
func TestDemoKilled(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("mortise", "demo", "--duration", "4s")
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // a killed demonstration cannot remove its file
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()

	var pids []string
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), "stops right there") {
		if _, list, ok := strings.Cut(lines.Text(), "pids "); ok {
			pids = regexp.MustCompile(`\d+`).FindAllString(list, -1)
		}
	}
	if len(pids) != 4 {
		t.Fatalf("processes of the workers: %v, want 4", pids)
	}
	for _, pid := range pids {
		if !isWorker(pid) {
			t.Errorf("process %s is no worker, want one", pid)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	deadline, look := time.After(time.Minute), time.NewTicker(5*time.Millisecond)
	defer look.Stop()
	for _, pid := range pids {
		for isWorker(pid) {
			select {
			case <-look.C:
			case <-deadline:
				t.Fatalf("worker %s is still there", pid)
			}
		}
	}
}

// isWorker reports whether a process is a worker of a demonstration. The command line of a process
// that has ended is empty, even if its status was not collected yet.
func isWorker(pid string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%s/cmdline", pid))
	return err == nil && bytes.Contains(line, []byte("demo\x00worker"))
}
