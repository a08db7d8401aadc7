package mortise

import (
	"context"
	"sync"
	"time"
)

// Hold is one acquisition of a lock, and the only thing that can be released.
// Its methods are safe for concurrent use.
type Hold struct {
	of     holding
	parent context.Context // parent of the hold's context

	mu      sync.Mutex // guards derived and why
	derived *derived   // created when first needed
	why     error      // why the hold's context ended, if it ended before derived was created

	fell     func(why error) // guarded by lease.mu; see lease.watchFor
	next     *Hold           // the next hold of the lease; guarded by lease.mu
	released bool            // guarded by lease.mu
	renewed  bool            // the watchdog renews the lease as long as this hold lasts
}

// context returns the context of the hold.
func (h *Hold) context() context.Context { return (*holdContext)(h) }

// holding is implemented by what a hold depends on, such as a lease. Its methods
// are safe for concurrent use.
type holding interface {
	label() (name, id string)
	actor() *owner
	until() time.Time   // when trust ends unless renewed
	expire()            // ends the holding if trust is over
	valid(h *Hold) bool // both h and the holding are valid
	fence() int64       // the newest fencing token, 0 if there is none
	unlock(h *Hold) error
}

// Name returns the name of the lock.
func (h *Hold) Name() string {
	name, _ := h.of.label()
	return name
}

// Owner returns the owner's id in Redis: the client's UUID, a colon and a
// number. Other clients, Redisson's included, see it as the holder. Permits
// have no owner; for them Owner returns their comma-separated ids.
func (h *Hold) Owner() string {
	_, id := h.of.label()
	return id
}

// Permits returns the ids of the permits of the hold, in the form that Redisson
// shows: 32 hex digits. It returns nil for a lock.
func (h *Hold) Permits() []string {
	if l, ok := h.of.(*lease); ok && l.traits.permits != nil {
		return l.traits.permits(l.id)
	}
	return nil
}

// Until returns the time at which trust in the lease ends, unless the lease is
// renewed before. It is a time of this process' own clock, and is earlier than
// the time at which Redis lets the key expire.
func (h *Hold) Until() time.Time { return h.of.until() }

// Token returns the fencing token, for a kind of lock that has them, and 0 for
// all others. It rises with every acquisition of the lock by any owner. After a
// re-entry all holds of the owner have the newer token, so that a resource
// that has seen the inner hold's token does not refuse the outer hold.
func (h *Hold) Token() int64 { return h.of.fence() }

// Valid reports whether the lock is still held, as far as this process can
// know without asking Redis: it was not released, not lost, and its lease is
// still trusted. The result may be out of date when it is used, if the process
// was frozen in between; only a fencing token protects against that.
func (h *Hold) Valid() bool { return h.context().Err() == nil || h.of.valid(h) }

// Unlock releases the hold. The release of the owner's last hold frees the lock
// in Redis and wakes waiters. The context of the hold ends first.
//
// Unlock takes no context, so that a caller whose context has ended does not
// leave the lock behind. It blocks for one round trip; while Redis does not
// answer it retries, until the lease has expired.
//
// Errors: [ErrReleased] for a second Unlock; [ErrLost] if the lease had already
// ended, in which case other owners may have held the lock since;
// [ErrUnknownOutcome] if the hold no longer has the lock, but it is unknown
// whether it was still held until now, because Redis' reply was lost;
// [ErrUnreachable] if Redis did not answer until the lease was over;
// [ErrDenied] if Redis refused the release, or released the lock but did not
// allow waking waiters; the text says which.
func (h *Hold) Unlock() error {
	if err := h.of.unlock(h); err != nil {
		return &Error{Op: "unlock", Name: h.Name(), Err: err}
	}
	return nil
}

// holdContext is the context of a hold. It carries the owner, and every method
// that reports its end checks the clock: after a freeze, code that checks its
// context learns that the lease is over even if it runs before the watchdog does.
type holdContext Hold

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
			made.cancel(why)
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

// cancel ends the hold's context with cause why, unless it has already ended.
func (h *Hold) cancel(why error) {
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
		d.cancel(why)
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
	h.of.expire()
	return h.over()
}

func (c *holdContext) Done() <-chan struct{} {
	c.of.expire()
	return (*Hold)(c).derive().Done()
}

// Value also serves the internal keys of package context: the cause of a context,
// and the context that children attach to. Before there is a derived context or
// an end, the parent's answer is right.
func (c *holdContext) Value(key any) any {
	if key == (ownerKey{}) {
		if o := c.of.actor(); o != nil {
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
