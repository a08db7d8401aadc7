//go:build proof

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// topScreen is a mortise top in a terminal of its own, with an emulator in place of the user's eyes.
type topScreen struct {
	*session
	master *os.File
	tty    *os.File // kept open, so that its settings can be read after the end
	begin  unix.Termios
	read   chan struct{} // closed when nothing is read any more

	mu   sync.Mutex // guards the fields below
	vt   *vt.Emulator
	more chan struct{} // closed by the next change
	raw  bytes.Buffer  // what was written to the terminal
}

// openTop runs mortise top with arguments in a terminal of that size.
func openTop(t *testing.T, addr string, columns, lines int, args ...string) *topScreen {
	t.Helper()
	return openScreen(t, addr, columns, lines, nil, append([]string{"mortise", "top"}, args...)...)
}

// openScreen runs a command in a terminal of that size, with more variables in its environment.
func openScreen(t *testing.T, addr string, columns, lines int, env []string, command ...string) *topScreen {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	s := &topScreen{master: master, tty: tty, read: make(chan struct{}), vt: vt.NewEmulator(columns, lines)}
	s.resizeTerminal(t, columns, lines)
	begin, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	s.begin = *begin
	s.session = prepare(addr, exec.Command(command[0], command[1:]...))
	races := filepath.Join(t.TempDir(), "race")
	s.cmd.Env = append(append(s.cmd.Env, "GORACE="+os.Getenv("GORACE")+" exitcode=0 log_path="+races, "TERM=xterm-256color", "COLORTERM=truecolor", "NO_COLOR=", "PS1=prompt> ", "ENV="), env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = sessionLeader()
	s.launch(t)
	replies := make(chan struct{})
	go func() { // what the terminal is asked, it answers
		defer close(replies)
		buf := make([]byte, 1024)
		for {
			n, err := s.vt.Read(buf)
			if err != nil {
				return
			}
			_, _ = master.Write(buf[:n]) // the program may have ended
		}
	}()
	go s.watch()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.exited
		tty.Close()
		master.Close()
		<-s.read
		if pipe, ok := s.vt.InputPipe().(io.Closer); ok { // Close of the emulator races with Read
			pipe.Close()
		}
		<-replies
		wantNoRaces(t, races)
		if t.Failed() {
			t.Logf("the screen at the end:\n%s", s.text())
		}
	})
	return s
}

// wantNoRaces fails if the race detector has reported anything but one race of a library: at the end of a program,
// bubbletea closes the pipe by which it cancels its reader of the terminal, while that may still ask for the pipe's
// descriptor.
func wantNoRaces(t *testing.T, path string) {
	t.Helper()
	logs, err := filepath.Glob(path + ".*")
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for report := range strings.SplitSeq(string(text), "WARNING: DATA RACE") {
			known := strings.Contains(report, "cancelreader.(*epollCancelReader).Close") && strings.Contains(report, "cancelreader.(*epollCancelReader).wait")
			if strings.Contains(report, "Previous ") && !known {
				t.Errorf("DATA RACE%s", report)
			}
		}
	}
}

// watch passes on to the emulator what the program writes.
func (s *topScreen) watch() {
	defer close(s.read)
	buf := make([]byte, 32*1024)
	for {
		n, err := s.master.Read(buf)
		if err != nil {
			return
		}
		s.mu.Lock()
		_, _ = s.vt.Write(buf[:n])
		_, _ = s.raw.Write(buf[:n])
		if s.more != nil {
			close(s.more)
			s.more = nil
		}
		s.mu.Unlock()
	}
}

// look returns what the screen shows, a line each, and a channel that is closed when that changes.
func (s *topScreen) look() (lines []string, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for y := range s.vt.Height() {
		var b strings.Builder
		for x := 0; x < s.vt.Width(); x++ {
			c := s.vt.CellAt(x, y)
			switch {
			case c == nil || c.Content == "":
				if c == nil || c.Width > 0 {
					b.WriteByte(' ')
				}
			default:
				b.WriteString(c.Content)
			}
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	if s.more == nil {
		s.more = make(chan struct{})
	}
	return lines, s.more
}

func (s *topScreen) text() string {
	lines, _ := s.look()
	return strings.Join(lines, "\n")
}

// until waits until the screen is as wanted.
func (s *topScreen) until(t *testing.T, what string, wanted func(text string) bool) {
	t.Helper()
	deadline, exited := time.After(time.Minute), s.exited
	for {
		lines, more := s.look()
		if wanted(strings.Join(lines, "\n")) {
			return
		}
		select {
		case <-more:
		case <-exited: // what it has written last may not be read yet
			deadline, exited = time.After(time.Minute), nil
		case <-deadline:
			t.Fatalf("the screen does not show %s:\n%s", what, s.text())
		}
	}
}

// shows waits until the screen has all of the texts.
func (s *topScreen) shows(t *testing.T, texts ...string) {
	t.Helper()
	s.until(t, strings.Join(texts, " and "), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// lacks waits until the screen does not have a text.
func (s *topScreen) lacks(t *testing.T, text string) {
	t.Helper()
	s.until(t, "no "+text, func(screen string) bool { return !strings.Contains(screen, text) })
}

// row waits until a line has all of the texts, and returns it.
func (s *topScreen) row(t *testing.T, texts ...string) (row string) {
	t.Helper()
	s.until(t, "a line with "+strings.Join(texts, " and "), func(screen string) bool {
		for line := range strings.SplitSeq(screen, "\n") {
			found := true
			for _, text := range texts {
				found = found && strings.Contains(line, text)
			}
			if found {
				row = line
				return true
			}
		}
		return false
	})
	return row
}

// press types keys.
func (s *topScreen) press(t *testing.T, keys string) {
	t.Helper()
	typeIn(t, s.master, keys)
}

func (s *topScreen) resizeTerminal(t *testing.T, columns, lines int) {
	t.Helper()
	s.mu.Lock()
	s.vt.Resize(columns, lines)
	s.mu.Unlock()
	if err := pty.Setsize(s.master, &pty.Winsize{Cols: uint16(columns), Rows: uint16(lines)}); err != nil {
		t.Fatal(err)
	}
}

// restored fails the test if the terminal is not as it was before.
func (s *topScreen) restored(t *testing.T) {
	t.Helper()
	now, err := unix.IoctlGetTermios(int(s.tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if *now != s.begin {
		t.Errorf("the settings of the terminal are %+v, want %+v", *now, s.begin)
	}
	s.leaves(t)
}

// leaves waits until the terminal shows what was there before the program, and a cursor.
func (s *topScreen) leaves(t *testing.T) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		_, more := s.look()
		s.mu.Lock()
		left := !s.vt.IsAltScreen() && !s.vt.CursorHidden()
		s.mu.Unlock()
		if left {
			return
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatal("the terminal shows the screen of the program, or no cursor")
		}
	}
}

// written returns what was written to the terminal.
func (s *topScreen) written() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.raw.String()
}
