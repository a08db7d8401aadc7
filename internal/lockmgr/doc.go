// Package lockmgr acquires, keeps and releases what one client holds in Redis. Package
// mortise declares the kinds of lock and documents what they promise; package
// internal/script knows what lies in Redis. This package is what lies between: the
// goroutines that want a lock, the one that asks for it, and the lease that it gets. It
// imports neither package mortise nor a Redis client.
//
// # The way of a call
//
// Lock(ctx) of package mortise calls [Lock.Acquire], which makes a request and runs it
// (acquire.go):
//
//	Acquire ─► request                          check the arguments, learn about the server
//	        ─► run ─► reenter                   reentry.go: the owner has a lease, a hold more
//	             ├──► try                       TryLock: one attempt
//	             ├──► enqueue ─► reserve        site.go: no other goroutine of the client is here
//	             │            ─► attempt        so ask at once
//	             ├──► contest.wait              contest.go: wait in the client's queue
//	             └──► waitInRedis               faircontest.go: wait in the queue in Redis
//	attempt ─► callFor ─► Ops.Acquire           retry.go, and one script of internal/script
//	newHold ─► newLease, trust, token           lease.go: what Redis has given, and whether to trust it
//	        ─► secure                           replicas.go: wait until it is durable
//	        ─► watchdog.Add, addHold, register  lease.go: have it renewed, and known to this client
//	Acquire ─► tidy                             undo.go: no hold; undo what an attempt may have left
//
// A lock is acquired again, a few times, if Redis' reply came after the trust in its lease
// had ended. A free lock is waited for as well, in contest, if the client waited for it a
// moment ago: it still has a turn (idle.go).
//
//	Unlock ─► over                              lease.go: is the lease still trusted?
//	       ─► lockCount                         count.go: one script at a time changes the count
//	       ─► setCount                          reentry.go: other holds are left
//	       ├► handOff                           handoff.go: the next goroutine has the lease
//	       └► stopRenewal ─► Ops.Release        release.go: the script frees the lock, or grants it
//	       ─► releaseLater                      release.go: Redis does not answer; Unlock returns
//	       ─► end ─► freed                      lease.go: wake the next waiter of this client
//
// # What a waiter does next
//
// The goroutines of a client that want the same place form one wait queue (queue.go). Only
// its first waiter asks Redis, on behalf of all. What a waiter for a lock does next depends
// only on its view of the place, so [decide] is a pure function (decide.go). contest.go
// carries it out, and one loop sleeps in between (wait.go):
//
//	behind ◄─ joined the queue; sleeps until it is woken
//	  │  └─ its owner holds the other side, or it was notified to ask: it asks once, from here
//	  ▼ first in the queue
//	first ◄─ a goroutine of this client holds the lock, or others go first: it sleeps
//	  │ │
//	  │ └─ handed the lease by a goroutine of this client ─────────────► held
//	  ▼                                        acquired
//	asks ──────────────────────────────────────────────────────────────► held
//	  │ refused   ▲ notification, poll, end of the lease in the way
//	  ▼           │
//	listens ──────┘
//	  │                                        granted by a release
//	  └────────────────────────────────────────────────────────────────► held
//
//	any state ─ ctx ends, client closed ─► failed: leave the queue, decline the
//	                                       turn, undo an attempt in doubt
//
// Operations that other parties count, such as an arrival at a barrier, are undone before the failing call returns (takeback.go).
//
// A wait with a limit of its own has a context with that limit, of which no hold is made
// (waitlimit.go). Those that ask note in the queue what they have learned, so that
// each waiter that gives up can say what it waited for.
//
// The waiters of a fair lock (faircontest.go), a Redlock (quorum_request.go), and of a
// semaphore or a latch (number.go) decide in steps of their own, but sleep in the same
// loop: see stepper. A MultiLock acquires its locks one by one, or several with one script
// (batch_request.go, scriptgroup.go).
//
// # Three ways in
//
//   - Acquired: the client's own script has taken the lock. The lease is trusted from the
//     moment before that script was sent.
//   - Granted: a release, most often that of another client, has given the lock to this
//     client's turn (turn.go), under an id that no other client knows. The lease is trusted
//     from the client's last refusal, which came before the grant; if that is too long ago
//     or not certain, the client asks Redis first.
//   - Handed off: a goroutine of this client has released its lease to the next waiter
//     (handoff.go). The record in Redis stays, and so does the trust in it.
//
// # Data, and what guards it
//
// Client.mu guards the wait queues with their turns, the table of leases, and what the
// client knows about other clients and Redisson's threads (sharing.go, deaf.go). Nothing
// blocks under it. A lease's own mutex guards its holds and its end. Components with data
// of their own have their own mutex: the janitor, clocks, replicas, operations, takebacks, and those
// of fair locks that go on after their queue has ended (fairleave.go, fairrecheck.go). So
// do an owner and a composite. What a hold has of its own is atomic. Mutexes are locked in this order: those of the
// janitor and of rechecks, Client.mu, that of a lease, those of the watchdog and the hub.
//
// A place is what goroutines contend for: a name, or a part of what it has, and what it is
// used for. Locks of one hash in Redis that queue in different ways have different places,
// which are twins: an owner re-enters one as the other (place.go, with the table of
// leases). A site is a place at one client (site.go).
//
// # Trust
//
// A lease is trusted for its length, less a margin for clocks, from before the request
// that Redis confirmed, by this process' own monotonic clock. When trust ends, the lease
// is lost, whatever Redis says later: the contexts of its holds end (hold.go). Every
// method that reports the state of a hold checks the clock first, so a process that was
// frozen does not act on old news.
//
// # In doubt
//
// An attempt whose reply was lost is in doubt: it may have acquired the lock, and a copy of
// it may do so later. The request asks again with the same id, which is safe because all
// scripts are safe to run twice (retry.go). If it gives up, the janitor releases that id
// for one lease (janitor.go). A lease that began in doubt is released in the same way
// after its end.
//
// # What is reported
//
// A call that somebody observes has an observation (observation.go), which its hold keeps until its
// end; observers get events (event.go), and the lock's history an entry (flight.go). The recorder
// (recorder.go) looks at what the client holds and waits for (scene.go) a moment after that has changed,
// and keeps the client's record in Redis; what fails is tried again, ever later (backoff.go). What others have written there (others.go) names holders in
// errors, lets a holder be asked to release (revoke.go), and shows cycles of waits (cycle.go). No lock
// waits for any of this, and nothing that is decided about a lock depends on it, but for a wait that is to
// fail because it is part of a cycle.
//
// # Fairness
//
// Waiters of a client are served in the order of its queue, clients in the order of their
// turns. A lease is handed off for 10 ms in a row (handoff.go), and while other clients take
// part in the lock (rivals.go) only to the goroutines that waited at the first hand-off, at
// most 64 times; then it goes through Redis. While
// Redisson's threads listen, a lock is left to them for up to 20 ms after each slice of
// time that this client had, and a spin lock for 25 to 75 ms (sharing.go). A grant to a
// client that does not answer lasts 3 s. A lost notification costs one poll: 1 s, or 0.1 s
// once the client knows that it loses them (wait.go, deaf.go).
package lockmgr
