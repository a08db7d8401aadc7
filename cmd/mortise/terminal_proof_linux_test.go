//go:build proof

package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/mortise-go/mortise/cmd/mortise/internal/procfs"
	"github.com/mortise-go/mortise/internal/redistest"
)

// onTerminal runs a shell with job control, or the command in args, on a terminal of its own.
func onTerminal(t *testing.T, addr string, args ...string) (*session, *os.File) {
	t.Helper()
	s := prepare(addr, exec.Command(args[0], args[1:]...))
	s.cmd.Env = append(s.cmd.Env, "PS1=prompt> ", "ENV=", "TERM=dumb")
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = sessionLeader()
	s.launch(t)
	tty.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			_, _ = s.out.Write(buf[:n]) // it never fails
			if err != nil {
				return // the last process has closed the terminal
			}
		}
	}()
	t.Cleanup(func() {
		for p := range procfs.All() { // they would keep the terminal open
			if within(s.cmd.Process.Pid, p) {
				_ = syscall.Kill(p.PID, syscall.SIGKILL)
			}
		}
		master.Close()
		<-read
	})
	return s, master
}

// sessionLeader puts a process into a session whose terminal is its stdin.
func sessionLeader() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true, Setctty: true} }

// within reports whether p is a process or descends from it.
func within(ancestor int, p procfs.Process) bool {
	for ok := true; ok && p.PID != ancestor; p, ok = procfs.Read(p.Parent) {
		if p.Parent <= 1 {
			return false
		}
	}
	return p.PID == ancestor
}

func typeIn(t *testing.T, terminal *os.File, text string) {
	t.Helper()
	if _, err := terminal.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// The command reads from the terminal, which only the foreground may, and gets the signals of
// Ctrl-C.
func TestTerminalIsTheCommands(t *testing.T) {
	server := redistest.Single(t)
	s, terminal := onTerminal(t, server.Addr(), "mortise", "run", "job", "-c",
		`trap 'echo interrupted; exit 9' INT; echo ready; read line </dev/tty; echo "read $line"; while :; do sleep 0.02; done`)
	s.await(t, "ready\r\n")
	typeIn(t, terminal, "some text\n")
	s.await(t, "read some text\r\n")
	typeIn(t, terminal, "\x03")
	s.await(t, "interrupted\r\n")
	s.wantStatus(t, 9)
	if n := strings.Count(s.out.text(), "interrupted"); n != 1 {
		t.Errorf("the command was interrupted %d times, want 1", n)
	}
	wantFree(t, server, "job")
}

// A shell has its terminal back after the command, however the command ended.
func TestTerminalComesBack(t *testing.T) {
	server := redistest.Single(t)
	s, terminal := onTerminal(t, server.Addr(), "sh", "-i")
	typeIn(t, terminal, "mortise run job -- sh -c 'read x; echo \"got $x\"'; echo status $((100 + $?))\n")
	awaitHeld(t, server, "job")
	typeIn(t, terminal, "one\n")
	s.await(t, "got one\r\n")
	s.await(t, "status 100\r\n")
	typeIn(t, terminal, "mortise run job -- sh -c 'kill -KILL $$'; echo status $((100 + $?))\n")
	s.await(t, "status 237\r\n")
	typeIn(t, terminal, "read x; echo \"the shell got $x\"\n")
	typeIn(t, terminal, "two\n")
	s.await(t, "the shell got two\r\n")
	typeIn(t, terminal, "exit 3\n")
	s.wantStatus(t, 3)
}

// Ctrl-Z stops mortise with its command, and fg continues both.
func TestTerminalStopAndContinue(t *testing.T) {
	server := redistest.Single(t)
	s, terminal := onTerminal(t, server.Addr(), "sh", "-i")
	typeIn(t, terminal, "mortise run job -- sh -c 'echo ready; read x; echo \"got $x\"'\n")
	s.await(t, "ready\r\n")
	typeIn(t, terminal, "\x1a")
	s.await(t, `stopped; the lock "job" is lost if this does not go on within`)
	typeIn(t, terminal, "echo the shell $((40 + 2))\n")
	s.await(t, "the shell 42\r\n")
	awaitHeld(t, server, "job")
	typeIn(t, terminal, "fg\n")
	typeIn(t, terminal, "one\n")
	s.await(t, "got one\r\n")
	typeIn(t, terminal, "echo status $((100 + $?)); exit\n")
	s.await(t, "status 100\r\n")
	s.wantStatus(t, 0)
	wantFree(t, server, "job")
}

// A command that was stopped for too long does not go on.
func TestTerminalStoppedTooLong(t *testing.T) {
	server := redistest.Single(t)
	s, terminal := onTerminal(t, server.Addr(), "sh", "-i")
	typeIn(t, terminal, "mortise run job --ttl 1s -- sh -c 'echo ready; read x; echo went on here | tr e E'\n")
	s.await(t, "ready\r\n")
	typeIn(t, terminal, "\x1a")
	s.await(t, "stopped; the lock")
	redistest.Eventually(t, "the lock ends", func() error { return heldError(t, server, "job") })
	typeIn(t, terminal, "fg\n")
	s.await(t, `the command was ended, because the lock "job" was lost`)
	typeIn(t, terminal, "echo status $((100 + $?)); exit\n")
	s.await(t, "status 179\r\n")
	s.wantStatus(t, 0)
	if strings.Contains(s.out.text(), "wEnt on") {
		t.Error("the command went on")
	}
}

// In front of a pager the command leaves the terminal to the pager, until it needs it itself.
func TestTerminalInAPipeline(t *testing.T) {
	server := redistest.Single(t)
	s, terminal := onTerminal(t, server.Addr(), "sh", "-i")
	// The process at the other end of the pipe reads from the terminal.
	end := t.TempDir() + "/end"
	typeIn(t, terminal, "mortise run job -- sh -c 'echo data; until [ -e "+end+" ]; do sleep 0.02; done' | sh -c 'read d; read x </dev/tty; echo \"$d and $x\"'\n")
	awaitHeld(t, server, "job")
	typeIn(t, terminal, "one\n")
	s.await(t, "data and one\r\n")
	touch(t, end)
	typeIn(t, terminal, "mortise run job -- sh -c 'read x </dev/tty; echo \"got $x\"' | cat\n")
	awaitHeld(t, server, "job")
	typeIn(t, terminal, "two\n")
	s.await(t, "got two\r\n")
	// Ctrl-Z stops the whole job.
	typeIn(t, terminal, "mortise run job -- sh -c 'trap \"echo goes on\" CONT; echo ready; while :; do sleep 0.02; done' | cat\n")
	s.await(t, "ready\r\n")
	typeIn(t, terminal, "\x1a")
	s.await(t, "stopped; the lock")
	typeIn(t, terminal, "echo the shell $((40 + 2)); fg\n")
	s.await(t, "the shell 42\r\n")
	s.await(t, "goes on\r\n") // otherwise the shell would be interrupted
	typeIn(t, terminal, "\x03")
	redistest.Eventually(t, "the lock is free", func() error { return heldError(t, server, "job") })
	typeIn(t, terminal, "exit 3\n")
	s.wantStatus(t, 3)
}

// Without a shell that could continue them, a command and mortise are not stopped.
func TestTerminalWithoutJobControl(t *testing.T) {
	server := redistest.Single(t)
	s, terminal := onTerminal(t, server.Addr(), "mortise", "run", "job", "--", "sh", "-c", "echo ready; read x; echo \"got $x\"")
	s.await(t, "ready\r\n")
	typeIn(t, terminal, "\x1a")
	s.await(t, "stopped; the lock")
	typeIn(t, terminal, "one\n")
	s.await(t, "got one\r\n")
	s.wantStatus(t, 0)
}
