//go:build !unix

package guard

import (
	"os"
	"syscall"
)

// Terminates reports whether a signal asks a process to end.
func Terminates(s os.Signal) bool { return s == syscall.SIGINT || s == syscall.SIGTERM }

// ParseSignal returns the signal for a name.
func ParseSignal(name string) (syscall.Signal, bool) { return syscall.SIGTERM, name == "TERM" }

// SignalName returns the name of a signal.
func SignalName(s syscall.Signal) string { return s.String() }

// Die does nothing: this system has no signals that end a process.
func Die(syscall.Signal, bool) {}
