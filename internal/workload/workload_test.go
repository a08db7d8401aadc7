package workload

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fair is a system that grants its locks in the order of the requests.
type fair struct {
	mu   sync.Mutex
	busy map[string]bool
	line map[string][]chan struct{}
}

func newFair() *fair { return &fair{busy: map[string]bool{}, line: map[string][]chan struct{}{}} }

func (f *fair) Lock(ctx context.Context, key string) (Hold, error) {
	f.mu.Lock()
	if !f.busy[key] {
		f.busy[key] = true
		f.mu.Unlock()
		return &fairHold{f, key}, nil
	}
	turn := make(chan struct{})
	f.line[key] = append(f.line[key], turn)
	f.mu.Unlock()
	select {
	case <-turn:
		return &fairHold{f, key}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type fairHold struct {
	f   *fair
	key string
}

func (h *fairHold) Unlock() error {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	line := h.f.line[h.key]
	if len(line) == 0 {
		h.f.busy[h.key] = false
		return nil
	}
	h.f.line[h.key] = line[1:]
	close(line[0])
	return nil
}

// lockFunc is a system that consists of one function.
type lockFunc func(ctx context.Context, key string) (Hold, error)

func (f lockFunc) Lock(ctx context.Context, key string) (Hold, error) { return f(ctx, key) }

// free is a hold that costs nothing to release.
type free struct{}

func (free) Unlock() error { return nil }

// inBubble runs spec in virtual time. A lock that is held for a millisecond is acquired exactly
// a thousand times a second there.
func inBubble(t *testing.T, locker Locker, spec Spec) (r *Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if r, err = Do(t.Context(), locker, spec, 100*time.Millisecond, time.Second); err != nil {
			t.Fatal(err)
		}
	})
	return r
}

func TestAFairLockIsFair(t *testing.T) {
	r := inBubble(t, newFair(), Spec{Kind: Cycle, N: 8, Key: "k", Shared: true, Inside: time.Millisecond})
	if got := r.Acquisitions(); got < 999 || got > 1001 {
		t.Errorf("%d acquisitions in a second, want 1000", got)
	}
	if r.HandOvers != r.Acquisitions() || r.Across != 0 || r.Overlaps != 0 || r.Failures != 0 || r.Hung != 0 {
		t.Errorf("%d acquisitions, %d hand-overs (%d across), %d overlaps, %d failures, %d hung",
			r.Acquisitions(), r.HandOvers, r.Across, r.Overlaps, r.Failures, r.Hung)
	}
	if r.Jain() < 0.9999 || r.Starved() != 0 {
		t.Errorf("Jain %v, %d starved; want 1, 0", r.Jain(), r.Starved())
	}
	if u := r.Utilisation(); u < 0.998 || u > 1 {
		t.Errorf("utilisation %v, want 1", u)
	}
	if want := 7 * time.Millisecond; r.Waits.Max() != want {
		t.Errorf("worst wait %v, want that of 7 others: %v", r.Waits.Max(), want)
	}
	if r.Gaps.Count() != r.HandOvers || r.Gaps.Max() != 0 {
		t.Errorf("%d gaps, at most %v; want %d, none", r.Gaps.Count(), r.Gaps.Max(), r.HandOvers)
	}
}

func TestAGoroutineOfItsOwnLockHandsNothingOver(t *testing.T) {
	r := inBubble(t, newFair(), Spec{Kind: Cycle, N: 4, Key: "k", Inside: time.Millisecond})
	if got := r.Acquisitions(); got < 3990 || got > 4010 {
		t.Errorf("%d acquisitions in a second, want 4000", got)
	}
	if r.HandOvers != 0 || r.Overlaps != 0 {
		t.Errorf("%d hand-overs, %d overlaps; want none", r.HandOvers, r.Overlaps)
	}
}

func TestALockThatKeepsNobodyOutShowsOverlaps(t *testing.T) {
	broken := lockFunc(func(context.Context, string) (Hold, error) { return free{}, nil })
	r := inBubble(t, broken, Spec{Kind: Cycle, N: 2, Key: "k", Shared: true, Inside: time.Millisecond})
	if r.Overlaps < 1000 {
		t.Errorf("%d overlaps, want at least one per millisecond", r.Overlaps)
	}
}

func TestAStarvingLockShowsIt(t *testing.T) {
	r := inBubble(t, &greedy{}, Spec{Kind: Cycle, N: 4, Key: "k", Shared: true, Inside: time.Millisecond})
	if r.Starved() != 3 || r.Jain() != 0.25 || r.HandOvers != 0 {
		t.Errorf("%d starved, Jain %v, %d hand-overs; want 3, 0.25, 0", r.Starved(), r.Jain(), r.HandOvers)
	}
	if want := 1100 * time.Millisecond; r.Waits.Max() != want {
		t.Errorf("worst wait %v, want %v: goroutines without success wait all the time", r.Waits.Max(), want)
	}
}

// greedy is a system that forgets goroutines that find the lock busy.
type greedy struct{ busy atomic.Bool }

func (g *greedy) Lock(ctx context.Context, _ string) (Hold, error) {
	if g.busy.CompareAndSwap(false, true) {
		return g, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (g *greedy) Unlock() error { g.busy.Store(false); return nil }

func TestFailuresAreCountedAndTheWaitGoesOn(t *testing.T) {
	refused := errors.New("refused for a while")
	asked := 0
	r := inBubble(t, lockFunc(func(context.Context, string) (Hold, error) { // flaky
		if asked++; asked%4 != 0 {
			time.Sleep(time.Millisecond)
			return nil, refused
		}
		return free{}, nil
	}), Spec{Kind: Cycle, N: 1, Key: "k", Inside: time.Millisecond})
	if r.Failures < 3*r.Acquisitions() || r.Failure != refused.Error() {
		t.Errorf("%d failures (%q), want three for each of %d", r.Failures, r.Failure, r.Acquisitions())
	}
	if want := 3 * time.Millisecond; r.Waits.Quantile(0.5).Round(time.Millisecond) != want {
		t.Errorf("median wait %v, want %v: from the first attempt on", r.Waits.Quantile(0.5), want)
	}
}

func TestWhatHangsIsReportedAndLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		deaf := lockFunc(func(context.Context, string) (Hold, error) {
			<-release
			return nil, errors.New("too late")
		})
		for _, kind := range []Kind{Cycle, Queued} {
			run, err := Start(t.Context(), deaf, Spec{Kind: kind, N: 3, Key: "k", Shared: true, epoch: time.Now()}, nil)
			if err != nil {
				t.Fatal(err)
			}
			run.Begin()
			synctest.Wait()
			if r := run.End(time.Millisecond); r.Hung != 3 {
				t.Errorf("%s: %d hung, want 3", kind, r.Hung)
			}
		}
		close(release)
	})
}

func TestProcessesShareAGate(t *testing.T) {
	locker, gate := newFair(), &Gate{}
	var results []*Result
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var runs []Running
		for p := range 2 {
			run, err := Start(t.Context(), locker,
				Spec{Kind: Cycle, N: 2, Key: "k", Shared: true, Inside: time.Millisecond, Process: p, epoch: began}, gate)
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
	r := Merge(results...)
	if len(r.Counts) != 4 || r.Starved() != 0 {
		t.Fatalf("counts %v, want those of 4 goroutines", r.Counts)
	}
	if r := Merge(r, &Result{Counts: []int64{5, 6}}); len(r.Processes) != 3 || r.Processes[2] != 11 {
		t.Errorf("processes %v, want two and one with 11", r.Processes)
	}
	if r.Overlaps != 0 || r.Across == 0 || r.Across > r.HandOvers {
		t.Errorf("%d overlaps, %d hand-overs, %d across", r.Overlaps, r.HandOvers, r.Across)
	}
	if r.AcrossGap.Count() != r.Across || r.Gaps.Count() != r.HandOvers-r.Across {
		t.Errorf("%d gaps across and %d within, want %d and %d",
			r.AcrossGap.Count(), r.Gaps.Count(), r.Across, r.HandOvers-r.Across)
	}
}

func TestKeptLocksAreWeighed(t *testing.T) {
	// Large, because the stacks of goroutines that have ended may go meanwhile.
	const size = 32 << 10
	heavy := lockFunc(func(context.Context, string) (Hold, error) { return &weight{make([]byte, size)}, nil })
	r, err := Do(t.Context(), heavy, Spec{Kind: Keep, N: 1000, Key: "k"}, 0, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if r.Each == nil || r.Each.N != 1000 || r.Each.Bytes < 0.9*size || r.Each.Bytes > 1.2*size {
		t.Errorf("weighed %+v, want 1000 of %d bytes and a little", r.Each, size)
	}
	if r.Each.Lost != 1000 {
		t.Errorf("%d lost, want all: none is valid", r.Each.Lost)
	}
}

type weight struct{ b []byte }

func (*weight) Unlock() error { return nil }
func (*weight) Valid() bool   { return false }

func TestALockThatCannotBeKeptFailsTheRun(t *testing.T) {
	f := newFair()
	n := 0
	limited := lockFunc(func(ctx context.Context, key string) (Hold, error) {
		f.mu.Lock()
		n++
		enough := n > 5
		f.mu.Unlock()
		if enough {
			return nil, errors.New("no more than 5")
		}
		return f.Lock(ctx, key)
	})
	if _, err := Start(t.Context(), limited, Spec{Kind: Keep, N: 10, Key: "k"}, nil); err == nil ||
		!strings.Contains(err.Error(), "no more than 5") {
		t.Fatalf("error %v, want why a lock could not be taken", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, busy := range f.busy {
		if busy {
			t.Errorf("%s is still held", key)
		}
	}
}

func TestWaitersAreWeighed(t *testing.T) {
	f := newFair()
	held, err := f.Lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	run, err := Start(t.Context(), f, Spec{Kind: Queued, N: 1000, Key: "k", Shared: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for waiting := 0; waiting < 1000; {
		f.mu.Lock()
		waiting = len(f.line["k"])
		f.mu.Unlock()
		runtime.Gosched()
	}
	run.Begin()
	r := run.End(10 * time.Second)
	if r.Each.Goroutines < 0.99 || r.Each.Bytes < 2048 || r.Each.Bytes > 16384 || r.Each.Acquired != 0 || r.Hung != 0 {
		t.Errorf("got %+v, %d hung; want a goroutine each and its stack", r.Each, r.Hung)
	}
	if err := held.Unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestALoopAllocatesNothingItself(t *testing.T) {
	always := lockFunc(func(context.Context, string) (Hold, error) { return free{}, nil })
	for _, shared := range []bool{false, true} {
		r, err := Do(t.Context(), always, Spec{Kind: Cycle, N: 1, Key: "k", Shared: shared}, 10*time.Millisecond, 50*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		// The window itself needs a few.
		if n := r.Acquisitions(); r.Mallocs > 50+uint64(n)/100 {
			t.Errorf("shared %v: %d allocations over %d pairs, want none for a pair", shared, r.Mallocs, n)
		}
	}
}

func TestSpecsThatCannotRunAreRefused(t *testing.T) {
	for _, spec := range []Spec{{Kind: Cycle, Key: "k"}, {Kind: Cycle, N: 1}, {Kind: "dance", N: 1, Key: "k"}} {
		if _, err := Start(t.Context(), newFair(), spec, nil); err == nil {
			t.Errorf("%+v was accepted", spec)
		}
	}
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		counts []int64
		want   float64
	}{
		{nil, 0}, {[]int64{0, 0}, 0}, {[]int64{7}, 1}, {[]int64{5, 5, 5}, 1}, {[]int64{9, 0, 0}, 1.0 / 3}, {[]int64{1, 3}, 0.8},
	} {
		if got := Jain(c.counts); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Jain(%v) = %v, want %v", c.counts, got, c.want)
		}
	}
}
