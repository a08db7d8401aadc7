// Package lease has what a client holds in Redis, from the grant to the end, and the client itself. Package mortise declares the kinds
// of lock and documents what they promise; package script knows what lies in Redis; package waiting how a lock is waited for.
//
// # What it knows
//
// A [Request] asks for a lease. When a script has given it the lock, [Request.Take] makes a lease and a hold of it (request.go):
//
//	Take ─► newLease, trust, token              lease.go, lock.go: what Redis has given, and whether to trust it
//	     ─► secure                              replicas.go: wait until it is durable
//	     ─► watchdog.Add, AddHold, register     lease.go: have it renewed, and known to this client
//	     ─► undo                                request.go: no hold; release what cannot be used
//	reenter                                     reentry.go: the owner has a lease, a hold more
//
//	Unlock ─► Over                              lease.go: is the lease still trusted?
//	       ─► LockCount                         countlock.go: one script at a time changes the count
//	       ─► setCount                          reentry.go: other holds are left
//	       ├► Waiters.HandOff                   waiters.go: the next goroutine has the lease
//	       └► stopRenewal ─► Ops.Release        release.go: the script frees the lock, or grants it
//	       ─► releaseLater                      release.go: Redis does not answer; Unlock returns
//	       ─► end ─► Waiters.Freed              lease.go: wake the next waiter of this client
//
// Several leases that one script acquires or releases are in several.go. A [Holding] is what a hold depends on: a lease, or several.
//
// # What it must not know
//
// Who waits, where, and in which order: a lease hands itself on, and says that it has begun or ended, by [Waiters] alone. Who looks: a
// client says that something has changed by [Recorder] alone. It imports neither package mortise nor a Redis client.
//
// # States
//
// A lease is trusted for its length, less a margin for clocks, from before the request that Redis confirmed, by this process' own
// monotonic clock. When trust ends, the lease is lost, whatever Redis says later: the contexts of its holds end (hold.go). Every method
// that reports the state of a hold checks the clock first, so a process that was frozen does not act on old news. A lease ends once:
// released, handed on, lost or closed (loss.go). A hold may end before its lease does, by its own limit (bounds.go).
//
// An attempt whose reply was lost is in doubt: it may have acquired the lock, and a copy of it may do so later. A call asks again with
// the same id, which is safe because all scripts are safe to run twice (retry.go). If it gives up, the janitor releases that id for one
// lease (janitor.go). A lease that began in doubt is released in the same way after its end.
//
// # Its mutex, and what that guards
//
// Client.Mu guards the table of leases (place.go) and whether the client is closed. Package waiting borrows it for its queues, because a
// hand-off needs both. Nothing blocks under it. A lease's own mutex guards its holds and its end, an owner's its list of leases. The
// janitor, the replicas, past releases and the clocks of servers have mutexes of their own; what a hold has of its own is atomic.
// Mutexes are locked in this order: the janitor's, Client.Mu, that of a lease, those of the watchdog and the hub.
//
// A place is what goroutines contend for: a name, or a part of what it has, and what it is used for. Locks of one hash in Redis that
// queue in different ways have different places, which are twins: an owner re-enters one as the other (place.go).
//
// # What is reported
//
// A call that somebody observes is a [Call], which its hold keeps until its end (call.go); observers get events, and numbers count
// (report.go). Nothing that is decided about a lock depends on it.
package lease
