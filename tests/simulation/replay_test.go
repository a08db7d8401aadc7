package simulation

import (
	"testing"
	"testing/cryptotest"

	"github.com/mortise-go/mortise/internal/dice"
)

// draws has all that the library draws follow from seed until the test ends: pauses,
// and the ids of clients and holders, which order waiters that came in one instant.
// Such a test is not parallel.
//
// That is how far a seed repeats a simulation. What Go itself draws does not follow
// from it: which goroutine runs next, which of several ready cases a select takes,
// and the order of a map. With GOMAXPROCS=1 two runs of a seed of TestSimulation are
// the same for their first 100 scripts or more of 650; then the order of two that
// came in one instant differs, and with it what the network does to them. With
// several locks or servers it is 50 to 500 scripts of about 1,000.
func draws(t *testing.T, seed uint64) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, seed)
	t.Cleanup(dice.Fix(seed))
}
