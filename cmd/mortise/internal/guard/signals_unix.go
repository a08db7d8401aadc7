//go:build unix

package guard

import (
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that are sent on to the command: all that end a process by default, as
// far as Go lets a program catch them, and those that the command may want.
var forwarded = slices.Concat(terminating, []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT})

// terminating are the signals that ask a process to end. SIGUSR1 and SIGUSR2 are not among them:
// they are for a command that may not run yet.
var terminating = append([]os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT,
	syscall.SIGALRM, syscall.SIGVTALRM, syscall.SIGXCPU, syscall.SIGXFSZ, syscall.SIGIO,
}, systemSignals()...)

// asking are those by which somebody asks a process to end. The others may be of its own doing, as SIGPIPE.
var asking = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

// Terminates reports whether a signal asks a process to end.
func Terminates(s os.Signal) bool { return slices.Contains(terminating, s) }

// CatchSignals returns a channel that receives the signals for the command. Ignored signals, as
// under nohup and for background jobs of shells, stay ignored, here and in the command.
func CatchSignals() <-chan os.Signal {
	signals := make(chan os.Signal, 64) // more than can come before they are read
	for _, s := range forwarded {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	restoreDefault(syscall.SIGPROF) // Go catches it itself, and drops it
	return signals
}

// ParseSignal returns the signal for a name, with or without SIG, or a number.
func ParseSignal(name string) (syscall.Signal, bool) {
	if n, err := strconv.Atoi(name); err == nil {
		return syscall.Signal(n), n > 0 && n <= 64
	}
	name = strings.ToUpper(name)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	s := unix.SignalNum(name)
	return s, s != 0
}

// SignalName returns the name of a signal, such as SIGTERM.
func SignalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return "signal " + strconv.Itoa(int(s))
}
