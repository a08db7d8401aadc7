//go:build proof

package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
)

// listedOn returns the lines that ls prints on a terminal of so many columns; none: in a pipe.
func listedOn(t *testing.T, addr, columns, flags string) []string {
	t.Helper()
	if columns == "" {
		s := prepare(addr, exec.Command("sh", "-c", "mortise ls "+flags+" | sort"))
		s.cmd.Stdout = &s.out
		s.launch(t)
		s.wantStatus(t, 0)
		return strings.Split(strings.TrimSpace(s.out.text()), "\n")
	}
	s, _ := onTerminal(t, addr, "sh", "-c", "stty cols "+columns+"; mortise ls "+flags+"; echo DONE")
	s.await(t, "DONE\r\n")
	text, _, _ := strings.Cut(s.out.text(), "DONE")
	return strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "\r", "")), "\n")
}

// wantStraight fails the test if the counts of rows do not stand below each other.
func wantStraight(t *testing.T, what string, lines []string) {
	t.Helper()
	at := -1
	for _, line := range lines {
		i := strings.Index(line, "COUNT")
		if i < 0 {
			i = strings.Index(line, " 1  ") + 1 // the count, and the only one
		}
		if i <= 0 || at >= 0 && i != at {
			t.Errorf("%s: the columns are not straight:\n%s", what, strings.Join(lines, "\n"))
			return
		}
		at = i
	}
}

// On a terminal no row is broken, whatever it has room for, and everywhere the columns are straight.
func TestListFits(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.chain()
	long := s.client("application-server-number-seven", "a-program-with-a-long-name", mortise.Options{})
	name := "order:0001:items" + strings.Repeat("x", 10)
	s.hold(long, name)
	s.settled(3, 2)
	for _, columns := range []string{"80", "100", "200"} {
		lines := listedOn(t, s.server.Addr(), columns, "")
		text := strings.Join(lines, "\n")
		for _, line := range lines {
			if n := len([]rune(line)); columns == "80" && n > 80 || columns == "100" && n > 100 {
				t.Errorf("%s columns: a line has %d: %q", columns, n, line)
			}
		}
		for _, want := range []string{"deploy ", "1 waiting", name + " ", "application-server"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s columns: it lacks %q:\n%s", columns, want, text)
			}
		}
		wantStraight(t, columns+" columns", lines)
	}
	wantStraight(t, "a pipe", listedOn(t, s.server.Addr(), "", ""))
	lines := listedOn(t, s.server.Addr(), "80", "--wide 'deploy'")
	if len(lines) != 3 || !strings.HasPrefix(lines[2], "    owner ") || !strings.Contains(lines[2], ":1  since 20") {
		t.Errorf("wide, on 80 columns it prints\n%s\nwant a heading, the lock, and its owner in a line of its own", strings.Join(lines, "\n"))
	}
}
