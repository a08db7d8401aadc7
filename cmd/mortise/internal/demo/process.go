package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// process is the process of a worker as the parent sees it.
type process struct {
	number int
	cmd    *exec.Cmd
	orders io.WriteCloser
	stderr lastBytes
	gone   chan struct{} // closed when the process has ended
	err    error         // its result; valid once gone is closed
	doomed bool          // it was killed as part of the show
}

// startProcess starts cmd, whose standard output must be set. When the process has ended it is sent
// to exits, which must have room. The process cannot outlive this one: it ends at the end of its
// input, and on Linux the kernel kills it even if it cannot notice that.
//
// The kernel's parent-death signal follows the thread that started the child, so a goroutine keeps
// that thread until the child has ended.
func startProcess(number int, cmd *exec.Cmd, exits chan<- *process) (*process, error) {
	p := &process{number: number, cmd: cmd, gone: make(chan struct{})}
	cmd.Stderr = &p.stderr
	cmd.SysProcAttr = dieWithParent()
	var err error
	if p.orders, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		close(p.gone)
		if err == nil {
			exits <- p
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start worker-%d: %w", number, err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// order sends an order to the worker.
func (p *process) order(what string) error {
	if _, err := io.WriteString(p.orders, what+"\n"); err != nil {
		return fmt.Errorf("order worker-%d to %s: %w", p.number, what, err)
	}
	return nil
}

// interrupted reports whether a signal of the terminal has ended the process.
func (p *process) interrupted() bool {
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && (status.Signal() == syscall.SIGINT || status.Signal() == syscall.SIGHUP)
}

// dismiss asks the worker to end after its turn.
func (p *process) dismiss() { _ = p.orders.Close() } // fails only if it is already closed

// kill ends the process as a crash does, and returns when it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(os.Kill) // fails only if it has ended already
	<-p.gone
}

// lastBytes keeps the end of its input. It is safe for concurrent use.
type lastBytes struct {
	mu    sync.Mutex
	bytes []byte // guarded by mu
}

const keptBytes = 4 << 10

func (l *lastBytes) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes = append(l.bytes, p...)
	if excess := len(l.bytes) - keptBytes; excess > 0 {
		l.bytes = l.bytes[excess:]
	}
	return len(p), nil
}

func (l *lastBytes) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.bytes)
}
