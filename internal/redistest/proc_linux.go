package redistest

import "syscall"

// dieWithParent has the kernel kill the server when the test process ends,
// even if that was killed itself.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
