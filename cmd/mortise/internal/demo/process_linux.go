package demo

import "syscall"

// dieWithParent makes the kernel kill the child when this process dies.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
