//go:build !race

package watchdog_test

import (
	"testing"
	"time"
)

// As TestServerThatWasAway, with a client that keeps the server busy for more than half of its time. The race detector, which
// takes a minute for it, sees the same in the others.
func TestServerOfManyThatWasAway(t *testing.T) {
	serverThatWasAway(t, 100_000, &server{cost: 6 * time.Millisecond}, 19*time.Second)
}
