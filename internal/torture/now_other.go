//go:build !linux

package torture

// Now needs a clock that processes share, which is known here for Linux only.
func Now() int64 { panic("torture: needs Linux") }
