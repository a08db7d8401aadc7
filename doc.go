// Package mortise is Redisson's family of distributed locks, for Go.
//
// Locks live in Redis or Valkey, in the very form in which Redisson (Java)
// keeps them: Go and Java processes hold the same locks, wait for each other,
// and wake each other.
//
//	client := mortise.New(goredis.Wrap(rdb), nil)
//	defer client.Close()
//
//	err := client.Lock("order:42").Do(ctx, func(ctx context.Context) error {
//		return ship(ctx)
//	})
//
// # Holds, leases, owners
//
// Taking a lock gives a [Hold], the only thing that can be released. Under it
// lies a lease: a record in Redis with a time limit, which the client's
// watchdog extends until the hold is released. If the process dies, or cannot
// reach Redis, the lease ends and others get the lock.
//
// The holder is told before that happens: the context that Lock returns ends,
// with cause [ErrLost], before the key can expire in Redis, even if the
// network hangs. Work under a lock should use that context.
//
// The context also carries the owner. Taking the same lock with it re-enters,
// as a Java thread does; taking it with another context contends. Goroutines
// that are given the context act for the same owner; [Detach] makes a
// competitor of one.
//
// # What a lock in Redis is, and is not
//
// It keeps others out as long as Redis does not lose acknowledged writes, the
// clocks of Redis and of the holder run at similar speed, and the holder stops
// when its context ends. A process that is frozen in the middle of a write
// cannot do that: where such a write would do harm, the resource itself must
// refuse it. The document docs/guarantees.md goes through the failures one by
// one.
package mortise
