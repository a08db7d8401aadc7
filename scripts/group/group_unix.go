//go:build unix

// Package group runs a program so that signals also reach what it starts.
package group

import (
	"os"
	"syscall"
)

// Own has a process and what it starts be one group.
func Own() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Signal sends s to a process that was started as a group of its own, and to what is left of its group.
func Signal(p *os.Process, s syscall.Signal) { _ = syscall.Kill(-p.Pid, s) } // it may have ended
