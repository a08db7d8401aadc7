package fleet

import (
	"maps"
	"slices"

	"github.com/mortise-go/mortise"
)

// Scene is something that the fleet shows.
type Scene string

// The scenes. Those that come and go are there for some twenty seconds, and away for a few.
const (
	// StuckDeploy comes and goes: api-8 waits for deploy, which api-7 holds. api-7 waits for migrate, which
	// db-2 holds. db-2 waits for backup, which store-1 holds, and store-1 does not get on.
	StuckDeploy Scene = "stuck deploy"
	// Deadlock comes and goes: billing-1 and billing-2 each wait for the lock that the other one holds. In
	// the end one of them is asked to release its lock.
	Deadlock Scene = "deadlock"
	// FairQueue is always there: the queue of the fair lock outbox has several waiters.
	FairQueue Scene = "fair queue"
	// Silent comes and goes: edge-9 or edge-11 holds sitemap, and has been silent for so long that it is
	// shown as such. Meanwhile the other one waits.
	Silent Scene = "silent client"
	// Redisson comes and goes: a thread of Redisson's holds legacy:import, and worker-1 waits for it.
	Redisson Scene = "redisson"
	// OddNames is always there: locks whose names have quotes, markup, other scripts, control characters.
	OddNames Scene = "odd names"
	// HandOvers is always there: workers take turns under few locks.
	HandOvers Scene = "hand-overs"
	// Readers is always there: several readers hold catalog, and a writer waits at times.
	Readers Scene = "readers"
	// Permits is always there: more want a permit of gpu than there are.
	Permits Scene = "permits"
	// Leader is always there, but for moments: one of two candidates leads scheduler.
	Leader Scene = "leader"
	// Meeting comes and goes: parties wait at a barrier, or are inside a double barrier.
	Meeting Scene = "meeting"
	// Latch comes and goes: a client waits for a latch that others count down.
	Latch Scene = "latch"
)

// Scenes returns all scenes, in the order of their names.
func Scenes() []Scene { return slices.Sorted(maps.Keys(signs)) }

// signs are what the records of clients tell while a scene is there.
var signs = map[Scene]func(sight) bool{
	StuckDeploy: func(s sight) bool {
		return s.waits("api-8", deploy) > 0 && s.nested("api-7", deploy, migrate) && s.nested("db-2", migrate, backup) && s.holds("store-1", backup) > 0
	},
	Deadlock: func(s sight) bool {
		return s.nested("billing-1", invoice, ledger) && s.nested("billing-2", ledger, invoice)
	},
	FairQueue: func(s sight) bool { return s.waits("", outbox) >= fairWaiters && s.holds("", outbox) > 0 },
	Silent:    func(s sight) bool { return s.silent(sitemap) },
	Redisson:  func(s sight) bool { return s.waits("worker-1", legacy) > 0 && s.holds("", legacy) == 0 },
	OddNames: func(s sight) bool {
		return !slices.ContainsFunc(oddNames, func(name string) bool { return s.holds("", name) == 0 })
	},
	HandOvers: func(s sight) bool {
		return slices.ContainsFunc(orders, func(name string) bool { return s.holds("", name) > 0 && s.waits("", name) > 0 })
	},
	Readers: func(s sight) bool { return s.holds("", catalog) > 1 },
	Permits: func(s sight) bool { return s.holds("", gpu) == gpuPermits && s.waits("", gpu) > 0 },
	Leader:  func(s sight) bool { return s.holds("", scheduler) == 1 && s.waits("", scheduler) == 1 },
	Meeting: func(s sight) bool { return s.waits("", rollup) > 0 || s.holds("", reindex) > 0 },
	Latch:   func(s sight) bool { return s.waits("", parts) > 0 },
}

// shown reports whether what the clients publish has the scene in it.
func (s Scene) shown(clients []mortise.ClientState) bool {
	sign := signs[s]
	return sign != nil && sign(clients)
}

// sight is what the records of all clients tell.
type sight []mortise.ClientState

// holds counts the holds of a lock on a host, or on any.
func (s sight) holds(host, lock string) (n int) {
	for _, c := range s {
		for _, h := range c.Holds {
			if h.Lock == lock && (host == "" || c.Host == host) {
				n++
			}
		}
	}
	return n
}

// waits counts the waits for a lock on a host, or on any.
func (s sight) waits(host, lock string) (n int) {
	for _, c := range s {
		for _, w := range c.Waits {
			if w.Lock == lock && (host == "" || c.Host == host) {
				n++
			}
		}
	}
	return n
}

// nested reports whether a host holds one lock and waits for another one.
func (s sight) nested(host, held, wanted string) bool {
	return s.holds(host, held) > 0 && s.waits(host, wanted) > 0
}

// silent reports whether a holder of the lock has become silent a moment ago, while another client waits.
func (s sight) silent(lock string) bool {
	return s.waits("", lock) > 0 && slices.ContainsFunc(s, func(c mortise.ClientState) bool {
		return c.Silent > silentAfter && c.Silent < silentAfter+silentFresh && sight{c}.holds("", lock) > 0
	})
}
