package mortise

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/terms"
)

// Options configures a client. The zero value of each field is its default.
type Options struct {
	// TTL is how long a lock lasts in Redis after the last renewal, unless it has a
	// TTL of its own. If this process dies, waiters wait for what is left of it.
	// While the lock is held, the watchdog renews it every third of TTL. It is
	// truncated to whole milliseconds. At least 100 ms; default 30 s, like Redisson's
	// lockWatchdogTimeout.
	TTL time.Duration

	// RetryFor is how long an operation retries while Redis cannot be reached, does
	// not answer, or cannot serve (loading, full, failing over, resharding). Then it
	// returns ErrUnreachable. The time starts with the first attempt that fails; for
	// an operation that begins to wait later, while Redis is still silent, it starts
	// then. At its end the attempt under way is cut off, and what that has done, or
	// still does, is undone in the background.
	//
	// An operation whose context cannot end may take a fifth longer, and one with a
	// Durability longer by its Timeout. The context of an operation can end it
	// earlier. With a negative value, only the context ends it. A client that was
	// closed, or whose Redis client was, does not retry: its operations return
	// ErrClosed. Default 10 s.
	RetryFor time.Duration

	// UnlockFor is how long Unlock blocks while Redis does not answer, before it
	// returns ErrUnreachable. The release then goes on in the background, until the
	// lease would have ended. With go-redis, a command that was sent just before
	// may block Unlock for the client's ReadTimeout longer. A negative value means
	// until the lease has ended. Default 5 s.
	//
	// It also bounds how long a party of a Barrier or DoubleBarrier that gives up
	// reports it to Redis, before Await or Enter returns its error.
	UnlockFor time.Duration

	// PubSub selects how releases are published and subscribed to on a Redis
	// Cluster. It has no effect elsewhere. Default PubSubAuto.
	PubSub PubSub

	// FairWait is the fairLockWaitTimeout of the Redisson clients, if any, that use the
	// same fair locks: for that long, a thread that is the next in the queue may be
	// silent, or have died, before other Redisson clients drop it, and each
	// thread's deadline is that much later than the one before it. Set it if theirs is
	// not the default. If it is too short, Redisson clients may drop live waiters of
	// this client, which then queue again, at the end; if it is too long, Redisson
	// clients wait longer for a waiter that died behind threads of theirs. It has no
	// effect among mortise's clients, which drop a dead waiter within one to two seconds,
	// nor on how long this client waits. From 1 ms to a year; default 5 minutes, like
	// Redisson's.
	FairWait time.Duration

	// Prefix is put before every name, so that tenants or environments share one
	// Redis: with the prefix "staging:", the lock job is staging:job in Redis, and
	// nothing else of the client has another name there. Redisson's NameMapper does the
	// same. Errors, holds and states show names without it, and [Client.Locks] lists
	// only names that begin with it. End it with a separator, as staging: does: the
	// prefixes a and ab share the name abc. A prefix of which no name could begin is
	// invalid; its braces, if any, must be closed pairs, as in {tenant}:, which puts
	// all names of the client into one cluster slot. Default: none.
	//
	// It applies to names of locks and other objects, not to the resources of a
	// fencing guard, which are keys of the application.
	Prefix string

	// AllowAnyName admits names that are invalid by default: those whose derived
	// keys would not lie in one cluster slot, and those that are reserved for other
	// keys of locks: they begin with a reserved prefix, or end as the holds of readers
	// do (:rwlock_timeout:1) or, if they have braces, as the permits of a semaphore do
	// ({job}:timeout); also control characters, text that is not UTF-8, and more than
	// 512 bytes, since other programs may use such names. On a cluster names of the
	// first kind stay invalid, because a lock of such a name could never be released.
	// What has a reserved name gets in the way of what the name is reserved for, which
	// fails with [ErrWrongKind] meanwhile.
	AllowAnyName bool

	// OnClockJump, if set, is called when renewals show that the clock of a
	// Redis server was set, once for each time: forward, so that leases ended
	// early, or back, so that they would last too long. It is called in a
	// goroutine of its own, for which Close waits: it must not close the
	// client. A jump is detected by comparison with an earlier renewal. A jump
	// before the first renewal of the client goes undetected, and so does one
	// of less than a twentieth of the lease or a second.
	OnClockJump func(*ClockError)

	// Identity is what the client publishes about its process. By default it publishes the
	// host, the process id and the name of the program; see [Identity].
	Identity Identity

	// Observer, if set, receives the client's events. If it is a [Linker], the client's
	// record has what it returns for each hold. Default: none.
	Observer Observer

	// Logger, if set, gets a line for each event. Waiting, acquiring, renewing and releasing
	// are lines for debugging; losses and deadlocks are errors; failing renewals and pauses
	// of the process are warnings; the rest is information. Lines have the names of locks,
	// and errors of Redis, but no password. Default: none.
	Logger *slog.Logger

	// History is how many of its last acquisitions each lock keeps in Redis, those of this
	// client included: see [Client.History]. They are written about a second after they have
	// ended, in one command for each lock however many there are, into one key for each lock,
	// which lasts for a week after its last entry. If more than a thousand end within a
	// second, the others are dropped, and counted in [Stats.Unrecorded]. At most 1000;
	// default 0: none.
	History int

	// OnAsk, if set, decides what happens when the release of a hold was asked for, with
	// [Client.Ask] or mortise unlock --ask. By default the context of the hold ends, with why
	// as its cause. It is called in a goroutine of its own, for which Close waits: it must
	// not close the client. What it does not release stays held.
	OnAsk func(hold *Hold, why *RevokedError)
}

// PubSub selects the kind of messages on a Redis Cluster. All clients that
// contend for a lock must use the same kind, or they wake each other late:
// SUBSCRIBE does not receive a message sent with SPUBLISH, and vice versa.
type PubSub int

const (
	// PubSubAuto uses sharded messages if the servers support them (Redis 7,
	// Valkey), as Redisson does since 3.22.
	PubSubAuto PubSub = iota
	// PubSubSharded uses sharded messages without checking that the servers
	// support them.
	PubSubSharded
	// PubSubClassic uses PUBLISH and SUBSCRIBE, like Redisson up to 3.21, or
	// a later one with shardedSubscriptionMode OFF.
	PubSubClassic
	// PubSubBoth sends and receives both, for fleets in which both occur. It
	// is PubSubClassic on servers without sharded messages.
	PubSubBoth
)

const (
	defaultTTL       = 30 * time.Second
	defaultRetryFor  = 10 * time.Second
	defaultUnlockFor = 5 * time.Second
)

// withDefaults returns a copy of o, which may be nil, with every field set.
func (o *Options) withDefaults() Options {
	if o == nil {
		o = &Options{}
	}
	c := *o
	c.TTL = cmp.Or(c.TTL, defaultTTL)
	c.RetryFor = cmp.Or(c.RetryFor, defaultRetryFor)
	c.UnlockFor = cmp.Or(c.UnlockFor, defaultUnlockFor)
	return c
}

func (o *Options) validate() error {
	if o.TTL < terms.ShortestRenewed || o.TTL > terms.LongestLease {
		return outcome.Invalid("Options.TTL is %v; it must be between %v and a year", o.TTL, terms.ShortestRenewed)
	}
	if o.FairWait < 0 || o.FairWait > 0 && o.FairWait < time.Millisecond || o.FairWait > terms.LongestLease {
		return outcome.Invalid("Options.FairWait is %v; it must be between 1ms and a year", o.FairWait)
	}
	if err := keyspace.CheckPrefix(o.Prefix, o.AllowAnyName); err != nil {
		return outcome.Invalid("Options.Prefix is %.600q; no name may begin with it: %v", o.Prefix, err)
	}
	if o.PubSub < PubSubAuto || o.PubSub > PubSubBoth {
		return outcome.Invalid("Options.PubSub is %d; use one of the PubSub constants", o.PubSub)
	}
	if o.History < 0 || o.History > mostHistory {
		return outcome.Invalid("Options.History is %d; it must be between 0 and %d", o.History, mostHistory)
	}
	return o.Identity.validate()
}

const mostHistory = 1000

// on returns how releases are announced on a server.
func (p PubSub) on(t driver.Topology) script.Publish {
	switch {
	case !t.Cluster || p == PubSubClassic:
		return script.Classic
	case p == PubSubBoth && t.Sharded:
		return script.Both
	case p == PubSubSharded || t.Sharded:
		return script.Sharded
	}
	return script.Classic
}

// LockOptions configures how a lock is acquired. The zero value of each field
// is its default.
type LockOptions struct {
	// TTL is how long the lock lasts in Redis after the last renewal: how long
	// others wait if this process dies. While the lock is held, the watchdog
	// renews it every third of TTL. It is truncated to whole milliseconds, from
	// 100 ms to a year. It applies to the hold that acquires the lock; a re-entry
	// has the TTL of the lease it enters. Default: Options.TTL.
	TTL time.Duration

	// MaxHold limits how long a hold lasts from when it was requested from Redis:
	// when the time is over, less the margin, it is lost, whatever happens, and the
	// cause of its context's end is ErrLost with LostExpired. In Redis the lock ends
	// then, too. A MaxHold that is not longer than TTL makes a fixed lease, Redisson's
	// leaseTime: it is the TTL of the lock, which is never renewed. With a longer one
	// the lock is renewed as any other, but not beyond its end.
	//
	// A re-entry does not change when the other holds of its owner end: each has a
	// MaxHold of its own, or none, and the lock lasts in Redis as long as one of them
	// needs it. It is truncated to whole milliseconds, from 1 ms to a year.
	//
	// The context of the hold ends then without having had a Deadline: its Deadline
	// is that of the caller's context. [Hold.Until] shows the end of a lease that is
	// not renewed.
	//
	// Default 0: the watchdog renews the lock until it is released. The price is
	// that a hold that is leaked, or whose work hangs, keeps the lock for as
	// long as its process lives.
	MaxHold time.Duration

	// MinHold is how long the lock stays taken from when it was acquired, however
	// early it is released. With TryLock, a run of a nightly job that starts shortly
	// after another does nothing; with Lock, it waits until MinHold is over and then
	// runs. After Unlock no owner has the lock until then, not even the one that
	// released it, and then it is free: its key ends, which is not announced, so
	// mortise's waiters notice within a second, and Redisson's when the TTL that they
	// have read is over. Until then the name of its owner in Redis ends with ":kept";
	// ForceUnlock frees it. After Client.Close the lock stays taken until then too,
	// but no less than for the rest of its TTL, as without a MinHold: the work that it
	// protects may go on.
	//
	// A writer whose owner also holds the read side when it is released keeps
	// nothing: the owner goes on as a reader, as without a MinHold.
	//
	// It is no promise if the process dies or the hold is lost: then the lock ends
	// with its TTL, which can be set to as much. It counts for the hold that
	// acquires the lock; a re-entry fails with ErrInvalid if it asks for more. At most
	// MaxHold, if that is set, and a year. Only a Lock, FencedLock, SpinLock, FairLock
	// and the write side of an RWLock support it, and not as parts of a MultiLock or
	// Redlock; anything else fails with ErrInvalid. Default: none.
	MinHold time.Duration

	// Margin is how long before the key can expire the hold's context ends.
	// Set it if work needs more time to stop safely. It must be less than the
	// lease. The default is also the minimum: a hundredth of the lease plus
	// 2 ms, or half of a lease of a few milliseconds. It applies to the hold
	// that acquires the lock; a re-entry has the margin of the lease it enters.
	Margin time.Duration

	// NonReentrant makes it an error, ErrReentry, to acquire a lock that the
	// context's owner already holds. Like Redisson's NonReentrantLock it uses
	// the same keys, so other owners may still re-enter. Default: re-entry is
	// counted.
	NonReentrant bool

	// Durability is how many replicas must have a lease before it counts as
	// acquired, renewed or re-entered. It matters when a master fails over. A
	// re-entry has the durability of the lease it enters, and fails with
	// ErrInvalid if it asks for another one. Default: none.
	Durability Durability

	// Wait is how long Lock waits at most, for other owners and for Redis; then its
	// error matches ErrLocked if another owner had the lock, and ErrUnreachable if
	// Redis did not answer. It bounds only the wait: a hold, once acquired, and its
	// context last on. TryLock waits for Redis alone. Default 0: as long as ctx lasts.
	Wait time.Duration

	// Deadlock says what happens to a wait that is part of a cycle of waits: see
	// [DeadlockError]. Default: the cycle is reported to observers, and it waits on.
	Deadlock DeadlockPolicy
}

// core returns the options as the core needs them.
func (o LockOptions) core() terms.Options {
	return terms.Options{
		TTL: o.TTL, MaxHold: o.MaxHold, MinHold: o.MinHold, Margin: o.Margin,
		NonReentrant: o.NonReentrant, Durability: o.Durability.core(), Wait: o.Wait, DeadlockFails: o.Deadlock == DeadlockFail,
	}
}

// WaitOptions configures how to wait for a [Semaphore], a [CountDownLatch], a [Barrier]
// or a [DoubleBarrier]. The zero value of each field is its default.
type WaitOptions struct {
	// Wait is how long a call that may wait waits at most; then its error says what was
	// missing. TryAcquire waits for Redis alone. Default 0: as long as ctx lasts.
	Wait time.Duration
}

// within returns ctx for a call that waits as the options say.
func (o WaitOptions) within(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := outcome.CheckWait(o.Wait); err != nil {
		return ctx, func() {}, err
	}
	ctx, cancel := outcome.Within(ctx, o.Wait)
	return ctx, cancel, nil
}

// Durability is how many replicas must have a lease before it counts: when a
// lock is acquired, when it is re-entered, and when its lease is renewed. A
// master answers before its replicas have the lease; if it dies then, the
// promoted replica does not know the lock.
//
// A lock that is not acknowledged in time is released again, and the call that
// acquired it fails with [ErrNotDurable]. A renewal that is not acknowledged does
// not count: it is retried, and if none counts until the lease is over, the lock
// is lost. A release waits for no replicas: if a failover loses it, the lock
// stays held until its lease is over, which does no other harm. A refused request
// does not wait for replicas either.
//
// Durability costs an additional round trip for each acquisition, and the time
// that replicas need. What it guarantees depends on which replica is promoted,
// see docs/guarantees.md; WAIT is no consensus.
//
// It needs a driver that supports it, as those of mortise do, and the rights to
// WAIT or WAITAOF, and for AcksMajority and AcksAll to INFO.
type Durability struct {
	// Acks is the number of replicas that must have the lease, or one of
	// AcksMajority and AcksAll. Default 0: none. Redisson asks for one, if any
	// replica is connected.
	Acks Acks

	// AOF requires that those replicas, and the master, have synced the lease
	// to their append-only files, so that it survives a loss of power. It
	// needs Redis 7.2 or Valkey, and a master with such a file; elsewhere
	// acquiring fails with ErrInvalid, before anything is written.
	AOF bool

	// Timeout is how long to wait for the replicas. If the lease is trusted
	// for less than that, the timeout is three quarters of what is left. At
	// least 1 ms; default 1 s.
	Timeout time.Duration
}

// Acks is a number of replicas.
type Acks int

const (
	// AcksMajority is the number of replicas that, with the master, is more
	// than half of the master and the replicas connected to it at that time:
	// 1 replica of 1 or 2, 2 of 3 or 4. Without replicas it is 0, so a master
	// that has lost them all goes on. If the number of replicas is known,
	// prefer a fixed Acks.
	AcksMajority Acks = terms.AcksMajority
	// AcksAll is all replicas that are connected to the master at that time,
	// including those that still receive their first copy of the data. A
	// disconnected replica does not count; the master notices that a silent
	// one is gone after repl-timeout, a minute by default. Without replicas it
	// is 0, as above.
	AcksAll Acks = terms.AcksAll
)

// String describes d in words.
func (d Durability) String() string { return d.core().String() }

func (d Durability) core() terms.Durability {
	return terms.Durability{Acks: int(d.Acks), AOF: d.AOF, Timeout: d.Timeout}
}

// NotDurableError says how many replicas acknowledged a lock, and how many were
// required. It matches [ErrNotDurable].
type NotDurableError struct {
	Wanted       int
	Acknowledged int
	// Unsynced is true if Durability.AOF was set, and the master itself did not
	// sync its append-only file in time.
	Unsynced bool
	// Err is set if the time was over before Redis answered at all.
	Err error
}

// Error says how many replicas acknowledged.
func (e *NotDurableError) Error() string {
	text := fmt.Sprintf("%v: %d of %d in time", ErrNotDurable, e.Acknowledged, e.Wanted)
	if e.Unsynced {
		text += ", and the master has not synced it to its append-only file"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (e *NotDurableError) Unwrap() error { return e.Err }

// Is makes a NotDurableError match ErrNotDurable.
func (e *NotDurableError) Is(target error) bool { return target == ErrNotDurable }
