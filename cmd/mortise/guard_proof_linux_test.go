//go:build proof

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// If mortise is killed, its command dies too, with everything it has started, before the lock ends.
func TestKilledMortise(t *testing.T) {
	for _, test := range []struct{ name, command string }{
		{"a child", `sleep 1000 & echo ready; wait`},
		{"a child in a session of its own", `setsid sleep 1000 & echo ready; wait`},
		{"an orphan in a session of its own", `(setsid sleep 1000 &); echo ready; sleep 1000`},
		{"nobody ends willingly", undying},
		{"a command that is stopped", `sleep 1000 & echo ready; kill -STOP $$`},
		{"a run inside it", `mortise run other -c 'trap "" TERM; sleep 1000 & echo ready; wait'`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
				server := redistest.Single(t)
				s, mark := beginMarked(t, server.Addr(), "run", "job", "--ttl", "30s", "-c", test.command)
				s.await(t, "ready\n")
				s.signal(t, syscall.SIGKILL)
				wantDeadInTime(t, b, server, mark)
				wantNoGuards(t, mark)
			})
		})
	}
}

// A process that was started with an empty environment, and has left the command's group and its
// parents, is killed too. The test knows it by its pid.
func TestKilledMortiseAroundADaemon(t *testing.T) {
	server := redistest.Single(t)
	file := filepath.Join(t.TempDir(), "pid")
	s, mark := beginMarked(t, server.Addr(), "run", "job", "-c",
		`(env -i setsid sh -c 'echo $$ >`+file+`.new; mv `+file+`.new `+file+`; while :; do sleep 0.1; done' &)
until [ -e `+file+` ]; do sleep 0.02; done; echo ready; sleep 1000`)
	s.await(t, "ready\n")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	s.signal(t, syscall.SIGKILL)
	redistest.Eventually(t, "it has ended", func() error {
		if !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return fmt.Errorf("process %d is alive", pid)
		}
		return nil
	})
	awaitDead(t, mark)
	wantNoGuards(t, mark)
}

// SIGKILL for the whole job of the shell, as of "kill -9 %1", kills mortise and not its guard.
func TestKilledJob(t *testing.T) {
	server := redistest.Single(t)
	s := prepare(server.Addr(), exec.Command("mortise", "run", "job", "-c", undying))
	mark := "MORTISE_TEST_MARK=" + t.TempDir()
	s.cmd.Env = append(s.cmd.Env, mark)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	s.launch(t)
	s.await(t, "ready\n")
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitDead(t, mark)
	wantNoGuards(t, mark)
}

// If only the guard process is killed, mortise ends the command, with everything it has started,
// and then releases the lock.
func TestKilledGuard(t *testing.T) {
	server := redistest.Single(t)
	s, mark := beginMarked(t, server.Addr(), "run", "job", "-c", undying)
	s.await(t, "ready\n")
	killGuard(t, mark)
	s.wantStatus(t, 137)
	if pids := marked(t, mark); len(pids) > 0 {
		t.Errorf("processes %v are alive", pids)
	}
	if text := s.out.text(); !strings.Contains(text, "the guard process was killed; ending the command") {
		t.Errorf("it wrote %q, want why the command has ended", text)
	}
	wantFree(t, server, "job")
}

// If both are killed, the kernel kills the command itself.
func TestKilledMortiseAndGuard(t *testing.T) {
	server := redistest.Single(t)
	s, mark := beginMarked(t, server.Addr(), "run", "job", "-c", "echo ready; exec sleep 1000")
	s.await(t, "ready\n")
	s.signal(t, syscall.SIGSTOP)
	killGuard(t, mark)
	s.signal(t, syscall.SIGKILL)
	awaitDead(t, mark)
}

// A command that may outlive its lock outlives mortise as well.
func TestKilledMortiseThatOnlyWarns(t *testing.T) {
	server := redistest.Single(t)
	s, mark := beginMarked(t, server.Addr(), "run", "job", "--on-lost", "warn", "-c", "echo ready; sleep 0.2; echo goes on; exec sleep 1000")
	s.await(t, "ready\n")
	s.signal(t, syscall.SIGKILL)
	s.await(t, "goes on\n")
	wantNoGuards(t, mark)
}

// A guard process that was stopped, with the whole command, does not keep mortise from ending.
func TestStoppedGuard(t *testing.T) {
	server := redistest.Single(t)
	s, mark := beginMarked(t, server.Addr(), "run", "job", "--ttl", "2s", "-c", "echo ready; exec sleep 1000")
	s.await(t, "ready\n")
	for _, pid := range guards(t, mark) {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	server.Must(t, "DEL", "job")
	s.wantStatus(t, 79)
	awaitDead(t, mark)
	wantNoGuards(t, mark)
}

// No guard process remains, however a run ends.
func TestNoGuardRemains(t *testing.T) {
	server := redistest.Single(t)
	server.Must(t, "HSET", "busy", foreign, "1")
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		want int
		args []string
	}{
		{"ends", 0, []string{"run", "job", "--", "true"}},
		{"fails", 7, []string{"run", "job", "-c", "exit 7"}},
		{"is killed", 137, []string{"run", "job", "-c", "kill -KILL $$"}},
		{"is no program", 126, []string{"run", "job", "--", text}},
		{"busy", 75, []string{"run", "-n", "busy", "--", "true"}},
		{"nested", 0, []string{"run", "job", "--", "mortise", "run", "job", "--", "mortise", "run", "other", "--", "true"}},
		{"leaves a process", 0, []string{"run", "job", "-c", "sleep 0.1 >/dev/null 2>&1 &"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, mark := beginMarked(t, server.Addr(), test.args...)
			s.wantStatus(t, test.want)
			if pids := guards(t, mark); len(pids) > 0 {
				t.Errorf("guard processes %v are left", pids)
			}
		})
	}
	t.Run("no Redis", func(t *testing.T) {
		s, mark := beginMarked(t, "127.0.0.1:1", "run", "job", "--", "true")
		s.wantStatus(t, 69)
		if pids := guards(t, mark); len(pids) > 0 {
			t.Errorf("guard processes %v are left", pids)
		}
	})
	t.Run("killed while it waits", func(t *testing.T) {
		s, mark := beginMarked(t, server.Addr(), "run", "busy", "--", "true")
		redistest.Eventually(t, "it waits", func() error {
			if server.Subscribers(t) == 0 {
				return errors.New("it has not subscribed")
			}
			return nil
		})
		s.signal(t, syscall.SIGKILL)
		wantNoGuards(t, mark)
	})
}

// Files that mortise has inherited from a shell are the command's as well.
func TestInheritedFiles(t *testing.T) {
	server := redistest.Single(t)
	s := prepare(server.Addr(), exec.Command("sh", "-c", `mortise run job -- sh -c 'cat <&3; echo out >&4; ls /proc/self/fd | wc -l' 3<<T 4>&1
in
T
ls /proc/self/fd 3</dev/null 4>&1 | wc -l`))
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	s.launch(t)
	s.wantStatus(t, 0)
	lines := strings.Fields(s.out.text())
	if len(lines) != 4 || lines[0] != "in" || lines[1] != "out" || lines[2] != lines[3] {
		t.Errorf("it wrote %q, want in, out, and the number of open files twice", lines)
	}
}

// What a command sends to its parent reaches mortise.
func TestSignalToTheParent(t *testing.T) {
	server := redistest.Single(t)
	s := begin(t, server.Addr(), "run", "job", "-c", `trap 'echo got it; exit 4' USR1; kill -USR1 $PPID; while :; do sleep 0.02; done`)
	s.await(t, "got it\n")
	s.wantStatus(t, 4)
}

// killGuard kills the guard process of a run.
func killGuard(t *testing.T, mark string) {
	t.Helper()
	pids := guards(t, mark)
	if len(pids) != 1 {
		t.Fatalf("guard processes %v, want one", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// wantNoGuards waits until the guard processes have ended.
func wantNoGuards(t *testing.T, mark string) {
	t.Helper()
	redistest.Eventually(t, "the guard process has ended", func() error {
		if pids := guards(t, mark); len(pids) > 0 {
			return fmt.Errorf("processes %v are alive", pids)
		}
		return nil
	})
}

// A mortise that is stopped alone cannot end its command when the lock is lost: its guard process
// does, before another client can acquire the lock.
func TestStoppedAlone(t *testing.T) {
	for _, flag := range []string{"--ttl", "--max-hold"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
				server := redistest.Single(t)
				s, mark := beginMarked(t, server.Addr(), "run", "job", flag, "6s", "--kill-after", "300ms", "-c", undying)
				s.await(t, "ready\n")
				s.signal(t, syscall.SIGSTOP)
				wantDeadInTime(t, b, server, mark)
				s.signal(t, syscall.SIGCONT)
				s.wantStatus(t, exitLost)
			})
		})
	}
}
