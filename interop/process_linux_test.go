//go:build interop

package interop

import "syscall"

// dieWithParent has the kernel kill the child when the test binary dies, even
// a child that is frozen and cannot see the end of its standard input.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
