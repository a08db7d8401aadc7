//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

// rounds is how often a wake-up is tried: often enough that the median tells
// messages from a poll that happens to come early.
var rounds = 11

func goReleaseWakesJava(t *testing.T, w *world) {
	client := w.client(t, shortLease)
	var took []time.Duration
	for i := range rounds {
		took = append(took, wakeJava(t, w, client, fmt.Sprintf("go-wakes-java:%d", i)))
	}
	w.wantPrompt(t, took)
}

func javaReleaseWakesGo(t *testing.T, w *world) {
	client := w.client(t, shortLease)
	var took []time.Duration
	for i := range rounds {
		took = append(took, wakeGo(t, w, client, fmt.Sprintf("java-wakes-go:%d", i)))
	}
	w.wantPrompt(t, took)
}

// unusualNames: a hash tag changes how the channel is named, and the two sides
// must encode the rest alike.
func unusualNames(t *testing.T, w *world) {
	client := w.client(t, shortLease)
	var took []time.Duration
	for _, name := range []string{"{tagged}", "{a}:b", "a{b}c", "a{b}c{d}", "schloß:ключ:鍵:🔒", "a:b/c?d=*[e]\\"} {
		took = append(took, wakeJava(t, w, client, name), wakeGo(t, w, client, name))
	}
	w.wantPrompt(t, took)
}

// wakeJava releases the lock from Go and returns how long a waiting Java thread
// needs to have it.
func wakeJava(t testing.TB, w *world, client *mortise.Client, name string) time.Duration {
	t.Helper()
	waiter := w.thread("waiter")
	hold, _ := mustLock(t, w.lock(client, name, mortise.LockOptions{TTL: longLease, MaxHold: longLease}))
	waiting := waiter.waitFor(t, name, longLease)
	released := time.Now()
	mustUnlock(t, hold)
	took := waiting.must(t).received.Sub(released)
	waiter.unlock(t, name)
	w.inTime(name, took)
	return took
}

// wakeGo releases the lock from Java and returns how long a waiting goroutine
// needs to have it, which includes the time to tell Java.
func wakeGo(t testing.TB, w *world, client *mortise.Client, name string) time.Duration {
	t.Helper()
	holder := w.thread("holder")
	holder.lock(t, name, longLease)
	waiting := w.goWaits(t, w.lock(client, name))
	released := time.Now()
	holder.unlock(t, name)
	got := mustGain(t, waiting)
	mustUnlock(t, got.hold)
	took := got.at.Sub(released)
	w.inTime(name, took)
	return took
}

// limitedWait: a Go waiter whose limit is over names Java's holder; one whose limit is not has
// the lock when Java releases it, and keeps it beyond the limit.
func limitedWait(t *testing.T, w *world) {
	const name, limit = "limited", 300 * time.Millisecond
	client, holder := w.client(t, shortLease), w.thread("holder")
	holder.lock(t, name, longLease)
	holders := w.holders(t, name)
	start := time.Now()
	_, _, err := w.lock(client, name, mortise.LockOptions{Wait: limit}).Lock(t.Context())
	took := time.Since(start)
	var held *mortise.HeldError
	if !errors.Is(err, mortise.ErrLocked) || errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &held) || !slices.Contains(holders, held.Owner) || held.Count != 1 {
		t.Errorf("a limited wait: %v, want ErrLocked that names %v", err, holders)
	}
	w.bounds.Within("the end of a limited wait", took, limit+prompt)
	if took < limit {
		t.Errorf("a wait limited to %v took %v", limit, took)
	}
	waiting := w.goWaits(t, w.lock(client, name, mortise.LockOptions{Wait: longLease}))
	released := time.Now()
	holder.unlock(t, name)
	got := mustGain(t, waiting)
	w.inTime(name, got.at.Sub(released))
	if end, ok := got.ctx.Deadline(); ok || got.ctx.Err() != nil {
		t.Errorf("the hold's context ends with the wait, at %v: %v", end, got.ctx.Err())
	}
	mustUnlock(t, got.hold)
}

// inTime notes when somebody had what was released so long before. Whoever was not woken comes after its whole
// lease.
func (w *world) inTime(what string, took time.Duration) {
	w.bounds.Within("from release to lock, "+what, took, prompt)
}

// wantPrompt notes when most waiters got the lock, which must be sooner than by any poll: or messages do not arrive.
func (w *world) wantPrompt(t testing.TB, took []time.Duration) {
	t.Helper()
	slices.Sort(took)
	median, longest := took[len(took)/2], took[len(took)-1]
	t.Logf("from release to lock: median %v, longest %v of %d", median, longest, len(took))
	w.bounds.Within("the median from release to lock", median, 500*time.Millisecond)
}
