//go:build interop

package interop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
)

// turnTrials are what becomes of the turns that mortise's clients take for a lock
// where Java wants it, too, or somebody dies.
var turnTrials = []trial{
	{claim{"Lock", "killed holder: all clients come in, one by one", "Java -> Go"}, killedJavaHolderOfMany},
	{claim{"Lock", "given to a frozen client: free 3 s later", "Go -> Java"}, givenToFrozenClient},
	{claim{"Lock", "killed client is passed over", "Go -> Java, Go"}, killedClientInTurns},
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
			wantAtExpiry(t, "Go", got.at, expiry)
		} else {
			failIfLate(t, name, got.at.Sub(released))
		}
		released = time.Now()
		mustUnlock(t, got.hold)
	}
}

// givenToFrozenClient: the server takes a frozen client for one that listens.
func givenToFrozenClient(t *testing.T, w *world) {
	const name = "given:frozen"
	hold, _ := mustLock(t, w.lock(w.client(t, shortLease), name)) // for Java sleeps as long as it lasts
	frozen := w.startWaitingPeer(t, name)
	w.awaitTurns(t, name, 1)
	if err := frozen.pause(); err != nil {
		t.Fatal(err)
	}
	java := w.thread("waiter")
	waiting := java.waitFor(t, name, 0)
	mustUnlock(t, hold)
	given := w.expiry(t, name)
	wantAtExpiry(t, "Java", waiting.must(t).received, given)
	if err := frozen.resume(); err != nil {
		t.Fatal(err)
	}
	if got := java.state(t, name); !got.Mine || got.Count != 1 {
		t.Errorf("Java sees %+v, want it to hold the lock once", got)
	}
	java.unlock(t, name)
	frozen.says(t, peerHolds) // it waited all the time, and knows that it had nothing
}

func killedClientInTurns(t *testing.T, w *world) {
	const name = "turns:killed"
	hold, _ := mustLock(t, w.lock(w.client(t, longLease), name))
	dead := w.startWaitingPeer(t, name)
	w.awaitTurns(t, name, 1)
	second := lockLater(t.Context(), w.lock(w.client(t, longLease), name))
	w.awaitTurns(t, name, 2)
	java := w.thread("waiter")
	waiting := java.waitFor(t, name, 0)
	dead.kill()
	w.awaitDeaf(t, name)
	released := time.Now()
	mustUnlock(t, hold)
	got := mustGain(t, second)
	failIfLate(t, name, got.at.Sub(released))
	released = time.Now()
	mustUnlock(t, got.hold)
	failIfLate(t, name, waiting.must(t).received.Sub(released))
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
