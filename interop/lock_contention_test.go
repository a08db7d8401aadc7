//go:build interop

package interop

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/mortise-go/mortise/internal/redistest"
)

// exclusion has Java threads and goroutines of several clients add to one
// counter that nothing but the lock protects. A round in which one side came
// after the other shows nothing, so there may have to be another.
func exclusion(t *testing.T, w *world) {
	const rounds = 5
	for round := range rounds {
		mixed := contention(t, w, "exclusion:"+strconv.Itoa(round))
		if t.Failed() || mixed > 0 {
			t.Logf("Java added %d counts between the first and the last Go count, in round %d", mixed, round+1)
			return
		}
	}
	t.Errorf("in %d rounds Java added nothing between the first and the last Go count: nothing was contended for", rounds)
}

// contention is one round of exclusion. It returns how often Java added to the
// counter between the first time that Go did and the last.
func contention(t *testing.T, w *world, name string) (mixed int) {
	const (
		javaThreads = 3
		goClients   = 2
		perClient   = 2 // goroutines
		each        = 40
	)
	counter := name + ":counter"
	server := w.serverOf(t, counter)
	server.Must(t, "DEL", counter)
	gate, _ := mustLock(t, w.lock(w.client(t, shortLease), name))
	var javas []*reply
	for i := range javaThreads {
		javas = append(javas, w.thread("contender"+strconv.Itoa(i)).send(w.kind.verb("contend"), name, counter, strconv.Itoa(each)))
	}
	var tally tally
	var gos sync.WaitGroup
	for range goClients {
		lock := w.lock(w.client(t, shortLease), name)
		for range perClient {
			gos.Go(func() {
				if err := contend(t.Context(), lock, server.Addr(), counter, each, &tally); err != nil {
					t.Error(err)
				}
			})
		}
	}
	w.awaitWaiters(t, name, 1+goClients) // nobody has a head start
	mustUnlock(t, gate)
	gos.Wait()
	for _, r := range javas {
		r.must(t)
	}

	const want = (javaThreads + goClients*perClient) * each
	if got := server.Int(t, "GET", counter); got != want {
		t.Errorf("counter = %d, want %d: two held the lock at once", got, want)
	}
	return slices.Max(tally.saw) - slices.Min(tally.saw) + 1 - goClients*perClient*each
}

// tally keeps the values of the counter that goroutines found.
type tally struct {
	mu  sync.Mutex
	saw []int // guarded by mu
}

func (y *tally) add(value int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.saw = append(y.saw, value)
}

// contend adds one to the counter n times, reading and writing it under the
// lock, over a connection of its own to the server that has the counter.
func contend(ctx context.Context, lock waiter, addr, counter string, n int, tally *tally) error {
	conn, err := redistest.Dial(addr, "", "")
	if err != nil {
		return err
	}
	defer conn.Close()
	for range n {
		hold, _, err := lock.Lock(ctx)
		if err != nil {
			return err
		}
		value, err := addOne(conn, counter)
		if err != nil {
			return err
		}
		tally.add(value)
		if err := hold.Unlock(); err != nil {
			return err
		}
	}
	return nil
}

func addOne(conn *redistest.Conn, counter string) (int, error) {
	value, err := read(conn, counter)
	if err != nil {
		return 0, err
	}
	_, err = conn.Do("SET", counter, strconv.Itoa(value+1))
	return value, err
}

// read returns the value of a counter, which is 0 if there is none.
func read(conn *redistest.Conn, counter string) (int, error) {
	switch reply, err := conn.Do("GET", counter); {
	case err != nil:
		return 0, err
	case reply == nil:
		return 0, nil
	default:
		return strconv.Atoi(reply.(string))
	}
}
