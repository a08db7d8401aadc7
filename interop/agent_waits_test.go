//go:build interop

package interop

import (
	"strings"
	"testing"
)

// interrupted is the class of the exception with which most waits end when
// their thread is interrupted.
const interrupted = "java.lang.InterruptedException"

// waits are commands that wait: what to say before, so that they do, what to
// say to end the wait, and what an interrupt makes of it, empty if nothing of
// use.
var waits = []struct{ before, wait, end, interrupt, since string }{
	{"lock a", "lockInterruptibly a", "unlock a", interrupted, ""},
	{"lock b", "tryLock b 60000 60000", "unlock b", interrupted, ""},
	{"fair.lock c", "fair.lockInterruptibly c", "fair.unlock c", interrupted, ""},
	{"write.lock d", "read.lockInterruptibly d", "write.unlock d", interrupted, ""},
	{"read.lock e", "write.lockInterruptibly e", "read.unlock e", interrupted, ""},
	{"spin.lock f", "spin.lockInterruptibly f", "spin.unlock f", "", ""},
	{"fenced.lock g", "fenced.lockInterruptibly g", "fenced.unlock g", interrupted, "3.19.0"},
	{"nonreentrant.lock h", "nonreentrant.lockInterruptibly h", "nonreentrant.unlock h", interrupted, "4.4.0"},
	{"nonreentrantfair.lock i", "nonreentrantfair.tryLock i 60000", "nonreentrantfair.unlock i", interrupted, "4.4.0"},
	{"lock j", "multi.lock j,k", "unlock j", "", ""},
	{"redlock.lock l", "redlock.lock l", "redlock.unlock l", "", ""},
	{"group.lock m v", "group.tryLock m v,w 60000 60000", "group.unlock m v", interrupted, "3.38.0"},
	{"semaphore.trySetPermits n 1", "semaphore.acquire n 2", "semaphore.release n 2", interrupted, ""},
	{"semaphore.trySetPermits o 1", "semaphore.tryAcquire o 2 60000", "semaphore.release o 2", interrupted, ""},
	{"permits.trySetPermits p 0", "permits.acquire p", "permits.addPermits p 1", interrupted, ""},
	{"permits.trySetPermits q 0", "permits.tryAcquire q 1 60000 60000", "permits.addPermits q 1", interrupted, ""},
	// Before, nothing woke a waiter for several permits.
	{"permits.trySetPermits r 0", "permits.tryAcquire r 2 60000 60000", "permits.addPermits r 2", interrupted, "3.51.0"},
	{"latch.trySetCount s 1", "latch.await s", "latch.countDown s", interrupted, ""},
	{"latch.trySetCount t 1", "latch.await t 60000", "latch.countDown t", interrupted, ""},
}

// everyWait has a Java thread wait in each way; it must be seen to wait, be
// woken, and be interrupted if that is possible.
func everyWait(t *testing.T, w *world) {
	for _, c := range waits {
		if !atLeast(t, w.version, c.since) {
			continue // everyCommand shows what the agent says of that
		}
		other, waiting := w.javaWaits(t, c.before, c.wait)
		other.say(c.end).must(t)
		if got := string(waiting.must(t).Result); got == "false" || got == "[]" {
			t.Errorf("%s waited without success: %s", c.wait, got)
		}
		if c.interrupt == "" {
			continue
		}
		_, waiting = w.javaWaits(t, c.before, c.wait)
		w.java.thread("waiter").interrupt(t)
		wantThrown(t, c.wait, waiting.wait(t.Context()).err, c.interrupt)
	}
}

// javaWaits has a thread wait for what another one has taken, on servers that
// are empty but for that.
func (w *world) javaWaits(t testing.TB, before, wait string) (other *thread, waiting *reply) {
	t.Helper()
	for _, server := range w.servers {
		server.Must(t, "FLUSHALL")
	}
	other, waiter := w.java.thread("other"), w.java.thread("waiter")
	other.say(before).must(t)
	waiting = waiter.say(wait)
	waiter.awaitParked(t, waiting, wait)
	return other, waiting
}

// say sends a command that is written as one text.
func (j *thread) say(command string) *reply {
	words := strings.Fields(command)
	return j.send(words[0], words[1:]...)
}

// permitIDs says the commands that need the ids of permits.
func permitIDs(t *testing.T, w *world) {
	const name = "ids"
	java := w.java.thread("holder")
	java.send("permits.trySetPermits", name, "9").must(t)
	take := func() string {
		ids := result[[]string](t, java.send("permits.tryAcquire", name))
		if len(ids) != 1 || len(ids[0]) != 32 {
			t.Fatalf("permits.tryAcquire answers %q, want one id", ids)
		}
		return ids[0]
	}

	id := take()
	if !result[bool](t, java.send("permits.updateLeaseTime", name, id, "60000")) {
		t.Error("permits.updateLeaseTime of a permit that is held is false")
	}
	if left := java.send("permits.getLeaseTime", name, id); !atLeast(t, w.version, "3.41.0") {
		wantThrown(t, "permits.getLeaseTime", left.wait(t.Context()).err, notInThisRelease)
	} else if ms := result[int64](t, left); ms < 1 || ms > 60000 {
		t.Errorf("permits.getLeaseTime = %d, want up to 60000", ms)
	}
	java.send("permits.release", name, id).must(t)
	if !result[bool](t, java.send("permits.tryRelease", name, take())) {
		t.Error("permits.tryRelease of a permit that is held is false")
	}

	several := []string{name, take(), take()}
	if !atLeast(t, w.version, "3.23.4") {
		wantThrown(t, "permits.release of two", java.send("permits.release", several...).wait(t.Context()).err, notInThisRelease)
		return
	}
	java.send("permits.release", several...).must(t)
	if n := result[int](t, java.send("permits.tryRelease", name, take(), take())); n != 2 {
		t.Errorf("permits.tryRelease of two = %d, want 2", n)
	}
	if free := w.redis().Int(t, "GET", name); free != 9 {
		t.Errorf("%d permits are free, want 9", free)
	}
}
