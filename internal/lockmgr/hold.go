package lockmgr

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Hold is one acquisition of a lock, and the only thing that can be released.
// Its methods are safe for concurrent use.
type Hold struct {
	of     holding
	parent context.Context // parent of the hold's context

	mu      sync.Mutex // guards derived and why
	derived *derived   // created when first needed
	why     *ending    // why the hold's context ended, if it ended before derived was created

	waits atomic.Int32 // number of waits under the hold, of any client; see [Hold.waitUnder]

	observed *observation // told of its end; nil if nothing is to be told, or was; guarded by mu
	untold   *ending      // why it was lost before observed was set; guarded by mu

	// The fields below are guarded by Lease.mu.
	onEnd    func(why error) // see Lease.setOnEnd
	next     *Hold           // the next hold of the lease
	released bool
	renewed  bool // the watchdog renews the lease as long as this hold lasts
}

// Context returns the context of the hold. It carries the owner, and ends when the hold
// does.
func (h *Hold) Context() context.Context { return (*holdContext)(h) }

// holding is implemented by what a hold depends on, such as a lease. Its methods
// are safe for concurrent use.
type holding interface {
	nameAndID() (name, id string)
	contextOwner() *Owner
	until() time.Time    // when trust ends unless renewed
	expire()             // ends the holding if trust is over
	valid(h *Hold) bool  // both h and the holding are valid
	fencingToken() int64 // the newest fencing token, 0 if there is none
	unlock(h *Hold) error
}

// Name returns the name of the lock.
func (h *Hold) Name() string {
	name, _ := h.of.nameAndID()
	return name
}

// Owner returns the owner's id in Redis.
func (h *Hold) Owner() string {
	_, id := h.of.nameAndID()
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
func (h *Hold) Until() time.Time { return h.of.until() }

// Token returns the newest fencing token, and 0 if there is none.
func (h *Hold) Token() int64 { return h.of.fencingToken() }

// Valid reports whether the lock is still held, as far as this process knows.
func (h *Hold) Valid() bool { return h.Context().Err() == nil || h.of.valid(h) }

// Unlock releases the hold.
func (h *Hold) Unlock() error {
	if l, ok := h.of.(*Lease); ok && l.traits.Leave != "" {
		return Invalid("the hold of a party is released by %s", l.traits.Leave)
	}
	return h.of.unlock(h)
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

// derived backs the hold's context for code that waits for its end or derives
// another context from it. Much work under a lock does neither, and a cancelable
// context costs an entry in its parent's table of children.
type derived struct {
	context.Context
	cancel context.CancelCauseFunc
}

// derive returns the derived context, and creates it when it is first needed. It
// creates it without h.mu, because that calls the parent, which may be the
// context of another hold: that one checks the clock, and may end this hold.
func (h *Hold) derive() context.Context {
	for {
		h.mu.Lock()
		d, why := h.derived, h.why
		h.mu.Unlock()
		if d != nil {
			return d
		}
		parent := h.parent
		if why != nil { // it ended before its parent
			parent = context.WithoutCancel(parent)
		}
		made := new(derived)
		made.Context, made.cancel = context.WithCancelCause(parent)
		if why != nil {
			made.cancel(why.contextCause())
		}
		h.mu.Lock()
		fits := h.derived == nil && (h.why == nil) == (why == nil)
		if fits {
			h.derived = made
		}
		h.mu.Unlock()
		if fits {
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
	h.mu.Lock()
	d := h.derived
	if d == nil && h.why == nil {
		h.why = why
	}
	h.mu.Unlock()
	if d != nil {
		d.cancel(why.contextCause())
	}
}

// over returns the error of the hold's context, without checking the clock. An
// error, once returned, never changes: only the derived context reports the end
// of the parent, so that nothing else can end the hold's context afterwards.
func (h *Hold) over() error {
	h.mu.Lock()
	d, why := h.derived, h.why
	h.mu.Unlock()
	switch {
	case d != nil:
		return d.Err()
	case why != nil:
		return context.Canceled
	case h.parent.Err() != nil:
		return h.derive().Err()
	}
	return nil
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

// Value also serves the internal keys of package context: the cause of a context,
// and the context that children attach to. Before there is a derived context or
// an end, the parent's answer is right.
func (c *holdContext) Value(key any) any {
	if key == (holdKey{}) || key == (nestKey{}) {
		return (*Hold)(c)
	}
	if key == (ownerKey{}) {
		if o := c.of.contextOwner(); o != nil {
			return o
		}
	}
	c.mu.Lock()
	plain := c.derived == nil && c.why == nil
	c.mu.Unlock()
	if plain {
		return c.parent.Value(key)
	}
	return (*Hold)(c).derive().Value(key)
}
