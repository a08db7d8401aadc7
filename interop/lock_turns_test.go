//go:build interop

package interop

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
	"github.com/mortise-go/mortise/internal/script"
)

// turnTrials are what becomes of the turns that mortise's clients take for a lock
// where Java wants it, too, or somebody dies.
var turnTrials = []trial{
	{claim{"Lock", "killed holder: all clients come in, one by one", "Java -> Go"}, killedJavaHolderOfMany},
	{claim{"Lock", "granted to a frozen client: free 3 s later", "Go -> Java"}, grantToFrozenClient},
	{claim{"Lock", "frozen waiter holds up the next one 3 s at most", "Go"}, frozenGoWaiter},
	{claim{"Lock", "frozen waiter holds up the next one 3 s at most", "Java"}, frozenJavaWaiter},
	{claim{"Lock", "half-open waiter, again and again: 3 s at most each time", "Go -> Java"}, halfOpenWaiter},
	{claim{"Lock", "killed client is passed over", "Go -> Go, Java"}, killedClientInTurns},
}

func TestLockTurns(t *testing.T) { everywhere(t, turnTrials) }

// killedJavaHolderOfMany: of clients that wait only the first two look after a
// holder that tells nobody in particular. The others have it from them.
func killedJavaHolderOfMany(t *testing.T, w *world) {
	const name, clients, perClient = "killed:many-wait", 4, 3
	dead := w.startAgent(t)
	dead.thread("holder").lock(t, name, 0)
	all := make(chan gained, clients*perClient)
	for range clients {
		lock := w.lock(w.client(t, longLease), name)
		for range perClient {
			go func() {
				hold, ctx, err := lock.Lock(t.Context())
				all <- gained{hold, ctx, err, time.Now()}
			}()
		}
	}
	w.awaitTurns(t, name, clients)
	dead.kill()
	expiry := w.expiry(t, name)
	var released time.Time
	for i := range clients * perClient {
		got := receive(t, all, "the lock")
		if got.err != nil {
			t.Fatal(got.err)
		}
		if i == 0 {
			w.wantAtExpiry(t, "Go", got.at, expiry)
		} else {
			w.inTime(name, got.at.Sub(released))
		}
		released = time.Now()
		mustUnlock(t, got.hold)
	}
}

// grantToFrozenClient: the server takes a frozen client for one that listens, and
// Java comes when the lock was granted to it.
func grantToFrozenClient(t *testing.T, w *world) {
	const name = "granted:frozen"
	hold, _ := mustLock(t, w.lock(w.client(t, longLease), name))
	frozen := w.startWaitingPeer(t, name)
	w.awaitTurns(t, name, 1)
	if err := frozen.pause(); err != nil {
		t.Fatal(err)
	}
	mustUnlock(t, hold)
	end := w.expiry(t, name)
	if left := time.Until(end); left > script.GivenLease {
		t.Errorf("the lock was granted for another %v, want %v at most", left, script.GivenLease)
	}
	java := w.thread("waiter")
	w.wantAtExpiry(t, "Java", java.lockLater(name, 0).must(t).received, end)
	if err := frozen.resume(); err != nil {
		t.Fatal(err)
	}
	if got := java.state(t, name); !got.Mine || got.Count != 1 {
		t.Errorf("Java sees %+v, want it to hold the lock once", got)
	}
	java.unlock(t, name)
	frozen.says(t, peerHolds) // it waited all the time, and knows that it had nothing
}

// grantLost is what a grant costs that nobody takes, and a machine that has much
// else to do.
const grantLost = script.GivenLease + time.Second

// frozenGoWaiter: where Java listens there is no grant, so it need not wait even as
// long as a grant lasts.
func frozenGoWaiter(t *testing.T, w *world) {
	for _, f := range []frozenWaiter{
		{holder: "Go", next: "Java", most: prompt},
		{holder: "Go", next: "Java", most: prompt, last: true},
		{holder: "Java", next: "Java", most: prompt},
		{holder: "Java", next: "Go", most: grantLost},
		{holder: "Go", next: "Go", most: grantLost},
	} {
		name := fmt.Sprintf("frozen:Go:%s:%s:%t", f.holder, f.next, f.last)
		var frozen *peer
		f.waits = func() {
			frozen = w.startWaitingPeer(t, name)
			redistest.Eventually(t, "the turn of the other process", func() error {
				if len(w.turns(t, name)) == 0 {
					return errors.New("it is on its way")
				}
				return nil
			})
		}
		f.freeze = func() error { return frozen.pause() }
		f.prove(t, w, name)
		if err := frozen.resume(); err != nil {
			t.Fatal(err)
		}
		frozen.says(t, peerHolds)
		frozen.kill()
	}
}

func frozenJavaWaiter(t *testing.T, w *world) {
	frozen := w.startAgent(t)
	waiter := frozen.thread("frozen")
	for _, f := range []frozenWaiter{
		{holder: "Go", next: "Java", most: prompt},
		{holder: "Go", next: "Go", most: prompt},
		{holder: "Java", next: "Java", most: prompt},
		{holder: "Java", next: "Go", most: prompt},
	} {
		name := fmt.Sprintf("frozen:Java:%s:%s", f.holder, f.next)
		var waiting *reply
		f.waits = func() { waiting = waiter.waitFor(t, name, 0) }
		f.freeze = frozen.pause
		f.prove(t, w, name)
		if err := frozen.resume(); err != nil {
			t.Fatal(err)
		}
		waiting.must(t)
		waiter.unlock(t, name)
	}
}

// frozenWaiter is a trial with a waiter that is frozen before the lock is
// released.
type frozenWaiter struct {
	holder, next string
	last         bool // the next one came before it
	most         time.Duration
	waits        func()
	freeze       func() error
}

func (f frozenWaiter) prove(t *testing.T, w *world, name string) {
	t.Helper()
	release := w.holdBy(t, f.holder, name)
	if !f.last {
		f.waits()
	}
	next := w.nextIs(t, f.next, name)
	if f.last {
		f.waits()
	}
	if err := f.freeze(); err != nil {
		t.Fatal(err)
	}
	// What the frozen one has sent must come before the release, or it has the lock for a lease. When the server answers
	// for the second time, it has read that.
	for range 2 {
		w.redis().Must(t, "PING")
	}
	released := time.Now()
	release()
	w.bounds.Within("the next one, "+name, next().Sub(released), f.most)
}

// holdBy has one of a side take the lock, and returns what releases it.
func (w *world) holdBy(t *testing.T, side, name string) (release func()) {
	t.Helper()
	if side == "Java" {
		holder := w.thread("holder")
		holder.lock(t, name, longLease)
		return func() { holder.unlock(t, name) }
	}
	hold, _ := mustLock(t, w.lock(w.client(t, longLease), name))
	return func() { mustUnlock(t, hold) }
}

// nextIs has one of a side wait for the lock, and returns what waits until it has
// had it, and tells since when.
func (w *world) nextIs(t *testing.T, side, name string) (had func() time.Time) {
	t.Helper()
	if side == "Java" {
		java := w.thread("next")
		waiting := java.waitFor(t, name, longLease)
		return func() time.Time {
			at := waiting.must(t).received
			java.unlock(t, name)
			return at
		}
	}
	before := len(w.turns(t, name))
	waiting := lockLater(t.Context(), w.lock(w.client(t, longLease), name))
	w.awaitTurns(t, name, before+1)
	return func() time.Time {
		got := mustGain(t, waiting)
		mustUnlock(t, got.hold)
		return got.at
	}
}

// halfOpenWaiter: nothing gets through to a client that waits, and the server does
// not notice.
func halfOpenWaiter(t *testing.T, w *world) {
	const name = "half-open"
	proxy := redistest.NewProxy(t, w.redis().Addr())
	far, closeFar, err := openClient(w.transport, proxy.Addr(), false, mortise.Options{TTL: longLease})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeFar(); err != nil {
			t.Errorf("close client: %v", err)
		}
	})
	for _, early := range []bool{true, false, true, false} { // whether Java waits when the lock is released
		release := w.holdBy(t, "Go", name)
		waiting := lockLater(t.Context(), w.lock(far, name))
		w.awaitTurns(t, name, 1)
		var next func() time.Time
		if early {
			next = w.nextIs(t, "Java", name)
		}
		proxy.Stall(redistest.Requests, redistest.Replies)
		released, most := time.Now(), prompt
		release()
		if !early {
			next, most = w.comes(t, name), grantLost
		}
		w.bounds.Within(fmt.Sprintf("Java, waiting before: %t, has the lock", early), next().Sub(released), most)
		proxy.Flow()
		mustUnlock(t, mustGain(t, waiting).hold)
	}
}

// comes has Java ask for a lock that may be free or not.
func (w *world) comes(t *testing.T, name string) (had func() time.Time) {
	t.Helper()
	java := w.thread("next")
	asked := java.lockLater(name, longLease)
	return func() time.Time {
		at := asked.must(t).received
		java.unlock(t, name)
		return at
	}
}

func killedClientInTurns(t *testing.T, w *world) {
	const name = "turns:killed"
	hold, _ := mustLock(t, w.lock(w.client(t, longLease), name))
	dead := w.startWaitingPeer(t, name)
	w.awaitTurns(t, name, 1)
	second := lockLater(t.Context(), w.lock(w.client(t, longLease), name))
	w.awaitTurns(t, name, 2)
	dead.kill()
	w.awaitDeaf(t, name)
	released := time.Now()
	mustUnlock(t, hold)
	got := mustGain(t, second)
	w.inTime(name, got.at.Sub(released))
	java := w.thread("waiter")
	waiting := java.waitFor(t, name, 0)
	released = time.Now()
	mustUnlock(t, got.hold)
	w.inTime(name, waiting.must(t).received.Sub(released))
	java.unlock(t, name)
}

// turns returns the channels of the clients that have a turn, the next one first.
func (w *world) turns(t testing.TB, name string) (channels []string) {
	t.Helper()
	for _, entry := range w.serverOf(t, name).Must(t, "ZRANGE", keyspace.Turns(name), "0", "-1").([]any) {
		client, _, _ := strings.Cut(strings.TrimPrefix(entry.(string), "?"), ":")
		channels = append(channels, keyspace.TurnChannel(name, client))
	}
	return channels
}

// awaitTurns waits until n clients have a turn: they listen.
func (w *world) awaitTurns(t testing.TB, name string, n int) {
	t.Helper()
	redistest.Eventually(t, fmt.Sprintf("%d clients in the turns for %s", n, name), func() error {
		if got := len(w.turns(t, name)); got != n {
			return fmt.Errorf("there are %d", got)
		}
		return nil
	})
}

// awaitDeaf waits until nobody listens for the next client any more.
func (w *world) awaitDeaf(t testing.TB, name string) {
	t.Helper()
	next := w.turns(t, name)[0]
	redistest.Eventually(t, "the end of the dead client's connection", func() error {
		if n := w.redis().Must(t, "PUBSUB", "NUMSUB", next).([]any)[1].(int64); n != 0 {
			return fmt.Errorf("%d listen to %s", n, next)
		}
		return nil
	})
}
