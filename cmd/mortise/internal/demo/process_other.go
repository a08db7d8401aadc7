//go:build !linux

package demo

import "syscall"

// dieWithParent does nothing where the kernel has no such feature. A child still ends at the end of
// its input.
func dieWithParent() *syscall.SysProcAttr { return nil }
