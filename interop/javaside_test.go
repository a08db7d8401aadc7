//go:build interop

package interop

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/redistest"
)

// javaState is a lock as a Java thread sees it.
type javaState struct {
	Owner  string // the holder that Redisson writes for the asking thread
	Locked bool
	Mine   bool  // held by the asking thread
	Count  int   // how often the asking thread holds it
	TTLMs  int64 // -1 if the key has no TTL, -2 if there is no key
}

// must waits for the answer, which must not be an exception.
func (r *reply) must(t testing.TB) answer {
	t.Helper()
	outcome := r.wait(t.Context())
	if outcome.err != nil {
		t.Fatalf("the Java side: %v", outcome.err)
	}
	return outcome.answer
}

// of returns the same thread, for a kind of lock that has a name in the agent,
// such as "fair".
func (j *thread) of(kind string) *thread { return &thread{agent: j.agent, name: j.name, kind: kind} }

// verb returns the agent's command for a verb of the thread's kind of lock.
func (j *thread) verb(verb string) string {
	if j.kind == "" {
		return verb
	}
	return j.kind + "." + verb
}

// lock takes the lock: with a fixed lease, or with 0 renewed by the watchdog.
func (j *thread) lock(t testing.TB, name string, lease time.Duration) {
	t.Helper()
	j.lockLater(name, lease).must(t)
}

// lockLater is lock that does not wait for the answer.
func (j *thread) lockLater(name string, lease time.Duration) *reply {
	if lease == 0 {
		return j.send(j.verb("lock"), name)
	}
	return j.send(j.verb("lock"), name, millis(lease))
}

// waitFor has the thread wait for a lock that somebody else holds, and returns
// when it sleeps until it is woken.
func (j *thread) waitFor(t testing.TB, name string, lease time.Duration) *reply {
	t.Helper()
	waiting := j.lockLater(name, lease)
	j.awaitParked(t, waiting, name)
	return waiting
}

// awaitParked returns when the thread sleeps until it is woken, in a command
// that was sent before. It must not end: somebody else has what it wants.
func (j *thread) awaitParked(t testing.TB, waiting *reply, what string) {
	t.Helper()
	observer := j.agent.thread("observer")
	redistest.Eventually(t, "Java thread "+j.name+" parked", func() error {
		switch parked := result[bool](t, observer.send("parked", j.name)); {
		case waiting.answered():
			t.Fatalf("Java thread %s does not wait for %s, which somebody else has", j.name, what)
		case !parked:
			return errors.New("it is on its way")
		}
		return nil
	})
}

// interrupt interrupts the thread in whatever it waits for.
func (j *thread) interrupt(t testing.TB) {
	t.Helper()
	j.agent.thread("observer").send("interrupt", j.name).must(t)
}

// tryLock attempts to take the lock for the given time, 0 for a single
// attempt, and reports whether it got it.
func (j *thread) tryLock(t testing.TB, name string, wait time.Duration) bool {
	t.Helper()
	args := []string{name}
	if wait > 0 {
		args = append(args, millis(wait))
	}
	return result[bool](t, j.send(j.verb("tryLock"), args...))
}

// forceUnlock frees the lock from any holder, and reports whether it was held.
func (j *thread) forceUnlock(t testing.TB, name string) bool {
	t.Helper()
	return result[bool](t, j.send(j.verb("forceUnlock"), name))
}

func (j *thread) unlock(t testing.TB, name string) {
	t.Helper()
	j.send(j.verb("unlock"), name).must(t)
}

// wantUnlockRefused checks that Redisson tells the thread that it does not
// hold the lock.
func (j *thread) wantUnlockRefused(t testing.TB, name string) {
	t.Helper()
	err := j.send(j.verb("unlock"), name).wait(t.Context()).err
	var thrown *javaError
	if !errors.As(err, &thrown) || thrown.Class != illegalMonitorState {
		t.Errorf("unlock of %s by Java thread %s: %v, want %s", name, j.name, err, illegalMonitorState)
	}
}

func (j *thread) state(t testing.TB, name string) javaState {
	t.Helper()
	return result[javaState](t, j.send(j.verb("state"), name))
}

// owner returns the holder that Redisson writes for the thread.
func (j *thread) owner(t testing.TB) string {
	t.Helper()
	owner := result[string](t, j.send("owner"))
	if j.kind == "write" {
		owner += ":write"
	}
	return owner
}

// result waits for the answer and returns what the command returned.
func result[T any](t testing.TB, r *reply) T {
	t.Helper()
	var v T
	if err := r.wait(t.Context()).into(&v); err != nil {
		t.Fatalf("the Java side: %v", err)
	}
	return v
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
