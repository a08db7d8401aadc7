package mortise

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/script"
)

// FairLock is a lock that waiters acquire in the order in which they asked: all
// goroutines and threads of all processes, those of Redisson's FairLock included.
// In everything else it is like [Lock].
//
// Waiters queue in Redis. A waiter keeps its place as long as it waits and its
// client is alive. A waiter that gives up leaves at once. One that cannot leave
// delays the next one when its turn comes:
//   - if its process has died, by one to two seconds;
//   - if its process is frozen with its connections open, by three seconds, for
//     which it is granted the lock. With a MaxHold, a Margin, a Durability or a TTL
//     below three seconds, it is not granted the lock, and delays the next one until
//     its client has shown no sign of life for ten seconds.
//
// A client that has shown no sign of life for ten seconds has lost the places of
// its waiters. If it recovers, they queue again at the end.
//
// [FairLock.TryLock] does not queue, and is refused while others do, even if
// the lock is free.
//
// What it does not guarantee, in addition to Lock: that a Redisson waiter keeps
// its place. Redisson's clients drop a waiter whose deadline has passed, five
// minutes for each place in the queue by default, and use their own clocks. Do
// not use a fair lock and a plain one under the same name: plain locks do not
// queue, and neither kind wakes the other. Even so, the owner of one kind
// re-enters it as the other, see [FairLock.Lock].
type FairLock struct {
	locker
	script script.FairLock
}

// FairLock returns the fair lock called name; see [Client.Lock] for names. It
// does no I/O.
func (c *Client) FairLock(name string) *FairLock {
	o := c.core.Object(name)
	k := &FairLock{script: c.core.Conn().FairLock(o.Key())}
	k.lock.Init(o, &fairTraits, &k.script)
	return k
}

// useFair is the use of FairLock: the hash of a Lock, and a queue.
var useFair = lease.NewUse(lease.Class{Queued: true}).TwinOf(usePlain)

var fairTraits = lease.Traits{
	Use: useFair, Kind: "fairlock", Grantable: true, Keeps: true,
	Queue: func(o lease.Ops) *script.FairLock { return o.(*script.FairLock) },
}

// With returns a handle to the same lock that acquires it with these options.
func (k *FairLock) With(options LockOptions) *FairLock {
	with := *k
	with.lock.SetOptions(options.core())
	return &with
}

// Waiter is an entry of a queue in Redis.
type Waiter struct {
	// Owner is as in [Holder] for a waiter in the queue of a fair lock, and the UUID of its
	// client for others, which have no id yet.
	Owner string
	// TTL is the time until its deadline: after that, Redisson's clients pass it over
	// when it is the next one. It is negative if the deadline has passed, or if the
	// waiter has none; for a waiter that is not in the queue of a fair lock it is -1.
	TTL time.Duration
	// Client is the process that waits, if it is known, and Since when it began to, by
	// Redis' clock; zero if that is not known.
	Client *ClientInfo
	Since  time.Time
	Kind   string // what it waits for, as [Event.Kind], if its record says so
}

// Queue returns the waiters for the lock, the next one first, at most a thousand.
// It reads from the master, changes nothing, and blocks for one round trip. It reads
// no records of clients, so Client, Since and Kind are empty; [Client.Queue] has them.
//
// Errors: those of every method; see the package documentation.
func (k *FairLock) Queue(ctx context.Context) (queue []Waiter, err error) {
	err = k.operate(ctx, "queue", func(ctx context.Context, _ script.Publish) error {
		waiters, err := script.FairInspect(ctx, k.lock.Client().Config().Driver, k.lock.Key(), 1000)
		queue = nil
		for _, w := range waiters {
			queue = append(queue, Waiter{Owner: w.Owner, TTL: w.Left})
		}
		return err
	})
	return queue, err
}
