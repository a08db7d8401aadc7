//go:build unix && !linux

package guard

import (
	"os"
	"syscall"
)

// This system has no way to do this: see the Linux version.

func dieWithParent(*syscall.SysProcAttr) {}

func rename(string) {}

func self() (string, error) { return os.Executable() }

func adopt() {}

func descendants(map[int]bool) map[int]int { return nil }

// It is not needed either: no process stops between vfork(2) and its program here.
func stoppedInVfork(int) int { return 0 }
