//go:build interop

package interop

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// TestDurability tries locks that Go takes only with acknowledgements of both
// replicas, with a Java side that knows of none.
func TestDurability(t *testing.T) {
	t.Parallel()
	for _, version := range redissons(t) {
		for _, transport := range slices.Sorted(maps.Keys(transports)) {
			t.Run(version+"/"+transport, func(t *testing.T) {
				t.Parallel()
				w := newServers(t, version, transport, 1)
				replicas := []*redistest.Server{redistest.Replica(t, w.redis()), redistest.Replica(t, w.redis())}
				redistest.Eventually(t, "replicas online", func() error {
					if got := strings.Count(w.redis().Str(t, "INFO", "replication"), "state=online"); got != len(replicas) {
						return fmt.Errorf("%d are", got)
					}
					return nil
				})
				run(t, w, []trial{
					{claim{"Lock, durable", "excludes, is kept and handed over", "Go <-> Java"},
						func(t *testing.T, w *world) { durableHandOver(t, w, replicas) }},
					{claim{"Lock, durable", "released without replicas: waiter wakes", "Go -> Java"},
						func(t *testing.T, w *world) { durableGivenBack(t, w, replicas) }},
				})
			})
		}
	}
}

func durable(timeout time.Duration) mortise.LockOptions {
	return mortise.LockOptions{Durability: mortise.Durability{Acks: 2, Timeout: timeout}}
}

func durableHandOver(t *testing.T, w *world, replicas []*redistest.Server) {
	const name = "durable"
	lock := w.lock(w.client(t, shortLease), name, durable(patience))
	java := w.thread("peer")

	hold, ctx := mustLock(t, lock)
	for _, r := range replicas {
		if n := r.Str(t, "HGET", name, hold.Owner()); n != "1" {
			t.Errorf("replica %s has the count %q of an acknowledged lock, want %q", r.Addr(), n, "1")
		}
	}
	inner := mustReenter(t, ctx, lock)
	wantLockedByOther(t, java.state(t, name))
	awaitRenewals(t, hold, shortLease+shortLease/2)
	if ctx.Err() != nil || java.tryLock(t, name, 0) {
		t.Fatal("the lock was not kept past its lease")
	}
	mustUnlock(t, inner)
	waiting := java.waitFor(t, name, longLease)
	mustUnlock(t, hold)
	waiting.must(t)

	start := time.Now()
	if _, _, err := lock.TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
		t.Errorf("TryLock of Java's lock: %v, want ErrLocked", err)
	}
	w.bounds.Within("TryLock of Java's lock", time.Since(start), prompt)
	gain := w.goWaits(t, lock)
	java.unlock(t, name)
	mustUnlock(t, mustGain(t, gain).hold)
}

func durableGivenBack(t *testing.T, w *world, replicas []*redistest.Server) {
	const name = "not-durable"
	replicas[0].Pause(t)
	defer replicas[0].Resume(t)
	lock := w.lock(w.client(t, longLease), name, durable(3*time.Second))
	attempt := lockLater(t.Context(), lock)
	redistest.Eventually(t, "Go has the lock for a moment", func() error {
		if w.redis().Int(t, "EXISTS", name) == 0 {
			return errors.New("it has not")
		}
		return nil
	})
	java := w.thread("waiter")
	waiting := java.waitFor(t, name, longLease)
	got := receive(t, attempt, "the end of Go's attempt")
	var short *mortise.NotDurableError
	if !errors.As(got.err, &short) || short.Acknowledged != 1 || short.Wanted != 2 {
		t.Fatalf("Go's attempt: %v, want that 1 of 2 replicas acknowledged", got.err)
	}
	waiting.must(t)
	w.inTime("Java", time.Since(got.at))
	java.unlock(t, name)
}
