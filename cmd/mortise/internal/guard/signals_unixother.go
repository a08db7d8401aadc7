//go:build unix && !linux

package guard

import (
	"os"
	"os/signal"
	"syscall"
)

func systemSignals() []os.Signal { return nil }

// restoreDefault restores the default action of a signal, if Go does not catch it itself.
func restoreDefault(s syscall.Signal) { signal.Reset(s) }
