//go:build proof

package main

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
)

// wantSignal waits for the end and fails if it was not a certain signal that has ended mortise.
func (s *session) wantSignal(t *testing.T, want syscall.Signal) {
	t.Helper()
	s.status(t)
	if w := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !w.Signaled() || w.Signal() != want {
		t.Fatalf("it has ended with %v, want by %v", s.cmd.ProcessState, want)
	}
}

// deadly are signals that end mortise and its command by default.
func deadly() map[string]syscall.Signal {
	return map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "ABRT": syscall.SIGABRT,
		"ALRM": syscall.SIGALRM, "VTALRM": syscall.SIGVTALRM, "XCPU": syscall.SIGXCPU, "IO": syscall.SIGIO, "XFSZ": syscall.SIGXFSZ,
		"PROF": syscall.SIGPROF, "PWR": syscall.SIGPWR, "PIPE": syscall.SIGPIPE, "RT": syscall.Signal(40),
	}
}

// Each signal that ends a process by default ends the command, and then mortise by the same signal.
func TestDiesOfTheSignalThatEndedTheCommand(t *testing.T) {
	server := redistest.Single(t)
	for name, sig := range deadly() {
		t.Run(name, func(t *testing.T) {
			s := begin(t, server.Addr(), "run", name, "--ttl", "5s", "--", "sh", "-c", "echo ready; exec sleep 1000")
			s.await(t, "ready\n")
			s.signal(t, sig)
			s.wantSignal(t, sig)
			if sig != syscall.SIGPROF { // it ends mortise itself
				wantFree(t, server, name)
			}
		})
	}
}

// A signal that the command sends to itself, or gets from elsewhere, is mortise's end as well.
func TestDiesOfTheCommandsOwnSignal(t *testing.T) {
	server := redistest.Single(t)
	for name, sig := range map[string]syscall.Signal{"KILL": syscall.SIGKILL, "SEGV": syscall.SIGSEGV, "USR1": syscall.SIGUSR1, "PIPE": syscall.SIGPIPE} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, server.Addr(), "run", name, "--", "sh", "-c", "kill -"+name+" $$")
			s.wantSignal(t, sig)
			wantFree(t, server, name)
		})
	}
}

// The same signals end the wait for a lock.
func TestDiesOfTheSignalThatEndedTheWait(t *testing.T) {
	for _, command := range [][]string{{"run", "job", "--", "echo", "ran"}, {"elect", "job", "--keep", "--", "echo", "ran"}} {
		for name, sig := range deadly() {
			t.Run(command[0]+" "+name, func(t *testing.T) {
				server := redistest.Single(t)
				holder := begin(t, server.Addr(), append(append([]string{}, command[:2]...), "--", "sleep", "1000")...)
				awaitHeld(t, server, "job")
				awaitAskable(t, server)
				before := server.Subscribers(t)
				s := begin(t, server.Addr(), command...)
				redistest.Eventually(t, "it waits", func() error {
					if server.Subscribers(t) == before {
						return errors.New("it has not subscribed")
					}
					return nil
				})
				s.signal(t, sig)
				s.wantSignal(t, sig)
				if text := s.out.text(); strings.Contains(text, "ran\n") {
					t.Errorf("it wrote %q, want that nothing ran", text)
				}
				holder.signal(t, syscall.SIGTERM)
				holder.wantSignal(t, syscall.SIGTERM)
			})
		}
	}
}

// A command that handles the signal decides itself how it ends.
func TestOwnStatusAfterASignal(t *testing.T) {
	server := redistest.Single(t)
	s := begin(t, server.Addr(), "run", "job", "-c", "trap 'exit 0' ALRM; echo ready; while :; do sleep 0.02; done")
	s.await(t, "ready\n")
	s.signal(t, syscall.SIGALRM)
	s.status(t)
	if !s.cmd.ProcessState.Success() {
		t.Errorf("it has ended with %v, want status 0", s.cmd.ProcessState)
	}
}

// A second SIGINT kills a command that the first has not ended, with everything it has started; a
// copy of the first does not.
func TestSecondInterruptKills(t *testing.T) {
	server := redistest.Single(t)
	s := begin(t, server.Addr(), "run", "job", "-c", `trap 'echo interrupted' INT; sh -c 'trap "" INT; while :; do sleep 0.02; done' & echo ready; while :; do sleep 0.02; done`)
	s.await(t, "ready\n")
	s.signal(t, syscall.SIGINT)
	s.await(t, "interrupted\n")
	s.signal(t, syscall.SIGINT) // at once, as if by a parent that passes on what the terminal has sent
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for ended := false; !ended; {
		select {
		case <-again.C:
			_ = s.cmd.Process.Signal(syscall.SIGINT) // it may have ended
		case <-s.exited:
			ended = true
		}
	}
	s.wantSignal(t, syscall.SIGINT)
	wantFree(t, server, "job")
}

// elect --keep ends when it was asked to, even if the lead is lost while the command shuts down.
func TestKeepEndsWhenAsked(t *testing.T) {
	server := redistest.Single(t)
	s := begin(t, server.Addr(), "elect", "role", "--keep", "--ttl", "6s", "--kill-after", "100ms",
		"-c", "trap 'echo shutting down' TERM; echo started; while :; do sleep 0.02; done")
	s.await(t, "started\n")
	s.signal(t, syscall.SIGTERM)
	s.await(t, "shutting down\n")
	server.Must(t, "DEL", "role")
	s.wantStatus(t, 79)
	if n := strings.Count(s.out.text(), "started\n"); n != 1 {
		t.Errorf("the command was started %d times, want once", n)
	}
}

// A command's own status 79 is no loss of the lead.
func TestKeepAndStatus79(t *testing.T) {
	server := redistest.Single(t)
	for _, flags := range [][]string{nil, {"--on-lost", "warn"}} {
		s := begin(t, server.Addr(), append(append([]string{"elect", "role", "--keep"}, flags...), "--", "sh", "-c", "echo started; exit 79")...)
		s.wantStatus(t, 79)
		if n := strings.Count(s.out.text(), "started\n"); n != 1 {
			t.Errorf("%v: the command was started %d times, want once", flags, n)
		}
		wantFree(t, server, "role")
	}
}
