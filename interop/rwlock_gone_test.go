//go:build interop

package interop

import (
	"strconv"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

func goFixedReadLeaseEnds(t *testing.T, w *world) {
	const name = "rw-fixed:go"
	hold, held := mustLock(t, w.side(reads).lock(w.client(t, shortLease), name, mortise.LockOptions{MaxHold: shortLease}))
	expiry := w.expiry(t, name)
	java := w.side(writes).thread("waiter")
	waiting := java.lockLater(name, 0)
	receive(t, held.Done(), "the end of the holder's context")
	if waiting.answered() {
		t.Error("Java has the lock before the Go reader was told that its lease ends")
	}
	w.wantAtExpiry(t, "Java", waiting.must(t).received, expiry)
	wantLost(t, hold, held)
	java.unlock(t, name)
}

func javaFixedReadLeaseEnds(t *testing.T, w *world) {
	const name = "rw-fixed:java"
	java := w.side(reads).thread("holder")
	java.lock(t, name, shortLease)
	expiry := w.expiry(t, name)
	got := mustGain(t, lockLater(t.Context(), w.side(writes).lock(w.client(t, shortLease), name)))
	w.wantAtExpiry(t, "Go", got.at, expiry)
	java.wantUnlockRefused(t, name)
	mustUnlock(t, got.hold)
}

func killedGoReader(t *testing.T, w *world) {
	const name = "rw-killed:go"
	dead := w.side(reads).startPeer(t, name)
	java := w.side(writes).thread("waiter")
	waiting := java.waitFor(t, name, 0)
	dead.kill()
	expiry := w.expiry(t, name)
	w.wantAtExpiry(t, "Java", waiting.must(t).received, expiry)
	java.unlock(t, name)
}

func killedJavaReader(t *testing.T, w *world) {
	const name = "rw-killed:java"
	write := w.side(writes)
	dead := w.startAgent(t)
	dead.thread("holder").of("read").lock(t, name, 0)
	waiting := write.goWaits(t, write.lock(w.client(t, shortLease), name))
	dead.kill()
	expiry := w.expiry(t, name)
	got := mustGain(t, waiting)
	w.wantAtExpiry(t, "Go", got.at, expiry)
	mustUnlock(t, got.hold)
}

func frozenGoReader(t *testing.T, w *world) {
	const name = "rw-frozen:go"
	frozen := w.side(reads).startPeer(t, name)
	java := w.side(writes).thread("waiter")
	waiting := java.waitFor(t, name, 0)
	if err := frozen.pause(); err != nil {
		t.Fatal(err)
	}
	expiry := w.expiry(t, name)
	w.wantAtExpiry(t, "Java", waiting.must(t).received, expiry)
	if err := frozen.resume(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the Go reader woke and found that it lost the lock: %s", frozen.says(t, peerLost))
	if got := java.state(t, name); !got.Mine || got.Count != 1 {
		t.Errorf("Java sees %+v, want it to write", got)
	}
	java.unlock(t, name)
}

func frozenJavaReader(t *testing.T, w *world) {
	const name = "rw-frozen:java"
	write := w.side(writes)
	frozen := w.startAgent(t)
	holder := frozen.thread("holder").of("read")
	holder.lock(t, name, 0)
	waiting := write.goWaits(t, write.lock(w.client(t, shortLease), name))
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

// deadReaderInALongLock: the key of its hold has ended, and the lock has not. It may be a thread that reads on without
// that key, so Go waits for the TTL of the lock, as Redisson's writers do.
func deadReaderInALongLock(t *testing.T, w *world) {
	const name = "rw-dead"
	dead := w.startAgent(t)
	dead.thread("holder").of("read").lock(t, name, 0)
	write := w.side(writes)
	waiting := write.goWaits(t, write.lock(w.client(t, shortLease), name))
	dead.kill()
	hold := w.expiry(t, "{"+name+"}:"+dead.identity.Client+":"+w.holderNumber(t, name)+":rwlock_timeout:1")
	longer := time.Until(hold) + 3*time.Second // as it is if a reader with that lease was forced out
	w.redis().Must(t, "PEXPIRE", name, strconv.FormatInt(longer.Milliseconds(), 10))
	expiry := w.expiry(t, name)
	got := mustGain(t, waiting)
	w.wantAtExpiry(t, "Go", got.at, expiry)
	if java := w.side(reads).thread("reader"); java.tryLock(t, name, 0) {
		t.Error("Java reads while Go writes")
	}
	mustUnlock(t, got.hold)
}

// holderNumber returns the number of the only holder of a lock.
func (w *world) holderNumber(t testing.TB, name string) string {
	t.Helper()
	for _, field := range w.redis().Must(t, "HKEYS", name).([]any) {
		if owner := field.(string); owner != "mode" {
			return owner[len("00000000-0000-0000-0000-000000000000:"):]
		}
	}
	t.Fatal("nobody holds the lock")
	return ""
}

func goForcesJavaReader(t *testing.T, w *world) {
	const name = "rw-forced:go-java"
	read, write := w.side(reads), w.side(writes)
	holder, waiter := read.thread("holder"), write.thread("waiter")
	holder.lock(t, name, longLease)
	waiting := waiter.waitFor(t, name, 0)
	forced := goForces(t, read, name, holder.owner(t))
	w.wantPromptAfterForce("Java", forced, waiting.must(t).received)
	holder.wantUnlockRefused(t, name)
	waiter.unlock(t, name)
}

func javaForcesGoReader(t *testing.T, w *world) {
	const name = "rw-forced:java-go"
	read, write := w.side(reads), w.side(writes)
	hold, held := mustLock(t, read.lock(w.client(t, forcedLease), name))
	waiting := write.goWaits(t, write.lock(w.client(t, shortLease), name))
	forced := javaForces(t, read, name)
	got := mustGain(t, waiting)
	w.wantPromptAfterForce("Go", forced, got.at)
	wantLost(t, hold, held)
	mustUnlock(t, got.hold)
}
