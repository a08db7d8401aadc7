//go:build interop

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// process is a child of the test that cannot outlive it.
type process struct {
	cmd    *exec.Cmd
	stderr *tail
	gone   chan struct{} // closed when the process has ended
}

// startProcess starts cmd and kills it at the end of the test, or when the
// test binary dies. It sets cmd's standard error.
//
// The kernel's parent-death signal follows the thread that started the child,
// so a goroutine keeps that thread until the child has ended.
func startProcess(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	cmd.SysProcAttr = dieWithParent()
	p := &process{cmd: cmd, stderr: &tail{limit: 16 << 10}, gone: make(chan struct{})}
	cmd.Stderr = p.stderr
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is of no interest, only that it did
		}
		close(p.gone)
	}()
	if err := <-started; err != nil {
		t.Fatalf("cannot start %s: %v", cmd.Path, err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("standard error of process %d (%s):\n%s", cmd.Process.Pid, cmd.Path, p.stderr)
		}
	})
	return p
}

// kill ends the process as a crash does, and returns when it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended already
	<-p.gone
}

// pause freezes the process, as a long garbage collection or a suspended
// virtual machine does, until resume.
func (p *process) pause() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStopped(p.cmd.Process.Pid)
}

func (p *process) resume() error { return p.signal(syscall.SIGCONT) }

func (p *process) signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("cannot send %v to process %d: %w", sig, p.cmd.Process.Pid, err)
	}
	return nil
}

// tail keeps the last bytes written to it.
type tail struct {
	limit int

	mu    sync.Mutex
	bytes []byte // guarded by mu
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes = append(t.bytes, p...)
	if excess := len(t.bytes) - t.limit; excess > 0 {
		t.bytes = t.bytes[excess:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.bytes)
}
