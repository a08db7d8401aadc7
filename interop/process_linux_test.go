//go:build interop

package interop

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// dieWithParent has the kernel kill the child when the test binary dies, even
// a child that is frozen and cannot see the end of its standard input.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// awaitStopped blocks until no thread of a process that was sent SIGSTOP runs any more: one that is in the kernel, and
// waits for a CPU, still finishes its system call, such as a write to Redis.
func awaitStopped(pid int) error {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for deadline := time.After(time.Minute); ; {
		running := ""
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			return err
		}
		if len(threads) == 0 {
			return fmt.Errorf("process %d has no threads", pid)
		}
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			if err != nil {
				continue // it has ended
			}
			// The state follows the name, which may contain anything, in parentheses.
			if end := bytes.LastIndexByte(text, ')'); end < 0 || !bytes.HasPrefix(text[end:], []byte(") T")) {
				running = thread
			}
		}
		if running == "" {
			return nil
		}
		select {
		case <-look.C:
		case <-deadline:
			return fmt.Errorf("%s does not stop", running)
		}
	}
}
