//go:build !linux

package demo

import "syscall"

// dieWithParent does nothing where the kernel has no such service. A child
// ends at the end of its input all the same.
func dieWithParent() *syscall.SysProcAttr { return nil }
