//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/redistest"
)

// The first of these are also tried on a cluster.
var semaphoreTrials = []trial{
	{claim{"Semaphore", "never more out than there are", "Go <-> Java"}, permitsAreShared},
	{claim{"Semaphore", "release wakes a waiter for n", "Go -> Java"}, goPermitsWakeJava},
	{claim{"Semaphore", "release wakes a waiter for n", "Java -> Go"}, javaPermitsWakeGo},
	{claim{"Semaphore", "a wait with a limit gets permits in time, or ends", "Go <-> Java"}, limitedWaits},
	{claim{"Semaphore", "set, acquired, drained, deleted: the same number", "Go <-> Java"}, samePermits},
	{claim{"Semaphore", "the same key, TTL and messages of each operation", "Go = Java"}, sameTraces},
	{claim{"Semaphore", "unusual names mean the same semaphore", "Go <-> Java"}, unusualSemaphores},
	{claim{"Semaphore", "a Go process that waits is not passed by others", "Go -> Go"}, claimsBesideJava},
}

func TestSemaphore(t *testing.T)          { everywhere(t, semaphoreTrials) }
func TestSemaphoreInCluster(t *testing.T) { inCluster(t, semaphoreTrials[:3]) }

// tell sends a command on a semaphore or a latch, which must succeed.
func tell(t testing.TB, j *thread, command string, args ...any) answer {
	t.Helper()
	return ask(j, command, args...).must(t)
}

func ask(j *thread, command string, args ...any) *reply {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = fmt.Sprint(arg)
	}
	return j.send(command, words...)
}

func semaphoreOf(t testing.TB, c *mortise.Client, name string, permits int) *mortise.Semaphore {
	t.Helper()
	s := c.Semaphore(name)
	if set, err := s.TrySetPermits(t.Context(), permits); err != nil || !set {
		t.Fatalf("TrySetPermits = %v, %v, want true", set, err)
	}
	return s
}

// must fails the test for an operation that did not succeed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantPermits(t testing.TB, s *mortise.Semaphore, java *thread, want int) {
	t.Helper()
	if n, err := s.Available(t.Context()); err != nil || n != want {
		t.Errorf("Go sees %d permits, %v, want %d", n, err, want)
	}
	if n := result[int](t, ask(java, "semaphore.available", s.Name())); n != want {
		t.Errorf("Java sees %d permits, want %d", n, want)
	}
}

// timed is the outcome of something that ran in the background.
type timed struct {
	err error
	at  time.Time
}

func later(f func() error) <-chan timed {
	outcome := make(chan timed, 1)
	go func() {
		err := f()
		outcome <- timed{err, time.Now()}
	}()
	return outcome
}

// goAcquires has Go wait for permits that are not there, and returns when it
// relies on being woken: it claims them in its second attempt, which it makes
// when it listens.
func (w *world) goAcquires(t testing.TB, s *mortise.Semaphore, n int) <-chan timed {
	t.Helper()
	waiting := later(func() error { return s.Acquire(t.Context(), n) })
	redistest.Eventually(t, "Go waits for "+s.Name(), func() error {
		if len(waiting) > 0 {
			t.Fatalf("Go does not wait for %s: %v", s.Name(), (<-waiting).err)
		}
		if w.serverOf(t, w.prefix+s.Name()).Int(t, "EXISTS", keyspace.Claims(w.prefix+s.Name())) == 0 {
			return errors.New("it claims nothing yet")
		}
		return nil
	})
	return waiting
}

func permitsAreShared(t *testing.T, w *world) {
	const name, permits, rounds = "shared", 3, 15
	semaphoreOf(t, w.client(t, shortLease), name, permits)
	var out atomic.Int32
	var all sync.WaitGroup
	enter := func(n int) {
		if now := out.Add(int32(n)); now > permits {
			t.Errorf("%d permits are out, want %d at most", now, permits)
		}
		time.Sleep(time.Millisecond)
		out.Add(int32(-n))
	}
	for i := range 3 {
		n := 1 + i
		c := w.client(t, shortLease)
		all.Go(func() {
			for range rounds {
				if err := c.Semaphore(name).Do(t.Context(), n, func(context.Context) error { enter(n); return nil }); err != nil {
					t.Error(err)
				}
			}
		})
		java := w.java.thread(fmt.Sprint("worker", i))
		all.Go(func() {
			for range rounds {
				for _, step := range []struct {
					command string
					then    func()
				}{{"semaphore.acquire", func() { enter(n) }}, {"semaphore.release", func() {}}} {
					if err := ask(java, step.command, name, n).wait(t.Context()).err; err != nil {
						t.Errorf("the Java side: %s: %v", step.command, err)
						return
					}
					step.then()
				}
			}
		})
	}
	all.Wait()
	wantPermits(t, w.client(t, shortLease).Semaphore(name), w.java.thread("worker0"), permits)
}

// ways are how permits come to be there.
var ways = map[string]struct {
	before  string // what is under the name; nothing if empty
	release func(t testing.TB, s *mortise.Semaphore)
	java    func(t testing.TB, j *thread, name string)
}{
	"release": {"1", func(t testing.TB, s *mortise.Semaphore) { must(t, s.Release(t.Context(), 2)) },
		func(t testing.TB, j *thread, name string) { tell(t, j, "semaphore.release", name, 2) }},
	"add": {"-1", func(t testing.TB, s *mortise.Semaphore) { must(t, s.AddPermits(t.Context(), 4)) },
		func(t testing.TB, j *thread, name string) { tell(t, j, "semaphore.addPermits", name, 4) }},
	"set": {"", func(t testing.TB, s *mortise.Semaphore) {
		_, err := s.TrySetPermits(t.Context(), 3)
		must(t, err)
	}, func(t testing.TB, j *thread, name string) { tell(t, j, "semaphore.trySetPermits", name, 3) }},
}

// eachWay runs f often enough for a median, with each of the ways by turns.
func eachWay(t *testing.T, w *world, side string, f func(way, name string) time.Duration) {
	var took []time.Duration
	for i := range rounds {
		for way, how := range ways {
			name := fmt.Sprintf("%s:%s:%d", side, way, i)
			if how.before != "" {
				w.serverOf(t, w.prefix+name).Must(t, "SET", w.prefix+name, how.before)
			}
			d := f(way, name)
			w.inTime(name, d)
			took = append(took, d)
		}
	}
	w.wantPrompt(t, took)
}

func goPermitsWakeJava(t *testing.T, w *world) {
	client := w.client(t, shortLease)
	java := w.java.thread("waiter")
	eachWay(t, w, "go-permits", func(way, name string) time.Duration {
		waiting := ask(java, "semaphore.acquire", name, 3)
		java.awaitParked(t, waiting, name)
		start := time.Now()
		ways[way].release(t, client.Semaphore(name))
		took := waiting.must(t).received.Sub(start)
		wantPermits(t, client.Semaphore(name), java, 0)
		return took
	})
}

func javaPermitsWakeGo(t *testing.T, w *world) {
	client := w.client(t, shortLease)
	java := w.java.thread("releaser")
	eachWay(t, w, "java-permits", func(way, name string) time.Duration {
		s := client.Semaphore(name)
		waiting := w.goAcquires(t, s, 3)
		start := time.Now()
		ways[way].java(t, java, name)
		got := receive(t, waiting, "the permits")
		must(t, got.err)
		wantPermits(t, s, java, 0)
		return got.at.Sub(start)
	})
}

func limitedWaits(t *testing.T, w *world) {
	const name = "limited"
	s := semaphoreOf(t, w.client(t, shortLease), name, 1)
	java := w.java.thread("waiter")
	if result[bool](t, ask(java, "semaphore.tryAcquire", name, 2)) || result[bool](t, ask(java, "semaphore.tryAcquire", name, 2, 100)) {
		t.Error("Java has permits that are not there")
	}
	if err := s.TryAcquire(t.Context(), 2); !errors.Is(err, mortise.ErrNoPermits) {
		t.Errorf("TryAcquire: %v, want ErrNoPermits", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Acquire(short, 2); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, mortise.ErrNoPermits) {
		t.Errorf("Acquire: %v, want the deadline's error", err)
	}
	wantPermits(t, s, java, 1)

	waiting := ask(java, "semaphore.tryAcquire", name, 2, 30000)
	java.awaitParked(t, waiting, name)
	must(t, s.Release(t.Context(), 1))
	if !result[bool](t, waiting) {
		t.Error("Java was not in time")
	}
	long, cancelLong := context.WithTimeout(t.Context(), time.Minute)
	defer cancelLong()
	mine := later(func() error { return s.Acquire(long, 2) })
	tell(t, java, "semaphore.release", name, 2)
	must(t, receive(t, mine, "the permits").err)
	wantPermits(t, s, java, 0)
}

func samePermits(t *testing.T, w *world) {
	ctx, java := t.Context(), w.java.thread("other")
	client := w.client(t, shortLease)
	s := semaphoreOf(t, client, "go:set", 5)
	if result[bool](t, ask(java, "semaphore.trySetPermits", s.Name(), 7)) {
		t.Error("Java sets what Go has set")
	}
	tell(t, java, "semaphore.acquire", s.Name(), 2)
	wantPermits(t, s, java, 3)
	if n := result[int](t, ask(java, "semaphore.drain", s.Name())); n != 3 {
		t.Errorf("Java drains %d, want 3", n)
	}
	tell(t, java, "semaphore.addPermits", s.Name(), -4)
	wantPermits(t, s, java, -4)
	if n, err := s.Drain(ctx); n != -4 || err != nil {
		t.Errorf("Go drains %d, %v, want -4", n, err)
	}
	wantPermits(t, s, java, 0)
	if !result[bool](t, ask(java, "semaphore.delete", s.Name())) {
		t.Error("Java finds nothing to delete")
	}
	wantPermits(t, s, java, 0)

	s = client.Semaphore("java:set")
	tell(t, java, "semaphore.trySetPermits", s.Name(), 5)
	if set, err := s.TrySetPermits(ctx, 7); set || err != nil {
		t.Errorf("TrySetPermits = %v, %v: Go sets what Java has set, want false", set, err)
	}
	must(t, s.Acquire(ctx, 5))
	wantPermits(t, s, java, 0)
	must(t, s.AddPermits(ctx, -2))
	must(t, s.Release(ctx, 1))
	wantPermits(t, s, java, -1)
	if deleted, err := s.Delete(ctx); !deleted || err != nil {
		t.Errorf("Delete = %v, %v, want true", deleted, err)
	}
	wantPermits(t, s, java, 0)
}

// trace is what an operation leaves behind and tells others.
type trace struct {
	value    string
	ttl      bool
	messages []string
}

// traceOf returns the trace of do on a key that held before (nothing if empty),
// with a TTL or without.
func (w *world) traceOf(t testing.TB, channel, name, before string, ttl bool, do func()) trace {
	t.Helper()
	if before != "" {
		w.redis().Must(t, "SET", name, before)
	}
	if ttl {
		w.redis().Must(t, "PEXPIRE", name, "600000")
	}
	sub := w.listen(t, channel)
	defer sub.Close()
	do()
	const end = "the end"
	w.redis().Must(t, "PUBLISH", channel, end)
	var got trace
	for {
		message, err := sub.Receive(patience)
		if err != nil {
			t.Fatal(err)
		}
		text := message.([]any)[2].(string)
		if text == end {
			break
		}
		if n, err := strconv.ParseInt(text, 10, 64); err == nil { // as Redisson reads it, whatever zeros mean to mortise
			text = strconv.FormatInt(n, 10)
		}
		got.messages = append(got.messages, text)
	}
	if w.redis().Int(t, "EXISTS", name) == 0 {
		return got
	}
	got.value, got.ttl = w.redis().Str(t, "GET", name), w.redis().Int(t, "PTTL", name) > 0
	w.redis().Must(t, "DEL", name)
	return got
}

// listen returns a connection that is subscribed to the channel.
func (w *world) listen(t testing.TB, channel string) *redistest.Conn {
	t.Helper()
	sub, err := redistest.Dial(w.redis().Addr(), "", w.redis().Password())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sub.Do("SUBSCRIBE", channel); err != nil {
		t.Fatal(err)
	}
	return sub
}

const addPermits = "AddPermits"

// sameTrace checks that both sides do the same with the same key.
func (w *world) sameTrace(t testing.TB, channel, name, operation string, ours func(), theirs func()) {
	t.Helper()
	for _, before := range []string{"", "0", "1", "5", "-5", "2147483640"} {
		for _, ttl := range []bool{false, true} {
			if ttl && before == "" {
				continue
			}
			mine := w.traceOf(t, channel, name, before, ttl, ours)
			java := w.traceOf(t, channel, name, before, ttl, theirs)
			if operation == addPermits && !atLeast(t, w.version, "3.16.2") { // wakes nobody there
				mine.messages = nil
			}
			if mine.value != java.value || mine.ttl != java.ttl || !slices.Equal(mine.messages, java.messages) {
				t.Errorf("%s of %q, with a TTL %v: Go leaves %+v, Java %+v", operation, before, ttl, mine, java)
			}
		}
	}
}

func sameTraces(t *testing.T, w *world) {
	const name = "trace"
	ctx, java := t.Context(), w.java.thread("other")
	s := w.client(t, shortLease).Semaphore(name)
	same := func(operation string, ours func() error, command string, args ...any) {
		t.Helper()
		w.sameTrace(t, "redisson_sc:{trace}", name, operation, func() {
			if err := ours(); err != nil && !errors.Is(err, mortise.ErrNoPermits) {
				t.Errorf("%s: %v", operation, err)
			}
		}, func() { tell(t, java, command, append([]any{name}, args...)...) })
	}
	set := func(n int) func() error {
		return func() error { _, err := s.TrySetPermits(ctx, n); return err }
	}
	same("TryAcquire", func() error { return s.TryAcquire(ctx, 2) }, "semaphore.tryAcquire", 2)
	same("Release", func() error { return s.Release(ctx, 3) }, "semaphore.release", 3)
	same(addPermits, func() error { return s.AddPermits(ctx, 3) }, "semaphore.addPermits", 3)
	same(addPermits, func() error { return s.AddPermits(ctx, -3) }, "semaphore.addPermits", -3)
	same("TrySetPermits", set(3), "semaphore.trySetPermits", 3)
	same("TrySetPermits of none", set(0), "semaphore.trySetPermits", 0)
	same("Drain", func() error { _, err := s.Drain(ctx); return err }, "semaphore.drain")
	same("Delete", func() error { _, err := s.Delete(ctx); return err }, "semaphore.delete")
}

func unusualSemaphores(t *testing.T, w *world) {
	client, java := w.client(t, shortLease), w.java.thread("other")
	for _, name := range []string{"{tagged}", "{a}:b", "a{b}c", "a{b}c{d}", "schloß:ключ:鍵:🔒", "a:b/c?d=*[e]\\"} {
		s := semaphoreOf(t, client, name, 0)
		waiting := w.goAcquires(t, s, 1)
		tell(t, java, "semaphore.release", name, 1)
		got := receive(t, waiting, "the permits")
		must(t, got.err)
		theirs := ask(java, "semaphore.acquire", name, 1)
		java.awaitParked(t, theirs, name)
		must(t, s.Release(t.Context(), 1))
		theirs.must(t)
		wantPermits(t, s, java, 0)
	}
}

// claimsBesideJava: Java's clients do not know of claims, but what they release
// goes to the waiter for many and not to later ones.
func claimsBesideJava(t *testing.T, w *world) {
	const name, permits = "claims", 4
	java := w.java.thread("releaser")
	s := semaphoreOf(t, w.client(t, shortLease), name, 0)
	waiting := w.goAcquires(t, s, permits)
	late := w.client(t, shortLease).Semaphore(name)
	for i := range permits - 1 {
		tell(t, java, "semaphore.release", name, 1)
		if err := late.TryAcquire(t.Context(), 1); !errors.Is(err, mortise.ErrNoPermits) {
			t.Errorf("after %d permits a later waiter got %v, want ErrNoPermits", i+1, err)
		}
	}
	tell(t, java, "semaphore.release", name, 1)
	must(t, receive(t, waiting, "all permits").err)
	wantPermits(t, s, java, 0)
}
