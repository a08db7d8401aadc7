package waiting

import (
	"container/heap"
	"context"
	"math"
	"sync"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/script"
)

// departures has the waiters that a goroutine removes from a fair lock's queue in Redis,
// by place.
type departures struct {
	mu sync.Mutex
	at map[lease.Place]*leavers
}

// add adds l to the leavers at p. It reports whether no goroutine takes them: then the
// caller must start one.
func (d *departures) add(p lease.Place, l leaver) (untaken bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.at[p]
	if untaken = all == nil; untaken {
		if d.at == nil {
			d.at = make(map[lease.Place]*leavers)
		}
		all = new(leavers)
		d.at[p] = all
	}
	heap.Push(all, l)
	return untaken
}

// take removes the next leavers at p, in the order of the queue. If it returns none, the
// goroutine that takes them must end.
func (d *departures) take(p lease.Place) []leaver {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.at[p]
	some := make([]leaver, min(all.Len(), script.FairLeaveMost))
	for i := range some {
		some[i] = heap.Pop(all).(leaver)
	}
	if len(some) == 0 {
		delete(d.at, p)
	}
	return some
}

// leaver is a waiter that gave up.
type leaver struct {
	id    string
	since queueing
	doubt bool          // a copy of an attempt may still be in flight
	lease time.Duration // the lease of that attempt
}

// leavers is a heap in the order of the queue.
type leavers []leaver

func (s leavers) Len() int           { return len(s) }
func (s leavers) Less(i, j int) bool { return s[i].since.before(s[j].since) }
func (s leavers) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *leavers) Push(x any)        { *s = append(*s, x.(leaver)) }

func (s *leavers) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}

// fairLock is a fair lock with the scripts of its queue in Redis.
type fairLock struct {
	*lease.Lock
	script *script.FairLock
}

// quit removes the waiter id, which gave up, from the queue in Redis, in the background so
// that the caller does not block. Waiters of a lock that give up meanwhile leave
// in one batch: if many left one by one, the next waiter would have to wait until
// Redis has searched the queue for each of them.
//
// If a copy of an attempt may still be in flight, or Redis does not answer, the
// client continues to remove it: nothing else would notice that the lock is
// granted to a waiter that is gone.
func (k fairLock) quit(id string, since queueing, doubt bool) {
	if since.at == 0 {
		since.at = math.MaxInt64 // unknown, so it sorts last
	}
	if c := QueuesOf(k.Client()); c.departures.add(k.Place(), leaver{id, since, doubt, k.TTL()}) {
		c.Spawn(k.leaveAll) // even during Close, which waits for the caller's operation
	}
}

// leaveAll removes the leavers from the queue in Redis, in its order, until there
// are none.
func (k fairLock) leaveAll(ctx context.Context) {
	for {
		some := QueuesOf(k.Client()).departures.take(k.Place())
		if len(some) == 0 {
			return
		}
		for len(some) > 0 {
			some = some[k.leaveSome(ctx, some):]
		}
	}
}

// leaveSome removes the first leavers from the queue in Redis, and returns how
// many it handled. It leaves to the janitor those that it cannot remove, and
// those that an attempt in flight may still queue.
func (k fairLock) leaveSome(ctx context.Context, all []leaver) (done int) {
	c := k.Client()
	ids := make([]string, len(all))
	for i, l := range all {
		ids[i] = l.id
	}
	var again time.Duration
	_, err := c.Call(ctx, c.Config().RetryFor, func(ctx context.Context) (err error) {
		done, again, err = script.FairLeave(ctx, c.Driver(), k.script.Fair(), ids)
		return err
	})
	if again > 0 {
		QueuesOf(c).recheckAfter(k.Lock, again)
	}
	if done == 0 {
		done = len(all)
	}
	for _, l := range all[:done] {
		switch {
		case err != nil:
			c.Abandon(k.Lock, l.id, l.lease)
		case l.doubt:
			c.AbandonSoon(k.Lock, l.id, l.lease)
		}
	}
	return done
}
