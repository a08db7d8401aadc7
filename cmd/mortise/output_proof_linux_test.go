//go:build proof

package main

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

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
