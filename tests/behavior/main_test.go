package behavior

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// deep has the longest tests go through all that make proof goes through, not only what make test has time for.
var deep = flag.Bool("deep", false, "try all combinations, for as long as make proof does")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// chosen returns those of all that make test has time for, by their indexes.
func chosen[T any](all []T, few ...int) (some []T) {
	if *deep {
		return all
	}
	for _, i := range few {
		some = append(some, all[i])
	}
	return some
}
