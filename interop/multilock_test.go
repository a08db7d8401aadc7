//go:build interop

package interop

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

var multiTrials = []trial{
	{claim{"MultiLock", "excludes each member, all or none", "Go -> Java"}, goMultiExcludesJava},
	{claim{"MultiLock", "excludes each member, all or none", "Java -> Go"}, javaMultiExcludesGo},
	{claim{"MultiLock", "members of other kinds", "Go <-> Java"}, multiOfKinds},
	{claim{"MultiLock", "release wakes the waiter", "Go -> Java"}, goMultiReleaseWakesJava},
	{claim{"MultiLock", "release wakes the waiter", "Java -> Go"}, javaMultiReleaseWakesGo},
	{claim{"MultiLock", "opposite order is no dead-lock", "Go <-> Java"}, multiContention},
	{claim{"MultiLock", "several locks in opposite orders: nobody waits for long", "Go <-> Java"}, oppositeOrders},
}

func TestMultiLock(t *testing.T)          { everywhere(t, multiTrials) }
func TestMultiLockInCluster(t *testing.T) { inCluster(t, multiTrials) }

// Two names of one slot, and one of another.
var multiNames = []string{"{m}:a", "{m}:b", "c"}

func goMulti(c *mortise.Client, names ...string) *mortise.MultiLock {
	var locks []mortise.Locker
	for _, name := range names {
		locks = append(locks, c.Lock(name))
	}
	return mortise.NewMultiLock(locks...)
}

// javaMulti is a MultiLock's name in the agent.
func javaMulti(names ...string) string { return strings.Join(names, ",") }

func (w *world) wantKeys(t testing.TB, want int64, names ...string) {
	t.Helper()
	var got int64
	for _, name := range names {
		got += w.serverOf(t, name).Int(t, "EXISTS", name)
	}
	if got != want {
		t.Errorf("%d of %q exist, want %d", got, names, want)
	}
}

func goMultiExcludesJava(t *testing.T, w *world) {
	c := w.client(t, shortLease)
	hold, _ := mustLock(t, goMulti(c, multiNames...))
	plain, multi := w.java.thread("plain"), w.java.thread("multi").of("multi")
	for _, name := range multiNames {
		if plain.tryLock(t, name, 0) {
			t.Errorf("Java got the member %s", name)
		}
		if multi.tryLock(t, javaMulti("d", name), 0) {
			t.Errorf("Java's MultiLock got the member %s", name)
		}
	}
	w.wantKeys(t, 0, "d")
	mustUnlock(t, hold)
	w.wantKeys(t, 0, multiNames...)
	if !multi.tryLock(t, javaMulti(multiNames...), 0) {
		t.Error("Java's MultiLock did not get what Go has released")
	}
	multi.unlock(t, javaMulti(multiNames...))
}

func javaMultiExcludesGo(t *testing.T, w *world) {
	c := w.client(t, shortLease)
	multi := w.java.thread("multi").of("multi")
	for _, lease := range []time.Duration{0, longLease} {
		multi.lock(t, javaMulti(multiNames...), lease)
		for _, name := range multiNames {
			if _, _, err := c.Lock(name).TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
				t.Errorf("TryLock of the member %s: %v, want ErrLocked", name, err)
			}
			_, _, err := goMulti(c, "d", name).TryLock(t.Context())
			var e *mortise.Error
			if !errors.Is(err, mortise.ErrLocked) || !errors.As(err, &e) || e.Name != name {
				t.Errorf("TryLock of d and %s: %v, want ErrLocked of the latter", name, err)
			}
		}
		w.wantKeys(t, 0, "d")
		multi.unlock(t, javaMulti(multiNames...))
		hold, _, err := goMulti(c, multiNames...).TryLock(t.Context())
		if err != nil {
			t.Fatalf("TryLock of what Java has released: %v", err)
		}
		mustUnlock(t, hold)
	}
}

func multiOfKinds(t *testing.T, w *world) {
	c := w.client(t, shortLease)
	locks := mortise.NewMultiLock(c.Lock("a"), c.FairLock("f"), c.RWLock("rw").Write(), c.RWLock("r2").Read())
	multi := w.java.thread("multi").of("multi")
	hold, _ := mustLock(t, locks)
	for _, member := range []string{"a", "fair:f", "write:rw", "read:rw", "write:r2"} {
		if multi.tryLock(t, javaMulti("d", member), 0) {
			t.Errorf("Java got the member %s", member)
		}
	}
	if !multi.tryLock(t, javaMulti("d", "read:r2"), 0) { // readers share
		t.Error("Java cannot read while Go reads")
	}
	multi.unlock(t, javaMulti("d", "read:r2"))
	mustUnlock(t, hold)
	all := javaMulti("a", "fair:f", "write:rw", "read:r2")
	multi.lock(t, all, 0)
	for _, member := range []mortise.Locker{c.Lock("a"), c.FairLock("f"), c.RWLock("rw").Read(), c.RWLock("r2").Write()} {
		if _, _, err := mortise.NewMultiLock(c.Lock("d"), member).TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("TryLock of the member %s: %v, want ErrLocked", member.Name(), err)
		}
	}
	multi.unlock(t, all)
	w.wantKeys(t, 0, "a", "f", "rw", "r2", "d")
}

func goMultiReleaseWakesJava(t *testing.T, w *world) {
	hold, _ := mustLock(t, goMulti(w.client(t, longLease), multiNames...))
	waiting := w.java.thread("multi").of("multi").waitFor(t, javaMulti(multiNames...), longLease)
	released := time.Now()
	mustUnlock(t, hold)
	w.inTime("Java", waiting.must(t).received.Sub(released))
	w.java.thread("multi").of("multi").unlock(t, javaMulti(multiNames...))
}

func javaMultiReleaseWakesGo(t *testing.T, w *world) {
	multi := w.java.thread("multi").of("multi")
	multi.lock(t, javaMulti(multiNames...), longLease)
	waiting := lockLater(t.Context(), goMulti(w.client(t, longLease), multiNames...))
	w.awaitListener(t, multiNames)
	released := time.Now()
	multi.unlock(t, javaMulti(multiNames...))
	got := mustGain(t, waiting)
	w.inTime("Go", got.at.Sub(released))
	mustUnlock(t, got.hold)
	w.wantKeys(t, 0, multiNames...)
}

// awaitListener waits until somebody listens to the release of one of the locks.
func (w *world) awaitListener(t testing.TB, names []string) {
	t.Helper()
	// Which one is taken first is none of the other side's business.
	first, _, _ := strings.Cut(goMulti(w.client(t, shortLease), names...).Name(), ", ")
	w.awaitWaiters(t, first, 1)
}

// multiContention has both sides add to one counter under the same locks, which
// they name in opposite orders.
func multiContention(t *testing.T, w *world) {
	const each = 20
	const counter = "{m}:counter"
	server := w.serverOf(t, counter)
	a, b, c := multiNames[0], multiNames[1], multiNames[2]
	javas := []*reply{
		w.java.thread("ascends").send("multi.contend", javaMulti(a, b), counter, strconv.Itoa(each)),
		w.java.thread("descends").send("multi.contend", javaMulti(c, b), counter, strconv.Itoa(each)),
	}
	var tally tally
	var gos sync.WaitGroup
	for _, names := range [][]string{{b, a}, {b, c}, {c, b, a}} {
		lock := goMulti(w.client(t, shortLease), names...)
		gos.Go(func() {
			if err := contend(t.Context(), lock, server.Addr(), counter, each, &tally); err != nil {
				t.Error(err)
			}
		})
	}
	gos.Wait()
	for _, r := range javas {
		r.must(t)
	}
	if got, want := server.Int(t, "GET", counter), int64(5*each); got != want {
		t.Errorf("counter = %d, want %d: two held the lock at once", got, want)
	}
	w.wantKeys(t, 0, multiNames...)
}

// oppositeOrders has two clients and two Java threads take the same two locks,
// which the sides name in opposite orders, and hold them for up to 20 ms. A Java
// thread keeps the lock that it has for three seconds while it waits for the other.
func oppositeOrders(t *testing.T, w *world) {
	const (
		each    = 60
		longest = 3 * time.Second
		counter = "{m}:counter"
	)
	server := w.serverOf(t, counter)
	server.Must(t, "DEL", counter)
	a, b := multiNames[0], multiNames[1]
	if first, _, _ := strings.Cut(goMulti(w.client(t, shortLease), a, b).Name(), ", "); first != a {
		a, b = b, a
	}
	var javas []*reply
	for i := range 2 {
		java := w.java.thread("opposite" + strconv.Itoa(i))
		javas = append(javas, java.send("multi.hold", javaMulti(b, a), counter, strconv.Itoa(each), "20"))
	}
	var waited [2]time.Duration
	var gos sync.WaitGroup
	for i := range waited {
		lock := goMulti(w.client(t, shortLease), a, b)
		gos.Go(func() {
			conn, err := redistest.Dial(server.Addr(), "", "")
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			for range each {
				asked := time.Now()
				hold, _, err := lock.Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				waited[i] = max(waited[i], time.Since(asked))
				if _, err := addOne(conn, counter); err != nil {
					t.Error(err)
				}
				time.Sleep(rand.N(20 * time.Millisecond))
				if err := hold.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	gos.Wait()
	inGo := slices.Max(waited[:])
	var inJava time.Duration
	for _, r := range javas {
		got := result[raced](t, r)
		inJava = max(inJava, time.Duration(got.LongestWaitMs*float64(time.Millisecond)))
	}
	w.bounds.Within("the longest wait in Go, for locks in opposite orders", inGo, longest)
	w.bounds.Within("the longest wait in Java, for locks in opposite orders", inJava, longest)
	if got, want := server.Int(t, "GET", counter), int64(4*each); got != want {
		t.Errorf("counter = %d, want %d: two held the locks at once", got, want)
	}
	w.wantKeys(t, 0, a, b)
}
