//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// The first of these are also tried on a cluster.
var latchTrials = []trial{
	{claim{"CountDownLatch", "at zero all waiters go on", "Go -> Java"}, goOpensForJava},
	{claim{"CountDownLatch", "at zero all waiters go on", "Java -> Go"}, javaOpensForGo},
	{claim{"CountDownLatch", "both count down, each sees the count", "Go <-> Java"}, sameCount},
	{claim{"CountDownLatch", "deletion ends the wait", "Java -> Go"}, javaDeletes},
	{claim{"CountDownLatch", "a wait with a limit ends in time", "Go <-> Java"}, limitedLatch},
	{claim{"CountDownLatch", "the same key, TTL and messages of each operation", "Go = Java"}, sameLatchTraces},
	{claim{"CountDownLatch", "unusual names mean the same latch", "Go <-> Java"}, unusualLatches},
}

func TestCountDownLatch(t *testing.T)          { everywhere(t, latchTrials) }
func TestCountDownLatchInCluster(t *testing.T) { inCluster(t, latchTrials[:4]) }

func latchOf(t testing.TB, c *mortise.Client, name string, n int) *mortise.CountDownLatch {
	t.Helper()
	l := c.CountDownLatch(name)
	if set, err := l.TrySetCount(t.Context(), n); err != nil || !set {
		t.Fatalf("TrySetCount = %v, %v, want true", set, err)
	}
	return l
}

func wantCounts(t testing.TB, l *mortise.CountDownLatch, java *thread, want int) {
	t.Helper()
	if n, err := l.Count(t.Context()); err != nil || n != want {
		t.Errorf("Go sees the count %d, %v, want %d", n, err, want)
	}
	if n := result[int](t, ask(java, "latch.getCount", l.Name())); n != want {
		t.Errorf("Java sees the count %d, want %d", n, want)
	}
}

// goAwaits has Go wait for a latch, and returns when it relies on being woken:
// it has looked again after it was known to listen.
func (w *world) goAwaits(t testing.TB, l *mortise.CountDownLatch) <-chan timed {
	t.Helper()
	if _, err := l.Count(t.Context()); err != nil { // the first use of a script may take two calls; let that be this one
		t.Fatal(err)
	}
	before := w.scripts(t)
	waiting := later(func() error { return l.Wait(t.Context()) })
	redistest.Eventually(t, "Go waits for "+l.Name(), func() error {
		if len(waiting) > 0 {
			t.Fatalf("Go does not wait for %s: %v", l.Name(), (<-waiting).err)
		}
		if looks := w.scripts(t) - before; looks < 2 {
			return fmt.Errorf("it looked %d times", looks)
		}
		return nil
	})
	return waiting
}

func goOpensForJava(t *testing.T, w *world) {
	client := w.client(t, shortLease)
	var took []time.Duration
	for i := range rounds {
		name := fmt.Sprint("go-opens:", i)
		l := latchOf(t, client, name, 2)
		var waiting []*reply
		for j := range 3 {
			java := w.java.thread(fmt.Sprint("waiter", j))
			r := ask(java, "latch.await", name)
			java.awaitParked(t, r, name)
			waiting = append(waiting, r)
		}
		must(t, l.CountDown(t.Context()))
		if waiting[0].answered() {
			t.Error("a waiter went on before the count was zero")
		}
		opened := time.Now()
		must(t, l.CountDown(t.Context()))
		for _, r := range waiting {
			d := r.must(t).received.Sub(opened)
			w.inTime(name, d)
			took = append(took, d)
		}
	}
	w.wantPrompt(t, took)
}

func javaOpensForGo(t *testing.T, w *world) {
	java := w.java.thread("counter")
	client := w.client(t, shortLease)
	var took []time.Duration
	for i := range rounds {
		name := fmt.Sprint("java-opens:", i)
		tell(t, java, "latch.trySetCount", name, 2)
		l := client.CountDownLatch(name)
		waiting := []<-chan timed{w.goAwaits(t, l)}
		for range 10 {
			waiting = append(waiting, later(func() error { return client.CountDownLatch(name).Wait(t.Context()) }))
		}
		tell(t, java, "latch.countDown", name)
		if len(waiting[0]) > 0 {
			t.Error("a waiter went on before the count was zero")
		}
		opened := time.Now()
		tell(t, java, "latch.countDown", name)
		for _, one := range waiting {
			got := receive(t, one, "the opening")
			must(t, got.err)
			w.inTime(name, got.at.Sub(opened))
			took = append(took, got.at.Sub(opened))
		}
	}
	w.wantPrompt(t, took)
}

func sameCount(t *testing.T, w *world) {
	java := w.java.thread("counter")
	l := latchOf(t, w.client(t, shortLease), "count", 4)
	if result[bool](t, ask(java, "latch.trySetCount", l.Name(), 9)) {
		t.Error("Java sets what Go has set")
	}
	tell(t, java, "latch.countDown", l.Name())
	wantCounts(t, l, java, 3)
	must(t, l.CountDown(t.Context()))
	wantCounts(t, l, java, 2)
	if closed, err := l.Delete(t.Context()); !closed || err != nil {
		t.Errorf("Delete = %v, %v, want true", closed, err)
	}
	wantCounts(t, l, java, 0)
	tell(t, java, "latch.trySetCount", l.Name(), 1)
	if set, err := l.TrySetCount(t.Context(), 9); set || err != nil {
		t.Errorf("TrySetCount = %v, %v: Go sets what Java has set, want false", set, err)
	}
	must(t, l.CountDown(t.Context()))
	wantCounts(t, l, java, 0)
	tell(t, java, "latch.countDown", l.Name())
	wantCounts(t, l, java, 0)
}

func javaDeletes(t *testing.T, w *world) {
	const name = "deleted"
	java := w.java.thread("other")
	tell(t, java, "latch.trySetCount", name, 5)
	waiting := w.goAwaits(t, w.client(t, shortLease).CountDownLatch(name))
	deleted := time.Now()
	if !result[bool](t, ask(java, "latch.delete", name)) {
		t.Error("Java finds nothing to delete")
	}
	got := receive(t, waiting, "the end of the wait")
	must(t, got.err)
	w.inTime(name, got.at.Sub(deleted))
}

func limitedLatch(t *testing.T, w *world) {
	const name = "limited"
	java := w.java.thread("waiter")
	l := latchOf(t, w.client(t, shortLease), name, 1)
	if result[bool](t, ask(java, "latch.await", name, 100)) {
		t.Error("Java passes a closed latch")
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := l.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait: %v, want the deadline's error", err)
	}
	waiting := ask(java, "latch.await", name, 30000)
	java.awaitParked(t, waiting, name)
	must(t, l.CountDown(t.Context()))
	if !result[bool](t, waiting) {
		t.Error("Java does not pass an open latch")
	}
}

func sameLatchTraces(t *testing.T, w *world) {
	const name = "trace"
	ctx, java := t.Context(), w.java.thread("other")
	l := w.client(t, shortLease).CountDownLatch(name)
	same := func(operation string, ours func() error, command string, args ...any) {
		t.Helper()
		w.sameTrace(t, "redisson_countdownlatch__channel__{trace}", name, operation,
			func() { must(t, ours()) }, func() { tell(t, java, command, append([]any{name}, args...)...) })
	}
	same("CountDown", func() error { return l.CountDown(ctx) }, "latch.countDown")
	same("TrySetCount", func() error { _, err := l.TrySetCount(ctx, 3); return err }, "latch.trySetCount", 3)
	same("Delete", func() error { _, err := l.Delete(ctx); return err }, "latch.delete")
}

// unusualLatches: on a single server also names with braces are the same.
func unusualLatches(t *testing.T, w *world) {
	client, java := w.client(t, shortLease), w.java.thread("other")
	for _, name := range []string{"{tagged}", "{a}:b", "a{b}c", "a{b}c{d}", "schloß:ключ:鍵:🔒", "a:b/c?d=*[e]\\"} {
		l := latchOf(t, client, name, 1)
		theirs := ask(java, "latch.await", name)
		java.awaitParked(t, theirs, name)
		must(t, l.CountDown(t.Context()))
		theirs.must(t)
		tell(t, java, "latch.trySetCount", name, 1)
		mine := w.goAwaits(t, l)
		opened := time.Now()
		tell(t, java, "latch.countDown", name)
		got := receive(t, mine, "the opening")
		must(t, got.err)
		w.inTime(name, got.at.Sub(opened))
	}
}
