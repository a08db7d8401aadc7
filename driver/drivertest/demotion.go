package drivertest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

// moves is how long a subscription may stay on a server that is no master any more.
const moves = 10 * time.Second

// demotion: a master and its replica behind one address swap their roles. The connections for
// commands are closed, or not; the subscription is not.
func (s suite) demotion(t *testing.T) {
	for _, cut := range []bool{true, false} {
		t.Run(fmt.Sprintf("commands cut %t", cut), func(t *testing.T) {
			s.judged(t, func(t *testing.T, s suite) { s.demotionBehindOneAddress(t, cut) })
		})
	}
}

func (s suite) demotionBehindOneAddress(t *testing.T, cut bool) {
	master := redistest.Single(t)
	replica := redistest.Replica(t, master)
	proxy, d := s.through(t, master, time.Second)
	sub, r := subscriber(t, d)
	sub.Subscribe("demoted", false)
	r.awaitSubscribed(t, "demoted", 0)
	eval(t, d, incr, []string{"before"})
	time.Sleep(3 * time.Second) // for a check or two
	if n := r.confirmations("demoted"); n != 1 {
		t.Errorf("%d confirmations, want 1: the connection was replaced although its server is a master", n)
	}
	replica.Must(t, "REPLICAOF", "NO", "ONE")
	proxy.Retarget(replica.Addr())
	master.Must(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(replica.Port()))
	if n := master.Subscribers(t); n != 1 {
		t.Fatalf("%d subscribed connections on the former master, want 1", n)
	}
	if cut {
		master.Must(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		recovers(t, d, "after")
	} else if _, err := d.Eval(t.Context(), callIncr("after")); err != nil && driver.ClassOf(err) != driver.Passing {
		// On a busy machine, the client may have replaced a connection that was silent for its second.
		t.Errorf("a script on the replica: %v, want class %v", err, driver.Passing)
	}
	s.awaitReceivers(t, replica, "PUBLISH", "demoted")
	r.awaitSubscribed(t, "demoted", 1)
	r.awaitMessage(t, "demoted", "after")
}

// clusterDemotion: a master and its replica swap their roles, and no connection is closed.
func (s suite) clusterDemotion(t *testing.T) {
	c := redistest.Cluster(t, 1)
	d := s.driver(t, Target{Mode: Cluster, Addrs: c.Addrs()})
	sub, r := subscriber(t, d)
	var channels []string
	for i, m := range c.Masters {
		ch := c.KeyOn(t, m, fmt.Sprint("demoted:", i, ":"))
		channels = append(channels, ch)
		sub.Subscribe(ch, true)
		eval(t, d, incr, []string{ch})
	}
	for _, ch := range channels {
		r.awaitSubscribed(t, ch, 0)
	}
	c.Replicas[0].Must(t, "CLUSTER", "FAILOVER")
	redistest.Eventually(t, "the replica is the master", func() error {
		_, err := c.Replicas[0].Do("SET", channels[0], "1")
		return err
	})
	recovers(t, d, channels[0]) // as if a waiter asked
	s.awaitReceivers(t, c.Replicas[0], "SPUBLISH", channels[0])
	r.awaitSubscribed(t, channels[0], 1)
	r.awaitMessage(t, channels[0], "after")
	for _, ch := range channels[1:] {
		if n := r.confirmations(ch); n != 1 {
			t.Errorf("%s: %d confirmations, want 1: its master is the same", ch, n)
		}
	}
}

// awaitReceivers publishes until the server counts a receiver.
func (s suite) awaitReceivers(t *testing.T, server *redistest.Server, command, ch string) {
	t.Helper()
	begin := time.Now()
	redistest.Eventually(t, "a receiver on the new master", func() error {
		if server.Int(t, command, ch, "after") == 0 {
			return fmt.Errorf("none")
		}
		return nil
	})
	s.within("the move of the subscription", time.Since(begin), moves)
}
