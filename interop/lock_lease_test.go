//go:build interop

package interop

import (
	"context"
	"errors"
	"testing"

	"github.com/mortise-go/mortise"
)

// pastLease is how long a side waits without success for a lock that a watchdog keeps.
var pastLease = shortLease + shortLease/2

func goWatchdogOutlastsLease(t *testing.T, w *world) {
	const name = "watchdog:go"
	hold, held := mustLock(t, w.lock(w.client(t, shortLease), name))
	if w.thread("waiter").tryLock(t, name, pastLease) {
		t.Errorf("Java got the lock that Go's watchdog keeps")
	}
	if err := held.Err(); err != nil {
		t.Errorf("the holder's context ended: %v", context.Cause(held))
	}
	mustUnlock(t, hold)
}

func javaWatchdogOutlastsLease(t *testing.T, w *world) {
	const name = "watchdog:java"
	java := w.thread("holder")
	java.lock(t, name, 0)
	ctx, cancel := context.WithTimeout(t.Context(), pastLease)
	defer cancel()
	_, _, err := w.lock(w.client(t, shortLease), name).Lock(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mortise.ErrLocked) {
		t.Errorf("Lock of what Java's watchdog keeps: %v, want DeadlineExceeded and ErrLocked", err)
	}
	java.unlock(t, name)
}

func goFixedLeaseEnds(t *testing.T, w *world) {
	if w.lacks(t, w.kind.pollsSince) {
		return
	}
	const name = "fixed:go"
	hold, held := mustLock(t, w.lock(w.client(t, shortLease), name, mortise.LockOptions{MaxHold: shortLease}))
	expiry := w.expiry(t, name)
	java := w.thread("waiter")
	waiting := java.lockLater(name, 0)
	receive(t, held.Done(), "the end of the holder's context")
	if waiting.answered() {
		t.Error("Java has the lock before the Go holder was told that it ends")
	}
	w.wantAtExpiry(t, "Java", waiting.must(t).received, expiry)
	wantLost(t, hold, held)
	java.unlock(t, name)
}

func javaFixedLeaseEnds(t *testing.T, w *world) {
	const name = "fixed:java"
	java := w.thread("holder")
	java.lock(t, name, shortLease)
	expiry := w.expiry(t, name)
	got := mustGain(t, lockLater(t.Context(), w.lock(w.client(t, shortLease), name)))
	w.wantAtExpiry(t, "Go", got.at, expiry)
	java.wantUnlockRefused(t, name)
	mustUnlock(t, got.hold)
}

func killedGoHolder(t *testing.T, w *world) {
	if w.lacks(t, w.kind.pollsSince) {
		return
	}
	const name = "killed:go"
	dead := w.startPeer(t, name)
	java := w.thread("waiter")
	waiting := java.waitFor(t, name, 0)
	dead.kill()
	expiry := w.expiry(t, name)
	w.wantAtExpiry(t, "Java", waiting.must(t).received, expiry)
	java.unlock(t, name)
}

func killedJavaHolder(t *testing.T, w *world) {
	const name = "killed:java"
	dead := w.startAgent(t)
	dead.thread("holder").of(w.kind.java).lock(t, name, 0)
	waiting := w.goWaits(t, w.lock(w.client(t, shortLease), name))
	dead.kill()
	expiry := w.expiry(t, name)
	got := mustGain(t, waiting)
	w.wantAtExpiry(t, "Go", got.at, expiry)
	mustUnlock(t, got.hold)
}

func frozenGoHolder(t *testing.T, w *world) {
	if w.lacks(t, w.kind.pollsSince) {
		return
	}
	const name = "frozen:go"
	frozen := w.startPeer(t, name)
	java := w.thread("waiter")
	waiting := java.waitFor(t, name, 0)
	if err := frozen.pause(); err != nil {
		t.Fatal(err)
	}
	expiry := w.expiry(t, name)
	w.wantAtExpiry(t, "Java", waiting.must(t).received, expiry)
	if err := frozen.resume(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the Go holder woke and found that it lost the lock: %s", frozen.says(t, peerLost))
	if got := java.state(t, name); !got.Mine || got.Count != 1 {
		t.Errorf("Java sees %+v, want it to hold the lock once", got)
	}
	java.unlock(t, name)
}

func frozenJavaHolder(t *testing.T, w *world) {
	const name = "frozen:java"
	frozen := w.startAgent(t)
	holder := frozen.thread("holder").of(w.kind.java)
	holder.lock(t, name, 0)
	waiting := w.goWaits(t, w.lock(w.client(t, shortLease), name))
	if err := frozen.pause(); err != nil {
		t.Fatal(err)
	}
	expiry := w.expiry(t, name)
	got := mustGain(t, waiting)
	w.wantAtExpiry(t, "Go", got.at, expiry)
	if err := frozen.resume(); err != nil {
		t.Fatal(err)
	}
	holder.wantUnlockRefused(t, name)
	if count := w.count(t, name, got.hold.Owner()); count != 1 {
		t.Errorf("after the late unlock Go's count is %d, want 1", count)
	}
	mustUnlock(t, got.hold)
}
