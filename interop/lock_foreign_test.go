//go:build interop

package interop

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

// inflatedCount: Redisson up to 3.36, and later releases with a sentinel or
// a cluster, send an acquire again when its reply is late, so a lock taken
// once may count 2. The first unlock of its holder then frees nothing.
func inflatedCount(t *testing.T, w *world) {
	unlockedOnce := func(name string) (*thread, <-chan gained) {
		java := w.thread("holder")
		java.lock(t, name, 0)
		w.redis().Must(t, "HINCRBY", name, java.owner(t), "1")
		waiting := w.goWaits(t, w.lock(w.client(t, shortLease), name))
		java.unlock(t, name)
		if got := w.count(t, name, java.owner(t)); got != 1 {
			t.Fatalf("after one unlock Java's count is %d, want 1", got)
		}
		return java, waiting
	}

	const twice = "inflated:unlocked-twice"
	java, waiting := unlockedOnce(twice)
	java.unlock(t, twice)
	mustUnlock(t, mustGain(t, waiting).hold)

	const once = "inflated:unlocked-once"
	_, waiting = unlockedOnce(once)
	expiry := w.expiry(t, once) // Java renews no more: it believes the lock is free
	got := mustGain(t, waiting)
	w.wantAtExpiry(t, "Go", got.at, expiry)
	mustUnlock(t, got.hold)
}

// keyWithoutTTL: somebody wrote the hash by hand, or made it persistent.
func keyWithoutTTL(t *testing.T, w *world) {
	const name, stranger = "no-ttl", "some text that is no holder of Redisson's"
	lock := w.lock(w.client(t, shortLease), name)
	redis := w.redis()

	redis.Must(t, "HSET", name, stranger, "1")
	_, _, err := lock.TryLock(t.Context())
	var held *mortise.HeldError
	if !errors.As(err, &held) || held.Owner != stranger || held.TTL >= 0 {
		t.Errorf("TryLock of a lock without TTL: %v, want a *HeldError with its owner and a negative TTL", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, _, err := lock.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock of a lock without TTL: %v, want DeadlineExceeded", err)
	}

	waiting := w.goWaits(t, lock)
	redis.Must(t, "DEL", name)
	redis.Must(t, "PUBLISH", channelOf(name), "0")
	mustUnlock(t, mustGain(t, waiting).hold)

	redis.Must(t, "HSET", name, stranger, "1")
	waiting = w.goWaits(t, lock)
	redis.Must(t, "DEL", name) // and nobody says so
	gone := time.Now()
	got := mustGain(t, waiting)
	t.Logf("Go found out after %v that a lock without TTL was deleted in silence", got.at.Sub(gone).Round(time.Millisecond))
	mustUnlock(t, got.hold)
}

// unlockLatchKeys: Redisson since 3.24 remembers each unlock in a key of its
// own for some seconds, in case the reply is lost.
func unlockLatchKeys(t *testing.T, w *world) {
	const name = "latches"
	for _, id := range []string{"a", "b"} {
		for _, done := range []string{"0", "1"} {
			w.redis().Must(t, "SET", "redisson_unlock_latch:{"+name+"}:"+strings.Repeat(id+done, 16), done, "PX", "60000")
		}
	}
	lock := w.lock(w.client(t, shortLease), name)
	java := w.thread("holder")
	for range 3 {
		java.lock(t, name, 0)
		wantInspected(t, lock, mortise.Holder{Owner: java.owner(t), Count: 1})
		java.unlock(t, name)
		wantInspected(t, lock)
		hold, held := mustLock(t, lock)
		inner := mustReenter(t, held, lock)
		wantInspected(t, lock, mortise.Holder{Owner: hold.Owner(), Count: 2})
		mustUnlock(t, inner)
		mustUnlock(t, hold)
		wantInspected(t, lock)
	}
}
