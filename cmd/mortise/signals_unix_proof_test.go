//go:build unix && proof

package main

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

const foreign = "8f1c2b3a-0000-4000-8000-000000000001:77"

func TestSignalsEndTheWait(t *testing.T) {
	server := redistest.Single(t)
	for sig, want := range map[syscall.Signal]int{
		syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129, syscall.SIGQUIT: 131,
	} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			server.Must(t, "FLUSHALL")
			server.Must(t, "HSET", "job", foreign, "1")
			s := begin(t, server.Addr(), "run", "job", "--", "echo", "ran")
			redistest.Eventually(t, "it waits", func() error {
				if server.Subscribers(t) == 0 {
					return errors.New("it has not subscribed")
				}
				return nil
			})
			s.signal(t, syscall.SIGUSR1) // has no effect yet
			s.signal(t, sig)
			s.wantStatus(t, want)
			if text := s.out.text(); !strings.Contains(text, "ended by "+unix.SignalName(sig)) || strings.Contains(text, "ran\n") {
				t.Errorf("it wrote %q, want that the signal has ended it", text)
			}
			server.Must(t, "DEL", "job")
		})
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	server := redistest.Single(t)
	names := []string{"INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH", "CONT"}
	script := ""
	for _, name := range names {
		script += "trap 'echo got " + name + "' " + name + "\n"
	}
	script += "trap 'echo got USR2; exit 3' USR2\necho ready\nwhile :; do sleep 0.02; done"
	s := begin(t, server.Addr(), "run", "job", "-c", script)
	s.await(t, "ready\n")
	for _, name := range append(names[:5], "WINCH", "CONT", "USR2") {
		awaitHeld(t, server, "job")
		s.signal(t, unix.SignalNum("SIG"+name))
		s.await(t, "got "+name+"\n")
	}
	s.wantStatus(t, 3)
	wantFree(t, server, "job")
}

// A signal ends the whole group, not only a shell in front (hashicorp/consul #2022), and the lock
// is free afterwards.
func TestTermEndsTheGroupAndReleases(t *testing.T) {
	server := redistest.Single(t)
	s := begin(t, server.Addr(), "run", "job", "--", "sh", "-c", "sleep 1000 & echo ready; sleep 1000")
	s.await(t, "ready\n")
	s.signal(t, syscall.SIGTERM)
	s.wantStatus(t, 143)
	wantFree(t, server, "job")
	if text := s.out.text(); text != "ready\n" {
		t.Errorf("it wrote %q, want nothing more than the command", text)
	}
}

// Signals that were ignored when mortise was started stay ignored, as with nohup.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	server := redistest.Single(t)
	s := prepare(server.Addr(), exec.Command("sh", "-c", `trap '' HUP; exec mortise run job -- sh -c 'kill -HUP $$; echo survived; read x'`))
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	in, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.launch(t)
	s.await(t, "survived\n")
	s.signal(t, syscall.SIGHUP)
	if _, err := in.Write([]byte("x\n")); err != nil {
		t.Fatal(err)
	}
	s.wantStatus(t, 0)
}

// If Redis is gone when the command ends, the command's status still counts, and a signal ends the
// wait for a release that is not possible.
func TestReleaseWithoutRedis(t *testing.T) {
	server := redistest.Single(t)
	s := begin(t, server.Addr(), "run", "job", "-c", "trap '' TERM; trap 'exit 5' USR1; echo ready; while :; do sleep 0.02; done")
	s.await(t, "ready\n")
	server.Stop()
	s.signal(t, syscall.SIGUSR1)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for ended := false; !ended; {
		select {
		case <-again.C:
			_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		case <-s.exited:
			ended = true
		}
	}
	s.wantStatus(t, 5)
	if !strings.Contains(s.out.text(), "was not released; it ends by itself within 30s") {
		t.Error("it does not say what has become of the lock")
	}
}

// A server that accepts connections and never replies is reported as unreachable within seconds.
func TestSilentRedis(t *testing.T) {
	server := redistest.Single(t)
	server.Pause(t)
	s := begin(t, server.Addr(), "run", "job", "--", "echo", "ran")
	s.wantStatus(t, 69)
	if text := s.out.text(); strings.Contains(text, "ran\n") || !strings.Contains(text, "Tried redis://"+server.Addr()) {
		t.Errorf("it wrote %q, want where it has tried", text)
	}
}

// A limited wait is also the limit for reaching Redis, down to a second.
func TestSilentRedisWithinTheWait(t *testing.T) {
	t.Parallel()
	canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
		server := redistest.Single(t)
		server.Pause(t)
		start := time.Now()
		s := begin(t, server.Addr(), "run", "-w", "0.2", "job", "--", "true")
		s.wantStatus(t, exitUnreachable)
		b.Within("the end of run -w 0.2 on a silent server", time.Since(start), connectLeast+time.Second)
	})
}
