package drivertest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

// failover: the master dies, a replica is promoted, and calls and subscriptions follow without
// help.
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
		t.Errorf("the new master counts %d calls, want 1 at least", got)
	}
}

// clusterFailover: one of the masters dies, and its replica takes over.
func clusterFailover(t *testing.T, d driver.Driver, c *redistest.ClusterSet) {
	sub, r := subscriber(t, d)
	dies := c.Masters[2]
	var channels []string // one for each master, the last for the one that dies
	for i, m := range c.Masters {
		ch := c.KeyOn(t, m, fmt.Sprint("failover:", i, ":"))
		channels = append(channels, ch)
		sub.Subscribe(ch, redistest.Sharded(t))
	}
	for i := range 10 { // whichever node carries them
		sub.Subscribe(fmt.Sprint("failover:classic:", i), false)
		channels = append(channels, fmt.Sprint("failover:classic:", i))
	}
	for _, ch := range channels {
		r.awaitSubscribed(t, ch, 0)
	}
	lost, n := channels[2], r.confirmations(channels[2])
	eval(t, d, incr, []string{lost})
	dies.Must(t, "WAIT", "1", "60000")
	dies.Kill()

	recovers(t, d, lost)
	recovers(t, d, channels[0]) // the others report the cluster down for a moment
	if redistest.Sharded(t) {   // else the node that died need not have carried it
		r.awaitSubscribed(t, lost, n)
	}
	promoted := c.Owner(t, lost)
	if promoted == dies {
		t.Fatal("the cluster still names the master that died")
	}
	for i, ch := range channels {
		command, at := "SPUBLISH", c.Masters[0]
		if i < 3 {
			at = c.Owner(t, ch)
		}
		if i >= 3 || !redistest.Sharded(t) {
			command = "PUBLISH"
		}
		// A classic channel may have been on the node that died, and may be moving: then the first
		// messages are missed.
		redistest.Eventually(t, "message on "+ch, func() error {
			at.Must(t, command, ch, "after")
			if r.received(ch, "after") == 0 {
				return errors.New("not received")
			}
			return nil
		})
	}
}
