package mortise

import (
	"context"
	"slices"

	"github.com/mortise-go/mortise/internal/composite"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
)

// Redlock is a lock on several servers that are independent of each other: the owner
// that has it on more than half of them holds it. It is the counterpart of Redisson's
// RedLock: on each server it is a [Lock] of that name.
//
// It works while some of the servers are down, stalled or cut off, as long as
// more than half can be reached; of four servers, that is three. All are
// asked at the same time. Once the outcome is decided it does not wait for the rest:
// a server that answers late still becomes part of the hold, or is asked to
// release the lock. A server that does not answer costs a twentieth of the lease,
// two seconds at most, and only if the outcome depends on it; it is not asked
// again at once.
//
// Each server's lease is renewed independently, or ends independently if it is fixed.
// [Hold.Until] returns until when more than half are trusted: the lease less the
// time that asking took and a margin for clocks. The hold is lost when that time ends,
// or too few are left. While they are enough, and the lock is renewed, the
// missing servers are asked again in the background, so that the servers can be
// restarted one after the other. A server on which the lock was acquired again counts once
// more than half of all are known to have kept the lock until then.
//
// What it does not guarantee: more than a Lock does about frozen holders and
// clocks. And a server that comes back without its data has forgotten the lock,
// and may help another to a majority: let it write to disk at once (appendfsync
// always), or keep it away for as long as the longest lease. A Redlock has no
// fencing tokens. Where two holders at once would do real harm, a
// [FencedLock] whose tokens the resource checks is safer than a Redlock.
//
// Waiters have no order, except for goroutines which wait for the same servers
// through the same clients. To inspect the lock or to free it by force, use the
// Lock on each server.
//
// A Redlock holds no resources. Its methods are safe for concurrent use.
type Redlock struct {
	name    string
	quorum  *composite.Quorum
	invalid error // what is wrong with it
}

// NewRedlock returns the lock called name on several servers, one client for
// each; see [Client.Lock] for names. It does no I/O. The clients should have the
// same options. Three or five servers make sense. If there is no client, or the
// same is given twice, using the Redlock fails with [ErrInvalid]. Two clients of
// the same server are a mistake that it cannot detect. So is a server that is
// left out because it was down: give all to NewRedlock. The connect package's Open
// fails for a server that is down; a driver around a client of go-redis does not
// connect before it is used.
func NewRedlock(name string, clients ...*Client) *Redlock {
	k := &Redlock{name: name}
	if len(clients) == 0 {
		k.invalid = outcome.Invalid("a Redlock needs at least one client")
	}
	var nodes []*lease.Lock
	for i, c := range clients {
		if c == nil {
			k.invalid = outcome.Invalid("client %d is nil", i+1)
			continue
		}
		if j := slices.Index(clients, c); j < i {
			k.invalid = outcome.Invalid("clients %d and %d are the same; each server counts once", j+1, i+1)
		}
		nodes = append(nodes, &c.Lock(name).lock)
	}
	k.quorum = composite.NewQuorum(name, nodes)
	return k
}

// Name returns the name on each server, without [Options.Prefix].
func (k *Redlock) Name() string { return k.name }

// With returns a handle to the same lock that acquires it with these options.
func (k *Redlock) With(options LockOptions) *Redlock {
	return &Redlock{k.name, k.quorum.With(options.core()), k.invalid}
}

// Do acquires the lock, calls f, and releases it. Everything else is as with
// [Lock.Do].
func (k *Redlock) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return under(ctx, k.Lock, f)
}

// TryDo is Do if the lock is free. Otherwise it does not call f, and returns false and no error. Everything else is as
// with [Lock.TryDo] and [Redlock.TryLock].
func (k *Redlock) TryDo(ctx context.Context, f func(ctx context.Context) error) (done bool, err error) {
	return tryUnder(ctx, k.TryLock, f)
}

// Lock acquires the lock, and blocks until it has it, ctx ends, or [LockOptions.Wait] is
// over. The returned context, and the owner that it carries, are as with [Lock.Lock].
//
// Errors: [ErrNoQuorum] if too few servers could be reached, or could serve, for
// the longest [Options.RetryFor] of the clients; at once if that cannot pass by
// itself; [ErrLocked] if others had the lock for all of the wait, or ErrNoQuorum and
// [ErrUnreachable] if too few servers answered, either with the error of ctx, if that has
// ended the wait; [ErrReentry], and those of every method; see the package documentation.
// An ErrNoQuorum includes the errors of the servers, see Lock.Lock.
func (k *Redlock) Lock(ctx context.Context) (*Hold, context.Context, error) {
	return k.enter(ctx, "lock", true)
}

// TryLock asks each server once. [ErrLocked] says that enough have answered, but
// too few of them were free; others may hold it, or ask for it at the same time.
// [ErrNoQuorum] says that too few have answered. Everything else is as with
// [Redlock.Lock].
func (k *Redlock) TryLock(ctx context.Context) (*Hold, context.Context, error) {
	return k.enter(ctx, "try lock", false)
}

func (k *Redlock) enter(ctx context.Context, op string, wait bool) (*Hold, context.Context, error) {
	needContext(ctx)
	err := k.invalid
	var hold *lease.Hold
	if err == nil {
		hold, err = k.quorum.Acquire(ctx, wait)
	}
	if err != nil {
		return nil, ctx, &Error{Op: op, Name: k.name, Err: err}
	}
	return (*Hold)(hold), hold.Context(), nil
}
