// Package lean makes tests with the embedded server quick, and bounds the memory that they take. Tests import it for
// that alone.
//
// What scripts allocate is garbage at once, and what lives is a few dozen megabytes: a collection is cheap if it is rare.
// Without a limit it would be so rare that what is allocated meanwhile counts as alive, and the heap grows without end.
package lean

import (
	"os"
	"runtime"
	"runtime/debug"
)

func init() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		// As many packages are tested at once as there are CPUs.
		debug.SetMemoryLimit(max(1400<<20/int64(runtime.GOMAXPROCS(0)), 160<<20))
		debug.SetGCPercent(2000)
	}
}
