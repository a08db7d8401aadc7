//go:build proof

package main

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
)

// screen returns what a terminal shows after text was written to it. It knows only what a refreshed line needs.
func screen(t *testing.T, text string) (lines []string) {
	t.Helper()
	lines = []string{""}
	column := 0
	for len(text) > 0 {
		line := &lines[len(lines)-1]
		rest, erase := strings.CutPrefix(text, "\x1b[K")
		switch {
		case erase:
			*line, text = string([]rune(*line)[:column]), rest
			continue
		case text[0] == '\r':
			column, text = 0, text[1:]
			continue
		case text[0] == '\n':
			lines, column, text = append(lines, ""), 0, text[1:]
			continue
		case text[0] < ' ':
			t.Fatalf("an unexpected sequence: %q", text[:min(len(text), 10)])
		}
		runes := []rune(*line)
		r := []rune(text)[0]
		if column < len(runes) {
			runes[column] = r
		} else {
			runes = append(runes, r)
		}
		*line, column, text = string(runes), column+1, text[len(string(r)):]
	}
	return lines
}

// awaitMatch waits until something was written that matches, and returns it.
func (s *session) awaitMatch(t *testing.T, pattern string) string {
	t.Helper()
	expression := regexp.MustCompile(pattern)
	deadline := time.After(time.Minute)
	for {
		have, more := s.out.look()
		if found := expression.FindString(have); found != "" {
			return found
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("nothing was written that matches %s", pattern)
		}
	}
}

// On a terminal one line tells what a command waits for, and is erased when the wait has ended. The terminal is
// wide: on a narrow one a long name of this host would take the place of the rest.
func TestWaitingLine(t *testing.T) {
	t.Parallel()
	const holder = `\S+ pid [0-9]+ \(mortise: sleep\) for [0-9.]+s`
	for _, test := range []struct {
		name, hold, wait, line, free string
	}{
		{"run", "mortise run job -- sleep 1000", "mortise run job -- echo done", "job: held by " + holder, ""},
		{"run with a limit", "mortise run job -- sleep 1000", "mortise run -w 100s job -- echo done", "1m40s for job: held by " + holder, ""},
		{"run --multi", "mortise run b -- sleep 1000", "mortise run --multi b,c job -- echo done", "job and 2 more: b is held by " + holder, ""},
		{"run --read", "mortise run --write job -- sleep 1000", "mortise run --read job -- echo done", "job: held by " + holder, ""},
		{"run --sem", "mortise run --sem --limit 2 --permits 2 job -- sleep 1000", "mortise run --sem job -- echo done", "1 permit of job: 0 available, 2 held", ""},
		{"elect", "mortise elect --value me job -- sleep 1000", "mortise elect job -- echo done", "the lead of job: held by " + holder + ", value me", ""},
		{"latch", "", "sh -c 'mortise latch job wait && echo done'", "job: its count is 3", "mortise latch job delete"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t)
			var holder *session
			if test.hold != "" {
				holder = begin(t, server.Addr(), strings.Fields(test.hold)[1:]...)
				awaitHeld(t, server, lastBefore(test.hold, " --"))
			} else {
				begin(t, server.Addr(), "latch", "job", "set", "3").wantStatus(t, 0)
			}
			s, _ := onTerminal(t, server.Addr(), "sh", "-c", "stty cols 300; NO_COLOR=1 TERM=xterm exec "+test.wait)
			s.awaitMatch(t, "\rmortise: waiting [0-9]+s (of |for )"+test.line+"; Ctrl-C gives up\x1b\\[K")
			s.awaitMatch(t, "\rmortise: waiting ([2-9]|[1-9][0-9]+)s ")
			if test.free != "" {
				begin(t, server.Addr(), strings.Fields(test.free)[1:]...).wantStatus(t, 0)
			} else {
				holder.signal(t, syscall.SIGTERM)
			}
			s.wantStatus(t, 0)
			s.await(t, "done\r\n")
			if got := screen(t, s.out.text()); len(got) != 2 || got[0] != "done" || got[1] != "" {
				t.Errorf("the terminal shows %q, want done", got)
			}
		})
	}
}

// lastBefore returns the last word before sep.
func lastBefore(text, sep string) string {
	words := strings.Fields(text[:strings.LastIndex(text, sep+" ")])
	return words[len(words)-1]
}

// A line never fills a narrow terminal, where it could not be erased, and Ctrl-C ends the wait.
func TestWaitingLineOnANarrowTerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	name := strings.Repeat("锁", 40)
	begin(t, server.Addr(), "run", name, "--", "sleep", "1000")
	awaitHeld(t, server, name)
	for width, want := range map[string]string{"100": "waiting [0-9]s for 锁{40}\x1b", "30": "waiting [0-9]s for 锁{6}…\x1b", "12": "waiting [0-9]s…\x1b"} {
		t.Run(width, func(t *testing.T) {
			t.Parallel()
			s, terminal := onTerminal(t, server.Addr(), "sh", "-c", "stty cols "+width+"; TERM=xterm exec mortise run "+name+" -- echo done")
			s.awaitMatch(t, "\r"+want)
			typeIn(t, terminal, "\x03")
			s.wantSignal(t, syscall.SIGINT)
			s.await(t, "ended by SIGINT")
			got := screen(t, s.out.text())
			if strings.Contains(strings.Join(got, "\n"), "waiting 1") {
				t.Errorf("the terminal shows %q, want no line", got)
			}
		})
	}
}

// A terminal that cannot erase a line gets whole ones. Where there is no terminal, as in cron, nothing is written,
// unless -v asks for it.
func TestWaitingWithoutALine(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	holder := begin(t, server.Addr(), "run", "job", "--", "sleep", "1000")
	awaitHeld(t, server, "job")
	dumb, _ := onTerminal(t, server.Addr(), "mortise", "run", "job", "--", "true") // with TERM=dumb
	silent := begin(t, server.Addr(), "run", "job", "--", "true")
	verbose := begin(t, server.Addr(), "run", "-v", "job", "--", "true")
	dumb.awaitMatch(t, "^mortise: waiting [0-9]+s for job: held by \\S+ pid [0-9]+ \\(mortise: sleep\\) for [0-9.]+m?s; Ctrl-C gives up\r\n")
	verbose.awaitMatch(t, "^mortise: waiting [0-9]+s for job: held by \\S+ pid [0-9]+ \\(mortise: sleep\\) for [0-9.]+m?s\n")
	holder.signal(t, syscall.SIGTERM)
	for _, s := range []*session{dumb, verbose, silent} {
		s.wantStatus(t, 0)
	}
	if got := silent.out.text(); got != "" {
		t.Errorf("without a terminal it wrote %q, want nothing", got)
	}
	if got := dumb.out.text(); strings.Contains(got, "\x1b") {
		t.Errorf("on a dumb terminal it wrote %q, want no sequences", got)
	}
}

// A command in the background leaves the terminal alone.
func TestWaitingInTheBackground(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	begin(t, server.Addr(), "run", "job", "--", "sleep", "1000")
	begin(t, server.Addr(), "run", "other", "--", "sleep", "1000")
	awaitHeld(t, server, "job")
	awaitHeld(t, server, "other")
	s, terminal := onTerminal(t, server.Addr(), "sh", "-i")
	typeIn(t, terminal, "export TERM=xterm; stty cols 300; mortise run job -- true &\n")
	typeIn(t, terminal, "mortise run other -- true\n")
	s.awaitMatch(t, "\r(mortise: )?waiting ([3-9]|[1-9][0-9]+)s for other: held by \\S+ pid [0-9]+ (\\(mortise: sleep\\) )?for [0-9.]+s(; Ctrl-C gives up)?\x1b") // the other one waits longer by now
	if strings.Contains(s.out.text(), "s for job") {
		t.Error("a command in the background has written to the terminal")
	}
	typeIn(t, terminal, "\x03")
	s.await(t, "ended by SIGINT")
	typeIn(t, terminal, "kill $!; wait $!; exit 3\n")
	s.wantStatus(t, 3)
}
