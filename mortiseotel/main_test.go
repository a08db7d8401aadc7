package mortiseotel_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(holderOf); addr != "" {
		os.Exit(beHolder(addr))
	}
	goleak.VerifyTestMain(m)
}
