//go:build unix

package main

import (
	"os"
	"syscall"
)

// ownGroup has a process and what it starts be one group, which signals reach as a whole.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func signalGroup(p *os.Process, s syscall.Signal) { _ = syscall.Kill(-p.Pid, s) } // it may have ended
