package drivertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/redistest"
)

// topologyWithFewRights: a user without the right to PUBSUB still gets an answer.
func (s suite) topologyWithFewRights(t *testing.T, c *redistest.ClusterSet) {
	target := Target{Mode: Cluster, Addrs: c.Addrs()}
	target = withUser(t, target, "few", "~* &* +@all -pubsub", c.Nodes()...)
	wantTopology(t, s.driver(t, target), driver.Topology{Cluster: true, Sharded: redistest.Sharded(t)})
}

// topologyBehindAWrongPassword: a server that refuses the password does not show the topology, and
// the refusal is not remembered.
func (s suite) topologyBehindAWrongPassword(t *testing.T, c *redistest.ClusterSet) {
	target := withUser(t, Target{Mode: Cluster, Addrs: c.Addrs()}, "rotated", "~* &* +@all", c.Nodes()...)
	d := s.driver(t, target)
	set := func(rules ...string) {
		for _, n := range c.Nodes() {
			n.Must(t, append([]string{"ACL", "SETUSER", "rotated"}, rules...)...)
			n.Must(t, "CLIENT", "KILL", "USER", "rotated")
		}
	}
	set("resetpass", ">other")
	redistest.Eventually(t, "every connection is known to be gone", func() error {
		_, err := d.Topology(t.Context())
		if err == nil {
			t.Fatal("the topology is known to a client that no server lets in")
		}
		if class := driver.ClassOf(err); class != driver.Denied {
			return fmt.Errorf("got class %v, want %v: %w", class, driver.Denied, err)
		}
		return nil
	})
	set("resetpass", ">"+target.Password)
	redistest.Eventually(t, "the servers let the client in", func() error { _, err := d.Topology(t.Context()); return err })
	wantTopology(t, d, driver.Topology{Cluster: true, Sharded: redistest.Sharded(t)})
}

func crossSlot(t *testing.T, d driver.Driver) {
	both := driver.Call{Script: driver.NewScript("both", `return redis.call('EXISTS', KEYS[1], KEYS[2])`), Keys: []string{"cross:1", "cross:2"}}
	_, err := d.Eval(t.Context(), both)
	wantClass(t, err, driver.CrossSlot)
	results := d.Batch(t.Context(), []driver.Call{callIncr("cross:3"), both, callIncr("cross:4")})
	wantClass(t, results[1].Err, driver.CrossSlot)
	for _, i := range []int{0, 2} {
		if results[i].Err != nil || results[i].Value.Int() != 1 {
			t.Errorf("call %d of the same batch: got %v, %v, want 1", i, results[i].Value, results[i].Err)
		}
	}
	both.Keys = []string{"{cross}:1", "{cross}:2"}
	if _, err := d.Eval(t.Context(), both); err != nil {
		t.Errorf("two keys of one slot: %v", err)
	}
}

// onePerNode: sharded channels of all slots take one connection per node.
func (s suite) onePerNode(t *testing.T, c *redistest.ClusterSet) {
	const channels = 300
	d := s.driver(t, Target{Mode: Cluster, Addrs: c.Addrs()})
	sub, r := subscriber(t, d)
	for i := range channels {
		sub.Subscribe(fmt.Sprint("node:", i), true)
		sub.Subscribe(fmt.Sprint("classic:", i), false)
	}
	for i := range channels {
		r.awaitSubscribed(t, fmt.Sprint("node:", i), 0)
		r.awaitSubscribed(t, fmt.Sprint("classic:", i), 0)
	}
	for _, m := range c.Masters {
		// One node carries the classic channels as well.
		if got := m.Subscribers(t); got != 1 {
			t.Errorf("node %s has %d subscriber connections, want 1", m.Addr(), got)
		}
	}
	for i := range channels {
		owner := c.Masters[0]
		if i < 20 { // asking for the owner is slow
			owner = c.Owner(t, fmt.Sprint("node:", i))
			owner.Must(t, "SPUBLISH", fmt.Sprint("node:", i), "s")
			r.awaitMessage(t, fmt.Sprint("node:", i), "s")
		}
		owner.Must(t, "PUBLISH", fmt.Sprint("classic:", i), "c")
	}
	for i := range channels {
		r.awaitMessage(t, fmt.Sprint("classic:", i), "c")
	}
}

// kindsOfChannel: PUBLISH and SPUBLISH reach only subscriptions of their own kind.
func (s suite) kindsOfChannel(t *testing.T, c *redistest.ClusterSet) {
	d := s.driver(t, Target{Mode: Cluster, Addrs: c.Addrs()})
	classic, gotClassic := subscriber(t, d)
	sharded, gotSharded := subscriber(t, s.driver(t, Target{Mode: Cluster, Addrs: c.Addrs()}))
	classic.Subscribe("kind", false)
	sharded.Subscribe("kind", true)
	gotClassic.awaitSubscribed(t, "kind", 0)
	gotSharded.awaitSubscribed(t, "kind", 0)

	owner := c.Owner(t, "kind")
	owner.Must(t, "SPUBLISH", "kind", "sharded")
	gotSharded.awaitMessage(t, "kind", "sharded")
	for _, m := range c.Masters { // a classic message goes to every node
		m.Must(t, "PUBLISH", "kind", "classic from "+m.Addr())
		gotClassic.awaitMessage(t, "kind", "classic from "+m.Addr())
	}
	owner.Must(t, "SPUBLISH", "kind", "last")
	gotSharded.awaitMessage(t, "kind", "last")
	for _, m := range c.Masters {
		if gotSharded.received("kind", "classic from "+m.Addr()) != 0 {
			t.Error("a sharded subscription received PUBLISH")
		}
	}
	if gotClassic.received("kind", "sharded") != 0 {
		t.Error("a classic subscription received SPUBLISH")
	}

	// Both at once are two subscriptions, which end separately.
	n := gotClassic.confirmations("kind")
	classic.Subscribe("kind", true)
	gotClassic.awaitSubscribed(t, "kind", n)
	owner.Must(t, "SPUBLISH", "kind", "both")
	gotClassic.awaitMessage(t, "kind", "both")
	classic.Unsubscribe("kind", false)
	eventuallySubscribers(t, c.Masters[0], "kind", 0)
	owner.Must(t, "SPUBLISH", "kind", "one is left")
	gotClassic.awaitMessage(t, "kind", "one is left")
}

// moved: a slot changes its owner; calls and Shard follow.
func moved(t *testing.T, d driver.Driver, c *redistest.ClusterSet) {
	from, to := c.Masters[0], c.Masters[1]
	key, there := c.KeyOn(t, from, "moved:"), c.KeyOn(t, to, "moved:to:")
	eval(t, d, incr, []string{key})
	eval(t, d, incr, []string{there})
	if a, b := d.Shard(key), d.Shard(there); a == "" || b == "" || a == b {
		t.Errorf("Shard = %q and %q for keys of two masters, want two names", a, b)
	}
	slot := c.Slot(t, key)
	c.MoveSlot(t, slot, from, to)
	t.Cleanup(func() { c.MoveSlot(t, slot, to, from) })
	if got := eval(t, d, incr, []string{key}).Int(); got != 2 {
		t.Errorf("after the move the counter is %d, want 2", got)
	}
	for i, r := range d.Batch(t.Context(), []driver.Call{callIncr(key), callIncr(there)}) {
		if want := int64(3 - i); r.Err != nil || r.Value.Int() != want {
			t.Errorf("batch after the move: %v, %v, want %d", r.Value, r.Err, want)
		}
	}
	redistest.Eventually(t, "Shard follows", func() error {
		if a, b := d.Shard(key), d.Shard(there); a != b {
			return fmt.Errorf("keys of one master have the shards %q and %q", a, b)
		}
		eval(t, d, incr, []string{key})
		return nil
	})
}

// asked: a slot is being moved.
func asked(t *testing.T, d driver.Driver, c *redistest.ClusterSet) {
	from, to := c.Masters[1], c.Masters[2]
	tag := "{" + c.KeyOn(t, from, "asked:") + "}"
	slot := c.Slot(t, tag)
	gone, stays := tag+":gone", tag+":stays"
	eval(t, d, incr, []string{gone})
	eval(t, d, incr, []string{stays})
	c.BeginMove(t, slot, from, to)
	c.MoveKeys(t, slot, from, to, gone)
	t.Cleanup(func() {
		c.MoveKeys(t, slot, from, to)
		c.EndMove(t, slot, to)
		c.MoveSlot(t, slot, to, from)
	})

	if got := eval(t, d, incr, []string{gone}).Int(); got != 2 { // ASK, and then NOSCRIPT after ASKING
		t.Errorf("the counter that moved is %d, want 2", got)
	}
	for i, r := range d.Batch(t.Context(), []driver.Call{callIncr(gone), callIncr(stays)}) {
		if want := int64(3 - i); r.Err != nil || r.Value.Int() != want {
			t.Errorf("batch: %v, %v, want %d", r.Value, r.Err, want)
		}
	}
	both := driver.NewScript("both", `return redis.call('INCR', KEYS[1]) + redis.call('INCR', KEYS[2])`)
	_, err := d.Eval(t.Context(), driver.Call{Script: both, Keys: []string{gone, stays}})
	wantClass(t, err, driver.Passing)
	if got := eval(t, d, incr, []string{gone}).Int(); got != 4 {
		t.Errorf("the counter that moved is %d after TRYAGAIN, want 4", got)
	}
}

// movedChannel: a sharded channel is followed to the slot's new owner and back, with no hint but
// those of the servers.
func (s suite) movedChannel(t *testing.T, c *redistest.ClusterSet) {
	from, to := c.Masters[2], c.Masters[0]
	d := s.driver(t, Target{Mode: Cluster, Addrs: c.Addrs()})
	sub, r := subscriber(t, d)
	ch, stays := c.KeyOn(t, from, "channel:"), c.KeyOn(t, to, "stays:")
	slot := c.Slot(t, ch)
	sub.Subscribe(ch, true)
	sub.Subscribe(stays, true)
	r.awaitSubscribed(t, ch, 0)
	r.awaitSubscribed(t, stays, 0)
	for i, move := range [][2]*redistest.Server{{from, to}, {to, from}} {
		n := r.confirmations(ch)
		c.MoveSlot(t, slot, move[0], move[1])
		r.awaitSubscribed(t, ch, n)
		payload := fmt.Sprint("after move ", i)
		move[1].Must(t, "SPUBLISH", ch, payload)
		r.awaitMessage(t, ch, payload)
		to.Must(t, "SPUBLISH", stays, payload)
		r.awaitMessage(t, stays, payload)
	}
}

// slotOfNobody: a channel in a slot that no node serves waits.
func (s suite) slotOfNobody(t *testing.T, c *redistest.ClusterSet) {
	owner := c.Masters[1]
	key := c.KeyOn(t, owner, "nobody:")
	d := s.driver(t, Target{Mode: Cluster, Addrs: c.Addrs()})
	eval(t, d, incr, []string{key})
	slot := fmt.Sprint(c.Slot(t, key))
	for _, m := range c.Masters {
		m.Must(t, "CLUSTER", "DELSLOTS", slot)
	}
	_, err := d.Eval(t.Context(), callIncr(key))
	wantClass(t, err, driver.Passing, driver.NotSent)
	owner.Must(t, "CLUSTER", "ADDSLOTS", slot)
	c.AwaitOK(t)
	recovers(t, d, key)
}

// disagreed: two servers that name each other as the owner of a slot, so that none serves it. A client
// may not ask one after the other until they agree.
func (s suite) disagreed(t *testing.T, c *redistest.ClusterSet) {
	one, other := c.Masters[1], c.Masters[2]
	key := c.KeyOn(t, one, "disagreed:")
	d := s.driver(t, Target{Mode: Cluster, Addrs: c.Addrs()})
	slot := c.Slot(t, key)
	one.Must(t, "CLUSTER", "SETSLOT", fmt.Sprint(slot), "NODE", other.Str(t, "CLUSTER", "MYID"))
	s.promptly(t, "a call", func() {
		_, err := d.Eval(t.Context(), callIncr(key))
		wantClass(t, err, driver.Passing)
	})
	s.promptly(t, "a batch", func() {
		for _, r := range d.Batch(t.Context(), []driver.Call{callIncr(key), callIncr(key)}) {
			wantClass(t, r.Err, driver.Passing)
		}
	})
	s.promptly(t, "a call with WAIT", func() {
		wantClass(t, wait1(t, d, callIncr(key), 0, time.Second).Err, driver.Passing)
	})

	other.Must(t, "CLUSTER", "SETSLOT", fmt.Sprint(slot), "IMPORTING", one.Str(t, "CLUSTER", "MYID"))
	c.EndMove(t, slot, other)
	recovers(t, d, key)
	c.MoveSlot(t, slot, other, one)
}
