package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// limit bounds every wait. It is far longer than a wait takes, so that a busy machine does not fail
// tests.
const limit = time.Minute

// session is a mortise that runs at the same time as the test.
type session struct {
	cmd    *exec.Cmd
	out    transcript // what it and its command write, both streams
	exited chan struct{}
}

// begin starts mortise with the server at addr. The end of the test kills it.
func begin(t *testing.T, addr string, args ...string) *session {
	t.Helper()
	s := prepare(addr, exec.Command("mortise", args...))
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	s.launch(t)
	return s
}

func prepare(addr string, cmd *exec.Cmd) *session {
	cmd.Env = append(os.Environ(), "MORTISE_REDIS_URL=redis://"+addr)
	cmd.WaitDelay = limit // for its descendants to close their output
	return &session{cmd: cmd, exited: make(chan struct{})}
}

func (s *session) launch(t *testing.T) {
	t.Helper()
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = s.cmd.Wait() // ProcessState has the result
		close(s.exited)
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.exited
		if t.Failed() {
			t.Logf("%q wrote:\n%s", s.cmd.Args, s.out.text())
		}
	})
}

// await waits until text was written.
func (s *session) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		have, more := s.out.look()
		if strings.Contains(have, text) {
			return
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("%q was not written", text)
		}
	}
}

// status waits for the end and returns the exit status, as a shell shows it.
func (s *session) status(t *testing.T) int {
	t.Helper()
	select {
	case <-s.exited:
		return shellStatus(s.cmd.ProcessState)
	case <-time.After(time.Minute):
		t.Fatal("mortise does not end")
		return 0
	}
}

func (s *session) wantStatus(t *testing.T, want int) {
	t.Helper()
	if got := s.status(t); got != want {
		t.Fatalf("exit status %d, want %d", got, want)
	}
}

// shellStatus returns the status that a shell shows: 128+n for a process that signal n has ended.
func shellStatus(p *os.ProcessState) int {
	if w, ok := p.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return p.ExitCode()
}

// transcript is an output that a test can wait for.
type transcript struct {
	mu   sync.Mutex // guards the fields below
	buf  bytes.Buffer
	more chan struct{} // closed by the next write
}

func (o *transcript) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more != nil {
		close(o.more)
		o.more = nil
	}
	return o.buf.Write(p)
}

func (o *transcript) look() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more == nil {
		o.more = make(chan struct{})
	}
	return o.buf.String(), o.more
}

func (o *transcript) text() string {
	text, _ := o.look()
	return text
}

func (s *session) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("%v: %v", sig, err)
	}
}
