//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// In Redisson 3.16 and before, the id of a permit lies in Redis as text, and no
// later release knows those of before.
const rawIDs = "3.17.0"

// Several permits at once, and counting those that are out.
const manyPermits = "3.23.4"

var permitTrials = []trial{
	{claim{"PermitSemaphore", "permits are counted alike", "Go <-> Java"}, permitsCounted},
	{claim{"PermitSemaphore", "never more out than there are", "Go <-> Java"}, permitsExclude},
	{claim{"PermitSemaphore", "release wakes the waiter", "Go -> Java"}, goPermitWakesJava},
	{claim{"PermitSemaphore", "release wakes the waiter", "Java -> Go"}, javaPermitWakesGo},
	{claim{"PermitSemaphore", "several at once wake as many waiters", "Go -> Java"}, goPermitsWakeJavas},
	{claim{"PermitSemaphore", "waiter for several is woken", "Go -> Java"}, goPermitsWakeJavaForSeveral},
	{claim{"PermitSemaphore", "waiter for several is woken", "Java -> Go"}, javaPermitsWakeGoForSeveral},
	{claim{"PermitSemaphore", "several at once, all or none", "Go <-> Java"}, severalPermits},
	{claim{"PermitSemaphore", "more permits wake the waiter", "Go -> Java"}, goPermitsAddedWakeJava},
	{claim{"PermitSemaphore", "more permits wake the waiter", "Java -> Go"}, javaPermitsAddedWakeGo},
	{claim{"PermitSemaphore", "fewer permits than are out", "Go <-> Java"}, fewerPermits},
	{claim{"PermitSemaphore", "permit without end", "Java -> Go"}, endlessPermit},
	{claim{"PermitSemaphore", "watchdog outlasts the lease", "Go -> Java"}, goPermitOutlastsLease},
	{claim{"PermitSemaphore", "fixed lease ends by itself", "Go -> Java"}, goPermitEnds},
	{claim{"PermitSemaphore", "fixed lease ends by itself", "Java -> Go"}, javaPermitEnds},
	{claim{"PermitSemaphore", "killed holder: back at the lease's end", "Go -> Java"}, killedGoPermitHolder},
	{claim{"PermitSemaphore", "killed holder: back at the lease's end", "Java -> Go"}, killedJavaPermitHolder},
	{claim{"PermitSemaphore", "frozen holder: finds out when it wakes", "Go -> Java"}, frozenGoPermitHolder},
	{claim{"PermitSemaphore", "released by id", "Go releases Java's"}, goReleasesJavasPermit},
	{claim{"PermitSemaphore", "released by id, holder notices", "Java releases Go's"}, javaReleasesGosPermit},
	{claim{"PermitSemaphore", "lease changed by id", "Go <-> Java"}, permitLeaseChanged},
	{claim{"PermitSemaphore", "unusual names mean the same semaphore", "Go <-> Java"}, unusualPermitNames},
	{claim{"PermitSemaphore", "deleted", "Go <-> Java"}, permitsDeleted},
}

func TestPermitSemaphore(t *testing.T) { everywhere(t, permitTrials) }

// TestPermitSemaphoreInCluster tries what a cluster can change: whether messages
// arrive, and whether all keys lie in one slot.
func TestPermitSemaphoreInCluster(t *testing.T) {
	inCluster(t, slices.DeleteFunc(slices.Clone(permitTrials), func(c trial) bool {
		switch c.says {
		case "permits are counted alike", "never more out than there are", "release wakes the waiter",
			"several at once wake as many waiters", "waiter for several is woken", "several at once, all or none",
			"more permits wake the waiter", "released by id":
			return false
		}
		return true
	}))
}

// permitKind is a semaphore of one permit, as far as it is like a lock.
var permitKind = lockKind{
	object: "PermitSemaphore", java: "permits",
	channels: func(_ testing.TB, _ *world, name string) []string { return []string{"redisson_sc:" + braced(name)} },
	open: func(c *mortise.Client, name string, o mortise.LockOptions) taker {
		return permitTaker{c.PermitSemaphore(name).With(mortise.PermitOptions{TTL: o.TTL, MaxHold: o.MaxHold})}
	},
}

// permitTaker takes a permit as if it were a lock.
type permitTaker struct{ *mortise.PermitSemaphore }

func (k permitTaker) Lock(ctx context.Context) (*mortise.Hold, context.Context, error) {
	return k.Acquire(ctx)
}

func (k permitTaker) TryLock(ctx context.Context) (*mortise.Hold, context.Context, error) {
	return k.TryAcquire(ctx)
}

func (permitTaker) ForceUnlock(context.Context) (*mortise.Holder, error) {
	return nil, errors.New("a semaphore has no one holder")
}

func (permitTaker) Inspect(context.Context) (mortise.State, error) {
	return mortise.State{}, errors.New("not in use")
}

// permits returns both sides of a semaphore with n permits.
func (w *world) permits(t testing.TB, name string, n int) (*mortise.PermitSemaphore, *javaPermits) {
	t.Helper()
	sem := w.client(t, shortLease).PermitSemaphore(name)
	if err := sem.SetPermits(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return sem, &javaPermits{t, w.java.thread("main"), name}
}

// javaPermits is a semaphore as a Java thread uses it.
type javaPermits struct {
	t testing.TB
	*thread
	name string
}

// as returns the same semaphore for another thread.
func (j *javaPermits) as(thread string) *javaPermits {
	return &javaPermits{j.t, j.agent.thread(thread), j.name}
}

func (j *javaPermits) say(verb string, args ...any) *reply {
	words := []string{j.name}
	for _, a := range args {
		switch a := a.(type) {
		case []string:
			words = append(words, a...)
		case time.Duration:
			words = append(words, millis(a))
		default:
			words = append(words, fmt.Sprint(a))
		}
	}
	return j.send("permits."+verb, words...)
}

func (j *javaPermits) take(args ...any) []string {
	j.t.Helper()
	return result[[]string](j.t, j.say("acquire", args...))
}

// try returns no ids if there are not enough permits.
func (j *javaPermits) try(args ...any) []string {
	j.t.Helper()
	return result[[]string](j.t, j.say("tryAcquire", args...))
}

func (j *javaPermits) available() int {
	j.t.Helper()
	return result[int](j.t, j.say("available"))
}

// waits has the thread wait for permits, until it relies on being woken.
func (j *javaPermits) waits(args ...any) *reply {
	j.t.Helper()
	waiting := j.say("acquire", args...)
	j.awaitParked(j.t, waiting, j.name)
	return waiting
}

func takePermits(t testing.TB, sem *mortise.PermitSemaphore) (*mortise.Hold, context.Context) {
	t.Helper()
	return mustLock(t, permitTaker{sem})
}

// permitsAwaited has Go wait for permits that are out, until it relies on being
// woken.
func (w *world) permitsAwaited(t testing.TB, sem *mortise.PermitSemaphore) <-chan gained {
	t.Helper()
	if _, _, err := sem.TryAcquire(t.Context()); !errors.Is(err, mortise.ErrNoPermits) {
		t.Fatalf("TryAcquire: %v, want ErrNoPermits", err)
	}
	of := *w
	of.kind = permitKind
	before := w.scripts(t)
	waiting := lockLater(t.Context(), permitTaker{sem})
	of.awaitWaiters(t, sem.Name(), 1)
	w.awaitTries(t, before, 2)
	return waiting
}

// lastEnd returns when the last of the permits that are out ends.
func (w *world) lastEnd(t testing.TB, name string) time.Time {
	t.Helper()
	v := w.serverOf(t, name).Must(t, "ZRANGE", braced(name)+":timeout", "-1", "-1", "WITHSCORES").([]any)
	if len(v) != 2 {
		t.Fatalf("no permits of %s are out", name)
	}
	end, err := strconv.ParseInt(v[1].(string), 10, 64)
	if err != nil {
		t.Fatalf("the end of a permit is %q: %v", v[1], err)
	}
	return time.UnixMilli(end)
}

func permitsCounted(t *testing.T, w *world) {
	const name = "permits-counted"
	sem := w.client(t, shortLease).PermitSemaphore(name)
	java := &javaPermits{t, w.java.thread("main"), name}
	if !result[bool](t, java.say("trySetPermits", 7)) {
		t.Error("Java could not make a semaphore")
	}
	if ok, err := sem.TrySetPermits(t.Context(), 9); ok || err != nil {
		t.Errorf("Go could make it anew: %v, %v, want false", ok, err)
	}
	hold, _ := takePermits(t, sem.With(mortise.PermitOptions{Permits: 2}))
	ids := append(java.take(), java.take(1, longLease)...)
	want := func(available, out int) { t.Helper(); wantPermitCounts(t, w, sem, java, available, out) }
	want(3, 4)
	list, err := sem.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := append(slices.Clone(ids), hold.Permits()...)
	for _, p := range list {
		if !slices.Contains(out, p.ID) {
			t.Errorf("Go lists %+v, want one of %q", p, out)
		}
	}
	if len(list) != 4 || list[3].TTL != -1 || list[3].ID != ids[0] || list[2].ID != ids[1] || list[2].TTL > longLease {
		t.Errorf("Go lists %v; Java has %q, the first without end", list, ids)
	}
	mustUnlock(t, hold)
	want(5, 2)
	for _, id := range ids {
		java.say("release", id).must(t)
	}
	want(7, 0)
}

// wantPermitCounts checks what both sides count.
func wantPermitCounts(t *testing.T, w *world, sem *mortise.PermitSemaphore, java *javaPermits, available, out int) {
	t.Helper()
	a, err := sem.Available(t.Context())
	b, err2 := sem.Acquired(t.Context())
	all, err3 := sem.Permits(t.Context())
	if err := errors.Join(err, err2, err3); err != nil || a != available || b != out || all != a+b {
		t.Errorf("Go counts %d and %d of %d: %v, want %d and %d", a, b, all, err, available, out)
	}
	if got := java.available(); got != available {
		t.Errorf("Java counts %d available, want %d", got, available)
	}
	if atLeast(t, w.version, manyPermits) {
		if got := result[int](t, java.say("acquired")); got != out {
			t.Errorf("Java counts %d acquired, want %d", got, out)
		}
		if got := result[int](t, java.say("permits")); got != available+out {
			t.Errorf("Java counts %d permits, want %d", got, available+out)
		}
	}
}

func permitsExclude(t *testing.T, w *world) {
	sem, java := w.permits(t, "permits-exclude", 3)
	one, _ := takePermits(t, sem)
	two := java.take(1, longLease)
	three, _ := takePermits(t, sem)
	if got := java.try(); len(got) != 0 {
		t.Errorf("Java got %q, and there was none", got)
	}
	if _, _, err := sem.TryAcquire(t.Context()); !errors.Is(err, mortise.ErrNoPermits) {
		t.Errorf("Go: %v, want ErrNoPermits", err)
	}
	mustUnlock(t, one)
	four := java.try()
	if len(four) != 1 {
		t.Fatal("Java did not get what Go released")
	}
	java.say("release", two).must(t)
	five, _, err := sem.TryAcquire(t.Context())
	if err != nil {
		t.Fatalf("Go did not get what Java released: %v", err)
	}
	mustUnlock(t, three)
	mustUnlock(t, five)
	java.say("release", four).must(t)
	if got := java.available(); got != 3 {
		t.Errorf("%d are available in the end, want 3", got)
	}
}

func severalPermits(t *testing.T, w *world) {
	if w.lacks(t, manyPermits) {
		return
	}
	sem, java := w.permits(t, "permits-several", 5)
	hold, _ := takePermits(t, sem.With(mortise.PermitOptions{Permits: 3}))
	if got := java.try(3); len(got) != 0 {
		t.Errorf("Java got %q of 2", got)
	}
	ids := java.try(2)
	if len(ids) != 2 {
		t.Fatalf("Java got %q, want 2", ids)
	}
	mustUnlock(t, hold)
	if _, _, err := sem.With(mortise.PermitOptions{Permits: 4}).TryAcquire(t.Context()); !errors.Is(err, mortise.ErrNoPermits) {
		t.Errorf("Go got 4 of 3: %v", err)
	}
	java.say("release", ids).must(t)
	if got := java.available(); got != 5 {
		t.Errorf("%d are available in the end, want 5", got)
	}
}

// fewerPermits: nobody loses one, nobody gets one until enough are back, and
// what is released meanwhile does no harm to those of Java's that wait.
func fewerPermits(t *testing.T, w *world) {
	sem, java := w.permits(t, "permits-fewer", 3)
	hold, held := takePermits(t, sem.With(mortise.PermitOptions{Permits: 2, TTL: longLease, MaxHold: longLease}))
	id := java.take(1, longLease)
	if err := sem.AddPermits(t.Context(), -2); err != nil {
		t.Fatal(err)
	}
	if got := java.available(); got != -2 {
		t.Errorf("Java counts %d available, want -2", got)
	}
	waiting := java.as("waiter").waits(1, longLease)
	java.say("release", id).must(t)
	if held.Err() != nil {
		t.Errorf("Go's hold was lost: %v", context.Cause(held))
	}
	released := time.Now()
	mustUnlock(t, hold)
	w.inTime("Java", waiting.must(t).received.Sub(released))
	if got := java.available(); got != 0 {
		t.Errorf("Java counts %d available, want 0", got)
	}
}

// goReleasesJavasPermit: also those of old releases.
func goReleasesJavasPermit(t *testing.T, w *world) {
	sem, java := w.permits(t, "permits-id-java", 1)
	id := java.take(1, longLease)
	waiting := java.as("waiter").waits(1, longLease)
	released := time.Now()
	if n, err := sem.Release(t.Context(), id...); n != 1 || err != nil {
		t.Fatalf("Release: %d, %v, want 1", n, err)
	}
	w.inTime("Java", waiting.must(t).received.Sub(released))
	if result[bool](t, java.say("tryRelease", id)) {
		t.Error("Java released a permit that was released")
	}
	if got := java.available(); got != 0 {
		t.Errorf("Java counts %d available, want 0", got)
	}
}

func javaReleasesGosPermit(t *testing.T, w *world) {
	sem, java := w.permits(t, "permits-id-go", 3)
	hold, held := takePermits(t, sem.With(mortise.PermitOptions{Permits: 2}))
	released := result[bool](t, java.say("tryRelease", hold.Permits()[0]))
	if !atLeast(t, w.version, rawIDs) {
		if released {
			t.Errorf("Redisson %s released Go's permit, whose id it does not know", w.version)
		}
		if got := java.available(); got != 1 {
			t.Errorf("%d are available, want 1 as before", got)
		}
		mustUnlock(t, hold)
		w.lacks(t, rawIDs)
		return
	}
	if !released {
		t.Error("Java did not release Go's permit")
	}
	wantLost(t, hold, held)
	redistest.Eventually(t, "all permits are back", func() error {
		if got := java.available(); got != 3 {
			return fmt.Errorf("%d are available, want 3", got)
		}
		return nil
	})
}

func permitLeaseChanged(t *testing.T, w *world) {
	const name = "permits-lease"
	sem, java := w.permits(t, name, 1)
	id := java.take(1, shortLease)
	if ok, err := sem.UpdateLease(t.Context(), id[0], longLease); !ok || err != nil {
		t.Errorf("UpdateLease of Java's permit: %v, %v, want true", ok, err)
	}
	w.bounds.Within("what is gone of a lease that was changed just now", longLease-time.Until(w.lastEnd(t, name)), prompt)
	if atLeast(t, w.version, "3.41.0") {
		left := time.Duration(result[int64](t, java.say("getLeaseTime", id))) * time.Millisecond
		w.bounds.Within("what is gone of that lease, as Java says", longLease-left, prompt)
	}
	if ok, err := sem.UpdateLease(t.Context(), id[0], -1); !ok || err != nil {
		t.Errorf("UpdateLease without limit: %v, %v, want true", ok, err)
	}
	if got := java.try(); len(got) != 0 { // it reads the score of what is out
		t.Errorf("Java got %q, and there was none", got)
	}
	java.say("release", id).must(t)

	if w.lacks(t, rawIDs) {
		return
	}
	hold, _ := takePermits(t, sem)
	changed := time.Now()
	if !result[bool](t, java.say("updateLeaseTime", hold.Permits()[0], longLease)) {
		t.Error("Java could not change the lease of Go's permit")
	}
	awaitRenewals(t, hold, 0)
	if lasts := w.lastEnd(t, name).Sub(changed); lasts < longLease-prompt {
		t.Errorf("Go's permit ends %v after the change, want %v: a renewal has cut it", lasts, longLease)
	}
	mustUnlock(t, hold)
}

func unusualPermitNames(t *testing.T, w *world) {
	for _, name := range []string{"permits{a}b", "{permits}:x", "permits:ünï-cödé", "permits{a}{b}"} {
		sem, java := w.permits(t, name, 2)
		hold, _ := takePermits(t, sem)
		id := java.take(1, longLease)
		if got := java.try(); len(got) != 0 {
			t.Errorf("%s: Java got %q, and there was none", name, got)
		}
		waiting := w.permitsAwaited(t, sem)
		java.say("release", id).must(t)
		mustUnlock(t, mustGain(t, waiting).hold)
		mustUnlock(t, hold)
		if got := java.available(); got != 2 {
			t.Errorf("%s: %d are available in the end, want 2", name, got)
		}
	}
}

func permitsDeleted(t *testing.T, w *world) {
	sem, java := w.permits(t, "permits-deleted", 2)
	id := java.take(1, longLease)
	if ok, err := sem.Delete(t.Context()); !ok || err != nil {
		t.Errorf("Delete: %v, %v, want true", ok, err)
	}
	if result[bool](t, java.say("tryRelease", id)) || java.available() != 0 {
		t.Error("Java still has a permit of what was deleted")
	}
	if !result[bool](t, java.say("trySetPermits", 1)) {
		t.Error("Java could not make it anew")
	}
	hold, held := takePermits(t, sem)
	if !result[bool](t, java.say("delete")) {
		t.Error("Java could not delete it")
	}
	wantLost(t, hold, held)
	if n, err := sem.Permits(t.Context()); n != 0 || err != nil {
		t.Errorf("there are %d permits, %v, want 0", n, err)
	}
}
