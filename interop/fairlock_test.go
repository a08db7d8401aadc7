//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
)

// braced is the name in braces, unless it has some: a part of derived keys. It
// is written out here rather than taken from mortise, which is on trial.
func braced(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}

// fairQueue returns the waiters for a fair lock, as Redisson stores them.
func (w *world) fairQueue(t testing.TB, name string) (waiters []string) {
	t.Helper()
	for _, waiter := range w.serverOf(t, name).Must(t, "LRANGE", "redisson_lock_queue:"+braced(name), "0", "-1").([]any) {
		waiters = append(waiters, waiter.(string))
	}
	return waiters
}

// fairChannels: each waiter has a channel of its own. Where nobody is Redisson's,
// each client has one for all its waiters.
func fairChannels(t testing.TB, w *world, name string) (channels []string) {
	t.Helper()
	waiters, mixed := w.fairQueue(t, name), false
	for _, owner := range append(w.holders(t, name), waiters...) {
		mixed = mixed || !mortiseOwner.MatchString(owner)
	}
	for _, waiter := range waiters {
		channel := channelOf(name) + ":" + waiter
		if !mixed {
			client, _, _ := strings.Cut(waiter, ":")
			channel = keyspace.FairTurnChannel(name, client)
		}
		if !slices.Contains(channels, channel) {
			channels = append(channels, channel)
		}
	}
	return channels
}

// awaitQueue waits until n waiters are in the queue.
func (w *world) awaitQueue(t testing.TB, name string, n int) {
	t.Helper()
	redistest.Eventually(t, fmt.Sprintf("%d in the queue for %s", n, name), func() error {
		if got := len(w.fairQueue(t, name)); got != n {
			return fmt.Errorf("%d are in it", got)
		}
		return nil
	})
}

var fairTrials = []trial{
	{claim{"FairLock", "first come, first served, 200 waiters", "Go <-> Java"}, fairOrder},
	{claim{"FairLock", "queue position and deadline are read", "Go <-> Java"}, fairQueueIsRead},
	{claim{"FairLock", "a waiter that gives up leaves, the rest move up", "Go -> Java"}, goGivesUpFairly},
	{claim{"FairLock", "a waiter that gives up leaves, the rest move up", "Java -> Go"}, javaGivesUpFairly},
	{claim{"FairLock", "killed waiter delays by 2 s at most", "Go -> Go"}, killedGoWaiter},
	{claim{"FairLock", "killed waiter delays by 2 s at most", "Java -> Go"}, killedJavaWaiter},
	{claim{"FairLock", "waiter past its deadline keeps its place", "Go -> Java"}, lateJavaWaiterKeepsItsPlace},
	{claim{"FairLock", "one attempt does not queue or overtake", "Go <-> Java"}, fairTryLock},
}

func TestFairLock(t *testing.T) { everywhere(t, about("FairLock", fairTrials)) }

// fairWaiter is one waiter of either side. It releases the lock when told.
type fairWaiter struct {
	name    string
	got     func() bool
	release func()
}

// joinGo has a goroutine wait for the lock; it returns when it is in the queue.
func (w *world) joinGo(t testing.TB, ctx context.Context, lock taker, place int) (fairWaiter, <-chan gained) {
	t.Helper()
	waiting := lockLater(ctx, lock)
	w.awaitQueue(t, lock.Name(), place+1)
	return fairWaiter{
		name:    fmt.Sprint("Go ", place),
		got:     func() bool { return len(waiting) > 0 },
		release: func() { mustUnlock(t, mustGain(t, waiting).hold) },
	}, waiting
}

// joinJava is joinGo for a Java thread of that name.
func (w *world) joinJava(t testing.TB, a *agent, thread, name string, place int) fairWaiter {
	t.Helper()
	java := a.thread(thread).of("fair")
	waiting := java.lockLater(name, 0)
	w.awaitQueue(t, name, place+1)
	return fairWaiter{
		name: "Java " + thread,
		got:  waiting.answered,
		release: func() {
			waiting.must(t)
			java.unlock(t, name)
		},
	}
}

// inTurn checks that waiters have the lock one after the other, nobody before
// its turn.
func inTurn(t testing.TB, line []fairWaiter) {
	t.Helper()
	for i, waiter := range line {
		redistest.Eventually(t, waiter.name+" has the lock", func() error {
			for _, later := range line[i+1:] {
				if later.got() {
					t.Fatalf("%s had the lock before %s", later.name, waiter.name)
				}
			}
			if !waiter.got() {
				return errors.New("not yet")
			}
			return nil
		})
		waiter.release()
	}
}

func fairOrder(t *testing.T, w *world) {
	const name, waiters = "order", 200
	clients := []*mortise.Client{w.client(t, longLease), w.client(t, longLease)}
	gate, _ := mustLock(t, w.lock(clients[0], name))
	var line []fairWaiter
	for i := range waiters {
		if i%2 == 0 {
			waiter, _ := w.joinGo(t, t.Context(), w.lock(clients[i/2%2], name), i)
			line = append(line, waiter)
		} else {
			line = append(line, w.joinJava(t, w.java, fmt.Sprint("waiter", i), name, i))
		}
	}
	start := time.Now()
	mustUnlock(t, gate)
	inTurn(t, line)
	t.Logf("%d turns took %v", waiters, time.Since(start).Round(time.Millisecond))
	w.awaitQueue(t, name, 0)
}

// fairQueueIsRead: each side's waiters are where the other expects them. A
// waiter of Redisson's has a deadline one fairLockWaitTimeout behind the one before it,
// and Go's, which show life, a few seconds.
func fairQueueIsRead(t *testing.T, w *world) {
	const name, step = "queue", 5 * time.Minute
	client := w.client(t, longLease)
	gate, _ := mustLock(t, w.lock(client, name))
	owners := []string{w.thread("waiter0").owner(t), "", w.thread("waiter2").owner(t)}
	var line []fairWaiter
	for i := range 4 {
		if i%2 == 0 {
			line = append(line, w.joinJava(t, w.java, fmt.Sprint("waiter", i), name, i))
		} else {
			waiter, _ := w.joinGo(t, t.Context(), w.lock(client, name), i)
			line = append(line, waiter)
		}
	}
	queue, err := client.FairLock(name).Queue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(queue) != 4 || queue[0].Owner != owners[0] || queue[2].Owner != owners[2] {
		t.Fatalf("Queue = %+v, want Java's two threads at places 0 and 2", queue)
	}
	for i, waiter := range queue {
		// The first one reckons with the lease, and Go's may have moved.
		if most := longLease + time.Duration((i+2)/2)*step + time.Minute; waiter.TTL > most || waiter.TTL < most-2*time.Minute {
			t.Errorf("the waiter at place %d has %v left, want about %v", i, waiter.TTL, most)
		}
	}
	mustUnlock(t, gate)
	inTurn(t, line)
}

func goGivesUpFairly(t *testing.T, w *world) {
	const name = "gives-up:go"
	client := w.client(t, longLease)
	gate, _ := mustLock(t, w.lock(client, name))
	first := w.joinJava(t, w.java, "first", name, 0)
	ctx, cancel := context.WithCancel(t.Context())
	_, waiting := w.joinGo(t, ctx, w.lock(client, name), 1)
	third := w.joinJava(t, w.java, "third", name, 2)
	last := w.deadline(t, name, 0) // which would take away at most that
	cancel()
	if got := receive(t, waiting, "the end of the wait"); !errors.Is(got.err, context.Canceled) {
		t.Fatalf("a cancelled wait: %v", got.err)
	}
	w.awaitQueue(t, name, 2)
	if apart := time.Duration(w.deadline(t, name, 1)-last) * time.Millisecond; apart < 5*time.Minute || apart > 5*time.Minute+30*time.Second {
		t.Errorf("the deadline of the second is %v after that of the first, want 5 minutes and what Go's needed to show life", apart)
	}
	mustUnlock(t, gate)
	inTurn(t, []fairWaiter{first, third})
}

// deadline returns the deadline of the waiter at a place.
func (w *world) deadline(t testing.TB, name string, place int) int64 {
	t.Helper()
	return w.redis().Int(t, "ZSCORE", "redisson_lock_timeout:"+braced(name), w.fairQueue(t, name)[place])
}

func javaGivesUpFairly(t *testing.T, w *world) {
	const name = "gives-up:java"
	client := w.client(t, longLease)
	gate, _ := mustLock(t, w.lock(client, name))
	quitter := w.thread("quitter")
	waiting := quitter.send("fair.tryLock", name, millis(time.Second), millis(longLease))
	w.awaitQueue(t, name, 1)
	second, _ := w.joinGo(t, t.Context(), w.lock(client, name), 1)
	third := w.joinJava(t, w.java, "third", name, 2)
	if result[bool](t, waiting) {
		t.Fatal("Java has the lock that Go holds")
	}
	w.awaitQueue(t, name, 2)
	mustUnlock(t, gate)
	inTurn(t, []fairWaiter{second, third})
}

func killedGoWaiter(t *testing.T, w *world) {
	const name = "killed:go-waiter"
	gate, _ := mustLock(t, w.lock(w.client(t, longLease), name))
	dead := w.startWaitingPeer(t, name)
	w.awaitQueue(t, name, 1)
	second, waiting := w.joinGo(t, t.Context(), w.lock(w.client(t, longLease), name), 1)
	third := w.joinJava(t, w.java, "third", name, 2)
	dead.kill()
	w.wantSoonAfterDeath(t, gate, waiting)
	inTurn(t, []fairWaiter{second, third})
}

func killedJavaWaiter(t *testing.T, w *world) {
	const name = "killed:java-waiter"
	gate, _ := mustLock(t, w.lock(w.client(t, longLease), name))
	dead := w.startAgent(t)
	w.joinJava(t, dead, "waiter", name, 0)
	second, waiting := w.joinGo(t, t.Context(), w.lock(w.client(t, longLease), name), 1)
	third := w.joinJava(t, w.java, "third", name, 2)
	dead.kill()
	w.wantSoonAfterDeath(t, gate, waiting)
	inTurn(t, []fairWaiter{second, third})
}

// wantSoonAfterDeath releases the lock and checks that the waiter behind a dead
// one has it two seconds later at most.
func (w *world) wantSoonAfterDeath(t testing.TB, gate *mortise.Hold, waiting <-chan gained) {
	t.Helper()
	released := time.Now()
	mustUnlock(t, gate)
	redistest.Eventually(t, "the waiter behind the dead one has the lock", func() error {
		if len(waiting) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	w.bounds.Within("the waiter behind the dead one has the lock", time.Since(released), 2*time.Second)
}

// lateJavaWaiterKeepsItsPlace: its deadline can have passed because it has
// waited long, or by a defect of every release but 3.24.0, with which a waiter
// that has a time limit and no lease counts its seconds as milliseconds.
func lateJavaWaiterKeepsItsPlace(t *testing.T, w *world) {
	const name = "late"
	client := w.client(t, longLease)
	gate, _ := mustLock(t, w.lock(client, name, mortise.LockOptions{TTL: longLease, MaxHold: longLease}))
	java := w.thread("late")
	waiting := java.send("fair.tryLock", name, millis(25*time.Second))
	w.awaitQueue(t, name, 1)
	java.awaitParked(t, waiting, name) // one that is late and does not listen is taken for dead
	second, _ := w.joinGo(t, t.Context(), w.lock(client, name), 1)
	// Its time is over now, by whatever clock.
	w.redis().Must(t, "ZADD", "redisson_lock_timeout:"+braced(name), "XX", "1000", w.fairQueue(t, name)[0])
	mustUnlock(t, gate)
	first := fairWaiter{name: "Java late", got: waiting.answered, release: func() {
		if !result[bool](t, waiting) {
			t.Fatal("the Java waiter did not get the lock")
		}
		java.unlock(t, name)
	}}
	inTurn(t, []fairWaiter{first, second})
}

func fairTryLock(t *testing.T, w *world) {
	const name = "try"
	client := w.client(t, longLease)
	lock := w.lock(client, name)
	gate, _ := mustLock(t, lock)
	if w.thread("try").tryLock(t, name, 0) {
		t.Error("Java has the lock that Go holds")
	}
	if _, _, err := lock.TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
		t.Errorf("TryLock: %v, want ErrLocked", err)
	}
	if queue := w.fairQueue(t, name); len(queue) != 0 {
		t.Errorf("one attempt queued: %v", queue)
	}
	// The lock is free, but for one waiter that is on its way.
	waiter := w.joinJava(t, w.java, "waiter", name, 0)
	mustUnlock(t, gate)
	if _, _, err := lock.TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
		t.Errorf("TryLock of a lock that another waits for: %v, want ErrLocked", err)
	}
	inTurn(t, []fairWaiter{waiter})
}
