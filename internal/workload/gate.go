package workload

import (
	"sync/atomic"
	"time"
)

// Gate stands inside a lock and sees who comes in. It finds out whether two
// were inside at the same time, from whom each took over, and how long that
// took. It contains no pointers, so that it can lie in memory which several
// processes share: three little-endian words of 64 bits, zero at the beginning.
//
// Times are nanoseconds since an epoch that all who use a gate have in common.
type Gate struct {
	inside atomic.Uint64 // who is inside; 0: nobody
	last   atomic.Uint64 // who was inside last
	left   atomic.Int64  // when that one began to unlock
}

// GateSize is the memory that a Gate takes, in bytes.
const GateSize = 24

// entry is what a gate saw when somebody came in.
type entry struct {
	overlap bool          // somebody was inside
	from    uint64        // who was inside before; 0: nobody ever
	gap     time.Duration // since that one began to unlock
}

func (g *Gate) enter(id uint64, now time.Duration) entry {
	overlap := g.inside.Swap(id) != 0
	e := entry{overlap: overlap, from: g.last.Load()}
	e.gap = max(0, now-time.Duration(g.left.Load()))
	return e
}

// leave must be called before the unlock is asked for.
func (g *Gate) leave(id uint64, now time.Duration) {
	g.last.Store(id)
	g.left.Store(int64(now))
	g.inside.CompareAndSwap(id, 0) // it is another's if there was an overlap
}

// actor returns the id of a goroutine in a gate: the process, from 1, in the
// upper half.
func actor(process, goroutine int) uint64 {
	return uint64(process+1)<<32 | uint64(goroutine+1)
}

// sameProcess reports whether two actors are goroutines of one process.
func sameProcess(a, b uint64) bool { return a>>32 == b>>32 }
