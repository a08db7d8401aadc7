package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/mortise-go/mortise/memredis"
)

// A command whose output is lost, here because the disk is full, fails and says so.
func TestLostOutput(t *testing.T) {
	t.Parallel()
	server, err := memredis.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, line := range []string{
		"--help", "help", "run --help", "--version", "completion bash", "demo", "demo --help", "bench",
		"server --addr 127.0.0.1:0", "sem s show", "sem s show --json", "latch l show", "latch l show --json",
		"show x", "show x --json", "ls --json", "unlock x", "unlock x --force --yes",
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		s := prepare(server.Addr(), exec.Command("mortise", strings.Fields(line)...))
		s.cmd.Env = append(s.cmd.Env, "TMPDIR="+t.TempDir())
		s.cmd.Stdout, s.cmd.Stderr = full, &s.out
		s.launch(t)
		if got := s.status(t); got != exitOutput || !strings.Contains(s.out.text(), "the output cannot be written: no space left on device") {
			t.Errorf("mortise %s: exit status %d, and it wrote %q; want %d, and the reason", line, got, s.out.text(), exitOutput)
		}
		full.Close()
	}
}
