// Package waiting has how a lock is waited for: the goroutines of a client that want it, the one that asks for all, the turns of
// clients, and the ways in which a lock goes from one to the next. Package lease knows what a client holds.
//
// # The way of a call
//
// Lock(ctx) of package mortise calls [Acquire], which makes a request and runs it (acquire.go):
//
//	Acquire ─► newRequest                       check the arguments, learn about the server
//	        ─► run ─► reenter                   the owner has a lease, a hold more
//	             ├──► try                       TryLock: one attempt
//	             ├──► enqueue ─► Reserve        site.go: no other goroutine of the client is here
//	             │            ─► attempt        so ask at once
//	             ├──► contest.wait              contest.go: wait in the client's queue
//	             └──► waitInRedis               faircontest.go: wait in the queue in Redis
//	attempt ─► CallFor ─► Ops.Acquire           one script of package script, again while Redis does not answer
//	newHold ─► Request.Take                     a lease, and a hold of it
//	Acquire ─► settle ─► repeat, tidy, ended    undo.go, obstacle.go: no hold; undo what an attempt may have left, and say why
//
// A lock is acquired again, a few times, if Redis' reply came after the trust in its lease
// had ended. A free lock is waited for as well, in contest, if the client waited for it a
// moment ago: it still has a turn (idle.go).
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
// A wait with a limit of its own has a context with that limit, of which no hold is made
// (package outcome). Those that ask note in the queue what they have learned, so that
// each waiter that gives up can say what it waited for.
//
// The waiters of a fair lock (faircontest.go), and those of packages permits and composite,
// decide in steps of their own, but sleep in the same loop: see [Stepper].
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
// # What it must not know
//
// How a lease is kept, renewed and released, which kinds there are, and what lies in Redis.
//
// # Data, and what guards it
//
// [Queues] has the wait queues of a client with their turns, and what the client knows about other clients (rivals.go), Redisson's
// threads (redisson.go) and its own lost messages (lost.go). The mutex of the client, Client.Mu of package lease, guards all of it: a hand-off needs
// the queue and the lease under one. Nothing blocks under it. What goes on after a fair lock's queue has ended has mutexes of its own
// (fairleave.go, fairrecheck.go), which are locked before Client.Mu.
//
// A [Site] is a place at one client (site.go). What the first waiter learns of what is in the way it notes in the queue, for the errors of
// all (obstacle.go). What the client's record needs to know is its [Scene] (snapshot.go).
//
// # Fairness
//
// Waiters of a client are served in the order of its queue, clients in the order of their
// turns. A lease is handed off for 10 ms in a row (handoff.go), and while other clients take
// part in the lock (rivals.go) only to the goroutines that waited at the first hand-off, at
// most 64 times; then it goes through Redis. While
// Redisson's threads listen, a lock is left to them for up to 20 ms after each slice of
// time that this client had, and a spin lock for 25 to 75 ms (redisson.go). A grant to a
// client that does not answer lasts 3 s. A lost notification costs one poll: 1 s, or 0.1 s
// once the client knows that it loses them (wait.go, lost.go).
package waiting
