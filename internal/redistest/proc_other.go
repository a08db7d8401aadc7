//go:build !linux

package redistest

import "syscall"

// dieWithParent does nothing where the kernel has no such service: there a
// killed test process leaves its servers behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
