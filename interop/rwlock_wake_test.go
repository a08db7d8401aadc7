//go:build interop

package interop

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

// goWriterWakesArrivals has readers arrive while the writer releases. Redisson's
// message 1 passes over a thread that was refused and is not asleep yet.
func goWriterWakesArrivals(t *testing.T, w *world) {
	const rounds, readers = 80, 2
	read, write := w.side(reads), w.side(writes)
	client, longest := w.client(t, longLease), time.Duration(0)
	for i := range rounds {
		name := fmt.Sprint("rw-arrivals:", i)
		hold, _ := mustLock(t, write.lock(client, name, mortise.LockOptions{MaxHold: 3 * time.Second}))
		var waiting []*reply
		for j := range readers {
			waiting = append(waiting, read.thread(fmt.Sprint("reader", j)).lockLater(name, longLease))
		}
		time.Sleep(time.Duration(i%40) * 100 * time.Microsecond)
		released := time.Now()
		mustUnlock(t, hold)
		for j, r := range waiting {
			longest = max(longest, r.must(t).received.Sub(released))
			read.thread(fmt.Sprint("reader", j)).unlock(t, name)
		}
	}
	w.bounds.Within(fmt.Sprintf("the longest of %d waits: a reader that misses the release waits for the lease", rounds*readers), longest, 2500*time.Millisecond)
}

// waiters have readers of both sides wait for a writer; it returns when all of
// them rely on being woken, and then a function that checks that they were.
func (w *world) waiters(t testing.TB, client *mortise.Client, name string) (wantWoken func(released time.Time)) {
	t.Helper()
	const each = 3
	read := w.side(reads)
	var javas []*reply
	for i := range each {
		javas = append(javas, read.thread("reader"+strconv.Itoa(i)).waitFor(t, name, longLease))
	}
	gos := []<-chan gained{read.goWaits(t, read.lock(client, name))}
	for range each - 1 {
		gos = append(gos, lockLater(t.Context(), read.lock(client, name)))
	}
	return func(released time.Time) {
		t.Helper()
		for i, waiting := range gos {
			got := mustGain(t, waiting)
			w.inTime(fmt.Sprint("Go reader ", i), got.at.Sub(released))
			defer mustUnlock(t, got.hold)
		}
		for i, waiting := range javas {
			w.inTime(fmt.Sprint("Java reader ", i), waiting.must(t).received.Sub(released))
			defer read.thread("reader"+strconv.Itoa(i)).unlock(t, name)
		}
	}
}

func goWriterWakesReaders(t *testing.T, w *world) {
	const name = "rw-go-wakes-readers"
	hold, _ := mustLock(t, w.side(writes).lock(w.client(t, longLease), name))
	wantWoken := w.waiters(t, w.client(t, shortLease), name)
	released := time.Now()
	mustUnlock(t, hold)
	wantWoken(released)
}

func javaWriterWakesReaders(t *testing.T, w *world) {
	const name = "rw-java-wakes-readers"
	java := w.side(writes).thread("writer")
	java.lock(t, name, longLease)
	wantWoken := w.waiters(t, w.client(t, shortLease), name)
	released := time.Now()
	java.unlock(t, name)
	wantWoken(released)
}

func goReaderWakesJavaWriter(t *testing.T, w *world) {
	client := w.client(t, longLease)
	writer := w.side(writes).thread("writer")
	var took []time.Duration
	for i := range rounds {
		name := "rw-go-reader:" + strconv.Itoa(i)
		one, _ := mustLock(t, w.side(reads).lock(client, name))
		two, _ := mustLock(t, w.side(reads).lock(client, name))
		waiting := writer.waitFor(t, name, longLease)
		mustUnlock(t, one)
		released := time.Now()
		mustUnlock(t, two)
		took = append(took, waiting.must(t).received.Sub(released))
		writer.unlock(t, name)
		w.inTime(name, took[i])
	}
	w.wantPrompt(t, took)
}

func javaReaderWakesGoWriter(t *testing.T, w *world) {
	client := w.client(t, shortLease)
	read, write := w.side(reads), w.side(writes)
	one, two := read.thread("one"), read.thread("two")
	var took []time.Duration
	for i := range rounds {
		name := "rw-java-reader:" + strconv.Itoa(i)
		one.lock(t, name, longLease)
		two.lock(t, name, longLease)
		waiting := write.goWaits(t, write.lock(client, name))
		one.unlock(t, name)
		released := time.Now()
		two.unlock(t, name)
		got := mustGain(t, waiting)
		mustUnlock(t, got.hold)
		took = append(took, got.at.Sub(released))
		w.inTime(name, took[i])
	}
	w.wantPrompt(t, took)
}
