//go:build unix && !linux

package guard

import "syscall"

// This system offers no way to be told: see the Linux version.

func dieWithMortise(*syscall.SysProcAttr) {}

func adopt() {}

func descendants(map[int]bool) map[int]int { return nil }

// Nor is it needed: no process stops between vfork(2) and its program here.
func stoppedInVfork(int) int { return 0 }
