//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

var groupTrials = []trial{
	{claim{"GroupLock", "values have the same fields", "Go <-> Java"}, groupFields},
	{claim{"GroupLock", "excludes where values overlap", "Go <-> Java"}, groupExclusion},
	{claim{"GroupLock", "values that do not overlap are free", "Go <-> Java"}, groupOverlap},
	{claim{"GroupLock", "release wakes all waiters", "Go -> Java"}, goGroupReleaseWakes},
	{claim{"GroupLock", "release wakes all waiters", "Java -> Go"}, javaGroupReleaseWakes},
	{claim{"GroupLock", "re-entry is counted", "Go <-> Java"}, groupReentry},
	{claim{"GroupLock", "watchdog outlasts the lease", "Go -> Java"}, goGroupOutlasts},
	{claim{"GroupLock", "watchdog outlasts the lease", "Java -> Go"}, javaGroupOutlasts},
	{claim{"GroupLock", "dead holder: free at the lease's end", "Go -> Java"}, deadGoGroup},
	{claim{"GroupLock", "dead holder: free at the lease's end", "Java -> Go"}, deadJavaGroup},
	{claim{"GroupLock", "after a dead holder one has it at a time", "Go -> both"}, func(t *testing.T, w *world) { deadThenOne(t, w, false) }},
	{claim{"GroupLock", "after a dead holder one has it at a time", "Java -> both"}, func(t *testing.T, w *world) { deadThenOne(t, w, true) }},
	{claim{"GroupLock", "forced: waiter wakes, holder notices", "Go forces Java"}, goForcesJavaGroup},
	{claim{"GroupLock", "forced: waiter wakes, holder notices", "Java forces Go"}, javaForcesGoGroup},
	{claim{"GroupLock", "count of an expired holder is not inherited", "Java -> Go -> Java"}, expiredJavaGroup},
}

func TestGroupLock(t *testing.T) { everywhere(t, since("3.38.0", groupTrials)) }

// A Java client with another codec has the values that the codec writes.
func TestGroupLockOfBytes(t *testing.T) {
	version := redissons(t)[0]
	server := redistest.Single(t)
	w := &world{version: version, transport: "goredis", kind: lockKinds["Lock"], nodes: []*redistest.Server{server}}
	if w.lacks(t, "3.38.0") {
		t.Fatalf("Redisson %s, the newest, has no groups", version)
	}
	w.java = startAgent(t, version, agentOptions{Address: server.Addr(), Watchdog: longLease, Codec: "string"})
	values := []string{"a", "order:42", "ключ", strings.Repeat("x", 100)}
	java, client := w.groupThread("holder"), w.client(t, longLease)
	java.lock(t, groupOf("bytes:java", values...), longLease)
	var bytes [][]byte
	for _, value := range values {
		bytes = append(bytes, []byte(value))
	}
	hold, _ := mustGroup(t, client.GroupLockBytes("bytes:go", bytes...))
	if inJava, inGo := w.fieldsOf(t, "bytes:java"), w.fieldsOf(t, "bytes:go"); !slices.Equal(inJava, inGo) || len(inGo) != len(values) {
		t.Errorf("Java writes the fields %q, Go %q", inJava, inGo)
	}
	if _, _, err := client.GroupLockBytes("bytes:java", bytes[2]).TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
		t.Errorf("TryLock of a value that Java holds: %v, want ErrLocked", err)
	}
	if free, _, err := client.GroupLock("bytes:java", values[2]).TryLock(t.Context()); err != nil {
		t.Errorf("TryLock of the text, which is another value: %v", err)
	} else {
		mustUnlock(t, free)
	}
	mustUnlock(t, hold)
	java.unlock(t, groupOf("bytes:java", values...))
}

func TestGroupLockInCluster(t *testing.T) { inCluster(t, groupTrials) }

// groupOf names some values of a group for the agent.
func groupOf(name string, values ...string) string { return name + " " + strings.Join(values, ",") }

func (w *world) groupThread(name string) *thread { return w.java.thread(name).of("group") }

// fieldsOf returns the fields of a group that have a holder.
func (w *world) fieldsOf(t testing.TB, name string) (fields []string) {
	t.Helper()
	for _, key := range w.serverOf(t, name).Must(t, "HKEYS", name).([]any) {
		if field := key.(string); !strings.Contains(field, ":") {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	return fields
}

// groupFields has both sides take the same values of different groups, and
// compares what they wrote.
func groupFields(t *testing.T, w *world) {
	var values []string
	for i := range 100 {
		values = append(values, strings.Repeat("x", i), fmt.Sprint("order:", i*i*i), fmt.Sprintf("%c", 'ÿ'+i*97), fmt.Sprintf("%c%c", '가'+i*31, '🌀'+i))
	}
	values = append(values, "ключ", "鍵", "a/b?c=d&e", "{braces}", `quo"te`, "back\\slash", "Ünïcödé", "0", "-1")
	java, client := w.groupThread("holder"), w.client(t, longLease)
	java.lock(t, groupOf("fields:java", values...), longLease) // the empty one is among them
	hold, _ := mustGroup(t, client.GroupLock("fields:go", values...))
	inJava, inGo := w.fieldsOf(t, "fields:java"), w.fieldsOf(t, "fields:go")
	if !slices.Equal(inJava, inGo) {
		t.Errorf("Java writes %d fields, Go %d, and they differ", len(inJava), len(inGo))
	}
	if distinct := len(slices.Compact(slices.Sorted(slices.Values(values)))); len(inGo) != distinct {
		t.Errorf("there are %d fields for %d values", len(inGo), distinct)
	}
	mustUnlock(t, hold)
	for _, i := range []int{0, 1, 2, 3, 100, len(values) - 5} { // each by itself
		if _, _, err := client.GroupLock("fields:java", values[i]).TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("TryLock of %q, which Java holds: %v, want ErrLocked", values[i], err)
		}
	}
	java.unlock(t, groupOf("fields:java", values...))
}

// mustGroup takes the lock or fails the test.
func mustGroup(t testing.TB, lock *mortise.GroupLock) (*mortise.Hold, context.Context) {
	t.Helper()
	got := mustGain(t, groupLater(t, lock))
	return got.hold, got.ctx
}

// groupLater starts to wait for the lock.
func groupLater(t testing.TB, lock *mortise.GroupLock) <-chan gained {
	outcome := make(chan gained, 1)
	go func() {
		hold, ctx, err := lock.Lock(t.Context())
		outcome <- gained{hold, ctx, err, time.Now()}
	}()
	return outcome
}

// groupExclusion: each side takes a part of the values, and each part overlaps
// with the next.
func groupExclusion(t *testing.T, w *world) {
	const name, counter, each = "group:excludes", "group:counter", 40
	server := w.serverOf(t, counter)
	server.Must(t, "DEL", counter)
	gate, _ := mustGroup(t, w.client(t, longLease).GroupLock(name, "m"))
	var javas []*reply
	for i := range 3 {
		values := groupOf(name, "m", "java"+strconv.Itoa(i))
		javas = append(javas, w.groupThread("contender"+strconv.Itoa(i)).send("group.contend", values, counter, strconv.Itoa(each), millis(longLease)))
	}
	var tally tally
	var gos sync.WaitGroup
	for i := range 3 {
		lock := w.client(t, longLease).GroupLock(name, "go"+strconv.Itoa(i), "m")
		gos.Go(func() {
			if err := contend(t.Context(), forceless{lock}, server.Addr(), counter, each, &tally); err != nil {
				t.Error(err)
			}
		})
	}
	w.awaitListeners(t, name, 1+3)
	mustUnlock(t, gate)
	gos.Wait()
	for _, r := range javas {
		r.must(t)
	}
	if got := server.Int(t, "GET", counter); got != 6*each {
		t.Errorf("the counter is %d, want %d: two held the value at once", got, 6*each)
	}
	if left := server.Int(t, "EXISTS", name); w.cluster == nil && left != 0 {
		t.Error("the group is left behind")
	}
}

// forceless is a GroupLock where any kind of lock is wanted.
type forceless struct{ *mortise.GroupLock }

func (f forceless) ForceUnlock(ctx context.Context) (*mortise.Holder, error) {
	_, err := f.GroupLock.ForceUnlock(ctx)
	return nil, err
}

// awaitListeners waits until n clients listen for releases of the group.
func (w *world) awaitListeners(t testing.TB, name string, n int64) {
	t.Helper()
	kind := w.kind
	w.kind = lockKind{channels: lockChannels}
	defer func() { w.kind = kind }()
	w.awaitWaiters(t, name, n)
}

func groupOverlap(t *testing.T, w *world) {
	const name = "group:overlap"
	client, java := w.client(t, shortLease), w.groupThread("holder")
	hold, _ := mustGroup(t, client.GroupLock(name, "a", "b"))
	for values, free := range map[string]bool{"a": false, "b,c": false, "c": true, "c,d": true, "c,d,a": false} {
		if got := result[bool](t, java.send("group.tryLock", name, values)); got != free {
			t.Errorf("Go holds a and b; Java's tryLock of %s is %v, want %v", values, got, free)
		} else if got {
			java.unlock(t, name+" "+values)
		}
		if got := result[bool](t, java.send("group.isLocked", name, values)); got == free {
			t.Errorf("Go holds a and b; Java's isLocked of %s is %v", values, got)
		}
	}
	java.lock(t, groupOf(name, "c", "d"), 0)
	for values, free := range map[string]bool{"c": false, "d,e": false, "e": true, "e,f": true} {
		got, _, err := client.GroupLock(name, strings.Split(values, ",")...).TryLock(t.Context())
		if free != (err == nil) || err != nil && !errors.Is(err, mortise.ErrLocked) {
			t.Errorf("Java holds c and d; Go's TryLock of %s: %v", values, err)
		} else if err == nil {
			mustUnlock(t, got)
		}
	}
	state, err := client.GroupLock(name, "b", "c", "d", "e").Inspect(t.Context())
	if err != nil || len(state.Holders) != 2 {
		t.Fatalf("Inspect = %+v, %v, want two holders", state, err)
	}
	for _, h := range state.Holders {
		if want := map[string]int{hold.Owner(): 1, java.owner(t): 2}[h.Owner]; h.Count != want {
			t.Errorf("Inspect says %+v, want %d values", h, want)
		}
	}
	java.unlock(t, groupOf(name, "c", "d"))
	mustUnlock(t, hold)
}

func goGroupReleaseWakes(t *testing.T, w *world) {
	client := w.client(t, shortLease)
	var took []time.Duration
	for i := range rounds {
		name := fmt.Sprint("group:go-java:", i)
		hold, _ := mustGroup(t, client.GroupLock(name, "a", "b").With(mortise.LockOptions{TTL: longLease, MaxHold: longLease}))
		var waiting []*reply
		for _, value := range []string{"a", "b"} {
			waiting = append(waiting, w.groupThread("waiter-"+value).waitFor(t, groupOf(name, value), longLease))
		}
		released := time.Now()
		mustUnlock(t, hold)
		for i, value := range []string{"a", "b"} {
			took = append(took, waiting[i].must(t).received.Sub(released))
			w.inTime(name, took[len(took)-1])
			w.groupThread("waiter-"+value).unlock(t, groupOf(name, value))
		}
	}
	w.wantPrompt(t, took)
}

func javaGroupReleaseWakes(t *testing.T, w *world) {
	client, java := w.client(t, shortLease), w.groupThread("holder")
	var took []time.Duration
	for i := range rounds {
		name := fmt.Sprint("group:java-go:", i)
		java.lock(t, groupOf(name, "a", "b"), longLease)
		// The first use of a script may take two calls; let that be this one.
		if _, _, err := client.GroupLock(name, "a").TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
			t.Fatalf("TryLock of what Java holds: %v, want ErrLocked", err)
		}
		before := w.scripts(t)
		var waiting []<-chan gained
		for _, value := range []string{"a", "b"} {
			waiting = append(waiting, groupLater(t, w.client(t, shortLease).GroupLock(name, value)))
		}
		w.awaitListeners(t, name, 2)
		w.awaitTries(t, before, 4) // each has looked once more since it listens
		released := time.Now()
		java.unlock(t, groupOf(name, "a", "b"))
		for _, g := range waiting {
			got := mustGain(t, g)
			mustUnlock(t, got.hold)
			took = append(took, got.at.Sub(released))
			w.inTime(name, took[len(took)-1])
		}
	}
	w.wantPrompt(t, took)
}

func groupReentry(t *testing.T, w *world) {
	const name = "group:reentry"
	lock, java := w.client(t, shortLease).GroupLock(name, "a", "b"), w.groupThread("other")
	outer, held := mustGroup(t, lock)
	inner, _, err := lock.Lock(held)
	if err != nil {
		t.Fatal(err)
	}
	mustUnlock(t, inner)
	if java.tryLock(t, groupOf(name, "b"), 0) {
		t.Error("Java has what Go still holds")
	}
	mustUnlock(t, outer)
	java.lock(t, groupOf(name, "a", "b"), 0)
	java.lock(t, groupOf(name, "a", "b"), 0)
	java.unlock(t, groupOf(name, "a", "b"))
	if _, _, err := lock.TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
		t.Errorf("TryLock of what Java still holds: %v, want ErrLocked", err)
	}
	java.unlock(t, groupOf(name, "a", "b"))
	again, _ := mustGroup(t, lock)
	mustUnlock(t, again)
	wantGone(t, w, name)
}

// wantGone checks that nothing is left of a group.
func wantGone(t testing.TB, w *world, name string) {
	t.Helper()
	if left := w.serverOf(t, name).Must(t, "HGETALL", name); len(left.([]any)) != 0 {
		t.Errorf("the hash is %v, want none", left)
	}
}

func goGroupOutlasts(t *testing.T, w *world) {
	const name = "group:watchdog:go"
	hold, held := mustGroup(t, w.client(t, shortLease).GroupLock(name, "a", "b"))
	if w.groupThread("waiter").tryLock(t, groupOf(name, "b", "c"), pastLease) {
		t.Error("Java got what Go's watchdog keeps")
	}
	if held.Err() != nil {
		t.Errorf("the holder's context ended: %v", context.Cause(held))
	}
	mustUnlock(t, hold)
}

func javaGroupOutlasts(t *testing.T, w *world) {
	const name = "group:watchdog:java"
	java := w.groupThread("holder")
	java.lock(t, groupOf(name, "a", "b"), 0)
	ctx, cancel := context.WithTimeout(t.Context(), pastLease)
	defer cancel()
	_, _, err := w.client(t, shortLease).GroupLock(name, "b", "c").Lock(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mortise.ErrLocked) {
		t.Errorf("Lock of what Java's watchdog keeps: %v, want DeadlineExceeded and ErrLocked", err)
	}
	java.unlock(t, groupOf(name, "a", "b"))
}

// deadGoGroup: a client that was closed leaves its lock as one that was killed.
func deadGoGroup(t *testing.T, w *world) {
	const name = "group:dead:go"
	keeper, _ := mustGroup(t, w.client(t, longLease).GroupLock(name, "z")) // keeps the key alive
	client, closeAll, err := openClient(w.transport, w.nodes[0].Addr(), w.cluster != nil, mortise.Options{TTL: shortLease, PubSub: w.pubsub})
	if err != nil {
		t.Fatal(err)
	}
	mustGroup(t, client.GroupLock(name, "a", "b"))
	died := time.Now()
	if err := closeAll(); err != nil {
		t.Fatal(err)
	}
	java := w.groupThread("waiter")
	got := java.lockLater(groupOf(name, "b"), 0).must(t).received
	w.wantAfterLease(t, "Java", died, got)
	java.unlock(t, groupOf(name, "b"))
	mustUnlock(t, keeper)
}

func deadJavaGroup(t *testing.T, w *world) {
	const name = "group:dead:java"
	keeper, _ := mustGroup(t, w.client(t, longLease).GroupLock(name, "z"))
	dead := w.startAgent(t)
	dead.thread("holder").of("group").lock(t, groupOf(name, "a", "b"), 0)
	died := time.Now()
	dead.kill()
	got := mustGain(t, groupLater(t, w.client(t, shortLease).GroupLock(name, "b")))
	w.wantAfterLease(t, "Go", died, got.at)
	mustUnlock(t, got.hold)
	mustUnlock(t, keeper)
}

// deadThenOne has a holder die of each of many groups, for which both sides wait.
// The side that gets it at the end of the dead one's lease must have it alone: Redisson
// takes values in a key that is about to go.
func deadThenOne(t *testing.T, w *world, javaDies bool) {
	const groups, lease = 20, 500 * time.Millisecond
	dead, waiter, third := w.client(t, longLease), w.client(t, longLease), w.client(t, longLease)
	var rounds sync.WaitGroup
	for i := range groups {
		name := fmt.Sprintf("group:dead:%v:%d", javaDies, i)
		value, lock := groupOf(name, "a"), waiter.GroupLock(name, "a")
		java := w.groupThread(fmt.Sprint("heir", i))
		if javaDies {
			w.groupThread("dead").lock(t, value, lease)
		} else {
			mustGroup(t, dead.GroupLock(name, "a").With(mortise.LockOptions{MaxHold: lease}))
		}
		inJava, inGo := java.lockLater(value, 0), groupLater(t, lock)
		rounds.Go(func() { wantOneHolder(t, name, third, java, inJava, inGo) })
	}
	rounds.Wait()
}

// wantOneHolder waits until one side has the group, and checks that it has it alone, and then that the
// other side gets it.
func wantOneHolder(t *testing.T, name string, third *mortise.Client, java *thread, inJava *reply, inGo <-chan gained) {
	for len(inGo) == 0 && !inJava.answered() {
		time.Sleep(100 * time.Microsecond)
	}
	goFirst := len(inGo) > 0
	if hold, _, err := third.GroupLock(name, "a").TryLock(t.Context()); !errors.Is(err, mortise.ErrLocked) {
		t.Errorf("%s: TryLock of what another took from a dead holder: %v, want ErrLocked", name, err)
		if err == nil {
			_ = hold.Unlock() // the trial has failed
		}
	}
	time.Sleep(20 * time.Millisecond) // in which the other would come in
	if goFirst {
		if inJava.answered() {
			t.Errorf("%s: Java has what Go holds", name)
		}
		if got := <-inGo; got.err != nil || got.hold.Unlock() != nil {
			t.Errorf("%s: Go got what was not free: %v", name, got.err)
		}
		inJava.wait(t.Context())
	} else if len(inGo) > 0 {
		t.Errorf("%s: Go has what Java holds", name)
	}
	if err := java.send("group.unlock", name, "a").wait(t.Context()).err; err != nil {
		t.Errorf("%s: Java's unlock: %v", name, err)
	}
	if !goFirst {
		if got := <-inGo; got.err != nil || got.hold.Unlock() != nil {
			t.Errorf("%s: Go got what was not free: %v", name, got.err)
		}
	}
}

// wantAfterLease checks that what a dead holder had was free when the lease that
// it took or renewed just before its death was over.
func (w *world) wantAfterLease(t testing.TB, side string, died, got time.Time) {
	t.Helper()
	took := got.Sub(died)
	w.bounds.Within(side+" gets the lock of a dead holder", took, shortLease+prompt)
	if took < shortLease/2 {
		t.Errorf("%s got it %v after the holder's death, want about %v", side, took, shortLease)
	}
}

func goForcesJavaGroup(t *testing.T, w *world) {
	const name = "group:forced:java"
	java, client := w.groupThread("holder"), w.client(t, shortLease)
	java.lock(t, groupOf(name, "a", "b"), longLease)
	waiting := groupLater(t, w.client(t, shortLease).GroupLock(name, "a"))
	w.awaitListeners(t, name, 1)
	began := time.Now()
	freed, err := client.GroupLock(name, "a", "b").ForceUnlock(t.Context())
	if err != nil || len(freed) != 1 || freed[0] != (mortise.Holder{Owner: java.owner(t), Count: 2}) {
		t.Errorf("ForceUnlock = %v, %v, want Java's thread with 2 values", freed, err)
	}
	got := mustGain(t, waiting)
	w.wantPromptAfterForce("Go", began, got.at)
	mustUnlock(t, got.hold)
	java.wantUnlockRefused(t, groupOf(name, "a", "b"))
}

func javaForcesGoGroup(t *testing.T, w *world) {
	const name = "group:forced:go"
	hold, held := mustGroup(t, w.client(t, shortLease).GroupLock(name, "a", "b"))
	waiting := groupLater(t, w.client(t, shortLease).GroupLock(name, "b"))
	w.awaitListeners(t, name, 1)
	began := time.Now()
	w.groupThread("forcer").forceUnlock(t, groupOf(name, "a", "b")) // says false whenever it freed a number of entries that is not 1
	got := mustGain(t, waiting)
	w.wantPromptAfterForce("Go", began, got.at)
	wantLost(t, hold, held)
	mustUnlock(t, got.hold)
}

// expiredJavaGroup: Redisson leaves the count of a holder whose time is over, and
// would go on from it when the same thread comes back.
func expiredJavaGroup(t *testing.T, w *world) {
	const name = "group:expired"
	client, java := w.client(t, longLease), w.groupThread("holder")
	keeper, _ := mustGroup(t, client.GroupLock(name, "z"))
	java.lock(t, groupOf(name, "a"), 200*time.Millisecond)
	got := mustGain(t, groupLater(t, client.GroupLock(name, "a")))
	mustUnlock(t, got.hold)
	java.wantUnlockRefused(t, groupOf(name, "a"))
	java.lock(t, groupOf(name, "a"), 0)
	java.unlock(t, groupOf(name, "a"))
	redistest.Eventually(t, "one unlock was enough", func() error {
		hold, _, err := client.GroupLock(name, "a").TryLock(t.Context())
		if err == nil {
			mustUnlock(t, hold)
		}
		return err
	})
	mustUnlock(t, keeper)
	wantGone(t, w, name)
}
