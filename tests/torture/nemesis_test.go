package torture

import (
	"time"

	"github.com/mortise-go/mortise"
)

// nemesis is what breaks things.
type nemesis struct {
	name      string
	kinds     []string         // of deployment
	args      []string         // of the servers
	acks      int              // of replicas, that locks ask for: all that there are
	allowed   []string         // classes of errors that it explains, besides those expected
	least     int              // hits without which a round has shown nothing
	fewest    int              // acquisitions, without which it has not; fewest of the package if 0
	failsOver bool             // masters are killed, and nodes of a cluster take each other for dead after a second
	strike    func(*round) int // breaks something for a moment, and returns how much it has hit

	// costsCounts says that semaphores and latches, which have no leases, are not the same after it:
	// the dead keep their permits, Redis forgets what was counted, or cannot say what it did.
	costsCounts bool
}

var (
	everywhere = []string{"single", "replicas", "sentinel", "cluster"}
	anywhere   = append([]string{"several"}, everywhere...) // also under a Redlock
)

// nemeses are all there are. Those that make Redis forget what it has confirmed say so, with
// round.forgets; all others must not cost exclusion.
var nemeses = []*nemesis{
	{name: "freeze-holder", kinds: anywhere, least: 2, strike: freezeHolder},
	{name: "freeze-waiter", kinds: anywhere, least: 2, strike: freezeWaiter},
	{name: "kill", costsCounts: true, kinds: anywhere, least: 2, strike: kill},

	{name: "black-hole", kinds: anywhere, least: 2, strike: blackHole},
	{name: "one-way", kinds: anywhere, least: 2, strike: oneWay},
	{name: "strand", kinds: anywhere, least: 2, strike: strand},
	{name: "reset", kinds: anywhere, least: 10, strike: reset},
	{name: "refuse", kinds: everywhere, least: 2, strike: refuse},
	{name: "delay", kinds: anywhere, least: 2, strike: delay},
	{name: "lost-replies", kinds: anywhere, least: 10, strike: loseReplies},

	{name: "flush-scripts", kinds: anywhere, least: 20, strike: flushScripts},
	{name: "kill-normal", kinds: anywhere, least: 10, strike: killNormal},
	{name: "kill-pubsub", kinds: anywhere, least: 10, strike: killPubSub},
	{name: "freeze-server", kinds: []string{"single", "replicas"}, least: 2, strike: freezeServer},
	{name: "out-of-memory", kinds: everywhere, least: 5, strike: outOfMemory},
	{name: "read-only", kinds: []string{"single"}, least: 5, strike: readOnly},
	{name: "deny-rights", costsCounts: true, kinds: everywhere, allowed: []string{"denied"}, least: 5, strike: denyRights},
	{name: "forge", kinds: everywhere, least: 1000, strike: forge},

	{name: "restart", kinds: []string{"single"}, args: []string{"--appendonly", "yes"}, least: 2, strike: restartKept},
	{name: "restart-empty", costsCounts: true, kinds: []string{"single"}, allowed: []string{"regressed"}, least: 2, strike: restartEmpty},
	{name: "delete", kinds: everywhere, allowed: []string{"regressed"}, least: 3, strike: deleteHeld},
	{name: "flush-all", costsCounts: true, kinds: everywhere, allowed: []string{"regressed"}, least: 3, strike: flushAll},
	{name: "evict", costsCounts: true, kinds: []string{"single"}, allowed: []string{"regressed"}, least: 3, strike: evict},
	{name: "clock", costsCounts: true, kinds: []string{"clocked"}, least: 3, strike: setClock},

	{name: "promote", costsCounts: true, kinds: []string{"replicas"}, acks: 2, allowed: []string{"notdurable"}, least: 3, strike: promote},
	{name: "promote-any", costsCounts: true, kinds: []string{"replicas"}, allowed: []string{"regressed"}, least: 3, strike: promoteForgetful},
	{name: "sentinel-failover", costsCounts: true, failsOver: true, kinds: []string{"sentinel"}, allowed: []string{"regressed"}, least: 1, strike: failOver},
	{name: "cluster-failover", costsCounts: true, failsOver: true, kinds: []string{"cluster"}, allowed: []string{"regressed"}, least: 1, strike: failNode},
	{name: "promote-all", costsCounts: true, kinds: []string{"replicas"}, acks: int(mortise.AcksAll), allowed: []string{"notdurable"}, least: 3, strike: promote},
	{name: "sentinel-durable", costsCounts: true, failsOver: true, kinds: []string{"sentinel"}, acks: 1, allowed: []string{"notdurable"}, least: 1, fewest: 20, strike: failOver},
	{name: "cluster-durable", costsCounts: true, failsOver: true, kinds: []string{"cluster"}, acks: 1, allowed: []string{"notdurable"}, least: 1, fewest: 20, strike: failNode},
	{name: "cluster-switch", kinds: []string{"cluster"}, least: 2, strike: switchNode},
	{name: "slot-move", kinds: []string{"cluster"}, least: 3, strike: moveSlot},
	{name: "minority", kinds: []string{"several"}, least: 2, strike: minority},
}

// length is how long a fault lasts: up to two leases.
func (r *round) length() time.Duration { return 50*time.Millisecond + r.upTo(2*r.ttl) }
