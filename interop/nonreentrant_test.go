//go:build interop

package interop

import (
	"errors"
	"testing"

	"github.com/mortise-go/mortise"
)

// The non-reentrant kinds have the trials of the others, but for counts above 1:
// nobody can take one twice.
var nonReentrantKinds = []lockKind{
	{
		object: "Lock, NonReentrant", java: "nonreentrant", since: "4.4.0", channels: lockChannels,
		open: func(c *mortise.Client, name string, o mortise.LockOptions) taker {
			o.NonReentrant = true
			return c.Lock(name).With(o)
		},
	},
	{
		object: "FairLock, NonReentrant", java: "nonreentrantfair", since: "4.4.0", lenient: true, channels: fairChannels,
		open: func(c *mortise.Client, name string, o mortise.LockOptions) taker {
			o.NonReentrant = true
			return c.FairLock(name).With(o)
		},
	},
}

func TestNonReentrant(t *testing.T) {
	t.Parallel()
	for _, version := range redissons(t) {
		for _, kind := range nonReentrantKinds {
			t.Run(version+"/"+kind.java, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, version, "rueidis")
				w.kind = kind
				trials := []trial{
					{claim{kind.object, "excludes", "Go <-> Java"}, exclusion},
					{claim{kind.object, "re-entry is refused", "Java, Go sees it"}, javaReentryIsRefused},
					{claim{kind.object, "re-entry is refused", "Go, Java sees it"}, goReentryIsRefused},
					{claim{kind.object, "release wakes the waiter", "Go -> Java"}, goReleaseWakesJava},
					{claim{kind.object, "release wakes the waiter", "Java -> Go"}, javaReleaseWakesGo},
					{claim{kind.object, "unlock by a stranger is refused", "Go -> Java"}, javaCannotUnlockGo},
					{claim{kind.object, "unlock by a stranger is refused", "Java -> Go"}, goCannotUnlockJava},
					{claim{kind.object, "watchdog outlasts the lease", "Go -> Java"}, goWatchdogOutlastsLease},
					{claim{kind.object, "watchdog outlasts the lease", "Java -> Go"}, javaWatchdogOutlastsLease},
					{claim{kind.object, "fixed lease ends by itself", "Go -> Java"}, goFixedLeaseEnds},
					{claim{kind.object, "fixed lease ends by itself", "Java -> Go"}, javaFixedLeaseEnds},
				}
				run(t, w, since(kind.since, trials))
			})
		}
	}
}

func TestNonReentrantInCluster(t *testing.T) {
	for _, kind := range nonReentrantKinds {
		t.Run(kind.java, func(t *testing.T) {
			with := func(prove func(*testing.T, *world)) func(*testing.T, *world) {
				return func(t *testing.T, w *world) {
					w.kind = kind
					prove(t, w)
				}
			}
			inCluster(t, []trial{
				{claim{kind.object, "excludes", "Go <-> Java"}, with(exclusion)},
				{claim{kind.object, "release wakes the waiter", "Go -> Java"}, with(goReleaseWakesJava)},
				{claim{kind.object, "release wakes the waiter", "Java -> Go"}, with(javaReleaseWakesGo)},
			})
		})
	}
}

func javaReentryIsRefused(t *testing.T, w *world) {
	const name = "reentry:java"
	java := w.thread("holder")
	java.lock(t, name, 0)
	for _, verb := range []string{"lock", "tryLock"} {
		var thrown *javaError
		err := java.send(java.verb(verb), name).wait(t.Context()).err
		if !errors.As(err, &thrown) || thrown.Class != illegalMonitorState {
			t.Errorf("%s of what the thread holds: %v, want %s", verb, err, illegalMonitorState)
		}
	}
	wantInspected(t, w.lock(w.client(t, shortLease), name), mortise.Holder{Owner: java.owner(t), Count: 1})
	java.unlock(t, name)
	hold, _ := mustLock(t, w.lock(w.client(t, shortLease), name)) // one unlock was enough
	mustUnlock(t, hold)
}

func goReentryIsRefused(t *testing.T, w *world) {
	const name = "reentry:go"
	lock, java := w.lock(w.client(t, shortLease), name), w.thread("reader")
	hold, held := mustLock(t, lock)
	_, _, err := lock.Lock(held)
	_, _, terr := lock.TryLock(held)
	if !errors.Is(err, mortise.ErrReentry) || !errors.Is(terr, mortise.ErrReentry) {
		t.Errorf("Lock and TryLock of what the owner holds: %v, %v, want ErrReentry", err, terr)
	}
	wantLockedByOther(t, java.state(t, name))
	if got := w.count(t, name, hold.Owner()); got != 1 {
		t.Errorf("the count is %d, want 1", got)
	}
	mustUnlock(t, hold)
	if !java.tryLock(t, name, 0) {
		t.Error("one unlock was not enough")
	}
	java.unlock(t, name)
}
