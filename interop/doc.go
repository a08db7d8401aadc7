// Package interop holds the tests that prove mortise and Redisson contend on
// the same locks and synchronizers: real Redis servers, real Go clients, and
// a Java process (directory redisson) that runs unmodified releases of
// Redisson.
//
// They need Java and Maven and take minutes, so they carry the build tag
// interop and "go test ./..." leaves them out. Run them with
//
//	make interop
//
// which builds the Java side for every release named in redisson/versions and
// ends with a table of what was proved. Some of them, with one release:
//
//	interop/run.sh -run 'TestFairLock/4.7.0'
//
// What each change must keep is the core, of which core_test.go has a list. It
// takes half a minute, with the newest release only, and judges no real time:
//
//	interop/run.sh -core
//
// # How it is made
//
// A world is one Redis with both sides on it: a Java agent with one release of
// Redisson, and Go clients over one driver. The agent does what it is told,
// one command a line; each of its threads is an owner of locks. What it can be
// told is in agent_commands_test.go, with what comes of it.
//
// A trial is a claim, such as that Go's release wakes Java's waiter, and the
// function that proves it in one world. Tests share servers and agents, one
// after the other: a world is empty at first but not new. A trial that kills
// something starts it itself, and one that changes the server takes a world of
// newServers. What a trial promises of real time it tells the bounds of its
// world, which are judged beside a canary: a trial may run again, in a world
// that is empty.
//
// # How to add an object
//
// If the agent cannot do it yet: one small class under redisson that registers
// the commands, one line in Commands.java, and rows in agent_commands_test.go.
// What only some releases have goes through Reflect.java.
//
// A kind of lock is one more row of lockKinds; TestKinds then tries it in all
// the ways in which Lock is tried. What else it does, and everything that is
// no lock, gets a file of its own: a list of trials and
//
//	func TestSemaphore(t *testing.T)          { everywhere(t, semaphoreTrials) }
//	func TestSemaphoreInCluster(t *testing.T) { inCluster(t, semaphoreTrials) }
//
// What Redisson has only since some release is marked with since, for a list
// of trials, or with world.lacks within one; the table then names the release
// where an older one has no result. Nothing is ever skipped.
package interop
