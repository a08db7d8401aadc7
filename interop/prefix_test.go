//go:build interop

package interop

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
)

// newPrefixWorld returns a world in which both sides put a prefix before every name:
// Options.Prefix, and a NameMapper.
func newPrefixWorld(t testing.TB, version, transport string) *world {
	t.Helper()
	const prefix = "tenant:"
	h := spare.borrow(t, version+", prefix", func(t testing.TB, h *host) {
		h.nodes = []*redistest.Server{redistest.Single(t)}
		h.java = startAgent(t, version, agentOptions{Address: h.nodes[0].Addr(), Watchdog: shortLease, Prefix: prefix})
	})
	return &world{version: version, transport: transport, kind: lockKinds["Lock"], nodes: h.nodes, java: h.java, prefix: prefix}
}

// The first releases that map names as mortise does, each name once.
const (
	rwMapped     = "3.20.1"
	queuesMapped = "3.52.0"
)

// as makes a trial of a kind of lock, for the releases that have it and map its keys.
func as(object, mapped string, prove func(*testing.T, *world)) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		other := *w
		other.kind = kindOf(object)
		if !w.lacks(t, other.kind.since) && !w.lacks(t, mapped) {
			prove(t, &other)
		}
	}
}

var prefixTrials = []trial{
	{claim{"Prefix", "Lock excludes", "Go <-> Java"}, prefixedExclusion},
	{claim{"Prefix", "Lock: release wakes waiter", "Go -> Java"}, goReleaseWakesJava},
	{claim{"Prefix", "Lock: release wakes waiter", "Java -> Go"}, javaReleaseWakesGo},
	{claim{"Prefix", "FencedLock: release wakes waiter", "Go -> Java"}, as("FencedLock", "", goReleaseWakesJava)},
	{claim{"Prefix", "FencedLock: release wakes waiter", "Java -> Go"}, as("FencedLock", "", javaReleaseWakesGo)},
	{claim{"Prefix", "FairLock excludes", "Go <-> Java"}, as("FairLock", "", prefixedExclusion)},
	{claim{"Prefix", "FairLock: release wakes waiter", "Go -> Java"}, as("FairLock", queuesMapped, goReleaseWakesJava)},
	{claim{"Prefix", "FairLock: release wakes waiter", "Java -> Go"}, as("FairLock", queuesMapped, javaReleaseWakesGo)},
	{claim{"Prefix", "RWLock: writer's release wakes a writer", "Go -> Java"}, as(writes, rwMapped, goReleaseWakesJava)},
	{claim{"Prefix", "RWLock: writer's release wakes a writer", "Java -> Go"}, as(writes, rwMapped, javaReleaseWakesGo)},
	{claim{"Prefix", "RWLock: writer's release wakes readers", "Go -> Java"}, goWriterWakesAReader},
	{claim{"Prefix", "RWLock: writer's release wakes readers", "Java -> Go"}, javaWriterWakesAReader},
	{claim{"Prefix", "Semaphore: release wakes a waiter for n", "Go -> Java"}, goPermitsWakeJava},
	{claim{"Prefix", "Semaphore: release wakes a waiter for n", "Java -> Go"}, javaPermitsWakeGo},
	{claim{"Prefix", "PermitSemaphore: release wakes waiter", "Go -> Java"}, goPermitWakesJava},
	{claim{"Prefix", "PermitSemaphore: release wakes waiter", "Java -> Go"}, javaPermitWakesGo},
	{claim{"Prefix", "CountDownLatch: at zero all waiters go on", "Go -> Java"}, goOpensForJava},
	{claim{"Prefix", "CountDownLatch: at zero all waiters go on", "Java -> Go"}, javaOpensForGo},
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	trials := slices.Clone(prefixTrials)
	for i, c := range prefixTrials {
		trials[i].prove = func(t *testing.T, w *world) {
			c.prove(t, w)
			wantPrefixed(t, w)
		}
	}
	for _, version := range redissons(t) {
		for _, transport := range slices.Sorted(maps.Keys(transports)) {
			t.Run(version+"/"+transport, func(t *testing.T) {
				t.Parallel()
				run(t, newPrefixWorld(t, version, transport), trials)
			})
		}
	}
}

// wantPrefixed checks what both sides have left in Redis.
func wantPrefixed(t *testing.T, w *world) {
	t.Helper()
	unmapped := !atLeast(t, w.version, queuesMapped)
	for _, key := range w.redis().Must(t, "KEYS", "*").([]any) {
		key := key.(string)
		if unmapped && (strings.HasSuffix(key, "}:timeout") || strings.HasPrefix(key, "redisson_lock_queue:") || strings.HasPrefix(key, "redisson_lock_timeout:")) {
			continue
		}
		if strings.Count(key, w.prefix) != 1 || !strings.HasPrefix(key, w.prefix) && !strings.Contains(key, "{"+w.prefix) {
			t.Errorf("the key %q does not have the prefix where it belongs", key)
		}
	}
}

// prefixedExclusion: each side is refused what the other one holds, and has what is called the same
// without the prefix.
func prefixedExclusion(t *testing.T, w *world) {
	client, java := w.client(t, shortLease), w.thread("holder")
	hold, _ := mustLock(t, w.lock(client, "job"))
	if java.tryLock(t, "job", 0) {
		t.Error("Java has the lock that Go holds")
	}
	if n := w.redis().Int(t, "EXISTS", w.prefix+"job"); n != 1 {
		t.Errorf("%d keys are called %sjob, want 1", n, w.prefix)
	}
	mustUnlock(t, hold)
	java.lock(t, "job", longLease)
	if _, _, err := w.lock(client, "job").TryLock(t.Context()); err == nil {
		t.Error("Go has the lock that Java holds")
	}
	plain := *w
	plain.prefix = ""
	other, _ := mustLock(t, w.lock(plain.client(t, shortLease), "job"))
	mustUnlock(t, other)
	java.unlock(t, "job")
}

func goWriterWakesAReader(t *testing.T, w *world) {
	if w.lacks(t, rwMapped) {
		return
	}
	writer, reader := w.side(writes), w.side(reads)
	hold, _ := mustLock(t, writer.lock(w.client(t, shortLease), "read-java"))
	waiting := reader.thread("reader").waitFor(t, "read-java", longLease)
	released := time.Now()
	mustUnlock(t, hold)
	w.inTime("Java", waiting.must(t).received.Sub(released))
	reader.thread("reader").unlock(t, "read-java")
}

func javaWriterWakesAReader(t *testing.T, w *world) {
	if w.lacks(t, rwMapped) {
		return
	}
	writer, reader := w.side(writes), w.side(reads)
	writer.thread("writer").lock(t, "read-go", longLease)
	waiting := reader.goWaits(t, reader.lock(w.client(t, shortLease), "read-go"))
	released := time.Now()
	writer.thread("writer").unlock(t, "read-go")
	got := mustGain(t, waiting)
	w.inTime("Go", got.at.Sub(released))
	mustUnlock(t, got.hold)
}
