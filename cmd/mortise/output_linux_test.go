package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
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

// The demonstration ends in order, and leaves no file, if nobody reads on.
func TestDemoIntoAClosedPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := prepare("", exec.Command("mortise", "demo"))
	s.cmd.Env = append(s.cmd.Env, "TMPDIR="+dir)
	s.cmd.Stdout, s.cmd.Stderr = out, &s.out
	s.launch(t)
	out.Close()
	if _, err := io.ReadFull(in, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	in.Close()
	s.wantSignal(t, syscall.SIGPIPE)
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 || s.out.text() != "" {
		t.Errorf("it leaves %v (%v) and wrote %q, want nothing", files, err, s.out.text())
	}
}
