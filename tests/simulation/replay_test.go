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
// and the order of a map. So a seed that has failed may pass when it is run again, and
// is run several times.
func draws(t *testing.T, seed uint64) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, seed)
	t.Cleanup(dice.Fix(seed))
}
