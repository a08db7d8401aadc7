package rig

import (
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// CanPin reports whether processes can be kept on one CPU.
const CanPin = true

// launch starts cmd, which the kernel kills if this process ends. With pin it runs on one CPU only,
// with its threads and children.
func launch(cmd *exec.Cmd, pin bool) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// The signal is sent when the thread ends that started the process. Go may end threads, but not
	// that of a goroutine that lasts.
	started := make(chan error)
	launches <- func() { started <- start(cmd, pin) }
	return <-started
}

// launches runs its functions on one thread, which never ends.
var launches = func() chan<- func() {
	jobs := make(chan func())
	go func() {
		runtime.LockOSThread()
		for job := range jobs {
			job()
		}
	}()
	return jobs
}()

// start runs on the thread of launches: a process inherits the CPUs of the thread that starts it.
func start(cmd *exec.Cmd, pin bool) error {
	if !pin {
		return cmd.Start()
	}
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	last := 0
	for cpu := range len(all) * 64 {
		if all.IsSet(cpu) {
			last = cpu
		}
	}
	one.Set(last)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	err := cmd.Start()
	if back := unix.SchedSetaffinity(0, &all); err == nil {
		err = back
	}
	return err
}
