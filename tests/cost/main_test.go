package cost

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var deep = flag.Bool("deep", false, "hold more locks, for longer")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
