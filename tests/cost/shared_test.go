package cost

import (
	"github.com/mortise-go/mortise/internal/locktest"
)

// What the tests of this package share with others, under the names that they use.
var (
	mustLock   = locktest.MustLock
	mustUnlock = locktest.MustUnlock
)
