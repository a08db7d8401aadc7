package goals

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// lockers are all locks that exclude others, of one client.
func lockers(c *mortise.Client, name string) []taker {
	return []taker{
		c.Lock(name), c.FairLock(name), c.FencedLock(name), c.SpinLock(name), c.RWLock(name).Write(), c.GroupLock(name, "a", "b"),
		mortise.NewMultiLock(c.Lock(name), c.FencedLock("other "+name)), mortise.NewMultiLock(c.Lock(name), c.FairLock("{"+name+"} too")), single{c.PermitSemaphore(name)},
	}
}

// single is a semaphore with one permit.
type single struct{ *mortise.PermitSemaphore }

func (s single) Lock(ctx context.Context) (*mortise.Hold, context.Context, error) {
	return s.Acquire(ctx)
}

// Each of three masters gives away many of its slots, one after the other, while locks of all kinds
// are taken in them: no caller that waits for five seconds sees an error, and no lock is held twice.
func TestReshardingUnderLoad(t *testing.T) {
	slots := times(20, 500)
	set := redistest.Cluster(t, 0)
	each(t, func(t *testing.T, dial func(addrs ...string) *mortise.Client) {
		canary.Judge(t, func(t *testing.T, b *canary.Bounds) { reshardingUnderLoad(t, b, set, slots, dial) })
	})
}

func reshardingUnderLoad(t *testing.T, b *canary.Bounds, set *redistest.ClusterSet, slots int, dial func(addrs ...string) *mortise.Client) {
	f := newFleet(t, 4*time.Millisecond, time.Minute)
	clients := []*mortise.Client{dial(set.Addrs()...), dial(set.Addrs()...), dial(set.Addrs()...)}
	kinds := len(lockers(clients[0], "x"))
	moves := make([][]int, len(set.Masters))
	var names []string
	for m, from := range set.Masters {
		var more []string
		moves[m], more = choose(t, set, from, slots, min(slots/2, 4*kinds))
		names = append(names, more...)
	}
	for i, name := range names {
		if i%kinds == kinds-1 {
			must(t, clients[0].PermitSemaphore(name).SetPermits(t.Context(), 1))
		}
	}
	for _, c := range clients {
		var locks []taker
		for i, name := range names {
			locks = append(locks, lockers(c, name)[i%kinds])
		}
		f.sail(t, len(names)/9, locks, names)
	}
	moved, keys, begin := 0, 0, time.Now()
	for m, from := range set.Masters {
		for _, slot := range moves[m] {
			keys += give(t, set, slot, from, set.Masters[(m+1)%len(set.Masters)])
			moved++
		}
		f.goOn(t, len(names))
	}
	f.anchor(t)
	t.Logf("%d slots with %d keys moved in %.1f s, during %d acquisitions of %d names", moved, keys, time.Since(begin).Seconds(), f.grants, len(names))
	b.Within("the wait of a caller", f.longest, 5*time.Second)
	for err, n := range f.errs {
		t.Errorf("%d callers had an error: %s", n, err)
	}
	if want := len(set.Masters) * slots; moved < want || keys < len(names)/4 {
		t.Errorf("%d slots with %d keys moved, want %d with %d at least", moved, keys, want, len(names)/4)
	}
}

// choose returns slots of a master, and names in some of them.
func choose(t *testing.T, set *redistest.ClusterSet, from *redistest.Server, slots, named int) (moves []int, names []string) {
	t.Helper()
	for i := 0; len(moves) < named; i++ {
		name := fmt.Sprint("job ", t.Name(), " ", from.Port(), " ", i)
		if slot := set.Slot(t, name); set.Owner(t, name) == from && !slices.Contains(moves, slot) {
			moves, names = append(moves, slot), append(names, name)
		}
	}
	for _, slot := range slotsOf(t, set, from) {
		if len(moves) < slots && !slices.Contains(moves, slot) {
			moves = append(moves, slot)
		}
	}
	return moves, names
}

// give moves a slot to another master, and returns how many keys went with it.
func give(t *testing.T, set *redistest.ClusterSet, slot int, from, to *redistest.Server) (keys int) {
	t.Helper()
	set.BeginMove(t, slot, from, to)
	for n := inSlot(t, from, slot); n > 0; n = inSlot(t, from, slot) {
		keys += n
		set.MoveKeys(t, slot, from, to)
	}
	set.EndMove(t, slot, to)
	return keys
}

// slotsOf returns the slots that a master serves.
func slotsOf(t *testing.T, set *redistest.ClusterSet, of *redistest.Server) (slots []int) {
	t.Helper()
	ranges, _ := set.Masters[0].Must(t, "CLUSTER", "SLOTS").([]any)
	for _, r := range ranges {
		fields := r.([]any)
		if fields[2].([]any)[1] != int64(of.Port()) {
			continue
		}
		for slot := fields[0].(int64); slot <= fields[1].(int64); slot++ {
			slots = append(slots, int(slot))
		}
	}
	return slots
}

// inSlot returns how many keys of a slot a master has.
func inSlot(t *testing.T, of *redistest.Server, slot int) int {
	t.Helper()
	return int(of.Int(t, "CLUSTER", "COUNTKEYSINSLOT", strconv.Itoa(slot)))
}
