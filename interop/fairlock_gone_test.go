//go:build interop

package interop

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
)

// goneTrials: the first of two waiters for a fair lock dies or is frozen. The
// second one has the lock so long at most after it was released.
//
// A mortise releaser passes a dead waiter over, and looks again later. Behind a
// Java releaser a mortise waiter notices, and where none lives Redisson's threads
// wait for a deadline, which for a mortise waiter is ten seconds ahead at most.
// Frozen ones still listen, so that only their silence tells: a mortise waiter is
// granted the lock for three seconds, and all others have ten to take it.
var goneTrials = slices.Concat(
	gone("Go", "Go", "Go", 2*time.Second, 5*time.Second),
	gone("Go", "Go", "Java", 2*time.Second, 5*time.Second),
	gone("Go", "Java", "Go", 2*time.Second, 12*time.Second),
	gone("Go", "Java", "Java", 2*time.Second, 12*time.Second),
	gone("Java", "Go", "Go", 2*time.Second, 12*time.Second),
	gone("Java", "Go", "Java", 15*time.Second, 15*time.Second),
	gone("Java", "Java", "Go", 2*time.Second, 12*time.Second),
)

// TestFairLockGone tries each release over one transport: what is waited for is
// time.
func TestFairLockGone(t *testing.T) {
	t.Parallel()
	ways := slices.Sorted(maps.Keys(transports))
	for i, version := range redissons(t) {
		transport := ways[i%len(ways)]
		t.Run(version+"/"+transport, func(t *testing.T) {
			t.Parallel()
			run(t, newWorld(t, version, transport), about("FairLock", goneTrials))
		})
	}
}

func gone(holder, first, next string, dead, frozen time.Duration) []trial {
	direction := holder + ", " + first + " -> " + next
	return []trial{
		{claim{"FairLock", fmt.Sprintf("behind a dead waiter, %v at most", dead), direction},
			func(t *testing.T, w *world) { behindGone(t, w, holder, first, next, false, dead) }},
		{claim{"FairLock", fmt.Sprintf("behind a frozen waiter, %v at most", frozen), direction},
			func(t *testing.T, w *world) { behindGone(t, w, holder, first, next, true, frozen) }},
	}
}

func behindGone(t *testing.T, w *world, holder, first, next string, freeze bool, most time.Duration) {
	name := fmt.Sprint("gone:", holder, first, next, freeze)
	var release func()
	if holder == "Go" {
		hold, _ := mustLock(t, w.lock(w.client(t, longLease), name))
		release = func() { mustUnlock(t, hold) }
	} else {
		thread := w.thread("holder")
		thread.lock(t, name, 0)
		release = func() { thread.unlock(t, name) }
	}
	var victim *process
	if first == "Go" {
		victim = w.startWaitingPeer(t, name).process
		w.awaitQueue(t, name, 1)
	} else {
		agent := w.startAgent(t)
		w.joinJava(t, agent, "victim", name, 0)
		victim = agent.process
	}
	var got func() time.Time
	if next == "Go" {
		_, waiting := w.joinGo(t, t.Context(), w.lock(w.client(t, longLease), name), 1)
		got = func() time.Time {
			outcome := mustGain(t, waiting)
			mustUnlock(t, outcome.hold)
			return outcome.at
		}
	} else {
		thread := w.java.thread("next").of("fair")
		waiting := thread.lockLater(name, 0)
		w.awaitQueue(t, name, 2)
		got = func() time.Time {
			at := waiting.must(t).received
			thread.unlock(t, name)
			return at
		}
	}
	w.awaitFairListeners(t, name)
	if freeze {
		if err := victim.pause(); err != nil {
			t.Fatal(err)
		}
	} else {
		victim.kill()
		w.awaitFairlyDeaf(t, name)
	}
	released := time.Now()
	release()
	w.bounds.Within("the one behind "+first+" has the lock", got().Sub(released), most)
}

// awaitFairListeners waits until all that are in the queue listen: one that queued just now may be about to.
func (w *world) awaitFairListeners(t testing.TB, name string) {
	t.Helper()
	redistest.Eventually(t, "all in the queue listen", func() error {
		for _, channel := range fairChannels(t, w, name) {
			if w.redis().Must(t, "PUBSUB", "NUMSUB", channel).([]any)[1].(int64) == 0 {
				return fmt.Errorf("nobody listens to %s", channel)
			}
		}
		return nil
	})
}

// awaitFairlyDeaf waits until the server knows that nobody listens for the head of
// the queue any more.
func (w *world) awaitFairlyDeaf(t testing.TB, name string) {
	t.Helper()
	channels := fairChannels(t, w, name)[:1]
	redistest.Eventually(t, "the end of the dead one's connection", func() error {
		if n := w.redis().Must(t, "PUBSUB", "NUMSUB", channels[0]).([]any)[1].(int64); n != 0 {
			return fmt.Errorf("%d listen to %s", n, channels[0])
		}
		return nil
	})
}
