package mortise

import (
	"errors"
	"fmt"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/script"
	"github.com/mortise-go/mortise/internal/terms"
)

// The sentinel errors. Every error that this package returns is an [*Error]
// that matches, with [errors.Is], at least one of these or the error of the
// caller's context. The exceptions are an error reply of Redis that none of them
// covers, and [Client.Locks] with a driver that cannot list keys. The client library's own errors stay matchable too.
var (
	// ErrLocked: another owner holds the lock, or held it when a wait was over.
	// errors.As finds a *HeldError that names it, if it is known. The classic
	// mistake is to acquire a lock again with the outer context instead of the one
	// that Lock returned: the caller then competes with itself.
	ErrLocked = outcome.ErrLocked
	// ErrNoPermits: a semaphore has fewer permits available than requested.
	// errors.As finds a *PermitsError with the numbers.
	ErrNoPermits = errors.New("not enough permits are available")
	// ErrNotSet: there are no permits because the semaphore was never set, or was
	// deleted: waiting cannot succeed until a process calls TrySetPermits. The
	// error also matches ErrNoPermits.
	ErrNotSet = errors.New("the semaphore was never set, or was deleted")
	// ErrLost: the lease ended before the hold was released. The cause of the hold's
	// context matches it then, and Unlock returns it. errors.As finds
	// a *LostError with the reason.
	ErrLost = outcome.ErrLost
	// ErrFenceRegressed: the counter of a lock's fencing tokens, or of an election's
	// terms, went backwards: Redis has lost it, or it was deleted.
	// The acquisition was undone; a resource would have refused its token, or
	// admitted a stale one. errors.As finds a *FenceError that says how far
	// the tokens must be raised.
	ErrFenceRegressed = errors.New("the fencing token counter went backwards")
	// ErrReleased: the hold was already released.
	ErrReleased = outcome.ErrReleased
	// ErrReentry: the owner holds this lock already and cannot re-enter: with
	// LockOptions.NonReentrant, or because it would wait for itself, as when
	// a reader of an RWLock acquires the write side.
	ErrReentry = outcome.ErrReentry
	// ErrWrongKind: the data under the name in Redis is not of the type that
	// this kind of object uses. Nothing was changed. Kinds whose data look the same
	// cannot be told apart: a Semaphore, a PermitSemaphore and a CountDownLatch are
	// each an integer under their name, and so is a counter of another program.
	ErrWrongKind = outcome.ErrWrongKind
	// ErrMissing: what a latch or a barrier waits for was still missing when the wait was
	// over. errors.As finds a *MissingError with the number.
	ErrMissing = errors.New("not everything waited for has arrived")
	// ErrNoLeader: the election has no leader.
	ErrNoLeader = errors.New("the election has no leader")
	// ErrBroken: not all parties of a barrier arrived, or left, together.
	// errors.As finds a *BrokenError with the reason.
	ErrBroken = errors.New("the barrier is broken")
	// ErrClosed: the client was closed, or the Redis client below it. That does not
	// pass, so nothing is retried.
	ErrClosed = outcome.ErrClosed
	// ErrInvalid: a name, a lease or an option is not acceptable, or a number
	// would become out of range. Nothing was changed in Redis.
	ErrInvalid = outcome.ErrInvalid
	// ErrUnreachable: Redis could not be reached, or could not serve, for
	// longer than Options.RetryFor; for Unlock, than Options.UnlockFor. Or a wait
	// was over, by its limit or its context, before Redis had answered.
	ErrUnreachable = outcome.ErrUnreachable
	// ErrDenied: Redis refused the user, the password or a right.
	ErrDenied = outcome.ErrDenied
	// ErrNoScripts: this server runs no Lua scripts, which everything here is made of:
	// EVAL or EVALSHA is disabled or renamed, or the server was built without Lua.
	ErrNoScripts = outcome.ErrNoScripts
	// ErrNotDurable: fewer replicas acknowledged the lock, in time, than
	// LockOptions.Durability asks for. An acquired lock was released again,
	// and a re-entry undone. errors.As finds a *NotDurableError.
	ErrNotDurable = outcome.ErrNotDurable
	// ErrNoQuorum: too few of a Redlock's servers answered to decide which
	// owner can hold it. errors.Is also matches the errors of the other servers.
	ErrNoQuorum = outcome.ErrNoQuorum
	// ErrClockJump: the clock of a Redis server was set. errors.As finds a
	// *ClockError that says by how much.
	ErrClockJump = errors.New("the clock of Redis jumped")
	// ErrUnknownOutcome: the operation may or may not have run in Redis; the
	// reply was lost, and asking again did not settle it. Unlock returns it if
	// the hold certainly no longer has the lock, but it is unknown whether it
	// was still held at that moment.
	ErrUnknownOutcome = outcome.ErrUnknownOutcome
	// ErrRevoked: the holder was asked to release the lock. The cause of the hold's context
	// matches it then, if nothing else was decided. errors.As finds a *RevokedError.
	ErrRevoked = errors.New("asked to release the lock")
	// ErrDeadlock: waiters wait for each other in a cycle. errors.As finds a *DeadlockError that
	// names them.
	ErrDeadlock = errors.New("deadlock")
)

// Error is the error of one operation.
type Error struct {
	Op   string // what was attempted, such as "lock"
	Name string // the name of the lock; empty for the client itself
	Err  error
}

// Error says what was attempted, on what, and what happened.
func (e *Error) Error() string {
	if e.Name == "" {
		return "mortise: " + e.Op + ": " + e.Err.Error()
	}
	return fmt.Sprintf("mortise: %s %q: %v", e.Op, e.Name, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// LostReason says why a lease was lost.
type LostReason string

// The reasons for which a lease is lost.
const (
	// LostExpired: its time was over, and it was a lease without renewal.
	LostExpired LostReason = "expired"
	// LostTaken: another owner holds the lock in Redis.
	LostTaken LostReason = "taken"
	// LostForced: the lock was free in Redis before its time was over: it was
	// freed by force, or its key was deleted, evicted or lost in a restart or
	// failover.
	LostForced LostReason = "forced"
	// LostUnreachable: Redis did not confirm a renewal in time. The key may
	// still be there, but it can no longer be relied on.
	LostUnreachable LostReason = "unreachable"
)

// LostError says why a lease was lost. It matches [ErrLost].
type LostError struct {
	Reason LostReason
	// Err is the last error of a renewal, for LostUnreachable. It may be nil:
	// a process that was suspended has made no attempt. For LostTaken and
	// LostForced it is a *ClockError if the clock of Redis was set forward
	// meanwhile, which may have ended the lease too early; for LostForced it also says
	// if a subscription was interrupted since Redis confirmed the lease last, as in a restart.
	Err error
	// Since is when Redis last confirmed the lease, by this process' own clock: when
	// the request began that it confirmed. It is zero for reasons other than
	// LostUnreachable.
	Since time.Time
}

var lostTexts = map[LostReason]string{
	LostExpired:     "the lease was lost: its time is over",
	LostTaken:       "the lease was lost: another owner holds the lock",
	LostForced:      "the lease was lost: it was freed by force, its key was deleted, or Redis has restarted without it",
	LostUnreachable: "the lease was lost: Redis has confirmed no renewal",
}

// Error says why the lease was lost, and since when it had not been confirmed.
func (e *LostError) Error() string {
	text := lostTexts[e.Reason]
	if !e.Since.IsZero() {
		text += " since " + e.Since.Format("15:04:05.000")
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is makes a LostError match ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns Err.
func (e *LostError) Unwrap() error { return e.Err }

// ClockError describes a jump of the clock of a Redis server, which decides
// when leases end. It matches [ErrClockJump].
//
// A clock that is set forward ends leases early: another owner may acquire the
// lock before its holder learns of it. A clock that is set back makes leases last
// longer, until they are renewed: the locks of a process that died stay locked
// longer by as much. A failover to a server whose clock shows another time is
// a jump, too.
type ClockError struct {
	Server string        // the server's name in the driver; empty if there is only one
	Jump   time.Duration // forward if positive, back if negative
}

// Error says which clock jumped, and by how much.
func (e *ClockError) Error() string {
	server := ""
	if e.Server != "" {
		server = " " + readable(e.Server)
	}
	if e.Jump < 0 {
		return fmt.Sprintf("the clock of Redis%s was set back by %v", server, -e.Jump)
	}
	return fmt.Sprintf("the clock of Redis%s was set forward by %v", server, e.Jump)
}

// Is makes a ClockError match ErrClockJump.
func (e *ClockError) Is(target error) bool { return target == ErrClockJump }

// FenceError describes how far the counter of fencing tokens went backwards. It
// matches [ErrFenceRegressed].
//
// To recover, set Key to the highest token that any resource may have seen, at
// least Seen. Until then, or until further acquisitions have raised the tokens
// above Seen, every acquisition by this client fails with this error.
type FenceError struct {
	Key   string // the key in Redis that counts the tokens
	Seen  int64  // the highest token that this client has seen
	Drawn int64  // the lower one that was drawn, or found, later
}

// Error says how far the counter went backwards, and how to recover.
func (e *FenceError) Error() string {
	return fmt.Sprintf("%v: %d came after %d, so Redis has lost its value; set the key %q to the highest token that any resource may have seen, at least %d", ErrFenceRegressed, e.Drawn, e.Seen, e.Key, e.Seen)
}

// Is makes a FenceError match ErrFenceRegressed.
func (e *FenceError) Is(target error) bool { return target == ErrFenceRegressed }

// fail returns the error of an operation, and nil if err is nil.
func fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Name: name, Err: err}
}

// publicErrors makes the errors of this package for the core.
type publicErrors struct{}

func (publicErrors) Operation(op, name string, err error) error { return fail(op, name, err) }

func (publicErrors) Held(by script.Holder) error {
	return &HeldError{Holder: Holder{Owner: by.Owner, Count: by.Count}, TTL: by.TTL}
}

func (publicErrors) NoPermits(lack script.PermitRefusal) error {
	return permitsError(lack)
}

func (publicErrors) Lost(reason lease.LostReason, since time.Time, err error) error {
	return &LostError{lostReasons[reason], err, since}
}

// lostReasons are the reasons that the core knows.
var lostReasons = [...]LostReason{
	lease.LostExpired: LostExpired, lease.LostTaken: LostTaken,
	lease.LostForced: LostForced, lease.LostUnreachable: LostUnreachable,
}

func (publicErrors) FenceRegressed(key string, seen, drawn int64) error {
	return &FenceError{key, seen, drawn}
}

func (publicErrors) NotDurable(lack terms.DurabilityLack) error {
	return &NotDurableError{Wanted: lack.Wanted, Acknowledged: lack.Acknowledged, Unsynced: lack.Unsynced, Err: lack.Err}
}

func (publicErrors) ClockJump(server string, jump time.Duration) error {
	return &ClockError{server, jump}
}
