package workload

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// room is a system of one lock, in which shares of its size are held. Waiters have their turns in
// the order in which they came.
type room struct {
	size, share int

	*crowdedRoom
}

// crowdedRoom is what lockers of one room have in common.
type crowdedRoom struct {
	mu    sync.Mutex // guards the fields below
	taken int
	line  []visitor
}

type visitor struct {
	share int
	enter chan struct{}
}

func newRoom(size, share int) *room { return &room{size, share, &crowdedRoom{}} }

func (r *room) Lock(ctx context.Context, _ string) (Hold, error) {
	r.mu.Lock()
	v := visitor{r.share, make(chan struct{})}
	r.line = append(r.line, v)
	r.admit()
	r.mu.Unlock()
	select {
	case <-v.enter:
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// admit lets the first in line in. The caller must hold mu.
func (r *room) admit() {
	for len(r.line) > 0 && r.taken+r.line[0].share <= r.size {
		r.taken += r.line[0].share
		close(r.line[0].enter)
		r.line = r.line[1:]
	}
}

func (r *room) Unlock() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= r.share
	r.admit()
	return nil
}

// Permit implements [Permitter].
func (r *room) Permit(_ context.Context, _ string, n int) error {
	r.size = n
	return nil
}

// rwRoom is a read/write lock: a reader takes one share of its room, and a writer as many as it
// says, all of them if it works.
type rwRoom struct{ write, read *room }

func newRWRoom(size, share int) *rwRoom {
	write := newRoom(size, share)
	return &rwRoom{write, &room{size, 1, write.crowdedRoom}}
}

func (r *rwRoom) Lock(ctx context.Context, key string) (Hold, error) { return r.write.Lock(ctx, key) }

// Read implements [Sided].
func (r *rwRoom) Read() Locker { return r.read }

func readersAndWriters(readers, writers int) Spec {
	return Spec{Kind: Cycle, N: readers + writers, Key: "k", Shared: true, Sides: true, Writers: writers, Inside: time.Millisecond}
}

func TestReadersAreInsideTogetherAndWritersAlone(t *testing.T) {
	r := inBubble(t, newRWRoom(100, 100), readersAndWriters(4, 1))
	// The readers hold it for a millisecond, together, then the writer for one.
	if w := r.Writes(); w < 499 || w > 501 || len(r.Writers) != 1 {
		t.Errorf("%d writes of %d writers in a second, want 500 of one", w, len(r.Writers))
	}
	if n := sum(r.Counts); n < 1996 || n > 2004 || len(r.Counts) != 4 || r.Acquisitions() != n+r.Writes() {
		t.Errorf("%d reads of %d readers, and %d acquisitions in a second; want 2000 of 4", n, len(r.Counts), r.Acquisitions())
	}
	if r.Overlaps != 0 || r.Failures != 0 || r.Hung != 0 {
		t.Errorf("%d overlaps, %d failures, %d hung; want none", r.Overlaps, r.Failures, r.Hung)
	}
	for role, waits := range map[string]*Histogram{"write": &r.WriteWaits, "read": &r.Waits} {
		if got := waits.Max(); got != time.Millisecond {
			t.Errorf("the longest wait to %s is %v, want that for the other side: %v", role, got, time.Millisecond)
		}
	}
}

func TestALockOfManyIsBusyWhileAnyoneHasIt(t *testing.T) {
	r := inBubble(t, newRWRoom(100, 100), readersAndWriters(4, 1))
	if u := r.Utilisation(); u < 0.998 || u > 1 {
		t.Errorf("utilisation %v, want 1", u)
	}
	if r.Inside < 2.49 || r.Inside > 2.51 {
		t.Errorf("%v seconds inside in all, want half a second of five", r.Inside)
	}
}

func TestAWriterThatIsNotAloneShowsOverlaps(t *testing.T) {
	for what, c := range map[string]struct {
		share            int // of a room for 100
		readers, writers int
	}{
		"with a reader":  {99, 1, 1},
		"with a writer":  {50, 1, 2},
		"with everybody": {1, 4, 2},
	} {
		if r := inBubble(t, newRWRoom(100, c.share), readersAndWriters(c.readers, c.writers)); r.Overlaps < 100 {
			t.Errorf("%s: %d overlaps, want at least one in ten milliseconds", what, r.Overlaps)
		}
	}
}

func TestAWriterWithoutTurnsShowsItsWait(t *testing.T) {
	r := inBubble(t, newRWRoom(100, 101), readersAndWriters(2, 1))
	if r.Writes() != 0 || r.WriteWaits.Max() != 1100*time.Millisecond {
		t.Errorf("%d writes, the longest wait is %v; want none, and a wait all the time", r.Writes(), r.WriteWaits.Max())
	}
}

func TestASemaphoreHasAsManyInsideAsItHasPermits(t *testing.T) {
	spec := Spec{Kind: Cycle, N: 12, Key: "k", Shared: true, Permits: 3, Inside: time.Millisecond}
	r := inBubble(t, newRoom(1, 1), spec)
	if n := r.Acquisitions(); n < 2997 || n > 3003 {
		t.Errorf("%d acquisitions in a second, want 3000", n)
	}
	if r.Overlaps != 0 || r.Failures != 0 || r.Jain() < 0.9999 || r.Waits.Max() != 3*time.Millisecond {
		t.Errorf("%d overlaps, %d failures, Jain %v, %v at most; want none, 1, three turns of others",
			r.Overlaps, r.Failures, r.Jain(), r.Waits.Max())
	}
	if u := r.Utilisation(); u < 0.998 || u > 1 {
		t.Errorf("utilisation %v, want 1", u)
	}
}

// generous is a semaphore that gives one permit more than it has.
type generous struct{ *room }

func (g generous) Permit(ctx context.Context, key string, n int) error {
	return g.room.Permit(ctx, key, n+1)
}

func TestAPermitTooManyShowsOverlaps(t *testing.T) {
	spec := Spec{Kind: Cycle, N: 12, Key: "k", Shared: true, Permits: 3, Inside: time.Millisecond}
	if r := inBubble(t, generous{newRoom(1, 1)}, spec); r.Overlaps < 500 {
		t.Errorf("%d overlaps, want one for each fourth permit", r.Overlaps)
	}
}

func TestProcessesShareTheGateOfASemaphore(t *testing.T) {
	var results []*Result
	synctest.Test(t, func(t *testing.T) {
		gate, began := &Gate{}, time.Now()
		var runs []Running
		for p := range 2 {
			run, err := Start(t.Context(), newRoom(1, 1), // one semaphore each: together they have two permits
				Spec{Kind: Cycle, N: 2, Key: "k", Shared: true, Permits: 1, Inside: time.Millisecond, Process: p, epoch: began}, gate)
			if err != nil {
				t.Fatal(err)
			}
			run.Begin()
			runs = append(runs, run)
		}
		time.Sleep(time.Second)
		for _, run := range runs {
			results = append(results, run.End(time.Second))
		}
	})
	if r := Merge(results...); r.Overlaps < 900 || r.Utilisation() > 1 {
		t.Errorf("%d overlaps, utilisation %v; want one in a millisecond, and 1 at most", r.Overlaps, r.Utilisation())
	}
}

func TestSystemsWithoutSidesOrPermitsAreRefused(t *testing.T) {
	for _, spec := range []Spec{
		{Kind: Cycle, N: 1, Key: "k", Sides: true},
		{Kind: Cycle, N: 1, Key: "k", Permits: 1},
	} {
		if _, err := Start(t.Context(), newFair(), spec, nil); err == nil {
			t.Errorf("%+v was accepted", spec)
		}
	}
}

// The time for which a gate was busy does not depend on how large the times are.
func TestBusyTimeMayOverflow(t *testing.T) {
	for _, start := range []time.Duration{0, 1<<48 - 5, 1 << 60} {
		g := &Gate{}
		g.arrive(start)
		from := g.busy(start + 1)
		g.arrive(start + 2)
		g.depart(start + 4)
		g.depart(start + 7)
		g.arrive(start + 9)
		if got := busyFor(from, g.busy(start+10)); got != 7 {
			t.Errorf("from %d on it was busy for %d, want 6 and 1", start, got)
		}
	}
}
