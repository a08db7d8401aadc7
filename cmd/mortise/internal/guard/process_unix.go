//go:build unix

package guard

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processName is the name of a guard process. It does not contain the name mortise, so that killall
// and pkill do not kill both at once.
const processName = "lockguard"

// A guard process is this program, started once more. It needs none of the packages that are
// initialized after this one, and the command would wait for their initialization; so it begins and
// ends here.
func init() {
	if len(os.Args) > 1 && os.Args[0] == processName {
		if fd, err := strconv.Atoi(os.Args[1]); err == nil {
			serve(fd)
			syscall.Exit(0) // at once, also under the race detector
		}
	}
}

// process is a guard process. It is the parent of the command, and on Linux it becomes the parent
// of all orphans among the command's descendants: when mortise is killed, it knows what to kill.
type process struct {
	link    *os.File // to mortise
	mortise int      // its pid
	leader  int      // the command's
	paused  atomic.Bool
	resumed chan struct{} // capacity 1: the command was continued
}

// serve starts the command that mortise orders, reports what happens to it, and kills it with all
// that it has started if mortise is killed.
func serve(fd int) {
	runtime.LockOSThread() // the kernel watches the thread that forks, and shows its name
	syscall.CloseOnExec(fd)
	rename(processName)
	adopt()
	p := &process{link: os.NewFile(uintptr(fd), "mortise"), mortise: os.Getppid(), resumed: make(chan struct{}, 1)}
	o, err := readOrder(p.link)
	if err != nil {
		return // mortise has ended
	}
	p.passSignals()
	if p.leader, err = o.start(); err != nil {
		errno := syscall.EIO
		_ = errors.As(err, &errno)
		p.report(report{reportFailed, uint32(errno)})
		return
	}
	p.report(report{reportStarted, uint32(p.leader)})
	go p.collect()
	if killed := p.watch(); killed && !o.outlives {
		p.kill()
	}
}

// watch returns when mortise has dismissed the guard process, or was killed. It kills the command
// when its time is over: then mortise is stopped, or else would have done so. A command that is
// stopped as well, as by Ctrl-Z, may stay so.
func (p *process) watch() (killed bool) {
	words := make(chan word)
	go func() {
		defer close(words)
		for {
			w, err := readWord(p.link)
			if err != nil {
				return
			}
			words <- w
		}
	}()
	timer := time.NewTimer(killLimit)
	timer.Stop()
	defer timer.Stop()
	var until time.Time // zero before the first word
	for {
		select {
		case w, ok := <-words:
			if !ok || w.kind == wordDismissed {
				return !ok
			}
			until = w.deadline()
			timer.Reset(time.Until(until))
		case <-timer.C:
		case <-p.resumed:
		}
		if !until.IsZero() && passed(until) && !p.paused.Load() {
			p.kill()
		}
	}
}

// start starts the command in a process group of its own, and returns its pid.
func (o order) start() (int, error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if o.foreground {
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return 0, err
		}
		defer tty.Close()
		attr.Foreground, attr.Ctty = true, int(tty.Fd())
	}
	if !o.outlives {
		dieWithParent(attr)
	}
	return syscall.ForkExec(o.path, o.argv, &syscall.ProcAttr{Env: o.env, Files: []uintptr{0, 1, 2}, Sys: attr})
}

// passSignals sends on to mortise what commands send to their parent.
func (p *process) passSignals() {
	signals := make(chan os.Signal, 16)
	for _, s := range forwarded {
		if s != syscall.SIGWINCH && s != syscall.SIGCONT && !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		for s := range signals {
			if os.Getppid() == p.mortise { // otherwise it has ended
				_ = syscall.Kill(p.mortise, s.(syscall.Signal))
			}
		}
	}()
}

// report sends a report to mortise. If mortise was killed meanwhile, the end of the socket tells so.
func (p *process) report(r report) { _, _ = p.link.Write(r.encode()) }

// collect reports the command's stops and its end, and collects the status of the processes that
// it has left behind.
func (p *process) collect() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WUNTRACED|unix.WCONTINUED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return // there are no more
		case pid != p.leader:
		case status.Continued():
			p.paused.Store(false)
			select {
			case p.resumed <- struct{}{}:
			default:
			}
		default:
			p.paused.Store(status.Stopped())
			p.report(report{reportStatus, uint32(status)})
		}
	}
}

// killLimit is how long a guard process tries to kill what the kernel does not let end.
const killLimit = 10 * time.Second

// kill kills the command with all that it has started.
func (p *process) kill() {
	f := &family{leader: p.leader}
	for limit := time.Now().Add(killLimit); f.alive() && time.Now().Before(limit); time.Sleep(time.Millisecond) {
		_ = f.kill() // those that it may not kill are another user's
	}
}
