//go:build interop

package interop

import (
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

// spinKind is not tried in all the ways of others: nobody listens anywhere.
var spinKind = lockKind{
	object: "SpinLock", java: "spin",
	channels: func(testing.TB, *world, string) []string { return nil },
	open:     func(c *mortise.Client, name string, o mortise.LockOptions) taker { return c.SpinLock(name).With(o) },
}

var spinTrials = []trial{
	{claim{"SpinLock", "excludes", "Go <-> Java"}, spinning(spinExclusion)},
	{claim{"SpinLock", "release is noticed within a back-off", "Go -> Java"}, spinning(goReleaseIsNoticed)},
	{claim{"SpinLock", "release is noticed within a back-off", "Java -> Go"}, spinning(javaReleaseIsNoticed)},
	{claim{"SpinLock", "releases without a message", "Go <-> Java"}, spinning(silentRelease)},
	{claim{"SpinLock", "count and TTL are read", "Go -> Java"}, spinning(javaReadsGoState)},
	{claim{"SpinLock", "count and TTL are read", "Java -> Go"}, spinning(goReadsJavaState)},
	{claim{"SpinLock", "unlock by a stranger is refused", "Go -> Java"}, spinning(javaCannotUnlockGo)},
	{claim{"SpinLock", "unlock by a stranger is refused", "Java -> Go"}, spinning(goCannotUnlockJava)},
	{claim{"SpinLock", "watchdog outlasts the lease", "Go -> Java"}, spinning(goWatchdogOutlastsLease)},
	{claim{"SpinLock", "watchdog outlasts the lease", "Java -> Go"}, spinning(javaWatchdogOutlastsLease)},
	{claim{"SpinLock", "fixed lease ends by itself", "Go -> Java"}, spinning(goFixedLeaseEnds)},
	{claim{"SpinLock", "fixed lease ends by itself", "Java -> Go"}, spinning(javaFixedLeaseEnds)},
}

// spinning has a trial work with spin locks.
func spinning(prove func(*testing.T, *world)) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		w.kind = spinKind
		prove(t, w)
	}
}

func TestSpinLock(t *testing.T) { everywhere(t, spinTrials) }

func TestSpinLockInCluster(t *testing.T) {
	inCluster(t, []trial{spinTrials[0], spinTrials[1], spinTrials[2]})
}

// spinExclusion: all leases are long, because nobody dies here, and spinning
// goroutines keep each other from the processors.
func spinExclusion(t *testing.T, w *world) {
	const name, counter, each, threads, goroutines = "spin:excludes", "spin:counter", 40, 3, 3
	server := w.serverOf(t, counter)
	server.Must(t, "DEL", counter)
	var javas []*reply
	for i := range threads {
		javas = append(javas, w.thread("contender"+strconv.Itoa(i)).send("spin.contend", name, counter, strconv.Itoa(each), millis(longLease)))
	}
	var tally tally
	var gos sync.WaitGroup
	for range goroutines {
		lock := w.lock(w.client(t, longLease), name)
		gos.Go(func() {
			if err := contend(t.Context(), lock, server.Addr(), counter, each, &tally); err != nil {
				t.Error(err)
			}
		})
	}
	gos.Wait()
	for _, r := range javas {
		r.must(t)
	}
	if got := server.Int(t, "GET", counter); got != (threads+goroutines)*each {
		t.Errorf("the counter is %d, want %d: two held the lock at once", got, (threads+goroutines)*each)
	}
}

var publishCalls = regexp.MustCompile(`cmdstat_s?(?:publish|subscribe):calls=(\d+)`)

// tries are as many as it takes until both sides pause for as long as they ever
// do: each pause is twice as long as the one before, from 1 ms to 128 ms. One is
// to spare for a script that the server did not know, and one for a renewal.
const tries = 10

func goReleaseIsNoticed(t *testing.T, w *world) {
	const name = "spin:go-java"
	lock, java := w.lock(w.client(t, shortLease), name, mortise.LockOptions{TTL: longLease, MaxHold: longLease}), w.thread("waiter")
	var took []time.Duration
	for range rounds {
		hold, _ := mustLock(t, lock)
		before := w.scripts(t)
		waiting := java.lockLater(name, longLease)
		w.awaitTries(t, before, tries)
		released := time.Now()
		mustUnlock(t, hold)
		took = append(took, waiting.must(t).received.Sub(released))
		java.unlock(t, name)
	}
	w.wantPrompt(t, took)
}

func javaReleaseIsNoticed(t *testing.T, w *world) {
	const name = "spin:java-go"
	lock, java := w.lock(w.client(t, shortLease), name), w.thread("holder")
	var took []time.Duration
	for range rounds {
		java.lock(t, name, longLease)
		before := w.scripts(t)
		waiting := lockLater(t.Context(), lock)
		w.awaitTries(t, before, tries)
		released := time.Now()
		java.unlock(t, name)
		got := mustGain(t, waiting)
		mustUnlock(t, got.hold)
		took = append(took, got.at.Sub(released))
	}
	w.wantPrompt(t, took)
}

// silentRelease: neither side publishes, nor listens.
func silentRelease(t *testing.T, w *world) {
	const name = "spin:silent"
	published := func() int64 {
		stats := w.redis().Must(t, "INFO", "commandstats").(string)
		var n int64
		for _, found := range publishCalls.FindAllStringSubmatch(stats, -1) {
			calls, err := strconv.ParseInt(found[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			n += calls
		}
		return n
	}
	before := published()
	// A client with a record listens for requests to release what it holds.
	lock, java := w.lock(w.clientAs(t, w.nodes[0], shortLease, mortise.Identity{Hide: true}), name), w.thread("holder")
	for range 3 {
		hold, _ := mustLock(t, lock)
		tried := w.scripts(t)
		waiting := java.lockLater(name, 0)
		w.awaitTries(t, tried, tries)
		mustUnlock(t, hold)
		waiting.must(t)
		tried = w.scripts(t)
		got := lockLater(t.Context(), lock)
		w.awaitTries(t, tried, tries)
		java.unlock(t, name)
		mustUnlock(t, mustGain(t, got).hold)
	}
	if n := published() - before; n != 0 {
		t.Errorf("%d messages or subscriptions for a lock that uses none, want 0", n)
	}
}
