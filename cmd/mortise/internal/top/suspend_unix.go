//go:build unix

package top

import "syscall"

// wake lets this process go on after it has stopped itself.
func wake() { _ = syscall.Kill(syscall.Getpid(), syscall.SIGCONT) } // it may signal itself
