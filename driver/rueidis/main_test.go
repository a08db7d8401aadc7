package rueidis

import (
	"testing"

	"go.uber.org/goleak"
)

// The tests that need a server are in tests/server/rueidis.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
