//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// Both sides of a read/write lock are kinds of lock, but only the write side
// excludes as others do.
const (
	reads  = "RWLock.Read"
	writes = "RWLock.Write"
)

func rwChannels(_ testing.TB, _ *world, name string) []string {
	return []string{"redisson_rwlock:" + braced(name)}
}

var rwKinds = map[string]lockKind{
	reads: {
		object: reads, java: "read", lenient: true, channels: rwChannels,
		open: func(c *mortise.Client, name string, o mortise.LockOptions) taker {
			return readTaker{c.RWLock(name).Read().With(o)}
		},
	},
	writes: {
		object: writes, java: "write", lenient: true, channels: rwChannels, // up to 3.43
		open: func(c *mortise.Client, name string, o mortise.LockOptions) taker {
			return c.RWLock(name).Write().With(o)
		},
	},
}

// kindOf returns a kind of lock by mortise's name of it.
func kindOf(object string) lockKind {
	if object == permitKind.object {
		return permitKind
	}
	if k, ok := rwKinds[object]; ok {
		return k
	}
	return lockKinds[object]
}

// readTaker forces one reader out; there may be many.
type readTaker struct{ *mortise.ReadLock }

func (k readTaker) ForceUnlock(ctx context.Context) (*mortise.Holder, error) {
	freed, err := k.ReadLock.ForceUnlock(ctx)
	if len(freed) == 0 {
		return nil, err
	}
	return &freed[0], err
}

// side returns the same world for one side of read/write locks.
func (w *world) side(object string) *world {
	sided := *w
	sided.kind = rwKinds[object]
	return &sided
}

// on makes a trial of one side.
func on(object string, prove func(*testing.T, *world)) func(*testing.T, *world) {
	return func(t *testing.T, w *world) { prove(t, w.side(object)) }
}

var rwTrials = []trial{
	{claim{"RWLock", "writers exclude each other", "Go <-> Java"}, on(writes, exclusion)},
	{claim{"RWLock", "writers and readers exclude each other", "Go <-> Java"}, rwExclusion},
	{claim{"RWLock", "readers read together, with exact keys", "Go <-> Java"}, readersShare},
	{claim{"RWLock", "writer's release wakes a writer", "Go -> Java"}, on(writes, goReleaseWakesJava)},
	{claim{"RWLock", "writer's release wakes a writer", "Java -> Go"}, on(writes, javaReleaseWakesGo)},
	{claim{"RWLock", "writer's release wakes all readers", "Go -> both"}, goWriterWakesReaders},
	{claim{"RWLock", "writer's release wakes all readers", "Java -> both"}, javaWriterWakesReaders},
	{claim{"RWLock", "writer's release reaches readers that arrive", "Go -> Java"}, goWriterWakesArrivals},
	{claim{"RWLock", "last reader's release wakes a writer", "Go -> Java"}, goReaderWakesJavaWriter},
	{claim{"RWLock", "last reader's release wakes a writer", "Java -> Go"}, javaReaderWakesGoWriter},
	{claim{"RWLock", "downgrade wakes readers, keeps reading", "Go -> Java"}, goDowngrades},
	{claim{"RWLock", "downgrade lets readers in, keeps reading", "Java -> Go"}, javaDowngrades},
	{claim{"RWLock", "unusual names mean the same lock", "Go <-> Java"}, on(writes, unusualNames)},
	{claim{"RWLock", "unlock by a stranger is refused", "Go -> Java"}, on(writes, javaCannotUnlockGo)},
	{claim{"RWLock", "unlock by a stranger is refused", "Java -> Go"}, on(writes, goCannotUnlockJava)},
	{claim{"RWLock", "reader outlives another's unlock", "Go <-> Java"}, readerOutlivesUnlock},
	{claim{"RWLock", "renewals by Java that dies cut no Go lease", "Java -> Go"}, javaCutsLeases},
	{claim{"RWLock", "writer's watchdog outlasts the lease", "Go -> Java"}, on(writes, goWatchdogOutlastsLease)},
	{claim{"RWLock", "writer's watchdog outlasts the lease", "Java -> Go"}, on(writes, javaWatchdogOutlastsLease)},
	{claim{"RWLock", "writer's fixed lease ends by itself", "Go -> Java"}, on(writes, goFixedLeaseEnds)},
	{claim{"RWLock", "writer's fixed lease ends by itself", "Java -> Go"}, on(writes, javaFixedLeaseEnds)},
	{claim{"RWLock", "writer's TTL of its own", "Go -> Java"}, on(writes, goTTLOfItsOwn)},
	{claim{"RWLock", "writer's MaxHold ends a renewed hold", "Go -> Java"}, on(writes, goMaxHoldEnds)},
	{claim{"RWLock", "writer's MinHold keeps a released lock", "Go -> Java"}, on(writes, goMinHoldKeeps)},
	{claim{"RWLock", "reader's fixed lease ends by itself", "Go -> Java"}, goFixedReadLeaseEnds},
	{claim{"RWLock", "reader's fixed lease ends by itself", "Java -> Go"}, javaFixedReadLeaseEnds},
	{claim{"RWLock", "killed writer: free at the lease's end", "Go -> Java"}, on(writes, killedGoHolder)},
	{claim{"RWLock", "killed writer: free at the lease's end", "Java -> Go"}, on(writes, killedJavaHolder)},
	{claim{"RWLock", "killed reader: free at the lease's end", "Go -> Java"}, killedGoReader},
	{claim{"RWLock", "killed reader: free at the lease's end", "Java -> Go"}, killedJavaReader},
	{claim{"RWLock", "dead reader in a longer lock: free at its end", "Java -> Go"}, deadReaderInALongLock},
	{claim{"RWLock", "frozen writer: finds out when it wakes", "Go -> Java"}, on(writes, frozenGoHolder)},
	{claim{"RWLock", "frozen writer: finds out when it wakes", "Java -> Go"}, on(writes, frozenJavaHolder)},
	{claim{"RWLock", "frozen reader: finds out when it wakes", "Go -> Java"}, frozenGoReader},
	{claim{"RWLock", "frozen reader: finds out when it wakes", "Java -> Go"}, frozenJavaReader},
	{claim{"RWLock", "writer forced: waiter wakes, holder notices", "Go forces Java"}, on(writes, goForcesJava)},
	{claim{"RWLock", "writer forced: waiter wakes, holder notices", "Java forces Go"}, on(writes, javaForcesGo)},
	{claim{"RWLock", "readers forced: waiter wakes, holder notices", "Go forces Java"}, goForcesJavaReader},
	{claim{"RWLock", "readers forced: waiter wakes, holder notices", "Java forces Go"}, javaForcesGoReader},
	{claim{"RWLock", "plain lock's name is refused", "Java -> Go"}, plainLockIsRefused},
}

func TestRWLock(t *testing.T) { everywhere(t, rwTrials) }

// TestRWLockInCluster tries what a cluster can change: whether messages arrive,
// and whether all keys lie in one slot.
func TestRWLockInCluster(t *testing.T) {
	version := redissons(t)[0]
	cluster := redistest.Cluster(t, 0)
	for _, f := range fleetsOf(t, version) {
		w := &world{
			version: version, nodes: cluster.Masters, cluster: cluster,
			sharded: f.sharded, pubsub: f.pubsub,
		}
		w.java = w.startAgent(t)
		for _, transport := range slices.Sorted(maps.Keys(transports)) {
			w.transport = transport
			object := "RW" + f.object
			run(t, w, []trial{
				{claim{object, "writers exclude each other", "Go <-> Java"}, on(writes, exclusion)},
				{claim{object, "writers and readers exclude each other", "Go <-> Java"}, rwExclusion},
				{claim{object, "writer's release wakes all readers", "Go -> both"}, goWriterWakesReaders},
				{claim{object, "writer's release wakes all readers", "Java -> both"}, javaWriterWakesReaders},
				{claim{object, "last reader's release wakes a writer", "Go -> Java"}, goReaderWakesJavaWriter},
				{claim{object, "last reader's release wakes a writer", "Java -> Go"}, javaReaderWakesGoWriter},
				{claim{object, "downgrade wakes readers, keeps reading", "Go -> Java"}, goDowngrades},
			})
		}
	}
}

// rwExclusion: readers and writers keep writers out, and a writer keeps all
// others out, on both sides.
func rwExclusion(t *testing.T, w *world) {
	const name = "rw-exclusion"
	read, write := w.side(reads), w.side(writes)
	client := w.client(t, shortLease)
	refused := func(what string, lock taker, by string) {
		t.Helper()
		_, _, err := lock.TryLock(t.Context())
		var held *mortise.HeldError
		if !errors.As(err, &held) || held.Owner != by || held.Count != 1 || held.TTL <= 0 || held.TTL > shortLease {
			t.Errorf("%s: %v, want to be refused because of %s", what, err, by)
		}
	}
	try := func(what string, side *world, want bool) {
		t.Helper()
		thread := side.thread("try")
		if got := thread.tryLock(t, name, 0); got != want {
			t.Errorf("%s: Java's tryLock is %v, want %v", what, got, want)
		} else if got {
			thread.unlock(t, name)
		}
	}
	hold, _ := mustLock(t, read.lock(client, name))
	try("Go reads, Java writes", write, false)
	try("Go reads, Java reads", read, true)
	mustUnlock(t, hold)
	hold, _ = mustLock(t, write.lock(client, name))
	try("Go writes, Java writes", write, false)
	try("Go writes, Java reads", read, false)
	mustUnlock(t, hold)
	try("nobody, Java writes", write, true)

	java := read.thread("holder")
	java.lock(t, name, 0)
	refused("Java reads, Go writes", write.lock(client, name), java.owner(t))
	hold, _ = mustLock(t, read.lock(client, name))
	mustUnlock(t, hold)
	java.unlock(t, name)
	java = write.thread("holder")
	java.lock(t, name, 0)
	refused("Java writes, Go writes", write.lock(client, name), java.owner(t))
	refused("Java writes, Go reads", read.lock(client, name), java.owner(t))
	java.unlock(t, name)
	hold, _ = mustLock(t, write.lock(client, name))
	mustUnlock(t, hold)
}

// holds returns the keys of read holds that there are.
func (w *world) holds(t testing.TB, name string) (keys []string) {
	t.Helper()
	for _, key := range w.serverOf(t, name).Must(t, "KEYS", "*:rwlock_timeout:*").([]any) {
		keys = append(keys, key.(string))
	}
	slices.Sort(keys)
	return keys
}

// readersShare: both sides write the same data for the same thing.
func readersShare(t *testing.T, w *world) {
	const name = "rw-share"
	read := w.side(reads)
	lock := read.lock(w.client(t, shortLease), name)
	java := read.thread("reader")
	want := func(counts map[string]int) {
		t.Helper()
		fields := map[string]string{}
		reply := w.redis().Must(t, "HGETALL", name).([]any)
		for i := 0; i < len(reply); i += 2 {
			fields[reply[i].(string)] = reply[i+1].(string)
		}
		var keys []string
		expected := map[string]string{}
		for owner, n := range counts {
			expected["mode"] = "read"
			expected[owner] = strconv.Itoa(n)
			for i := range n {
				keys = append(keys, fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", name, owner, i+1))
			}
		}
		slices.Sort(keys)
		if !maps.Equal(fields, expected) {
			t.Errorf("the lock is %v, want %v", fields, expected)
		}
		if got := w.holds(t, name); !slices.Equal(got, keys) {
			t.Errorf("the holds are %q, want %q", got, keys)
		}
	}
	me := java.owner(t)
	outer, held := mustLock(t, lock)
	java.lock(t, name, 0)
	inner := mustReenter(t, held, lock)
	java.lock(t, name, 0)
	third := mustReenter(t, held, lock)
	want(map[string]int{outer.Owner(): 3, me: 2})
	if got := java.state(t, name); !got.Locked || !got.Mine || got.Count != 2 {
		t.Errorf("Java sees %+v, want it to read twice", got)
	}
	mustUnlock(t, outer)
	want(map[string]int{outer.Owner(): 2, me: 2})
	java.unlock(t, name)
	want(map[string]int{outer.Owner(): 2, me: 1})
	mustUnlock(t, inner)
	mustUnlock(t, third)
	want(map[string]int{me: 1})
	java.unlock(t, name)
	want(nil)

	// A writer that reads.
	owner := mortise.WithOwner(t.Context())
	client := w.client(t, shortLease)
	writer := mustGain(t, lockLater(owner, w.side(writes).lock(client, name)))
	reader := mustGain(t, lockLater(owner, read.lock(client, name)))
	if got := java.state(t, name); got.Mine {
		t.Errorf("Java sees %+v", got)
	}
	mustUnlock(t, reader.hold)
	mustUnlock(t, writer.hold)
	want(nil)
}

// readerOutlivesUnlock: the unlock of another reader, which counts what others
// have left, sees them.
func readerOutlivesUnlock(t *testing.T, w *world) {
	const name = "rw-outlives"
	read, write := w.side(reads), w.side(writes)
	lock := read.lock(w.client(t, shortLease), name)
	java := read.thread("reader")
	hold, held := mustLock(t, lock)
	java.lock(t, name, 0)
	java.unlock(t, name)
	if write.thread("writer").tryLock(t, name, pastLease) {
		t.Error("Java writes while Go reads")
	}
	if held.Err() != nil {
		t.Errorf("the reader was lost: %v", context.Cause(held))
	}
	java.lock(t, name, 0)
	mustUnlock(t, hold)
	ctx, cancel := context.WithTimeout(t.Context(), pastLease)
	defer cancel()
	if _, _, err := write.lock(w.client(t, shortLease), name).Lock(ctx); !errors.Is(err, mortise.ErrLocked) {
		t.Errorf("Go's writer, while Java reads: %v, want ErrLocked", err)
	}
	if got := java.state(t, name); !got.Mine {
		t.Errorf("Java sees %+v, want to read", got)
	}
	java.unlock(t, name)
}

// goDowngrades: Redisson announces nothing when it does the same, so that its
// readers sleep for the whole lease of the writer.
func goDowngrades(t *testing.T, w *world) {
	const name = "rw-go-downgrades"
	read, write := w.side(reads), w.side(writes)
	client := w.client(t, longLease)
	owner := mortise.WithOwner(t.Context())
	writer := mustGain(t, lockLater(owner, write.lock(client, name)))
	reader := mustGain(t, lockLater(owner, read.lock(client, name)))
	wantWoken := w.waiters(t, w.client(t, longLease), name)
	released := time.Now()
	mustUnlock(t, writer.hold)
	wantWoken(released)
	if write.thread("writer").tryLock(t, name, 0) {
		t.Error("Java writes while Go reads")
	}
	if reader.ctx.Err() != nil {
		t.Errorf("the reader was lost: %v", context.Cause(reader.ctx))
	}
	mustUnlock(t, reader.hold)
}

func javaDowngrades(t *testing.T, w *world) {
	const name = "rw-java-downgrades"
	read, write := w.side(reads), w.side(writes)
	java := w.java.thread("downgrades")
	client := w.client(t, shortLease)
	java.of("write").lock(t, name, 0)
	java.of("read").lock(t, name, 0)
	waiting := read.goWaits(t, read.lock(client, name))
	released := time.Now()
	java.of("write").unlock(t, name)
	got := mustGain(t, waiting)
	w.inTime("Go", got.at.Sub(released))
	ctx, cancel := context.WithTimeout(t.Context(), pastLease)
	defer cancel()
	if _, _, err := write.lock(client, name).Lock(ctx); !errors.Is(err, mortise.ErrLocked) {
		t.Errorf("Go's writer, while Java reads: %v, want ErrLocked", err)
	}
	mustUnlock(t, got.hold)
	java.of("read").unlock(t, name)
	hold, _ := mustLock(t, write.lock(client, name))
	mustUnlock(t, hold)
}

// javaCutsLeases: when a Java reader renews, it sets the TTL of the lock to its
// own lease, and up to 4.3 that of all holds. If it dies then, the longer lease
// of a Go reader must have been repaired before the lock expires.
func javaCutsLeases(t *testing.T, w *world) {
	const name, watchdog, long = "rw-cut", 15 * time.Second, 10 * time.Minute
	read := w.side(reads)
	dies := startAgent(t, w.version, agentOptions{Address: w.nodes[0].Addr(), Watchdog: watchdog})
	hold, held := mustLock(t, read.lock(w.client(t, shortLease), name, mortise.LockOptions{TTL: long, MaxHold: long}))
	dies.thread("reader").of("read").lock(t, name, 0)
	ttl := func(key string) time.Duration {
		return time.Duration(w.redis().Int(t, "PTTL", key)) * time.Millisecond
	}
	redistest.Eventually(t, "Java's renewal cuts the lock", func() error {
		if left := ttl(name); left > watchdog {
			return fmt.Errorf("it lasts %v", left)
		}
		return nil
	})
	dies.kill()
	redistest.Eventually(t, "Go repairs its lease", func() error {
		if left := ttl(name); left < long/2 {
			return fmt.Errorf("the lock lasts %v", left)
		}
		return nil
	})
	if left := ttl("{" + name + "}:" + hold.Owner() + ":rwlock_timeout:1"); left < long/2 {
		t.Errorf("the hold lasts %v, want about %v", left, long)
	}
	if held.Err() != nil {
		t.Errorf("the reader was lost: %v", context.Cause(held))
	}
	mustUnlock(t, hold)
}

// plainLockIsRefused: Redisson would let a writer in next to the holder of a
// plain lock of that name.
func plainLockIsRefused(t *testing.T, w *world) {
	const name = "rw-plain"
	client := w.client(t, shortLease)
	java := w.java.thread("plain")
	java.lock(t, name, 0)
	for _, side := range []string{reads, writes} {
		if _, _, err := w.side(side).lock(client, name).TryLock(t.Context()); !errors.Is(err, mortise.ErrWrongKind) {
			t.Errorf("%s of Java's plain lock: %v, want ErrWrongKind", side, err)
		}
	}
	if got := java.state(t, name); !got.Mine || got.Count != 1 {
		t.Errorf("Java sees %+v, want it to hold the lock once", got)
	}
	java.unlock(t, name)
}
