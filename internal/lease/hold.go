package lease

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mortise-go/mortise/internal/outcome"
)

// Hold is one acquisition of a lock, and the only thing that can be released.
// Its methods are safe for concurrent use.
type Hold struct {
	of     Holding
	parent context.Context // parent of the hold's context

	backing  atomic.Pointer[backing] // of the hold's context; nil until it is needed
	observed atomic.Pointer[Call]    // receives its end; nil if nobody observes it, or it was reported

	onEnd    func(why error) // see Lease.SetOnEnd; guarded by Lease.mu, as the fields below but waits
	next     *Hold           // the next hold of the lease
	waits    atomic.Int32    // number of waits under the hold, of any client; see [Hold.WaitUnder]
	released bool
	renewed  bool // the watchdog renews the lease as long as this hold lasts
}

// Context returns the context of the hold. It carries the owner, and ends when the hold
// does.
func (h *Hold) Context() context.Context { return (*holdContext)(h) }

// Holding is implemented by what a hold depends on, such as a lease. Its methods
// are safe for concurrent use.
type Holding interface {
	NameAndID() (name, id string)
	ContextOwner() *Owner
	Until() time.Time    // when trust ends unless renewed
	Expire()             // ends the holding if trust is over
	Valid(h *Hold) bool  // both h and the holding are valid
	FencingToken() int64 // the newest fencing token, 0 if there is none
	Unlock(h *Hold) error
	Parts() (leases []*Lease, whole bool) // what it is made of; whole if the hold keeps others out with each of them
}

// Name returns the name of the lock.
func (h *Hold) Name() string {
	name, _ := h.of.NameAndID()
	return name
}

// Owner returns the owner's id in Redis.
func (h *Hold) Owner() string {
	_, id := h.of.NameAndID()
	return id
}

// Permits returns the ids of the permits of the hold, and nil if it has none.
func (h *Hold) Permits() []string {
	if l, ok := h.of.(*Lease); ok && l.traits.Permits != nil {
		return l.traits.Permits(l.id)
	}
	return nil
}

// Lease returns the lease of a hold of one lock.
func (h *Hold) Lease() *Lease { return h.of.(*Lease) }

// Until returns the time at which trust in the lease ends, unless it is renewed before.
func (h *Hold) Until() time.Time { return h.of.Until() }

// Token returns the newest fencing token, and 0 if there is none.
func (h *Hold) Token() int64 { return h.of.FencingToken() }

// Valid reports whether the lock is still held, as far as this process knows.
func (h *Hold) Valid() bool { return h.Context().Err() == nil || h.of.Valid(h) }

// Unlock releases the hold.
func (h *Hold) Unlock() error {
	if l, ok := h.of.(*Lease); ok && l.traits.Leave != "" {
		return outcome.Invalid("the hold of a party is released by %s", l.traits.Leave)
	}
	return h.of.Unlock(h)
}

// holdContext is the context of a hold. It carries the owner, and every method
// that reports its end checks the clock: after a freeze, code that checks its
// context learns that the lease is over even if it runs before the watchdog does.
type holdContext Hold

type holdKey struct{}

// HoldFrom returns the innermost hold whose context ctx is, or descends from, or nil.
func HoldFrom(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}

// backing is what the hold's context has from the moment that it has ended, or that code
// waits for its end or derives another context from it. Much work under a lock does
// neither, and a cancelable context costs an entry in its parent's table of children.
type backing struct {
	context.Context // derived from the parent; nil with why
	cancel          context.CancelCauseFunc
	why             *ending                   // the hold's context ended before there was a derived one
	own             atomic.Pointer[ownState]  // nil until there is such a context, or the hold ends
	company         atomic.Pointer[time.Time] // when several goroutines last waited under the hold; nil if they never did
}

// releasedEarly is the backing of most holds.
var releasedEarly = &backing{why: endReleased}

// derive returns the derived context, and creates it when it is first needed. That calls
// the parent, which may be the context of another hold: that one checks the clock, and may
// end this hold.
func (h *Hold) derive() *backing {
	for {
		b := h.backing.Load()
		if b != nil && b.why == nil {
			return b
		}
		parent := h.parent
		if b != nil { // it ended before its parent
			parent = context.WithoutCancel(parent)
		}
		made := new(backing)
		made.Context, made.cancel = context.WithCancelCause(parent)
		if b != nil {
			made.end(b.why)
		}
		if h.backing.CompareAndSwap(b, made) {
			return made
		}
		made.cancel(nil)
	}
}

// cancel ends the hold's context with the cause of why, unless it has already ended.
func (h *Hold) cancel(why *ending) {
	if h.parent.Err() != nil {
		h.derive() // a derived context ends as the parent did
	}
	early := releasedEarly
	if why != endReleased {
		early = &backing{why: why}
	}
	if h.backing.CompareAndSwap(nil, early) {
		return
	}
	if b := h.backing.Load(); b.why == nil {
		b.end(why)
	}
}

// end ends both contexts, unless they have ended.
func (b *backing) end(why *ending) {
	b.cancel(why.contextCause())
	b.endOwn(why)
}

// over returns the error of the hold's context, without checking the clock. An
// error, once returned, never changes: only the derived context reports the end
// of the parent, so that nothing else can end the hold's context afterwards.
func (h *Hold) over() error {
	b := h.backing.Load()
	switch {
	case b == nil && h.parent.Err() != nil:
		return h.derive().Err()
	case b == nil:
		return nil
	case b.why != nil:
		return context.Canceled
	}
	return b.Err()
}

func (c *holdContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

func (c *holdContext) Err() error {
	h := (*Hold)(c)
	if err := h.over(); err != nil {
		return err
	}
	h.expire()
	return h.over()
}

func (c *holdContext) Done() <-chan struct{} {
	h := (*Hold)(c)
	if h.over() == nil {
		h.expire()
	}
	return h.derive().Done()
}

// value returns what the contexts of the hold have besides the values of their parent.
func (h *Hold) value(key any) any {
	if key == (holdKey{}) || key == (nestKey{}) {
		return h
	}
	if key == (ownerKey{}) {
		if o := h.of.ContextOwner(); o != nil {
			return o
		}
	}
	return nil
}

// Value also serves the internal keys of package context: the cause of a context,
// and the context that children attach to. Before there is a derived context or
// an end, the parent's answer is right.
func (c *holdContext) Value(key any) any {
	if v := (*Hold)(c).value(key); v != nil {
		return v
	}
	if c.backing.Load() == nil {
		return c.parent.Value(key)
	}
	return (*Hold)(c).derive().Value(key)
}

// NewHold returns a hold of something whose context descends from parent.
func NewHold(of Holding, parent context.Context) *Hold {
	return &Hold{of: of, parent: outcome.Lasting(parent)}
}

// Outer returns the hold that the work under h is nested in, or nil.
func (h *Hold) Outer() *Hold { return NestedIn(h.parent) }

// Waiting returns how many goroutines wait under h.
func (h *Hold) Waiting() int32 { return h.waits.Load() }

// Release is Unlock for a part, also of a kind whose holds are released in another way.
func (h *Hold) Release() error { return h.of.Unlock(h) }
