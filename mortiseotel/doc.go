// Package mortiseotel makes metrics and traces of OpenTelemetry from what a client of mortise does.
// It needs the API of OpenTelemetry only: which SDK exports them, and where to, is the program's choice.
//
//	client := mortise.New(driver, &mortise.Options{Observer: mortiseotel.New()})
//
// # Metrics
//
// The attribute dlock.kind is the kind of object, such as "lock" or "rwlock.read". The name of a lock
// is in no metric unless [WithLockName] says so: there may be very many.
//
//	dlock.acquire.duration     histogram, s        kind, outcome, contended; error.type with the outcome error
//	dlock.hold.duration        histogram, s        kind, end = released, expired, lost
//	dlock.waiter.count         up-down counter     kind
//	dlock.held.count           up-down counter     kind
//	dlock.lost                 counter             kind, reason = expired, taken, forced, unreachable, closed, other
//	dlock.deadlocks            counter             kind
//	dlock.asked                counter             kind
//	dlock.renewals             counter of leases   outcome = renewed, failed
//	dlock.lease.margin         histogram, s
//	dlock.subscription.gaps    counter
//	dlock.pauses               histogram, s
//
// The outcome is acquired; locked, of a call that does not wait; timeout, of one that does; canceled;
// deadlock; or error. Holds are counted, not leases: a re-entry adds one to dlock.held.count.
// Dlock.lease.margin is how long the most urgent lease of a renewal would have been trusted without
// it: if it comes near zero, locks are about to be lost. A wait in a cycle is one of dlock.deadlocks, so
// a cycle of two waits in two processes counts twice. A plain [mortise.Semaphore] and a latch have no
// holds, only calls and waiters; a [mortise.Barrier] is in no metric.
//
// # Traces
//
// The span dlock.acquire is a call from its beginning to its answer, as a child of the span that its
// context carries. It is a link to the span of the holder that it waited for last, in whatever process,
// if that is known: it takes a wait of about half a second, and a holder whose client has an
// observer of this package, or any that writes a traceparent. So in the trace of a request that was slow,
// the link leads to the one that made it wait. A link can be forged by a client that may write
// the keys of locks; what is no traceparent is ignored.
//
// A link leads to the dlock.acquire span of the holder, or to dlock.hold with [WithHoldSpans]. Spans that
// are not sampled are not linked to.
package mortiseotel
