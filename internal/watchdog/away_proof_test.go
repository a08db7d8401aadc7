//go:build proof

package watchdog_test

import (
	"testing"
	"time"
)

// As TestServerThatWasAway, with as many leases as a client may have.
func TestServerOfVeryManyThatWasAway(t *testing.T) {
	for _, leases := range []int{10_000, 100_000, 300_000} {
		for _, cost := range []time.Duration{time.Millisecond, 2 * time.Millisecond, 6 * time.Millisecond} {
			for _, away := range []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 19 * time.Second} {
				serverThatWasAway(t, leases, cost, away)
			}
		}
	}
}
