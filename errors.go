package mortise

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mortise-go/mortise/driver"
)

// What a caller may want to tell apart. Every error that this package returns
// is an [*Error] that matches, with [errors.Is], at least one of these or the
// error of the caller's context; only an error reply of Redis that none of them
// covers, such as that of a server without Lua, stays what it is. The client
// library's own errors stay matchable too.
var (
	// ErrLocked: somebody else holds the lock. errors.As finds a *HeldError
	// that says who, if Redis was asked.
	ErrLocked = errors.New("locked by another owner")
	// ErrNoPermits: a semaphore has fewer permits available than were asked
	// for. errors.As finds a *PermitsError with the numbers.
	ErrNoPermits = errors.New("not enough permits are available")
	// ErrLost: the lease ended before the hold was released. It is the cause
	// of the hold's context then, and what Unlock returns. errors.As finds a
	// *LostError that says why.
	ErrLost = errors.New("the lease was lost")
	// ErrFenceRegressed: the fencing tokens of a lock, or the numbers of an
	// election's terms, went back: Redis has lost them, or somebody deleted
	// them. What was acquired was released; a resource would have refused its
	// token, or admitted one that is stale. errors.As finds a *FenceError that
	// says how far they must be raised.
	ErrFenceRegressed = errors.New("the fencing tokens went back")
	// ErrReleased: the hold was released before.
	ErrReleased = errors.New("released already")
	// ErrReentry: the owner holds this lock already, and it was to be taken
	// with LockOptions.NonReentrant.
	ErrReentry = errors.New("held by the same owner already")
	// ErrWrongKind: what lies under the name in Redis is not what this kind
	// of object uses. Nothing was changed.
	ErrWrongKind = errors.New("the name is in use for something else")
	// ErrNoLeader: nobody leads.
	ErrNoLeader = errors.New("nobody leads")
	// ErrBroken: not all parties of a barrier came together, or left together.
	// errors.As finds a *BrokenError that says why.
	ErrBroken = errors.New("the barrier is broken")
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("the client is closed")
	// ErrInvalid: a name, a lease or an option is not acceptable, or a number
	// would become so. Nothing was changed in Redis.
	ErrInvalid = errors.New("invalid argument")
	// ErrUnreachable: Redis could not be reached, or could not serve, for
	// longer than Options.RetryFor.
	ErrUnreachable = errors.New("redis cannot be reached or cannot serve")
	// ErrDenied: Redis refused the user, the password or a right.
	ErrDenied = errors.New("redis denied access")
	// ErrNotDurable: fewer replicas acknowledged the lock, in time, than
	// LockOptions.Durability asks for. A lock that was taken was given back,
	// and a re-entry undone. errors.As finds a *NotDurableError.
	ErrNotDurable = errors.New("not acknowledged by enough replicas")
	// ErrNoQuorum: too few of a Redlock's servers answered to tell who can have
	// it. errors.Is finds what was wrong with each of the others, too.
	ErrNoQuorum = errors.New("too few servers answered")
	// ErrClockJump: the clock of a Redis server was set. errors.As finds a
	// *ClockError that says by how much.
	ErrClockJump = errors.New("the clock of Redis jumped")
	// ErrUnknownOutcome: Redis did the thing or did not; its reply was lost,
	// and asking again could not tell. Unlock returns it if the lock is
	// certainly free of the hold, but nobody can say whether it was still
	// held at that moment.
	ErrUnknownOutcome = errors.New("the outcome is unknown")
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

// Unwrap returns what happened.
func (e *Error) Unwrap() error { return e.Err }

// HeldError says who holds a lock. It matches [ErrLocked].
type HeldError struct {
	Holder
	// TTL is how long the holder's lease lasted when Redis was asked, unless
	// it is renewed; -1 if the key has no TTL.
	TTL time.Duration
}

// Error says who holds the lock, and until when at least.
func (e *HeldError) Error() string {
	if e.Count == 0 {
		return fmt.Sprintf("free, but %s is the next to have it", readable(e.Owner))
	}
	if e.TTL < 0 {
		return fmt.Sprintf("held by %s, without a time limit", readable(e.Owner))
	}
	return fmt.Sprintf("held by %s for another %v unless renewed or released", readable(e.Owner), e.TTL)
}

// readable is a text that others have written, fit for a line of a log: not too
// long, and quoted if it could be taken for anything else.
func readable(text string) string {
	const most = 200
	more := ""
	if len(text) > most {
		text, more = text[:most], "..."
	}
	if quoted := strconv.Quote(text); text == "" || strings.ContainsRune(text, ' ') || quoted != `"`+text+`"` {
		text = quoted
	}
	return text + more
}

// Is makes a HeldError match ErrLocked.
func (e *HeldError) Is(target error) bool { return target == ErrLocked }

func (e *HeldError) left() time.Duration { return e.TTL }

// PermitsError says how many permits were missing. It matches [ErrNoPermits].
type PermitsError struct {
	Wanted    int
	Available int // when Redis was asked; may be below 0
	// Next is in how long at the latest a permit comes back by itself, unless
	// its lease is renewed; -1 if none does, as far as is known.
	Next time.Duration
}

// Error says how many permits were asked for and how many there were.
func (e *PermitsError) Error() string {
	if e.Available >= e.Wanted {
		return fmt.Sprintf("%d permits are wanted, and the %d that are available are left to others who wait", e.Wanted, e.Available)
	}
	return fmt.Sprintf("permits wanted: %d, available: %d", e.Wanted, e.Available)
}

// Is makes a PermitsError match ErrNoPermits.
func (e *PermitsError) Is(target error) bool { return target == ErrNoPermits }

func (e *PermitsError) left() time.Duration { return e.Next }

// refusal is what was in the way of who asked.
type refusal interface {
	error
	left() time.Duration // for how long at most, unless prolonged; -1 if not known
}

// LostReason says why a lease was lost.
type LostReason string

// The reasons for which a lease is lost.
const (
	// LostExpired: its time was over, and it was not to be renewed.
	LostExpired LostReason = "expired"
	// LostTaken: Redis says that another owner holds the lock.
	LostTaken LostReason = "taken"
	// LostForced: Redis says that nobody holds the lock, before its time was
	// over: it was freed by force, or its key was deleted, evicted or lost in
	// a restart or failover.
	LostForced LostReason = "forced"
	// LostUnreachable: Redis did not confirm a renewal in time. The key may
	// still be there, but it can no longer be relied on.
	LostUnreachable LostReason = "unreachable"
)

// LostError says why a lease was lost. It matches [ErrLost].
type LostError struct {
	Reason LostReason
	// Err is the last error of renewing, for LostUnreachable. It may be nil:
	// a process that was suspended has made no attempt. For LostTaken and
	// LostForced it is a *ClockError if the clock of Redis was set forward
	// meanwhile, which ended the lease too early.
	Err error
}

var lostTexts = map[LostReason]string{
	LostExpired:     "the lease was lost: its time is over",
	LostTaken:       "the lease was lost: another owner holds the lock",
	LostForced:      "the lease was lost: it was freed by force, or its key was deleted",
	LostUnreachable: "the lease was lost: Redis confirmed no renewal in time",
}

// Error says why the lease was lost.
func (e *LostError) Error() string {
	if e.Err == nil {
		return lostTexts[e.Reason]
	}
	return lostTexts[e.Reason] + ": " + e.Err.Error()
}

// Is makes a LostError match ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns Err.
func (e *LostError) Unwrap() error { return e.Err }

// ClockError says that the clock of a Redis server jumped: leases end by it. It
// matches [ErrClockJump].
//
// A clock that is set forward ends leases early: another may have had the lock
// before its holder was told. One that is set back makes leases last longer,
// until they are renewed: the locks of a process that died stay locked for so
// much longer. A failover to a server whose clock shows another time is a jump,
// too.
type ClockError struct {
	Server string        // whose clock it is, as the driver names servers; empty if there is only one
	Jump   time.Duration // by how much it was set forward; below 0 if back
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

// FenceError says how far the fencing tokens of a lock went back. It matches
// [ErrFenceRegressed].
//
// The remedy is to raise Key above every token that any resource may have seen,
// Seen at least. Until then, or until the tokens have risen above Seen by
// themselves, every acquisition by this client fails so.
type FenceError struct {
	Key   string // counts the tokens in Redis
	Seen  int64  // the highest token that this client has seen
	Drawn int64  // the one that was drawn, or found, later
}

// Error says how far the tokens went back, and what to do.
func (e *FenceError) Error() string {
	return fmt.Sprintf("%v: %d came after %d, so Redis has lost them; set the key %q to the highest token that any resource may have seen, at least %d", ErrFenceRegressed, e.Drawn, e.Seen, e.Key, e.Seen)
}

// Is makes a FenceError match ErrFenceRegressed.
func (e *FenceError) Is(target error) bool { return target == ErrFenceRegressed }

// waitError is the error for a wait that ended because its context did.
type waitError struct {
	ctx  error
	held refusal // nil if nothing was seen to be in the way
}

func (e *waitError) Error() string {
	if e.held == nil {
		return "gave up waiting: " + e.ctx.Error()
	}
	return "gave up waiting: " + e.ctx.Error() + "; " + e.held.Error()
}

func (e *waitError) Unwrap() []error {
	if e.held == nil {
		return []error{e.ctx}
	}
	return []error{e.ctx, e.held}
}

// contextError returns the error of a context that ended, matching its cause.
func contextError(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != err {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// because is the meaning of an error for a caller whose context may have ended
// meanwhile: then the error says so as well.
func because(ctx context.Context, err error) error {
	end := ctx.Err()
	switch {
	case end == nil:
		return meaning(err)
	case errors.Is(err, end) && errors.Is(err, context.Cause(ctx)):
		return err
	case errors.Is(err, end):
		return fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	return fmt.Errorf("%w: %w", contextError(ctx), meaning(err))
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// meaning gives a driver's error its place among the sentinels.
func meaning(err error) error {
	var e *driver.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Class {
	case driver.NotSent, driver.Unknown, driver.Passing:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	case driver.Closed:
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case driver.Denied:
		return fmt.Errorf("%w: %w", ErrDenied, err)
	case driver.WrongType:
		return fmt.Errorf("%w: %w", ErrWrongKind, err)
	}
	return err
}
