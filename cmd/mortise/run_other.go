//go:build !unix

package main

import (
	"context"
	"errors"
	"syscall"
)

// run needs process groups and signals, which this system does not have: the
// command could not be ended, with all it has started, when the lock is lost.
func (a *app) run(context.Context, *plan) error {
	return &exitError{code: exitUsage, err: errors.New("run works on Unix systems only"), hint: "In WSL it does."}
}

func signalNamed(name string) (syscall.Signal, bool) { return syscall.SIGTERM, name == "TERM" }

func signalName(s syscall.Signal) string { return s.String() }

func ends(s syscall.Signal) bool { return s == syscall.SIGINT || s == syscall.SIGTERM }
