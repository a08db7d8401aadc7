//go:build interop

package interop

import (
	"errors"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

func javaReadsGoState(t *testing.T, w *world) {
	const name = "go-counts"
	lock := w.lock(w.client(t, shortLease), name)
	java := w.thread("reader")

	outer, held := mustLock(t, lock)
	if got := w.count(t, name, outer.Owner()); got != 1 {
		t.Errorf("count of %s = %d, want 1", outer.Owner(), got)
	}
	wantLockedByOther(t, java.state(t, name))

	inner := mustReenter(t, held, lock)
	if got := w.count(t, name, outer.Owner()); got != 2 {
		t.Errorf("count of %s after re-entry = %d, want 2", outer.Owner(), got)
	}
	wantLockedByOther(t, java.state(t, name))
	if java.tryLock(t, name, 0) {
		t.Error("Java has the lock that Go holds twice")
	}

	mustUnlock(t, inner)
	if got := w.count(t, name, outer.Owner()); got != 1 {
		t.Errorf("count of %s after the inner unlock = %d, want 1", outer.Owner(), got)
	}
	wantLockedByOther(t, java.state(t, name))

	mustUnlock(t, outer)
	if got := java.state(t, name); got.Locked || got.TTLMs != -2 {
		t.Errorf("after the outer unlock Java sees %+v, want no lock", got)
	}
}

func wantLockedByOther(t testing.TB, got javaState) {
	t.Helper()
	if !got.Locked || got.Mine || got.Count != 0 {
		t.Errorf("Java sees %+v, want a lock that somebody else holds", got)
	}
	if got.TTLMs <= 0 || got.TTLMs > shortLease.Milliseconds() {
		t.Errorf("Java sees a TTL of %d ms, want more than 0 and no more than %v", got.TTLMs, shortLease)
	}
}

func goReadsJavaState(t *testing.T, w *world) {
	const name = "java-counts"
	lock := w.lock(w.client(t, shortLease), name)
	java := w.thread("holder")
	owner := java.owner(t)

	java.lock(t, name, 0)
	java.lock(t, name, 0)
	wantInspected(t, lock, mortise.Holder{Owner: owner, Count: 2})

	_, _, err := lock.TryLock(t.Context())
	var held *mortise.HeldError
	if !errors.Is(err, mortise.ErrLocked) || !errors.As(err, &held) {
		t.Fatalf("TryLock of Java's lock: %v, want a *HeldError that matches ErrLocked", err)
	}
	if held.Owner != owner || held.Count != 2 || held.TTL <= 0 || held.TTL > shortLease {
		t.Errorf("TryLock of Java's lock says %+v, want owner %s, count 2, a TTL up to %v", held, owner, shortLease)
	}

	java.unlock(t, name)
	wantInspected(t, lock, mortise.Holder{Owner: owner, Count: 1})
	java.unlock(t, name)
	wantInspected(t, lock)
}

// wantInspected checks what Go sees of a lock whose TTL is at most shortLease:
// the given holder, or that it is free.
func wantInspected(t testing.TB, lock taker, want ...mortise.Holder) {
	t.Helper()
	got, err := lock.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(want) == 0 {
		if got.Locked || len(got.Holders) != 0 {
			t.Errorf("Inspect = %+v, want a free lock", got)
		}
		return
	}
	for i := range got.Holders {
		got.Holders[i].Client, got.Holders[i].Since = nil, time.Time{} // they come with the record, if it was written yet
	}
	if !got.Locked || len(got.Holders) != 1 || got.Holders[0] != want[0] {
		t.Errorf("Inspect = %+v, want it locked by %+v", got, want[0])
	}
	if got.TTL <= 0 || got.TTL > shortLease {
		t.Errorf("Inspect says TTL %v, want more than 0 and no more than %v", got.TTL, shortLease)
	}
}

func javaCannotUnlockGo(t *testing.T, w *world) {
	const name = "stranger:go"
	hold, _ := mustLock(t, w.lock(w.client(t, shortLease), name))
	stranger := w.thread("stranger")
	stranger.wantUnlockRefused(t, name)
	if got := w.count(t, name, hold.Owner()); got != 1 {
		t.Errorf("after the stranger's unlock the holder's count is %d, want 1", got)
	}
	mustUnlock(t, hold)
	if !w.kind.lenient {
		stranger.wantUnlockRefused(t, name) // nobody holds it now
	}
}

// goCannotUnlockJava: a Go program can only try to release what it held once.
func goCannotUnlockJava(t *testing.T, w *world) {
	const name = "stranger:java"
	client := w.client(t, shortLease)
	lock := w.lock(client, name)
	released, _ := mustLock(t, lock)
	mustUnlock(t, released)
	lost, _ := mustLock(t, w.lock(client, name, mortise.LockOptions{TTL: time.Hour, MaxHold: time.Hour}))
	w.redis().Must(t, "DEL", name)

	java := w.thread("holder")
	java.lock(t, name, 0)
	if err := released.Unlock(); !errors.Is(err, mortise.ErrReleased) {
		t.Errorf("second unlock = %v, want ErrReleased", err)
	}
	if err := lost.Unlock(); !errors.Is(err, mortise.ErrLost) {
		t.Errorf("unlock of what Java holds now = %v, want ErrLost", err)
	}
	if got := java.state(t, name); !got.Mine || got.Count != 1 {
		t.Errorf("Java sees %+v, want it to hold the lock once", got)
	}
	java.unlock(t, name)
}
