package mortise

import (
	"context"
	"time"

	"github.com/mortise-go/mortise/internal/lease"
)

// Hold is one acquisition of a lock, and the only thing that can be released.
// Its methods are safe for concurrent use.
type Hold lease.Hold

// HoldFrom returns the hold whose context ctx is, or descends from, and the innermost
// of several. It reports false if there is none. It is for work that has only the
// context, such as the function of [Lock.Do], and needs the name, the token or the
// validity of the lock:
//
//	err := client.FencedLock("report").Do(ctx, func(ctx context.Context) error {
//		hold, _ := mortise.HoldFrom(ctx)
//		return guard.Set(ctx, "report:text", text, hold.Token())
//	})
//
// A hold that was released or lost is returned as well; see [Hold.Valid]. Contexts
// of [Detach] and [context.WithoutCancel] descend from that of the hold, too. For a
// [Term] it is the hold of the leadership, and for a [Member] that of its place, which
// Unlock refuses with [ErrInvalid], because the others must learn how the party left.
func HoldFrom(ctx context.Context) (*Hold, bool) {
	needContext(ctx)
	h := lease.HoldFrom(ctx)
	return (*Hold)(h), h != nil
}

func (h *Hold) core() *lease.Hold { return (*lease.Hold)(h) }

// Name returns the name of the lock.
func (h *Hold) Name() string { return h.core().Name() }

// Owner returns the owner's id in Redis: the client's UUID, a colon and a
// number. Other clients, Redisson's included, see it as the holder. Permits
// have no owner; for them Owner returns their comma-separated ids.
func (h *Hold) Owner() string { return h.core().Owner() }

// Permits returns the ids of the permits of the hold, in the form that Redisson
// shows: 32 hex digits. It returns nil for a lock.
func (h *Hold) Permits() []string { return h.core().Permits() }

// Until returns the time at which trust in the lease ends, unless the lease is
// renewed before. It is a time of this process' own clock, and is earlier than
// the time at which Redis lets the key expire.
func (h *Hold) Until() time.Time { return h.core().Until() }

// Token returns the fencing token, for a kind of lock that has them, and 0 for
// all others. It rises with every acquisition of the lock by any owner. After a
// re-entry all holds of the owner have the newer token, so that a resource
// that has seen the inner hold's token does not refuse the outer hold.
func (h *Hold) Token() int64 { return h.core().Token() }

// Valid reports whether the lock is still held, as far as this process can
// know without asking Redis: it was not released, not lost, and its lease is
// still trusted. The result may be out of date when it is used, if the process
// was frozen in between; only a fencing token protects against that.
func (h *Hold) Valid() bool { return h.core().Valid() }

// Context returns a context that ends when the hold does, and not when the context that Lock was called with
// ends: after a signal to stop, work under the lock may go on with it to finish what it has begun, and
// still learns of a loss. Its cause is then [ErrLost]. It has the values of the context that Lock returned, among them
// the owner, and no deadline.
func (h *Hold) Context() context.Context { return h.core().OwnContext() }

// Unlock releases the hold. The release of the owner's last hold frees the lock
// in Redis and wakes waiters. The context of the hold ends first.
//
// Unlock takes no context, so that a caller whose context has ended does not
// leave the lock behind. It blocks for one round trip; while Redis does not
// answer it retries, for [Options.UnlockFor], 5 s by default. Then it returns
// [ErrUnreachable], and the release goes on in the background until the lease would
// have ended. If the client was closed, or its Redis client, nothing is retried:
// Unlock returns [ErrClosed] at once, and the lock ends with its lease.
//
// If another goroutine of this client waits for the lock, Unlock hands it the lease
// at once, without asking Redis. If the lease was lost, and no renewal has shown it
// yet, the other one learns of it, and Unlock returns nil. With a [FencedLock] that
// one asks for a token first, and waits on if the lease is gone: then nobody is notified.
//
// Errors: [ErrReleased] for a second Unlock; [ErrLost] if the lease had already
// ended, in which case other owners may have held the lock since;
// [ErrUnknownOutcome] if the hold no longer has the lock, but it is unknown
// whether it was still held until now, because Redis' reply was lost;
// [ErrUnreachable] if Redis did not answer in time; [ErrClosed];
// [ErrDenied] if Redis refused the release, or released the lock but did not
// allow waking waiters; the text says which.
func (h *Hold) Unlock() error {
	if err := h.core().Unlock(); err != nil {
		return fail("unlock", h.Name(), err)
	}
	return nil
}

// WithOwner returns a context with a new owner. Locks acquired with it, or with
// a context derived from it, have that owner: acquiring one of them again
// re-enters.
//
// It is needed only for holds of one owner that overlap instead of nesting,
// because the context that Lock returns carries the owner as well, but ends
// with its hold.
func WithOwner(ctx context.Context) context.Context {
	needContext(ctx)
	return lease.WithOwner(ctx)
}

// Detach returns a context without an owner: a lock acquired with it contends
// with all others, including those of the owner that ctx carries. Use it for
// work that is started under a lock but is not part of what the lock protects.
func Detach(ctx context.Context) context.Context {
	needContext(ctx)
	return lease.Detach(ctx)
}
