//go:build interop

package interop

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// notInThisRelease is the class of the exception with which the agent answers
// a command whose object or method its Redisson does not have.
const notInThisRelease = "mortise.agent.NotInThisRelease"

// said is a command to the agent and what must come of it. The tables below
// are also the list of what the agent can be told.
type said struct {
	command string // with its arguments
	answer  string // JSON
	ask     string // a Redis command, empty for none
	shows   string // what Redis answers then, as fmt prints it
	since   string // the first release that has it, empty for all
}

// lockCommands are the verbs of every kind of lock that keeps its holder in a
// hash; %s is the kind's prefix and its name.
var lockCommands = []said{
	{"%[1]slock %[2]s", "null", "HVALS %[2]s", "[1]", ""},
	{"%[1]sunlock %[2]s", "null", "EXISTS %[2]s", "0", ""},
	{"%[1]slock %[2]s 60000", "null", "HVALS %[2]s", "[1]", ""},
	{"%[1]sisLocked %[2]s", "true", "", "", ""},
	{"%[1]sforceUnlock %[2]s", "true", "EXISTS %[2]s", "0", ""},
	{"%[1]slockInterruptibly %[2]s", "null", "HVALS %[2]s", "[1]", ""},
	{"%[1]sunlock %[2]s", "null", "EXISTS %[2]s", "0", ""},
	{"%[1]slockInterruptibly %[2]s 60000", "null", "HVALS %[2]s", "[1]", ""},
	{"%[1]sunlock %[2]s", "null", "EXISTS %[2]s", "0", ""},
	{"%[1]stryLock %[2]s", "true", "HVALS %[2]s", "[1]", ""},
	{"%[1]sunlock %[2]s", "null", "EXISTS %[2]s", "0", ""},
	{"%[1]stryLock %[2]s 1000", "true", "HVALS %[2]s", "[1]", ""},
	{"%[1]sunlock %[2]s", "null", "EXISTS %[2]s", "0", ""},
	{"%[1]stryLock %[2]s 1000 60000", "true", "HVALS %[2]s", "[1]", ""},
	{"%[1]sdelete %[2]s", "true", "EXISTS %[2]s", "0", ""},
	{"%[1]scontend %[2]s counter:%[2]s 5", "", "GET counter:%[2]s", "5", ""},
	{"%[1]srace %[2]s counter:%[2]s 3 9", "", "GET counter:%[2]s", "8", ""},
	{"%[1]srace %[2]s counter:%[2]s 0 9", "", "GET counter:%[2]s", "9", ""},
	{"%[1]sfleet %[2]s 1 2 0 0 1", "", "EXISTS %[2]s", "0", ""}, // all is over
	{"%[1]shold %[2]s counter:%[2]s 3 1", "", "GET counter:%[2]s", "12", ""},
}

// lockKindsSince are the prefixes of the kinds of lock that lockCommands are
// tried with.
var lockKindsSince = []struct{ prefix, since string }{
	{"", ""},
	{"fair.", ""},
	{"spin.", ""},
	{"fenced.", "3.19.0"},
	{"nonreentrant.", "4.4.0"},
	{"nonreentrantfair.", "4.4.0"},
}

var commands = []said{
	{"keys nothing*", "[]", "", "", ""},
	{"keys.delete nothing*", "0", "", "", ""},

	{"read.lock rw", "null", "HGET rw mode", "read", ""},
	{"read.isLocked rw", "true", "", "", ""},
	{"write.tryLock rw", "false", "HGET rw mode", "read", ""},
	{"read.tryLock rw 1000 60000", "true", "HLEN rw", "2", ""},
	{"read.unlock rw", "null", "HGET rw mode", "read", ""},
	{"read.forceUnlock rw", "true", "EXISTS rw", "0", ""},
	{"write.lock rw", "null", "HGET rw mode", "write", ""},
	{"write.lockInterruptibly rw 60000", "null", "HLEN rw", "2", ""},
	{"write.unlock rw", "null", "HGET rw mode", "write", ""},
	{"write.unlock rw", "null", "EXISTS rw", "0", ""},
	{"write.lock rw 60000", "null", "HGET rw mode", "write", ""},
	{"write.forceUnlock rw", "true", "EXISTS rw", "0", ""},
	{"write.lock rw", "null", "HGET rw mode", "write", ""},
	{"rw.delete rw", "true", "EXISTS rw", "0", ""},

	{"fenced.lockToken token", "1", "GET redisson_lock_token:{token}", "1", "3.19.0"},
	{"fenced.lockToken token 60000", "2", "GET redisson_lock_token:{token}", "2", "3.19.0"},
	{"fenced.tryLockToken token 1000", "3", "GET redisson_lock_token:{token}", "3", "3.19.0"},
	{"fenced.tryLockToken token 1000 60000", "4", "GET redisson_lock_token:{token}", "4", "3.19.0"},
	{"fenced.tryLockToken token", "5", "GET redisson_lock_token:{token}", "5", "3.19.0"},
	{"fenced.getToken token", "5", "", "", "3.19.0"},

	{"multi.lock m1,fair:m2", "null", "EXISTS m1 m2", "2", ""},
	{"multi.unlock m1,fair:m2", "null", "EXISTS m1 m2", "0", ""},
	{"multi.lock m1,read:m3 60000", "null", "EXISTS m1 m3", "2", ""},
	{"multi.unlock m1,read:m3", "null", "EXISTS m1 m3", "0", ""},
	{"multi.tryLock m1,write:m3", "true", "HGET m3 mode", "write", ""},
	{"multi.unlock m1,write:m3", "null", "EXISTS m1 m3", "0", ""},
	{"multi.tryLock m1,spin:m2 1000", "true", "EXISTS m1 m2", "2", ""},
	{"multi.unlock m1,spin:m2", "null", "EXISTS m1 m2", "0", ""},
	{"multi.tryLock m1,fenced:m4 1000 60000", "true", "EXISTS m1 m4", "2", "3.19.0"},
	{"multi.unlock m1,fenced:m4", "null", "EXISTS m1 m4", "0", "3.19.0"},
	{"multi.lock m1,nonreentrant:m5", "null", "EXISTS m1 m5", "2", "4.4.0"},
	{"multi.unlock m1,nonreentrant:m5", "null", "EXISTS m1 m5", "0", "4.4.0"},

	{"group.lock g a,b", "null", "HLEN g", "6", "3.38.0"},
	{"group.unlock g a,b", "null", "HLEN g", "0", "3.38.0"},
	{"group.lock g a,b,c 60000", "null", "HLEN g", "9", "3.38.0"},
	{"group.isLocked g a,c", "true", "", "", "3.38.0"},
	{"group.forceUnlock g a,b,c", "false", "HLEN g", "0", "3.38.0"},
	{"group.tryLock g ключ", "true", "HLEN g", "3", "3.38.0"},
	{"group.tryLock g b 1000", "true", "HLEN g", "6", "3.38.0"},
	{"group.tryLock g c,d 1000 60000", "true", "HLEN g", "12", "3.38.0"},

	{"redlock.lock everywhere", "null", "EXISTS everywhere", "1", ""},
	{"redlock.unlock everywhere", "null", "EXISTS everywhere", "0", ""},
	{"redlock.tryLock everywhere 1000 60000", "true", "EXISTS everywhere", "1", ""},
	{"redlock.unlock everywhere", "null", "EXISTS everywhere", "0", ""},
	{"servers.tryLock everywhere 1000", "true", "EXISTS everywhere", "1", ""},
	{"servers.unlock everywhere", "null", "EXISTS everywhere", "0", ""},

	{"semaphore.trySetPermits s 5", "true", "GET s", "5", ""},
	{"semaphore.trySetPermits s 6", "false", "GET s", "5", ""},
	{"semaphore.acquire s 1", "null", "GET s", "4", ""},
	{"semaphore.tryAcquire s 2", "true", "GET s", "2", ""},
	{"semaphore.tryAcquire s 3 50", "false", "GET s", "2", ""},
	{"semaphore.release s 2", "null", "GET s", "4", ""},
	{"semaphore.addPermits s 3", "null", "GET s", "7", ""},
	{"semaphore.available s", "7", "", "", ""},
	{"semaphore.drain s", "7", "GET s", "0", ""},
	{"semaphore.delete s", "true", "EXISTS s", "0", ""},
	{"semaphore.releaseIfExists s 1", "false", "EXISTS s", "0", "4.0.0"},
	{"semaphore.trySetPermits s 2 60000", "true", "GET s", "2", "3.29.0"},

	{"permits.trySetPermits p 4", "true", "GET p", "4", ""},
	{"permits.addPermits p 2", "null", "GET p", "6", ""},
	{"permits.acquire p", "", "GET p", "5", ""},
	{"permits.acquire p 1 60000", "", "ZCARD {p}:timeout", "2", ""},
	{"permits.tryAcquire p", "", "ZCARD {p}:timeout", "3", ""},
	{"permits.tryAcquire p 1 1000 60000", "", "ZCARD {p}:timeout", "4", ""},
	{"permits.tryRelease p 00000000000000000000000000000000", "false", "ZCARD {p}:timeout", "4", ""},
	{"permits.updateLeaseTime p 00000000000000000000000000000000 1000", "false", "", "", ""},
	{"permits.available p", "2", "", "", ""},
	{"permits.setPermits p 9", "null", "GET p", "5", "3.19.1"},
	{"permits.acquired p", "4", "", "", "3.19.1"},
	{"permits.acquire p 2", "", "ZCARD {p}:timeout", "6", "3.23.4"},
	{"permits.acquire p 2 60000", "", "ZCARD {p}:timeout", "8", "3.23.4"},
	{"permits.tryAcquire p 2", "[]", "ZCARD {p}:timeout", "8", "3.23.4"},
	{"permits.tryAcquire p 2 50", "[]", "ZCARD {p}:timeout", "8", "3.23.4"},
	{"permits.permits p", "9", "", "", "3.19.1"},
	{"permits.delete p", "true", "EXISTS p {p}:timeout", "0", ""},

	{"latch.trySetCount l 2", "true", "GET l", "2", ""},
	{"latch.await l 50", "false", "", "", ""},
	{"latch.countDown l", "null", "GET l", "1", ""},
	{"latch.getCount l", "1", "", "", ""},
	{"latch.countDown l", "null", "EXISTS l", "0", ""},
	{"latch.await l", "true", "", "", ""},
	{"latch.trySetCount l 3", "true", "GET l", "3", ""},
	{"latch.delete l", "true", "EXISTS l", "0", ""},
}

// TestAgentCommands says each command to each release at least once.
func TestAgentCommands(t *testing.T) {
	t.Parallel()
	for _, version := range redissons(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := newServers(t, version, "none", 3)
			t.Run("said", func(t *testing.T) { everyCommand(t, w) })
			t.Run("waits", func(t *testing.T) { everyWait(t, w) })
			t.Run("permits", func(t *testing.T) { permitIDs(t, w) })
		})
	}
}

func everyCommand(t *testing.T, w *world) {
	for i, kind := range lockKindsSince {
		for _, c := range lockCommands {
			c.command = fmt.Sprintf(c.command, kind.prefix, fmt.Sprint("lock", i))
			c.ask = strings.ReplaceAll(c.ask, "%[2]s", fmt.Sprint("lock", i))
			c.since = kind.since
			c.say(t, w)
		}
	}
	for _, c := range commands {
		c.say(t, w)
	}
}

// say sends the command to a Java thread and checks what comes of it.
func (c said) say(t *testing.T, w *world) {
	t.Helper()
	outcome := w.java.thread("commanded").say(c.command).wait(t.Context())
	if !atLeast(t, w.version, c.since) {
		wantThrown(t, c.command, outcome.err, notInThisRelease)
		return
	}
	switch {
	case outcome.err != nil:
		t.Errorf("%s: %v", c.command, outcome.err)
	case c.answer != "" && string(outcome.Result) != c.answer:
		t.Errorf("%s answers %s, want %s", c.command, outcome.Result, c.answer)
	}
	if c.ask == "" {
		return
	}
	if shows := fmt.Sprint(w.redis().Must(t, strings.Fields(c.ask)...)); shows != c.shows {
		t.Errorf("after %s, %s shows %s, want %s", c.command, c.ask, shows, c.shows)
	}
}

// wantThrown checks that a command ended with an exception of that class.
func wantThrown(t testing.TB, command string, err error, class string) {
	t.Helper()
	var thrown *javaError
	if !errors.As(err, &thrown) || thrown.Class != class {
		t.Errorf("%s: %v, want %s", command, err, class)
	}
}
