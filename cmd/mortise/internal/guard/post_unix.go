//go:build unix

package guard

import (
	"context"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Post is a guard process that is ready to start a command, or becomes so.
type Post struct {
	ready  chan struct{} // closed when the fields up to err are set
	pid    int
	link   *os.File
	before map[int]bool // children of this process from before it became mortise
	err    error        // why there is no guard process

	reports chan report   // closed when the guard process has ended
	done    chan struct{} // closed when nobody receives reports any more
	used    bool          // by Start
}

// Prepare starts a guard process in the background. [Start] or [Post.Discard] must follow.
func Prepare() *Post {
	p := &Post{ready: make(chan struct{}), before: map[int]bool{}, reports: make(chan report), done: make(chan struct{})}
	go func() {
		defer close(p.ready)
		if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); !errors.Is(err, unix.ECHILD) {
			for pid := range descendants(nil) {
				p.before[pid] = true
			}
		}
		if p.err = p.station(); p.err == nil {
			go p.listen()
		}
	}()
	return p
}

// Discard ends a guard process that Start has not used.
func (p *Post) Discard() {
	if p.used {
		return
	}
	p.used = true
	if <-p.ready; p.err == nil {
		p.abandon()
	}
}

// station starts the guard process, in a process group of its own: what is sent to the shell's job
// does not reach it.
func (p *Post) station() error {
	near, far, err := socketpair()
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	p.link = os.NewFile(uintptr(near), "guard")
	defer func() { _ = unix.Close(far) }() // the guard process has it
	path, err := self()
	if err == nil {
		// The socket keeps its number: the command inherits all files that mortise has inherited, under
		// their numbers.
		_, err = unix.FcntlInt(uintptr(far), unix.F_SETFD, 0)
	}
	if err == nil {
		// Not by package os, which first forks to find out what the kernel can do.
		p.pid, err = syscall.ForkExec(path, []string{processName, strconv.Itoa(far), strconv.Itoa(os.Getpid())}, &syscall.ProcAttr{
			Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
		})
	}
	if err != nil {
		p.link.Close()
		return err
	}
	return nil
}

// socketpair returns two connected sockets that no child inherits.
func socketpair() (near, far int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, 0, err
	}
	unix.CloseOnExec(fds[0])
	unix.CloseOnExec(fds[1])
	return fds[0], fds[1], unix.SetNonblock(fds[0], true) // reading it blocks no thread
}

// listen receives the reports until the guard process ends.
func (p *Post) listen() {
	defer p.link.Close()
	defer close(p.reports)
	for {
		r, err := readReport(p.link)
		if err != nil {
			return
		}
		select {
		case p.reports <- r:
		case <-p.done:
		}
	}
}

// start has the guard process start a command, and returns the command's pid. What the guard process
// has to know from the start is sent with the order.
func (p *Post) start(held context.Context, o order, words ...word) (int, error) {
	text := o.encode()
	for _, w := range words {
		text = append(text, w.encode()...)
	}
	if _, err := p.link.Write(text); err != nil {
		return 0, err
	}
	select {
	case r, ok := <-p.reports:
		switch {
		case !ok:
			return 0, &os.PathError{Op: "guard", Path: o.path, Err: syscall.EPIPE}
		case r.kind == reportFailed:
			return 0, &os.PathError{Op: "fork/exec", Path: o.path, Err: syscall.Errno(r.value)}
		}
		return int(r.value), nil
	case <-held.Done():
		return 0, context.Cause(held)
	}
}

// dismiss tells a guard process that nothing needs to be guarded any more, if it is alive.
func (p *Post) dismiss(alive bool) {
	close(p.done)
	if alive {
		p.tell(word{kind: wordDismissed})
	}
}

// tell sends a word to the guard process, which may have been killed, or stopped for so long that
// the socket is full: that must not hold up this process.
func (p *Post) tell(w word) {
	_ = p.link.SetWriteDeadline(time.Now().Add(lastBreath))
	_, _ = p.link.Write(w.encode())
}

// abandon ends a guard process that has started nothing.
func (p *Post) abandon() {
	close(p.done)
	_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have ended
	for range p.reports {
	}
	p.collect()
}

// await waits for the end of a guard process that was dismissed.
func (p *Post) await() {
	limit := time.NewTimer(lastBreath)
	defer limit.Stop()
	for {
		select {
		case _, ok := <-p.reports:
			if !ok {
				// It has closed its files, and may still be the parent of what it leaves:
				// that shows among the children of this process only when it has ended.
				p.collect()
				return
			}
		case <-limit.C:
			return // somebody has stopped it; it ends when it is continued
		}
	}
}

// collect blocks until a guard process that is about to end has ended. Another goroutine may
// collect it first.
func (p *Post) collect() {
	for {
		if _, err := unix.Wait4(p.pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
