package workload

import (
	"sync/atomic"
	"time"
)

// Gate is inside a lock and sees every acquisition. It finds out whether two goroutines were
// inside at the same time, from which goroutine each took over, and how long that took. It
// contains no pointers, so that several processes can share it in memory: four little-endian
// words of 64 bits, zero at the beginning.
//
// Times are nanoseconds since an epoch that all users of a gate have in common.
//
// Where several may be inside, as readers or with permits, it counts them, and for how long there
// were any: see company.go.
type Gate struct {
	inside  atomic.Uint64 // the goroutine inside, which is alone; 0: none
	last    atomic.Uint64 // the goroutine that was inside last
	left    atomic.Int64  // when that one began to unlock
	company atomic.Uint64 // how many are inside, and for how long there were any
}

// GateSize is the memory that a Gate takes, in bytes.
const GateSize = 32

// entry is what a gate saw at an acquisition.
type entry struct {
	overlap bool          // another goroutine was inside
	from    uint64        // the goroutine that was inside before; 0: none ever was
	gap     time.Duration // since that one began to unlock
}

func (g *Gate) enter(id uint64, now time.Duration) entry {
	overlap := g.inside.Swap(id) != 0
	e := entry{overlap: overlap, from: g.last.Load()}
	e.gap = max(0, now-time.Duration(g.left.Load()))
	return e
}

// leave must be called before the unlock is sent.
func (g *Gate) leave(id uint64, now time.Duration) {
	g.last.Store(id)
	g.left.Store(int64(now))
	g.inside.CompareAndSwap(id, 0) // after an overlap it is another goroutine's
}

// actor returns the id of a goroutine in a gate: the upper half is the process, from 1.
func actor(process, goroutine int) uint64 {
	return uint64(process+1)<<32 | uint64(goroutine+1)
}

// sameProcess reports whether two actors are goroutines of one process.
func sameProcess(a, b uint64) bool { return a>>32 == b>>32 }
