package torture

import (
	"syscall"
	"unsafe"
)

// Now returns the time of a clock that never jumps and that all processes of this machine share,
// in nanoseconds. The monotonic part of a time.Time is that of one process only.
func Now() int64 {
	const monotonic = 1
	var t syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&t)), 0)
	if errno != 0 {
		panic("torture: clock_gettime: " + errno.Error())
	}
	return t.Nano()
}
