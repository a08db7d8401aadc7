//go:build !unix

// Package group runs a program so that signals also reach what it starts.
package group

import (
	"os"
	"syscall"
)

// Own is nil: there are no groups.
func Own() *syscall.SysProcAttr { return nil }

// Signal ends the process: without groups its tests are not reached, and end when they are not read any more.
func Signal(p *os.Process, _ syscall.Signal) { _ = p.Kill() }
