//go:build proof

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mortise-go/mortise/cmd/mortise/internal/procfs"
	"github.com/mortise-go/mortise/internal/redistest"
)

func init() {
	programs["vforker"] = vforker
	if len(os.Args) > 0 && filepath.Base(os.Args[0]) == "vforker" {
		runtime.LockOSThread() // main runs on the main thread, whose state is the process's
	}
}

// vforker does what shells do for each command, but stays long in the state between vfork and exec.
// Its child leaves that state when it was stopped and continued.
func vforker() {
	// SIGCONT continues the child though it is blocked, and the child can still wait for it
	// afterwards.
	set := unix.Sigset_t{Val: [16]uint64{1 << (unix.SIGCONT - 1)}}
	err1 := unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
	path, err2 := syscall.BytePtrFromString("/bin/sleep")
	argv, err3 := syscall.SlicePtrFromStrings([]string{"sleep", "1000"})
	envv, err4 := syscall.SlicePtrFromStrings(os.Environ())
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		panic(err)
	}
	ready := []byte("ready\n")
	// Without CLONE_VM: the child has its own copy of Go's memory.
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, unix.CLONE_VFORK|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if pid == 0 && errno == 0 {
		_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, 1, uintptr(unsafe.Pointer(&ready[0])), uintptr(len(ready)))
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&set)), 0, 0, 8, 0, 0)
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envv[0])))
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 1, 0, 0)
	}
	fmt.Println("goes on", errno == 0)
	if err := syscall.Kill(int(pid), syscall.SIGKILL); err != nil {
		panic(err)
	}
	os.Exit(7)
}

// A command stops even if Ctrl-Z comes while it waits in vfork for a child, which is stopped first;
// and the child stops with it.
func TestTerminalStopInVfork(t *testing.T) {
	for _, test := range []struct{ name, pipe, status string }{
		{"in the foreground", "", "107"}, {"in a pipeline", " | cat", "100"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := redistest.Single(t)
			s, terminal := onTerminal(t, server.Addr(), "sh", "-i")
			typeIn(t, terminal, "mortise run job -- vforker"+test.pipe+"\n")
			s.await(t, "ready\r\n")
			typeIn(t, terminal, "\x1a")
			s.await(t, `stopped; the lock "job"`)
			typeIn(t, terminal, "echo the shell $((40 + 2))\n")
			s.await(t, "the shell 42\r\n")
			redistest.Eventually(t, "all that the shell has started is stopped, but for the guard process", func() error {
				shell := s.cmd.Process.Pid
				for p := range procfs.All() {
					if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)); within(shell, p) && p.PID != shell && p.State != 'T' && !bytes.HasPrefix(line, []byte("lockguard\x00")) {
						return fmt.Errorf("%q is in state %c", line, p.State)
					}
				}
				return nil
			})
			if strings.Contains(s.out.text(), "goes on") {
				t.Error("the command went on")
			}
			awaitHeld(t, server, "job")
			typeIn(t, terminal, "fg\n")
			s.await(t, "goes on true\r\n")
			typeIn(t, terminal, "echo status $((100 + $?)); exit\n")
			s.await(t, "status "+test.status+"\r\n")
			s.wantStatus(t, 0)
			wantFree(t, server, "job")
		})
	}
}
