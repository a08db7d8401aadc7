//go:build interop && !linux

package interop

import "syscall"

// dieWithParent does nothing where the kernel has no such service. Children
// end at the end of their standard input all the same, unless frozen.
func dieWithParent() *syscall.SysProcAttr { return nil }

// awaitStopped cannot look at threads where the kernel does not show them.
func awaitStopped(int) error { return nil }
