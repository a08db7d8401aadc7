// Package lean makes tests with the embedded server quick, and bounds the memory that they take. Tests import it for
// that alone.
//
// Miniredis makes a new Lua state for each script: a hundred kilobytes that are garbage at once. What lives is a few
// dozen megabytes, so a collection is cheap if it is rare; without a limit it would be so rare that what is allocated
// meanwhile counts as alive, and the heap grows without end.
package lean

import (
	"os"
	"runtime"
	"runtime/debug"

	lua "github.com/yuin/gopher-lua"
)

func init() {
	// Stacks of the usual size take an eighth of the time of the tests to clear. The scripts need three quarters of
	// these at most; one that needs more fails and says so.
	lua.RegistrySize = 1280
	lua.CallStackSize = 16

	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		// As many packages are tested at once as there are CPUs.
		debug.SetMemoryLimit(max(1400<<20/int64(runtime.GOMAXPROCS(0)), 160<<20))
		debug.SetGCPercent(2000)
	}
}
