// Package drivertest is the conformance suite of drivers. It runs against real servers: a single
// one, a sentinel set and a cluster.
//
// The semantics of package driver are tested here, for all drivers, or not at all. A driver's own
// tests only open its client:
//
//	func TestDriver(t *testing.T) {
//		drivertest.Run(t, func(t *testing.T, target drivertest.Target) driver.Driver { … })
//	}
package drivertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// Mode is a kind of deployment.
type Mode string

// The kinds of deployment.
const (
	Single   Mode = "single"
	Sentinel Mode = "sentinel"
	Cluster  Mode = "cluster"
)

// Target is the deployment to open a driver on.
type Target struct {
	Mode Mode
	// Addrs are the addresses of the server, the sentinels, or cluster nodes.
	Addrs []string
	// Master is the name under which the sentinels know the master.
	Master string
	// Username and Password are for the servers. Both may be empty.
	Username, Password string
	// Timeout is the client's I/O timeout. Zero stands for the adapter's recommendation.
	Timeout time.Duration
}

// Open opens a driver on a client of its own. It registers a cleanup of t that closes the client.
// The suite closes the driver before that.
type Open func(t *testing.T, target Target) driver.Driver

// generous bounds what must happen at once. It is far longer than needed on an idle machine, and
// far shorter than any timeout of the clients.
const generous = 5 * time.Second

// patience is how long a test waits for an event. It judges nothing: that something comes soon is said with [suite.within].
const patience = time.Minute

// patient is a client timeout that no test waits for.
const patient = 5 * time.Minute

// Run runs the whole suite. Most of its time is waiting, so the deployments run in parallel.
//
// The subtests close, single, faults and cluster await events and judge no time, so they pass on a busy machine;
// make gate runs them alone, with -run '^TestDriver$/^(close|single|faults|cluster)$'. The others wait for
// failovers, frozen servers and timeouts of the client, or judge how long something takes.
func Run(t *testing.T, open Open) {
	s := suite{open: open}
	t.Run("close", s.closing) // counts goroutines, so nothing runs in parallel
	t.Run("close in time", func(t *testing.T) { s.judged(t, func(t *testing.T, s suite) { s.closingInTime(t) }) })
	t.Run(string(Single), func(t *testing.T) { t.Parallel(); s.single(t) })
	t.Run("faults", func(t *testing.T) { t.Parallel(); s.faults(t) })
	t.Run(string(Cluster), func(t *testing.T) { t.Parallel(); s.cluster(t) })
	t.Run("in time", func(t *testing.T) { t.Parallel(); s.judged(t, func(t *testing.T, s suite) { s.inTime(t) }) })
	t.Run("reconnection", func(t *testing.T) { t.Parallel(); s.reconnection(t) })
	t.Run("wait", func(t *testing.T) { t.Parallel(); s.judged(t, func(t *testing.T, s suite) { s.wait(t) }) })
	t.Run(string(Sentinel), func(t *testing.T) { t.Parallel(); s.sentinel(t) })
	t.Run("cluster failover", func(t *testing.T) {
		t.Parallel()
		// A cluster of its own: the other tests move slots so fast that the nodes may not agree
		// soon enough to survive the death of one.
		c := redistest.Cluster(t, 1)
		t.Run("commands", func(t *testing.T) { commandsToEach(t, s.driver(t, Target{Mode: Cluster, Addrs: c.Addrs()}), c) })
		t.Run("wait", func(t *testing.T) { waitCluster(t, s.driver(t, Target{Mode: Cluster, Addrs: c.Addrs()}), c) })
		clusterFailover(t, s.driver(t, Target{Mode: Cluster, Addrs: c.Addrs()}), c)
	})
	t.Run("demotion", func(t *testing.T) {
		t.Parallel()
		s.demotion(t)
		if redistest.Sharded(t) { // other channels are on any node
			t.Run("cluster", func(t *testing.T) { s.judged(t, func(t *testing.T, s suite) { s.clusterDemotion(t) }) })
		}
	})
}

// suite is the suite for one driver. Most of its bounds on time are judged only in what [suite.judged] runs.
type suite struct {
	open   Open
	bounds *canary.Bounds // nil if no time is judged
}

// judged runs a trial, and judges what it says with within.
func (s suite) judged(t *testing.T, trial func(t *testing.T, s suite)) {
	t.Helper()
	canary.Judge(t, func(t *testing.T, b *canary.Bounds) { trial(t, suite{s.open, b}) })
}

// within says that what has taken so long, and must not take longer than bound.
func (s suite) within(what string, took, bound time.Duration) {
	if s.bounds != nil {
		s.bounds.Within(what, took, bound)
	}
}

// driver opens a driver that is closed when t ends.
func (s suite) driver(t *testing.T, target Target) driver.Driver {
	t.Helper()
	d := s.open(t, target)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}

func at(server *redistest.Server) Target {
	return Target{Mode: Single, Addrs: []string{server.Addr()}, Password: server.Password()}
}

// through puts a proxy between the driver and the server.
func (s suite) through(t *testing.T, server *redistest.Server, timeout time.Duration) (*redistest.Proxy, driver.Driver) {
	t.Helper()
	p := redistest.NewProxy(t, server.Addr())
	return p, s.driver(t, Target{Mode: Single, Addrs: []string{p.Addr()}, Timeout: timeout})
}

func (s suite) single(t *testing.T) {
	server := redistest.Single(t)
	d := s.driver(t, at(server))
	t.Run("values", func(t *testing.T) { values(t, d) })
	t.Run("no script", func(t *testing.T) { noScript(t, d, server) })
	t.Run("batch", func(t *testing.T) { batch(t, d) })
	t.Run("ended context", func(t *testing.T) { endedContext(t, d, server) })
	t.Run("scan", func(t *testing.T) { scan(t, d) })
	t.Run("commands", func(t *testing.T) { commands(t, d) })
	t.Run("command without the right", func(t *testing.T) { s.commandWithoutTheRight(t, server) })
	t.Run("topology", func(t *testing.T) {
		wantTopology(t, d, driver.Topology{})
		if got := d.Shard("k"); got != "" {
			t.Errorf("Shard = %q, want none with one server", got)
		}
	})
	t.Run("subscribe", func(t *testing.T) { s.subscribe(t, server) })
	t.Run("classes", func(t *testing.T) { s.classes(t, server) })
}

func (s suite) faults(t *testing.T) {
	server := redistest.Single(t)
	t.Run("at most once", func(t *testing.T) { s.atMostOnce(t, server) })
	t.Run("ended calls", func(t *testing.T) { s.endedCalls(t, server) })
	t.Run("closed under way", s.underWay)
	t.Run("unreachable", func(t *testing.T) { s.unreachable(t, server) })
	t.Run("resubscribe", func(t *testing.T) { s.resubscribe(t, server) })
}

// inTime: what is shown elsewhere is shown to be soon enough.
func (s suite) inTime(t *testing.T) {
	server := redistest.Single(t)
	s.endedCalls(t, server)
	t.Run("I/O timeout", func(t *testing.T) { s.ioTimeout(t, server) })
	t.Run("unreachable", func(t *testing.T) { s.unreachable(t, server) })
	t.Run("closed subscriber", func(t *testing.T) { s.closedSubscriber(t, server) })
	t.Run("disagreed", func(t *testing.T) { s.disagreed(t, redistest.Cluster(t, 0)) })
}

func (s suite) sentinel(t *testing.T) {
	set := redistest.Sentinel(t, 1)
	d := s.driver(t, Target{Mode: Sentinel, Addrs: set.Addrs(), Master: redistest.SentinelName})
	t.Run("values", func(t *testing.T) { values(t, d) })
	t.Run("batch", func(t *testing.T) { batch(t, d) })
	t.Run("scan", func(t *testing.T) { scan(t, d) })
	t.Run("commands", func(t *testing.T) { commands(t, d) })
	t.Run("topology", func(t *testing.T) { wantTopology(t, d, driver.Topology{}) })
	t.Run("failover", func(t *testing.T) { failover(t, d, set) })
}

func (s suite) cluster(t *testing.T) {
	// A node may be silent for a while, on a busy machine or because a test has frozen it, and is not taken for dead.
	c := redistest.Cluster(t, 0, "--cluster-node-timeout", "60000")
	target := Target{Mode: Cluster, Addrs: c.Addrs()}
	d := s.driver(t, target)
	t.Run("values", func(t *testing.T) { values(t, d) })
	t.Run("no script", func(t *testing.T) { noScript(t, d, c.Masters...) })
	t.Run("batch", func(t *testing.T) { batch(t, d) })
	t.Run("scan", func(t *testing.T) { scan(t, d) })
	t.Run("without a master", func(t *testing.T) { s.without(t, d, c) })
	t.Run("topology", func(t *testing.T) { wantTopology(t, d, driver.Topology{Cluster: true, Sharded: redistest.Sharded(t)}) })
	t.Run("topology with few rights", func(t *testing.T) { s.topologyWithFewRights(t, c) })
	t.Run("topology behind a wrong password", func(t *testing.T) { s.topologyBehindAWrongPassword(t, c) })
	t.Run("cross slot", func(t *testing.T) { crossSlot(t, d) })
	t.Run("one connection per node", func(t *testing.T) { s.onePerNode(t, c) })
	t.Run("kinds of channel", func(t *testing.T) { s.kindsOfChannel(t, c) })
	t.Run("moved", func(t *testing.T) { moved(t, d, c) })
	t.Run("ask and try again", func(t *testing.T) { asked(t, d, c) })
	t.Run("moved channel", func(t *testing.T) { s.movedChannel(t, c) })
	t.Run("disagreed", func(t *testing.T) { s.disagreed(t, c) })
	t.Run("slot of nobody", func(t *testing.T) { s.slotOfNobody(t, c) })
}

func wantTopology(t *testing.T, d driver.Driver, want driver.Topology) {
	t.Helper()
	for range 2 { // the second reply is the cached one
		if got, err := d.Topology(t.Context()); err != nil || got != want {
			t.Errorf("Topology = %+v, %v, want %+v", got, err, want)
		}
		if known := d.Shard("k") != ""; known != want.Cluster {
			t.Errorf("after it, Shard knows a server: %v, want %v", known, want.Cluster)
		}
	}
}

// eval runs a script that must succeed.
func eval(t *testing.T, d driver.Driver, script *driver.Script, keys []string, args ...string) driver.Value {
	t.Helper()
	v, err := d.Eval(t.Context(), driver.Call{Script: script, Keys: keys, Args: args})
	if err != nil {
		t.Fatalf("%s %v: %v", script.Name(), keys, err)
	}
	return v
}

// incr counts how often it ran.
var incr = driver.NewScript("incr", `return redis.call('INCR', KEYS[1])`)

func callIncr(key string) driver.Call { return driver.Call{Script: incr, Keys: []string{key}} }

func wantClass(t *testing.T, err error, want ...driver.Class) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one of class %v", want)
	} else if got := driver.ClassOf(err); !slices.Contains(want, got) {
		t.Errorf("%q has class %v, want %v", err, got, want)
	}
}

// promptly runs f, which must return at once: long before a client that is patient gives up.
func (s suite) promptly(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	start := time.Now()
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s has not returned after %v", what, patience)
	}
	s.within(what, time.Since(start), generous)
}

// settle makes calls on connections that are gone, which the client may not know yet: as many calls
// as there were connections may end with an unknown outcome, all others must have the class want.
// The calls use the keys prefix:0 and so on.
func settle(t *testing.T, d driver.Driver, prefix string, connections int, want driver.Class) {
	t.Helper()
	unknown := 0
	for i := range 20 {
		call := callIncr(fmt.Sprint(prefix, ":", i))
		var err error
		if i%2 == 0 {
			_, err = d.Eval(t.Context(), call)
		} else {
			err = d.Batch(t.Context(), []driver.Call{call})[0].Err
		}
		if err != nil && driver.ClassOf(err) == driver.Unknown {
			unknown++
			continue
		}
		wantClass(t, err, want)
	}
	if unknown > connections {
		t.Errorf("%d calls had an unknown outcome, want %d at most, as many as connections that are gone", unknown, connections)
	}
}

// recovers waits until calls succeed again.
func recovers(t *testing.T, d driver.Driver, key string) {
	t.Helper()
	redistest.Eventually(t, "calls succeed again", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := d.Eval(ctx, callIncr(key))
		return err
	})
}
