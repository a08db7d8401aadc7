package guard

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// systemSignals returns the terminating signals that can be caught here only: SIGPWR, the real-time
// signals but for the first three, which C libraries use themselves, and SIGPIPE, because package
// connect keeps broken connections from sending it.
func systemSignals() []os.Signal {
	found := []os.Signal{syscall.SIGPWR, syscall.SIGPIPE}
	for s := syscall.Signal(35); s <= 64; s++ {
		found = append(found, s)
	}
	return found
}

// restoreDefault restores the default action of a signal. Package signal does not do that for
// signals that Go catches itself.
func restoreDefault(s syscall.Signal) {
	// The default action is 0, without flags and with an empty mask: no need to know where they lie.
	var action [16]uint64
	size := uintptr(8) // of a mask
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, size, 0, 0)
}
