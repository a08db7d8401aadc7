//go:build interop

package interop

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

var redlockTrials = []trial{
	{claim{"Redlock", "excludes", "Go -> Java"}, goRedlockExcludesJava},
	{claim{"Redlock", "excludes", "Java -> Go"}, javaRedlockExcludesGo},
	{claim{"Redlock", "a majority is enough", "Go -> Java"}, goMajorityExcludesJava},
	{claim{"Redlock", "a majority is enough", "Java -> Go"}, javaMajorityExcludesGo},
	{claim{"Redlock", "release wakes the waiter", "Go -> Java"}, goRedlockReleaseWakesJava},
	{claim{"Redlock", "release wakes the waiter", "Java -> Go"}, javaRedlockReleaseWakesGo},
	{claim{"Redlock", "never two holders", "Go <-> Java"}, redlockContention},
	{claim{"MultiLock", "one name on several servers", "Go <-> Java"}, multiOnServers},
}

func TestRedlock(t *testing.T) {
	t.Parallel()
	for _, version := range redissons(t) {
		for _, transport := range slices.Sorted(maps.Keys(transports)) {
			t.Run(version+"/"+transport, func(t *testing.T) {
				t.Parallel()
				run(t, newServers(t, version, transport, 3), redlockTrials)
			})
		}
	}
}

// clients returns a client for each server, as one process would have.
func (w *world) clients(t testing.TB, lease time.Duration) (clients []*mortise.Client) {
	t.Helper()
	for _, server := range w.servers {
		clients = append(clients, w.clientAt(t, server, lease))
	}
	return clients
}

// awaitOn waits until the key is on as many servers.
func (w *world) awaitOn(t testing.TB, name string, want int64) {
	t.Helper()
	redistest.Eventually(t, fmt.Sprintf("%s on %d servers", name, want), func() error {
		var got int64
		for _, server := range w.servers {
			got += server.Int(t, "EXISTS", name)
		}
		if got != want {
			return fmt.Errorf("it is on %d", got)
		}
		return nil
	})
}

func goRedlockExcludesJava(t *testing.T, w *world) {
	java := w.java.thread("red").of("redlock")
	hold, ctx := mustLock(t, mortise.NewRedlock("job", w.clients(t, shortLease)...))
	w.awaitOn(t, "job", 3)
	end := time.Now().Add(pastLease + pastLease/3)    // two leases
	for ok := true; ok; ok = time.Now().Before(end) { // renewed
		if java.tryLock(t, "job", 0) {
			t.Fatal("Java got what Go has")
		}
	}
	if ctx.Err() != nil {
		t.Error("Go lost it")
	}
	mustUnlock(t, hold)
	w.awaitOn(t, "job", 0)
	if !java.tryLock(t, "job", 0) {
		t.Error("Java did not get what Go has released")
	}
	java.unlock(t, "job")
	w.awaitOn(t, "job", 0)
}

func javaRedlockExcludesGo(t *testing.T, w *world) {
	java := w.java.thread("red").of("redlock")
	lock := mortise.NewRedlock("job", w.clients(t, shortLease)...)
	for _, lease := range []time.Duration{0, longLease} {
		java.lock(t, "job", lease)
		if _, _, err := lock.TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("TryLock: %v, want ErrLocked", err)
		}
		w.awaitOn(t, "job", 3)
		java.unlock(t, "job")
		hold, _, err := lock.TryLock(t.Context())
		if err != nil {
			t.Fatalf("TryLock of what Java has released: %v", err)
		}
		mustUnlock(t, hold)
		w.awaitOn(t, "job", 0)
	}
}

// Somebody else has the lock on one of three servers.
func goMajorityExcludesJava(t *testing.T, w *world) {
	other, _ := mustLock(t, w.clientAt(t, w.servers[1], longLease).Lock("job"))
	hold, _ := mustLock(t, mortise.NewRedlock("job", w.clients(t, longLease)...))
	if w.java.thread("red").of("redlock").tryLock(t, "job", 0) {
		t.Error("Java got what Go has on a majority")
	}
	mustUnlock(t, hold)
	w.awaitOn(t, "job", 1)
	mustUnlock(t, other)
}

func javaMajorityExcludesGo(t *testing.T, w *world) {
	other, _ := mustLock(t, w.clientAt(t, w.servers[1], longLease).Lock("job"))
	java := w.java.thread("red").of("redlock")
	if !java.tryLock(t, "job", 0) {
		t.Fatal("Java did not get it on a majority")
	}
	if _, _, err := mortise.NewRedlock("job", w.clients(t, longLease)...).TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
		t.Errorf("TryLock: %v, want ErrLocked", err)
	}
	w.awaitOn(t, "job", 3)
	java.unlock(t, "job")
	w.awaitOn(t, "job", 1)
	mustUnlock(t, other)
}

func goRedlockReleaseWakesJava(t *testing.T, w *world) {
	hold, _ := mustLock(t, mortise.NewRedlock("job", w.clients(t, longLease)...))
	java := w.java.thread("red").of("redlock")
	waiting := java.waitFor(t, "job", longLease)
	released := time.Now()
	mustUnlock(t, hold)
	w.inTime("Java", waiting.must(t).received.Sub(released))
	java.unlock(t, "job")
	w.awaitOn(t, "job", 0)
}

func javaRedlockReleaseWakesGo(t *testing.T, w *world) {
	java := w.java.thread("red").of("redlock")
	java.lock(t, "job", longLease)
	waiting := lockLater(t.Context(), mortise.NewRedlock("job", w.clients(t, longLease)...))
	w.awaitWaiters(t, "job", 1)
	released := time.Now()
	java.unlock(t, "job")
	got := mustGain(t, waiting)
	w.inTime("Go", got.at.Sub(released))
	mustUnlock(t, got.hold)
	w.awaitOn(t, "job", 0)
}

// redlockContention has both sides add to one counter.
func redlockContention(t *testing.T, w *world) {
	const each = 15
	const counter = "counter"
	var javas []*reply
	for i := range 2 {
		javas = append(javas, w.java.thread("contender"+strconv.Itoa(i)).send("redlock.contend", "job", counter, strconv.Itoa(each)))
	}
	var tally tally
	var gos sync.WaitGroup
	for range 2 {
		lock := mortise.NewRedlock("job", w.clients(t, shortLease)...)
		gos.Go(func() {
			if err := contend(t.Context(), lock, w.servers[0].Addr(), counter, each, &tally); err != nil {
				t.Error(err)
			}
		})
	}
	gos.Wait()
	for _, r := range javas {
		r.must(t)
	}
	if got, want := w.servers[0].Int(t, "GET", counter), int64(4*each); got != want {
		t.Errorf("counter = %d, want %d: two held the lock at once", got, want)
	}
	w.awaitOn(t, "job", 0)
}

// multiOnServers is a MultiLock on all servers, not most: locks of one name.
func multiOnServers(t *testing.T, w *world) {
	var locks []mortise.Locker
	for _, c := range w.clients(t, shortLease) {
		locks = append(locks, c.Lock("everywhere"))
	}
	all := mortise.NewMultiLock(locks...)
	java := w.java.thread("all").of("servers")
	hold, _ := mustLock(t, all)
	w.awaitOn(t, "everywhere", 3)
	if java.tryLock(t, "everywhere", 0) {
		t.Error("Java got what Go has")
	}
	mustUnlock(t, hold)
	w.awaitOn(t, "everywhere", 0)
	java.lock(t, "everywhere", 0)
	if _, _, err := all.TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
		t.Errorf("TryLock: %v, want ErrLocked", err)
	}
	w.awaitOn(t, "everywhere", 3)
	java.unlock(t, "everywhere")
	hold, _ = mustLock(t, all)
	mustUnlock(t, hold)
	w.awaitOn(t, "everywhere", 0)
}
