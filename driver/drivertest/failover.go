package drivertest

import (
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

// failover: the master dies, a replica is promoted, and calls and
// subscriptions find it by themselves.
func failover(t *testing.T, d driver.Driver, set *redistest.SentinelSet) {
	sub, r := subscriber(t, d)
	sub.Subscribe("failover", false)
	r.awaitSubscribed(t, "failover", 0)
	set.Master(t).Must(t, "PUBLISH", "failover", "before")
	r.awaitMessage(t, "failover", "before")

	promoted := set.Failover(t)
	recovers(t, d, "failover:later")
	r.awaitSubscribed(t, "failover", 1)
	promoted.Must(t, "PUBLISH", "failover", "after")
	r.awaitMessage(t, "failover", "after")
	if got := promoted.Int(t, "GET", "failover:later"); got < 1 {
		t.Errorf("the new master counts %d calls", got)
	}
}
