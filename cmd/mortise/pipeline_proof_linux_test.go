//go:build proof

package main

import (
	"strings"
	"testing"

	"github.com/mortise-go/mortise/internal/redistest"
)

// Ctrl-Z stops all runs of a pipeline, and one fg continues them.
func TestTerminalStopAndContinueOfAPipeline(t *testing.T) {
	server := redistest.Single(t)
	s, terminal := onTerminal(t, server.Addr(), "sh", "-i")
	names := []string{"first", "second", "third"}
	end := t.TempDir() + "/end"
	var runs []string
	for _, name := range names {
		runs = append(runs, strings.NewReplacer("NAME", name, "END", end).Replace(
			`mortise run NAME -- sh -c 'trap "echo NAME goes on >/dev/tty" CONT; echo NAME ready >/dev/tty; while [ ! -e END ]; do sleep 0.02; done'`))
	}
	typeIn(t, terminal, strings.Join(runs, " | ")+"\n")
	for _, name := range names {
		s.await(t, name+" ready\r\n")
	}
	typeIn(t, terminal, "\x1a")
	for _, name := range names {
		s.await(t, `stopped; the lock "`+name+`" is lost`)
	}
	typeIn(t, terminal, "echo the shell $((40 + 2))\n")
	s.await(t, "the shell 42\r\n")
	typeIn(t, terminal, "fg\n")
	for _, name := range names {
		s.await(t, name+" goes on\r\n")
	}
	touch(t, end)
	typeIn(t, terminal, "jobs; echo the shell $((41 + 2)); exit 3\n")
	s.await(t, "the shell 43\r\n")
	s.wantStatus(t, 3)
	if n := strings.Count(s.out.text(), "stopped; the lock"); n != len(names) {
		t.Errorf("%d runs have stopped, want each once", n)
	}
	for _, name := range names {
		wantFree(t, server, name)
	}
}
