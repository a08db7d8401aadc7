//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

var seenTrials = []trial{
	{claim{"Lock", "holder has no process, Go's has", "Java -> Go"}, holdersAreNamed},
	{claim{"Lock", "clients that wait are counted, Go's are named", "Java -> Go"}, waitersAreCounted},
	{claim{"RWLock", "clients that wait to write are counted, Go's are named", "Java -> Go"}, writersAreCounted},
	{claim{"FairLock", "queue is shown in order, Go's waiters are named", "Java -> Go"}, fairWaitersAreShown},
	{claim{"Lock", "records and histories disturb nothing", "Go -> Java"}, recordsDisturbNothing},
}

func TestSeen(t *testing.T) { everywhere(t, seenTrials) }

func TestSeenInCluster(t *testing.T) { inCluster(t, seenTrials) }

// awaitProcess waits until it is known that a process of ours holds the lock, and returns the holder.
func awaitProcess(t testing.TB, c *mortise.Client, name string) (h mortise.Holder) {
	t.Helper()
	redistest.Eventually(t, "the process that holds "+name, func() error {
		state, err := c.Inspect(t.Context(), name)
		if err != nil {
			return err
		}
		if len(state.Holders) != 1 || state.Holders[0].Client == nil {
			return fmt.Errorf("the holders are %v", state.Holders)
		}
		h = state.Holders[0]
		return nil
	})
	return h
}

func holdersAreNamed(t *testing.T, w *world) {
	const name, ours = "seen:java", "seen:go"
	holder, reader := w.client(t, longLease), w.client(t, longLease)
	java := w.thread("holder")
	java.lock(t, name, 0)
	hold, _ := mustLock(t, w.lock(holder, ours))

	h := awaitProcess(t, reader, ours)
	if h.Owner != hold.Owner() || h.Client.PID != os.Getpid() || h.Since.IsZero() {
		t.Errorf("the holder of Go's lock is %+v, %+v, want this process", h, h.Client)
	}
	if state := java.state(t, ours); !state.Locked || state.Mine {
		t.Errorf("Java sees %+v, want a lock of another owner", state)
	}
	wantNoProcess(t, w, reader, name, java.owner(t))
	java.unlock(t, name)
	mustUnlock(t, hold)
}

// wantNoProcess checks what is known of a lock that a Java thread holds.
func wantNoProcess(t testing.TB, w *world, reader *mortise.Client, name, owner string) {
	t.Helper()
	state, err := reader.Inspect(t.Context(), name)
	if err != nil || len(state.Holders) != 1 || state.Holders[0] != (mortise.Holder{Owner: owner, Count: 1}) || !state.Now.IsZero() {
		t.Errorf("Inspect of Java's lock = %+v, %v, want its owner and no process", state, err)
	}
	_, _, err = w.lock(reader, name).TryLock(t.Context())
	var held *mortise.HeldError
	if !errors.As(err, &held) || held.Owner != owner || held.Client != nil {
		t.Errorf("TryLock of Java's lock: %v, want its owner and no process", err)
	}
	if asked, err := reader.Ask(t.Context(), name, "please"); err != nil || len(asked) != 1 || asked[0].Asked {
		t.Errorf("Ask = %+v, %v, want that Java's thread cannot be asked", asked, err)
	}
}

// wantQueue waits until a name has that many listeners of Redisson's, and those waiters of ours.
func wantQueue(t testing.TB, c *mortise.Client, name string, listeners, ours int) (q mortise.Queue) {
	t.Helper()
	redistest.Eventually(t, fmt.Sprintf("%d listeners and %d waiters for %s", listeners, ours, name), func() (err error) {
		if q, err = c.Queue(t.Context(), name); err != nil {
			return err
		}
		named := 0
		for _, waiter := range q.Waiters {
			if waiter.Client != nil && waiter.Client.PID == os.Getpid() && !waiter.Since.IsZero() {
				named++
			}
		}
		if q.Listeners != listeners || named != ours {
			return fmt.Errorf("there are %d listeners, and the waiters %+v", q.Listeners, q.Waiters)
		}
		return nil
	})
	return q
}

func waitersAreCounted(t *testing.T, w *world) {
	const name = "seen:waiters"
	holder, first, second := w.client(t, longLease), w.client(t, longLease), w.client(t, longLease)
	hold, _ := mustLock(t, w.lock(holder, name))
	if q := wantQueue(t, holder, name, 0, 0); len(q.Waiters) != 0 {
		t.Errorf("nobody waits, and the waiters are %+v", q.Waiters)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiting := []<-chan gained{lockLater(ctx, w.lock(first, name)), lockLater(ctx, w.lock(second, name))}
	wantQueue(t, holder, name, 0, 2)

	threads := []*thread{w.thread("one"), w.thread("two")} // of one client
	replies := []*reply{threads[0].waitFor(t, name, 0), threads[1].waitFor(t, name, 0)}
	if q := wantQueue(t, holder, name, 1, 2); len(q.Waiters) != 2 {
		t.Errorf("the waiters are %+v, want the two of Go", q.Waiters)
	}
	cancel()
	for _, one := range waiting {
		if got := <-one; !errors.Is(got.err, context.Canceled) {
			t.Errorf("Lock = %v, want Canceled", got.err)
		}
	}
	wantQueue(t, holder, name, 1, 0)
	mustUnlock(t, hold)
	redistest.Eventually(t, "a Java thread has the lock", func() error {
		for i, r := range replies {
			if r != nil && r.answered() {
				r.must(t)
				threads[i].unlock(t, name)
				replies[i] = nil
			}
		}
		if replies[0] != nil || replies[1] != nil {
			return errors.New("not both had it")
		}
		return nil
	})
	wantQueue(t, holder, name, 0, 0)
}

func writersAreCounted(t *testing.T, w *world) {
	const name = "seen:writers"
	holder, other := w.client(t, longLease), w.client(t, longLease)
	hold, _, err := holder.RWLock(name).Write().Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiting := lockLater(ctx, other.RWLock(name).Read())
	java := w.java.thread("writer").of("write")
	reply := java.waitFor(t, name, 0)
	wantQueue(t, holder, name, 1, 1)
	cancel()
	if got := <-waiting; !errors.Is(got.err, context.Canceled) {
		t.Errorf("Lock = %v, want Canceled", got.err)
	}
	mustUnlock(t, hold)
	reply.must(t)
	java.unlock(t, name)
}

func fairWaitersAreShown(t *testing.T, w *world) {
	const name = "seen:fair"
	other := *w
	other.kind = lockKinds["FairLock"]
	w = &other
	holder, waiter := w.client(t, longLease), w.client(t, longLease)
	gate, _ := mustLock(t, w.lock(holder, name))
	var line []fairWaiter
	for place := range 4 {
		if place%2 == 0 {
			line = append(line, w.joinJava(t, w.java, fmt.Sprint("java", place), name, place))
		} else {
			one, _ := w.joinGo(t, t.Context(), w.lock(waiter, name), place)
			line = append(line, one)
		}
	}
	q := wantQueue(t, holder, name, 0, 2)
	var owners []string
	for i, one := range q.Waiters {
		owners = append(owners, one.Owner)
		if java := i%2 == 0; java != (one.Client == nil) {
			t.Errorf("waiter %d is of the process %v", i, one.Client)
		}
	}
	if want := w.fairQueue(t, name); !slices.Equal(owners, want) {
		t.Errorf("the waiters are %v, want %v", owners, want)
	}
	mustUnlock(t, gate)
	inTurn(t, line)
}

// recordsDisturbNothing: mortise keeps keys of its own next to those of the locks, and Java goes through all keys.
func recordsDisturbNothing(t *testing.T, w *world) {
	const name = "seen:records"
	c, closeAll, err := openClient(w.transport, w.nodes[0].Addr(), w.cluster != nil, mortise.Options{TTL: longLease, History: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := closeAll(); err != nil {
			t.Error(err)
		}
	}()
	first, _ := mustLock(t, w.lock(c, name))
	mustUnlock(t, first)
	hold, _ := mustLock(t, w.lock(c, name))
	awaitProcess(t, c, name)
	redistest.Eventually(t, "the history of "+name, func() error {
		if list, err := c.History(t.Context(), name, 5); err != nil || len(list) != 1 {
			return fmt.Errorf("it is %v, %v", list, fmt.Sprint(err))
		}
		return nil
	})

	java := w.thread("keeper")
	id, _, _ := strings.Cut(hold.Owner(), ":")
	ours := []string{"mortise:client:{" + id + "}", "mortise:clients:{all}", "mortise:history:{" + name + "}"}
	if got := result[[]string](t, java.send("keys", name+"*")); !slices.Equal(got, []string{name}) {
		t.Errorf("Java's keys of the locks are %q, want the lock alone", got)
	}
	for _, key := range ours {
		if got := result[[]string](t, java.send("keys", key)); !slices.Equal(got, []string{key}) {
			t.Errorf("Java finds %q, want %s", got, key)
		}
	}
	if java.tryLock(t, name, 0) {
		t.Error("Java has the lock that Go holds")
	}
	// Somebody tidies up: what is told is gone, and the lock is not.
	java.send("keys.delete", "mortise:*").must(t)
	redistest.Eventually(t, "Java has deleted the history", func() error {
		if list, err := c.History(t.Context(), name, 5); err != nil || len(list) > 0 {
			return fmt.Errorf("it is %v, %v", list, fmt.Sprint(err))
		}
		return nil
	})
	if java.tryLock(t, name, 0) {
		t.Error("Java has the lock that Go holds, whose record it deleted")
	}
	second, _ := mustLock(t, w.lock(c, name+":2")) // then there is something new to tell
	awaitProcess(t, c, name)
	mustUnlock(t, second)
	mustUnlock(t, hold)
	java.lock(t, name, 0)
	java.unlock(t, name)
}
