// Package mortise is Redisson's family of distributed locks, for Go.
//
// Locks live in Redis or Valkey, in the very form in which Redisson (Java)
// keeps them: Go and Java processes hold the same locks, wait for each other,
// and wake each other. Nothing here needs Java.
//
//	client := mortise.New(goredis.Wrap(rdb), nil)
//	defer client.Close()
//
//	err := client.Lock("order:42").Do(ctx, func(ctx context.Context) error {
//		return ship(ctx)
//	})
//
// # Kinds
//
//   - [Lock], the plain one; [FairLock], in the order of all callers; [SpinLock], without notifications;
//     [FencedLock], with a token by which a resource refuses a former holder.
//   - [RWLock], for many readers or one writer; [GroupLock], for several values of one group.
//   - [MultiLock], for several locks at once; [Redlock], for independent servers.
//   - [PermitSemaphore], whose permits come back if their holder dies; [Semaphore], which counts only.
//   - [Election], for one leader; [CountDownLatch], [Barrier] and [DoubleBarrier], to wait for others.
//
// A name that is used no more leaves nothing behind, but for the number that a FencedLock and an Election count their
// tokens and terms with, and the number of a Semaphore, a PermitSemaphore or a latch that somebody has set.
//
// # Holds, leases, owners
//
// Acquiring a lock returns a [Hold], the only thing that can be released.
// Behind it is a lease: a record in Redis with a time limit, which the client's
// watchdog extends until the hold is released. If the process dies, or cannot
// reach Redis, the lease ends and other owners can acquire the lock.
//
// The holder learns of it before that happens: the context that Lock returns ends,
// with cause [ErrLost], before the key can expire in Redis, even if the
// network hangs. Work under a lock should use that context.
//
// The context also identifies the lock's owner. Acquiring the same lock with it
// re-enters, as a Java thread does; acquiring it with another context contends.
// Goroutines that share the context act for the same owner. [Detach] removes
// the owner, so that a goroutine contends like any other.
//
// Four times bound all that. [LockOptions.Wait] is how long a call waits for the lock. [LockOptions.TTL] is how long the
// lock outlasts a process that has died; it is renewed every third of that. [LockOptions.MaxHold] is how long a hold lasts
// at most, and [LockOptions.MinHold] how long the lock stays taken at least, whenever it is released.
//
// # Errors
//
// Every method that asks Redis may return the following errors, unless its
// documentation says otherwise. They are matched with [errors.Is]. A method's
// own documentation names only the errors that are special to it.
//
//   - [ErrUnreachable]: Redis could not be reached, or could not serve, for
//     longer than [Options.RetryFor].
//   - [ErrDenied]: Redis refused the user, the password or a right.
//   - [ErrNoScripts]: the server runs no Lua scripts.
//   - [ErrWrongKind]: the name is in use for another kind of object, as far as the
//     data show it.
//   - [ErrInvalid]: a name, a lease or an option is not acceptable.
//   - [ErrClosed]: the client, or the Redis client below it, was closed.
//   - The error of the caller's context, and its cause, if the context ended
//     before the method was done.
//
// A wait ends with its own limit, such as [LockOptions.Wait], or with the context.
// Its error says what was waited for: [ErrLocked], [ErrNoPermits] or [ErrMissing], or
// [ErrUnreachable]. It matches the error of the context only if that has ended.
//
// So compare in this order, as in the example called Errors: [ErrLost]; [ErrRevoked], if the
// work has ended because somebody asked for the lock; the caller's own context, whose end is the
// reason whatever else matches; [ErrDeadlock]; ErrLocked; ErrUnreachable.
//
// # What a lock in Redis is, and is not
//
// A lock excludes other owners as long as Redis does not lose acknowledged
// writes, the clocks of Redis and of the holder run at similar speed, and the
// holder stops when its context ends. A process that is frozen in the middle of
// a write cannot stop: where such a write would do harm, the resource itself
// must refuse it. The document docs/guarantees.md goes through the failures one
// by one.
package mortise
