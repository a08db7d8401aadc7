//go:build unix

package guard

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Die ends this process by the signal that has ended its command, or its wait: shells, make and
// other callers stop at a process that SIGINT has ended, and go on after one that has exited. With
// job it sends the signal to the whole process group, which has not received it because the
// terminal was the command's.
//
// It returns if the signal has no effect, as in the first process of a container.
func Die(s syscall.Signal, job bool) {
	if os.Getpid() == 1 {
		return
	}
	// The command has left a core file, if one is wanted.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // lowering is always allowed
	restoreDefault(s)
	target := os.Getpid()
	if job {
		target = 0
	}
	if syscall.Kill(target, s) == nil {
		time.Sleep(time.Second) // another thread may receive it
	}
}
