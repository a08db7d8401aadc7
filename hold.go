package mortise

import (
	"context"
	"sync"
	"time"
)

// Hold is a lock that was acquired, and the only thing that can be released.
// Its methods are safe for concurrent use.
type Hold struct {
	of     holding
	parent context.Context // that of the hold's context

	mu      sync.Mutex // guards what follows
	derived *derived   // nil until it is needed
	why     error      // why the hold's context ended, if that was before derived was needed

	fell     func(why error) // guarded by lease.mu; see lease.watchFor
	next     *Hold           // idem; another one of the lease
	released bool            // idem
	renewed  bool            // the watchdog renews the lease as long as this hold lasts
}

// context returns the context of the hold.
func (h *Hold) context() context.Context { return (*holdContext)(h) }

// holding is what a hold stands on. Its methods are safe for concurrent use.
type holding interface {
	label() (name, id string)
	actor() *owner
	until() time.Time   // trust ends, as things stand
	expire()            // ends it now if trust is over
	valid(h *Hold) bool // both h and what it stands on
	fence() int64       // the newest fencing token, 0 if there is none
	unlock(h *Hold) error
}

// Name returns the name of the lock.
func (h *Hold) Name() string {
	name, _ := h.of.label()
	return name
}

// Owner returns the owner as it stands in Redis: the client's UUID, a colon
// and a number. Other clients, Redisson's included, see it as the holder. Of
// permits, which have none, it returns the ids, with commas between.
func (h *Hold) Owner() string {
	_, id := h.of.label()
	return id
}

// Permits returns the ids of the permits that the hold stands for, in the form
// that Redisson shows: 32 hex digits. It returns nil for a lock.
func (h *Hold) Permits() []string {
	if l, ok := h.of.(*lease); ok && l.traits.permits != nil {
		return l.traits.permits(l.id)
	}
	return nil
}

// Until returns the instant at which the lease stops being trusted, unless it
// is renewed before. It is a point on this process' own clock, and lies before
// the instant at which Redis lets the key expire.
func (h *Hold) Until() time.Time { return h.of.until() }

// Token returns the fencing token, for a kind of lock that has them, and 0 for
// all others. It rises with every acquisition of the lock by anybody. After a
// re-entry all holds of the owner have the newer token, so that what the inner
// hold wrote does not lock the outer one out.
func (h *Hold) Token() int64 { return h.of.fence() }

// Valid reports whether the lock is still held, as far as this process can
// know without asking Redis: it was not released, not lost, and its lease is
// still trusted. The answer may be out of date when it arrives, if the process
// is frozen in between; only a fencing token protects against that.
func (h *Hold) Valid() bool { return h.context().Err() == nil || h.of.valid(h) }

// Unlock releases the hold. The last hold of an owner frees the lock in Redis
// and wakes others who wait for it. The context of the hold ends first.
//
// It takes no context, because a request that is over must not leave a lock
// behind. It blocks for one round trip; while Redis does not answer it tries
// again, until the lease has ended by itself.
//
// Errors: [ErrReleased] for a second Unlock; [ErrLost] if the lease had ended
// before, in which case others may have held the lock since;
// [ErrUnknownOutcome] if the lock is free of this hold, but nobody can say
// whether it was still held until now, because Redis' reply was lost;
// [ErrUnreachable] if Redis did not answer until the lease was over;
// [ErrDenied] if Redis refused the release, or released the lock but did not
// allow waking others; the text says which.
func (h *Hold) Unlock() error {
	if err := h.of.unlock(h); err != nil {
		return &Error{Op: "unlock", Name: h.Name(), Err: err}
	}
	return nil
}

// holdContext is the context of a hold. It carries the owner, and looks at the
// clock whenever it is asked: after a freeze, code that checks its context is
// told that the lease is over even if it runs before the watchdog does.
type holdContext Hold

// derived is what the hold's context is to whoever waits for its end or derives
// another one from it. Much work under a lock does neither, and a context that
// can be cancelled costs its parent a place in a table.
type derived struct {
	context.Context
	cancel context.CancelCauseFunc
}

// derive returns the derived context, which is made when it is first needed.
// It is made without h.mu, because its parent is asked for that, which may be
// the context of another hold: that looks at the clock, and may end this one.
func (h *Hold) derive() context.Context {
	for {
		h.mu.Lock()
		d, why := h.derived, h.why
		h.mu.Unlock()
		if d != nil {
			return d
		}
		parent := h.parent
		if why != nil { // it ended before its parent, if that has
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

// cancel ends the hold's context, unless it has ended.
func (h *Hold) cancel(why error) {
	if h.parent.Err() != nil {
		h.derive() // which ends as the parent did
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

// over is the error of the hold's context, the clock aside. What it says once it
// says for ever: the end of the parent is told by the derived context only, so
// that nothing else can end the hold's context any more.
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

// Value is asked by package context for more than values: what ended the context,
// and to which one others can be tied. Before either is the case there is nothing
// that the parent does not know.
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
