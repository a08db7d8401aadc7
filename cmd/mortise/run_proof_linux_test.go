//go:build proof

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// undying is a command that only SIGKILL ends, as are its child, a process that has left the
// process group, and an orphan.
const undying = `trap '' TERM INT HUP
loop='while :; do sleep 0.1; done'
sh -c "$loop" &
setsid sh -c "$loop" &
(setsid sh -c "$loop" &)
echo ready
eval "$loop"`

// beginMarked is begin for a command whose processes the test can find.
func beginMarked(t *testing.T, addr string, args ...string) (*session, string) {
	t.Helper()
	mark := fmt.Sprintf("MORTISE_TEST_MARK=%d/%s", os.Getpid(), t.Name())
	s := prepare(addr, exec.Command("mortise", args...))
	s.cmd.Env = append(s.cmd.Env, mark)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	s.launch(t)
	t.Cleanup(func() {
		for _, pid := range marked(t, mark) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // left by a failed test
		}
	})
	return s, mark
}

// marked returns the living processes with the mark in their environment, without those that are
// mortise itself or its guard process.
func marked(t *testing.T, mark string) []int {
	t.Helper()
	return processes(t, mark, func(name string) bool { return name != "mortise" && name != "lockguard" })
}

// guards returns the living guard processes with the mark in their environment.
func guards(t *testing.T, mark string) []int {
	t.Helper()
	return processes(t, mark, func(name string) bool { return name == "lockguard" })
}

func processes(t *testing.T, mark string, wanted func(name string) bool) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, file := range files {
		// The environment of a process that ends meanwhile cannot be read. That of a zombie is
		// empty.
		env, _ := os.ReadFile(file)
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		name, _, _ := bytes.Cut(line, []byte{0})
		if !bytes.Contains(append(env, 0), []byte("\x00"+mark+"\x00")) || !wanted(string(name)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func awaitDead(t *testing.T, mark string) {
	t.Helper()
	redistest.Eventually(t, "the command has ended", func() error {
		if pids := marked(t, mark); len(pids) > 0 {
			return fmt.Errorf("processes %v are alive", pids)
		}
		return nil
	})
}

// Nothing of the command is alive when the key expires, although none of its processes ends
// willingly. The network to Redis hangs; the test asks Redis directly.
func TestLostThenAllAreDeadBeforeTheKeyExpires(t *testing.T) {
	for _, test := range []struct{ name, flag string }{
		{"renewed", "--ttl"}, {"fixed", "--max-hold"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
				server := redistest.Single(t)
				proxy := redistest.NewProxy(t, server.Addr())
				s, mark := beginMarked(t, proxy.Addr(), "run", "job", test.flag, "6s", "-c", undying)
				s.await(t, "ready\n")
				if n := len(marked(t, mark)); n < 4 {
					t.Fatalf("%d processes, want 4 at least", n)
				}
				proxy.Stall(redistest.Requests, redistest.Replies)
				wantDeadInTime(t, b, server, mark)
				s.wantStatus(t, 79)
				text := s.out.text()
				for _, want := range []string{`lost the lock "job"`, `the command was ended, because the lock "job" was lost`} {
					if !strings.Contains(text, want) {
						t.Errorf("it does not say %q", want)
					}
				}
			})
		})
	}
}

// wantDeadInTime waits until the command has ended, which must be before the key of the lock job expires. Nobody
// renews it any more.
func wantDeadInTime(t *testing.T, b *canary.Bounds, server *redistest.Server, mark string) {
	t.Helper()
	asked := time.Now()
	left := time.Duration(server.Int(t, "PTTL", "job")) * time.Millisecond
	awaitDead(t, mark)
	b.Within("the death of the whole command, before the key expires", time.Since(asked), left-1)
}

// The same with a server that is stopped. The test goes by the clock, as it cannot ask the server.
func TestLostToAFrozenServer(t *testing.T) { canary.Judge(t, lostToAFrozenServer) }

func lostToAFrozenServer(t *testing.T, b *canary.Bounds) {
	server := redistest.Single(t)
	const ttl = 6 * time.Second
	s, mark := beginMarked(t, server.Addr(), "run", "job", "--ttl", ttl.String(), "-c", undying)
	s.await(t, "ready\n")

	// The server stops as soon as a renewal was seen, long before the next.
	var frozen time.Time
	var lasts time.Duration
	last := server.Int(t, "PTTL", "job")
	redistest.Eventually(t, "a renewal", func() error {
		asked := time.Now()
		left := server.Int(t, "PTTL", "job")
		before := last
		last = left
		if left <= before {
			return errors.New("none yet")
		}
		server.Pause(t)
		frozen, lasts = asked, time.Duration(left)*time.Millisecond
		return nil
	})
	awaitDead(t, mark)
	b.Within("the death of the whole command, before the key can expire", time.Since(frozen), lasts)
	s.wantStatus(t, 79)
}

// A lock that was released by force cannot be guarded any more, but the command gets the time to
// end in order.
func TestForcedThenTheCommandIsAsked(t *testing.T) {
	server := redistest.Single(t)
	s := begin(t, server.Addr(), "run", "job", "--ttl", "6s", "--kill-after", "3s", "--signal", "USR1",
		"-c", "trap 'echo asked; exit 4' USR1; echo ready; while :; do sleep 0.02; done")
	s.await(t, "ready\n")
	server.Must(t, "DEL", "job")
	s.await(t, "asked\n")
	s.wantStatus(t, 79)
}

// A command that ignores SIGTERM is killed when its grace is over, and the lock is free then.
func TestGraceOfACommandThatIgnoresSIGTERM(t *testing.T) {
	server := redistest.Single(t)
	s, mark := beginMarked(t, server.Addr(), "run", "job", "--grace", "300ms", "-c", undying)
	s.await(t, "ready\n")
	s.signal(t, syscall.SIGTERM)
	awaitDead(t, mark)
	s.wantSignal(t, syscall.SIGKILL)
	if n := server.Int(t, "EXISTS", "job"); n != 0 {
		t.Error("the lock is held after the command was killed")
	}
}

func TestOnLostWarn(t *testing.T) {
	server := redistest.Single(t)
	s := begin(t, server.Addr(), "run", "job", "--ttl", "500ms", "--on-lost", "warn",
		"-c", "trap 'exit 4' USR1; echo ready; while :; do sleep 0.02; done")
	s.await(t, "ready\n")
	server.Must(t, "DEL", "job")
	s.await(t, `lost the lock "job"`)
	s.signal(t, syscall.SIGUSR1)
	s.wantStatus(t, 4)
}

// When a lock is lost, a nested run for another lock ends too, with everything it guards.
func TestLostAroundAnotherRun(t *testing.T) {
	server := redistest.Single(t)
	s, mark := beginMarked(t, server.Addr(), "run", "outer", "--ttl", "1s", "--", "mortise", "run", "inner", "--ttl", "1s", "-c", undying)
	s.await(t, "ready\n")
	server.Must(t, "DEL", "outer")
	s.wantStatus(t, 79)
	if pids := marked(t, mark); len(pids) > 0 {
		t.Errorf("processes %v are alive", pids)
	}
}

// Processes that a command leaves in the background go on, and mortise reports them.
func TestLeftInTheBackground(t *testing.T) {
	server := redistest.Single(t)
	s, mark := beginMarked(t, server.Addr(), "run", "job", "-c", "setsid sleep 1000 >/dev/null 2>&1 & exit 6")
	s.wantStatus(t, 6)
	if !strings.Contains(s.out.text(), "left 1 of its processes running") {
		t.Error("it does not say that a process is left")
	}
	if n := len(marked(t, mark)); n != 1 {
		t.Errorf("%d processes are left, want 1", n)
	}
}

// A release that Redis does not answer is told, and bounded; the command's status is the result.
func TestReleaseOnASilentServer(t *testing.T) {
	for _, command := range []string{"run", "elect"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
				server := redistest.Single(t)
				proxy := redistest.NewProxy(t, server.Addr())
				s := begin(t, proxy.Addr(), command, "job", "--", "sh", "-c", "echo ready; exec sleep 1000")
				s.await(t, "ready\n")
				proxy.Stall(redistest.Requests, redistest.Replies)
				start := time.Now()
				s.signal(t, syscall.SIGUSR1) // ends the command
				s.wantStatus(t, exitSignal+int(syscall.SIGUSR1))
				past := time.Since(start)
				b.Within("the end of mortise "+command+" on a silent server", past, 30*time.Second)
				if past < releaseLimit {
					t.Errorf("it took %v, want about %v", past, releaseLimit)
				}
				for _, want := range []string{"mortise: Redis does not answer; trying to release the ", "was not released, because Redis does not answer; it ends by itself within 30s"} {
					if !strings.Contains(s.out.text(), want) {
						t.Errorf("it does not say %q", want)
					}
				}
			})
		})
	}
}
