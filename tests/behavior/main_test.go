package behavior

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// deep has the longest tests go through all that make proof goes through, not only what make test has time for.
var deep = flag.Bool("deep", false, "try all combinations, for as long as make proof does")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
