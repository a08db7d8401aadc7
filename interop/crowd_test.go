//go:build interop

package interop

import (
	"context"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// crowdTrials are what becomes of the two sides where many of both want a lock
// all the time. What a wait may cost is counted in the acquisitions of others,
// which is the same on a fast machine and on a slow one.
var crowdTrials = []trial{
	{claim{"Lock", "crowds of both sides have their share", "Go <-> Java"}, crowds},
	{claim{"Lock", "one gets through a crowd", "Java -> Go"}, javaAmongGo},
	{claim{"Lock", "one gets through a crowd", "Go -> Java"}, goAmongJava},
}

func TestCrowds(t *testing.T) { everywhere(t, crowdTrials) }

// TestCrowdsOfKinds tries the same with the other kinds of lock.
func TestCrowdsOfKinds(t *testing.T) {
	everywhere(t, append(about("FairLock", crowdTrials), about("FencedLock", crowdTrials)...))
}

// raced is what one contender for a lock reports.
type raced struct {
	Times         int // that it had the lock
	Passed        int // the most that others had it, from one question for it to the answer
	LongestWaitMs float64
}

// endless is a total that no race comes to by itself.
const endless = math.MaxInt32

// race has lock add to a counter as the agent's command does, over a connection
// of its own to the server that has the counter.
func race(ctx context.Context, lock waiter, addr, counter string, times, total int) (r raced, err error) {
	conn, err := redistest.Dial(addr, "", "")
	if err != nil {
		return r, err
	}
	defer conn.Close()
	for times == 0 || r.Times < times {
		before, err := read(conn, counter)
		if err != nil {
			return r, err
		}
		asked := time.Now()
		hold, _, err := lock.Lock(ctx)
		if err != nil {
			return r, err
		}
		took := time.Since(asked)
		count, err := read(conn, counter)
		if err != nil {
			return r, err
		}
		if count >= total {
			return r, hold.Unlock()
		}
		if _, err = conn.Do("SET", counter, strconv.Itoa(count+1)); err != nil {
			return r, err
		}
		r.Times++
		r.Passed = max(r.Passed, count-before)
		r.LongestWaitMs = max(r.LongestWaitMs, float64(took.Microseconds())/1000)
		if err := hold.Unlock(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// side is one of the two: what its racers have to say, together.
type side struct {
	raced
	least int // that one of them had the lock
}

func (s *side) add(r raced) {
	if s.Times == 0 || r.Times < s.least {
		s.least = r.Times
	}
	s.Times += r.Times
	s.Passed = max(s.Passed, r.Passed)
	s.LongestWaitMs = max(s.LongestWaitMs, r.LongestWaitMs)
}

// field is a lock that many race for, and the counter that it protects.
type field struct {
	*world
	name, counter string
	server        *redistest.Server
	gate          *mortise.Hold

	javas  []*reply // of those that still race
	inJava side

	gos  sync.WaitGroup
	mu   sync.Mutex
	inGo side // guarded by mu until all have come in
}

// newField returns one whose lock is held until it is opened, so that nobody has
// a head start.
func (w *world) newField(t *testing.T, name string) *field {
	t.Helper()
	f := &field{world: w, name: name, counter: name + ":counter"}
	f.server = w.serverOf(t, f.counter)
	f.server.Must(t, "SET", f.counter, "0")
	f.gate, _ = mustLock(t, w.lock(w.client(t, longLease), name))
	return f
}

// startJava has n Java threads race, and returns when all of them wait.
func (f *field) startJava(t *testing.T, n, times, total int) {
	t.Helper()
	for i := range n {
		java := f.thread("racer" + strconv.Itoa(i))
		running := java.send(java.verb("race"), f.name, f.counter, strconv.Itoa(times), strconv.Itoa(total))
		java.awaitParked(t, running, f.name)
		f.javas = append(f.javas, running)
	}
}

// startGo has n goroutines of each of so many clients race, and returns when
// each client waits.
func (f *field) startGo(t *testing.T, clients, n, times, total int) {
	t.Helper()
	for range clients {
		lock := f.lock(f.client(t, longLease), f.name)
		for range n {
			f.gos.Go(func() {
				got, err := race(t.Context(), lock, f.server.Addr(), f.counter, times, total)
				if err != nil {
					t.Error(err)
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				f.inGo.add(got)
			})
		}
	}
	if f.kind.java == "fair" {
		f.awaitQueue(t, f.name, len(f.javas)+clients*n)
	} else {
		f.awaitTurns(t, f.name, clients)
	}
}

// awaitJava waits until the Java threads have come in.
func (f *field) awaitJava(t *testing.T) {
	t.Helper()
	for _, r := range f.javas {
		f.inJava.add(result[raced](t, r))
	}
	f.javas = nil
}

// finish waits until all have come in. Nobody had the lock together with somebody
// else, or a count would be missing.
func (f *field) finish(t *testing.T, counted int) {
	t.Helper()
	f.gos.Wait()
	f.awaitJava(t)
	f.inGo.log(t, "Go", counted)
	f.inJava.log(t, "Java", counted)
	if got := f.inGo.Times + f.inJava.Times; got != counted {
		t.Errorf("the lock was had %d times, and the counter came to %d: two held the lock at once", got, counted)
	}
}

// end ends an endless race, and returns what its counter had come to.
func (f *field) end(t *testing.T) int {
	t.Helper()
	hold, _ := mustLock(t, f.lock(f.client(t, longLease), f.name))
	counted := f.server.Int(t, "GET", f.counter)
	f.server.Must(t, "SET", f.counter, strconv.Itoa(endless))
	mustUnlock(t, hold)
	return int(counted)
}

func (s side) log(t *testing.T, name string, counted int) {
	t.Helper()
	t.Logf("%s had the lock %d times of %d (%.1f %%), each one %d times at least; the longest wait was %.0f ms, and the worst one was passed %d times",
		name, s.Times, counted, 100*float64(s.Times)/float64(counted), s.least, s.LongestWaitMs, s.Passed)
}

func crowds(t *testing.T, w *world) {
	const total = 2000
	f := w.newField(t, "crowds")
	f.startJava(t, 4, 0, total)
	f.startGo(t, 3, 4, 0, total)
	mustUnlock(t, f.gate)
	f.finish(t, total)
	if f.inGo.least == 0 || f.inJava.least == 0 {
		t.Error("somebody never had the lock")
	}
	if f.inJava.Times*8 < total { // a quarter were even; TestFleets has more of that
		t.Errorf("Java had the lock %d times of %d, want 12.5 %% at least", f.inJava.Times, total)
	}
	if f.inGo.Times*20 < total {
		t.Errorf("Go had the lock %d times of %d, want 5 %% at least", f.inGo.Times, total)
	}
}

// javaAmongGo: each of three clients hands the lock on to all its goroutines for a
// millisecond, and leaves it to Java then for longer than a thread needs, unless
// the machine has much else to do.
func javaAmongGo(t *testing.T, w *world) {
	f := w.newField(t, "java-among-go")
	f.startJava(t, 1, 20, endless)
	f.startGo(t, 3, 16, 0, endless)
	mustUnlock(t, f.gate)
	f.awaitJava(t)
	f.finish(t, f.end(t))
	if f.inJava.Passed > longestGap {
		t.Errorf("Go had the lock %d times while a Java thread waited, want %d at most", f.inJava.Passed, longestGap)
	}
}

// longestGap is what three clients with 16 goroutines each may have a lock while a
// Java thread waits: three times it misses all their chances.
const longestGap = 3 * 3 * 16

// goAmongJava: each release wakes it with others, and others passed it 73
// times at most.
func goAmongJava(t *testing.T, w *world) {
	f := w.newField(t, "go-among-java")
	f.startJava(t, 16, 0, endless)
	f.startGo(t, 1, 1, 20, endless)
	mustUnlock(t, f.gate)
	f.gos.Wait()
	f.finish(t, f.end(t))
	if most := 3 * 73; f.inGo.Passed > most {
		t.Errorf("Java had the lock %d times while a goroutine waited, want %d at most", f.inGo.Passed, most)
	}
}
