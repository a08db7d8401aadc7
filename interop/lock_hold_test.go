//go:build interop

package interop

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

// goTTLOfItsOwn: a lock is renewed to its own TTL, which is longer than that of its client.
func goTTLOfItsOwn(t *testing.T, w *world) {
	const name = "ttl:go"
	hold, held := mustLock(t, w.lock(w.client(t, shortLease), name, mortise.LockOptions{TTL: longLease}))
	java := w.thread("waiter")
	if got := java.state(t, name); got.TTLMs <= (longLease-shortLease).Milliseconds() || got.TTLMs > longLease.Milliseconds() {
		t.Errorf("Java sees a TTL of %d ms, want nearly %v", got.TTLMs, longLease)
	}
	if java.tryLock(t, name, pastLease) {
		t.Error("Java got the lock that Go renews")
	}
	if held.Err() != nil {
		t.Errorf("the hold was lost: %v", held.Err())
	}
	mustUnlock(t, hold)
}

// goMaxHoldEnds: a hold that may last longer than its TTL is renewed until then, and no longer.
func goMaxHoldEnds(t *testing.T, w *world) {
	if w.lacks(t, w.kind.pollsSince) {
		return
	}
	const name = "max-hold:go"
	most := 2 * shortLease
	start := time.Now()
	hold, held := mustLock(t, w.lock(w.client(t, shortLease), name, mortise.LockOptions{MaxHold: most}))
	java := w.thread("waiter")
	if got := java.state(t, name); got.TTLMs > shortLease.Milliseconds() {
		t.Errorf("Java sees a TTL of %d ms, want %v at most", got.TTLMs, shortLease)
	}
	waiting := java.lockLater(name, 0)
	receive(t, held.Done(), "the end of the holder's context")
	if waiting.answered() {
		t.Error("Java has the lock before the Go holder was told that it ends")
	}
	w.wantAtExpiry(t, "Java", waiting.must(t).received, start.Add(most))
	wantLost(t, hold, held)
	java.unlock(t, name)
}

// goMinHoldKeeps: a lock that Go has released stays taken until its MinHold is over, and then Java's
// waiter has it, although no message was sent.
func goMinHoldKeeps(t *testing.T, w *world) {
	if w.lacks(t, w.kind.pollsSince) {
		return
	}
	const name = "min-hold:go"
	least := 2 * shortLease
	start := time.Now()
	hold, _ := mustLock(t, w.lock(w.client(t, shortLease), name, mortise.LockOptions{MinHold: least}))
	java, another := w.thread("waiter"), w.thread("another")
	waiting := java.lockLater(name, 0)
	mustUnlock(t, hold)
	if another.tryLock(t, name, 0) {
		t.Error("Java got the lock that is kept")
	}
	if got := another.state(t, name); !got.Locked || got.Mine {
		t.Errorf("Java sees %+v, want a lock that somebody else holds", got)
	}
	expiry := w.expiry(t, name)
	got := waiting.must(t).received
	if got.Sub(start) < least {
		t.Errorf("Java got the lock after %v, want %v at least", got.Sub(start), least)
	}
	w.wantAtExpiry(t, "Java", got, expiry)
	java.unlock(t, name)
	mustUnlock(t, mustGain(t, lockLater(t.Context(), w.lock(w.client(t, shortLease), name))).hold)
}
