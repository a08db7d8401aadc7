package workload

import (
	"syscall"
	"time"
	"unsafe"
)

// epoch returns the time from which CLOCK_MONOTONIC counts, so that the processes of a machine
// have one time scale. Go reads that clock too, but does not expose its value.
func epoch() time.Time {
	const clockMonotonic = 1
	var ts syscall.Timespec
	now := time.Now()
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return now
	}
	return now.Add(-time.Duration(ts.Nano()))
}
