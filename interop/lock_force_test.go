//go:build interop

package interop

import (
	"testing"
	"time"
)

// forcedLease is the lease of Go holders whose lock is freed by force. They
// notice at their next renewal, a third of it later; a Java waiter that was not
// woken would sleep for at least two thirds, which is not prompt. A Go waiter
// looks each second: if Java forces Go, nothing else tells it.
const forcedLease = 3 * prompt

func goForcesGo(t *testing.T, w *world) {
	const name = "forced:go-go"
	hold, held := mustLock(t, w.lock(w.client(t, forcedLease), name))
	java := w.thread("waiter")
	waiting := java.waitFor(t, name, 0)
	forced := goForces(t, w, name, hold.Owner())
	w.wantPromptAfterForce("Java", forced, waiting.must(t).received)
	wantLost(t, hold, held)
	java.unlock(t, name)
}

func goForcesJava(t *testing.T, w *world) {
	const name = "forced:go-java"
	holder, waiter := w.thread("holder"), w.thread("waiter")
	holder.lock(t, name, longLease)
	waiting := waiter.waitFor(t, name, 0)
	forced := goForces(t, w, name, holder.owner(t))
	w.wantPromptAfterForce("Java", forced, waiting.must(t).received)
	holder.wantUnlockRefused(t, name)
	waiter.unlock(t, name)
}

func javaForcesGo(t *testing.T, w *world) {
	const name = "forced:java-go"
	hold, held := mustLock(t, w.lock(w.client(t, forcedLease), name))
	waiting := w.goWaits(t, w.lock(w.client(t, shortLease), name))
	forced := javaForces(t, w, name)
	got := mustGain(t, waiting)
	w.wantPromptAfterForce("Go", forced, got.at)
	wantLost(t, hold, held)
	mustUnlock(t, got.hold)
}

func javaForcesJava(t *testing.T, w *world) {
	const name = "forced:java-java"
	holder := w.thread("holder")
	holder.lock(t, name, longLease)
	waiting := w.goWaits(t, w.lock(w.client(t, shortLease), name))
	forced := javaForces(t, w, name)
	got := mustGain(t, waiting)
	w.wantPromptAfterForce("Go", forced, got.at)
	holder.wantUnlockRefused(t, name)
	mustUnlock(t, got.hold)
}

// goForces frees the lock from Go, which must learn its owner, and returns
// when it began to. A free lock has none.
func goForces(t testing.TB, w *world, name, owner string) time.Time {
	t.Helper()
	client := w.client(t, shortLease)
	began := time.Now()
	switch held, err := w.lock(client, name).ForceUnlock(t.Context()); {
	case err != nil:
		t.Errorf("ForceUnlock: %v", err)
	case held == nil || held.Owner != owner:
		t.Errorf("ForceUnlock says that it was held by %+v, want %s", held, owner)
	}
	if held, err := w.lock(client, name+":free").ForceUnlock(t.Context()); err != nil || held != nil {
		t.Errorf("ForceUnlock of a free lock = %+v, %v, want nobody", held, err)
	}
	return began
}

// javaForces frees the lock from Java and returns when it began to.
func javaForces(t testing.TB, w *world, name string) time.Time {
	t.Helper()
	java := w.thread("forcer")
	began := time.Now()
	if !java.forceUnlock(t, name) {
		t.Error("forceUnlock of a held lock is false, want true")
	}
	if java.forceUnlock(t, name+":free") {
		t.Error("forceUnlock of a free lock is true, want false")
	}
	return began
}

func (w *world) wantPromptAfterForce(side string, forced, got time.Time) {
	w.bounds.Within(side+" gets the lock after it was freed by force", got.Sub(forced), prompt)
}
