//go:build proof

package watchdog_test

import (
	"testing"
	"time"
)

// As TestServerThatWasAway, with as many leases as a client may have.
func TestServerOfVeryManyThatWasAway(t *testing.T) {
	for _, away := range []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 19 * time.Second} {
		serverThatWasAway(t, 100_000, &server{cost: 2 * time.Millisecond}, away)
	}
	serverThatWasAway(t, 100_000, &server{cost: 6 * time.Millisecond}, 15*time.Second)
	serverThatWasAway(t, 300_000, &server{cost: 2 * time.Millisecond}, 19*time.Second)
}
