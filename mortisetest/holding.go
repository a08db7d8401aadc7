package mortisetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mortise-go/mortise"
)

// Sort is what a hold excludes.
type Sort string

// The sorts of holds.
const (
	Exclusive Sort = "lock"       // every other owner
	Writing   Sort = "write lock" // every other reader and writer
	Reading   Sort = "read lock"  // every other writer
	Group     Sort = "group lock" // other owners that have one of its values
	Redundant Sort = "redlock"    // every other owner of a [mortise.Redlock]
	Permits   Sort = "permits"    // others, if the sum of their permits would exceed what exists
	Leading   Sort = "term"       // every other leader
)

// family returns what contends for one name.
func (s Sort) family() string {
	if s == Writing || s == Reading {
		return "rw lock"
	}
	return string(s)
}

// Object is something that can be held. The sort and the name are required.
type Object struct {
	Sort    Sort
	Name    string
	Kind    string   // in stories, such as "SpinLock"; default: the sort
	Values  []string // of a Group
	Permits int      // of Permits, at least one
	Queue   Queue
	Tokens  bool // whether grants have rising tokens
}

// Queue says in which order requests are served that wait.
type Queue int

// The orders of requests.
const (
	Unordered Queue = iota
	OfClient        // a client serves its own in the order in which they were made
	Fair            // all are served in the order in which they were made
)

// holding is one request and what came of it.
type holding struct {
	Object
	client, owner string
	id            string        // the owner in Redis, and in errors; empty if it is not known
	lease         time.Duration // for which it may last in Redis after its end, if it was not released
	waits         bool
	part          bool    // of a MultiLock: what refuses it may be another part
	begin         instant // the request
	done          instant // its end
	granted       bool
	err           error // of the request
	token         int64
	value         string // of a term

	dark     instant // when the context of the hold ended, for whatever reason
	end      instant // when the release began, or it was lost; never while it is held
	released instant // when the release had returned; never if it is unknown whether Redis did
	gone     instant // when it had certainly ended, if nobody was told when it was lost
	lost     bool
	cause    error // of the loss, or the error of the release

	valid func() bool      // whether the hold is still trusted; nil if only its context tells
	until func() time.Time // the end of that trust, likewise
}

// Claim is a request for a hold, of mortise or of anything else that locks. It is the way
// to record what [History.Lock] and its like do not know.
type Claim struct {
	h     *History
	r     *holding
	owner *owner
}

// owner is what ctx carries for the history: holds that one client acquires with it may be held at
// once. It has a size, so that no two are the same.
type owner struct{ _ byte }

// party is an owner as one client has it.
type party struct {
	client string
	owner  *owner
}

type ownerKey struct{}

// WithOwner returns a context with a new owner, as [mortise.WithOwner] does, that the history
// knows as well. It is needed for holds of one owner that overlap instead of nesting. Two clients
// are never one owner.
func WithOwner(ctx context.Context) context.Context {
	return context.WithValue(mortise.WithOwner(ctx), ownerKey{}, new(owner))
}

// Claim records that a client asks for something to hold, as the owner that ctx carries:
// that of a context which Granted or [History.Lock] has returned, or of [WithOwner]. For two clients
// that is two owners, as for mortise.
// Waits says whether it waits for others. Call Granted or Refused when the outcome is known.
func (h *History) Claim(ctx context.Context, client string, o Object, waits bool) *Claim {
	return h.claim(ctx, holding{Object: o, client: client, waits: waits})
}

// claim is Claim for a request of which more is known.
func (h *History) claim(ctx context.Context, r holding) *Claim {
	o := &r.Object
	if o.Kind == "" {
		o.Kind = string(o.Sort)
	}
	if o.Sort == Permits {
		o.Permits = max(o.Permits, 1)
	}
	by, _ := ctx.Value(ownerKey{}).(*owner)
	if by == nil {
		by = new(owner)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r.begin, r.lease = h.now(), h.Lease
	r.done, r.dark, r.end, r.released = never, never, never, never
	who := party{r.client, by}
	if h.owners[who] == "" {
		h.owners[who] = r.client + "#" + itoa(r.begin.seq)
	}
	r.owner = h.owners[who]
	h.holdings = append(h.holdings, &r)
	return &Claim{h, &r, by}
}

// Refused records that the request has failed with err. If that matches [mortise.ErrLocked]
// and the request did not wait, another owner must have had it.
func (q *Claim) Refused(err error) {
	q.h.mu.Lock()
	defer q.h.mu.Unlock()
	q.r.done, q.r.err = q.h.now(), err
}

// Granted records that the request has led to a hold, with a fencing token or 0. The hold
// lasts until held ends with a cause that matches [mortise.ErrLost] or [mortise.ErrClosed], or
// until begin is called. It returns a context derived from held that carries the owner, and
// the functions that record the beginning of the release and its outcome.
func (q *Claim) Granted(held context.Context, token int64) (ctx context.Context, begin func(), end func(err error)) {
	r := q.r
	q.h.mu.Lock()
	defer q.h.mu.Unlock()
	r.done, r.granted, r.token = q.h.now(), true, token
	stop := context.AfterFunc(held, func() { q.ended(held, time.Now()) })
	begin = func() {
		stop()
		q.ended(held, time.Now())
		q.h.mu.Lock()
		defer q.h.mu.Unlock()
		q.h.settle(r, q.h.now())
		r.end = earlier(r.end, q.h.now())
	}
	return context.WithValue(held, ownerKey{}, q.owner), begin, q.release
}

// ended records at what time the context of a hold has ended, if it has.
func (q *Claim) ended(held context.Context, at time.Time) {
	if held.Err() == nil {
		return
	}
	cause := context.Cause(held)
	q.h.mu.Lock()
	defer q.h.mu.Unlock()
	r := q.r
	if r.until != nil && r.until().Before(at) {
		at = r.until() // the clock has reported it, a moment before this goroutine ran
	}
	if r.dark == never {
		r.dark = q.h.since(at)
		if r.dark.before(r.done) {
			r.dark = r.done
		}
	}
	if r.end == never && (errors.Is(cause, mortise.ErrLost) || errors.Is(cause, mortise.ErrClosed)) {
		r.end, r.lost, r.cause = r.dark, true, cause
	}
}

// knows records what mortise reports about a hold, before it is granted.
func (q *Claim) knows(hold interface {
	Owner() string
	Valid() bool
	Until() time.Time
}) {
	q.h.mu.Lock()
	defer q.h.mu.Unlock()
	q.r.valid, q.r.until = hold.Valid, hold.Until
	if q.r.Sort != Permits { // they have no owner
		q.r.id = hold.Owner()
	}
}

// settle ends a hold that was lost after its context had ended for another reason. Nobody
// was told when, so it has ended for the history when its context did. h.mu must be held.
func (h *History) settle(r *holding, now instant) {
	if r.granted && r.end == never && r.valid != nil && !r.valid() {
		r.end, r.gone, r.lost = earlier(r.dark, now), now, true
	}
}

func (q *Claim) release(err error) {
	q.h.mu.Lock()
	defer q.h.mu.Unlock()
	if err == nil {
		q.r.released = q.h.now()
	} else if q.r.cause == nil {
		q.r.cause = err
	}
}

// Hold is a hold that a history records. [mortise.Hold.Valid] and the like are those of
// mortise.
type Hold struct {
	*mortise.Hold
	begin func()
	end   func(err error)
	once  sync.Once
}

// Unlock releases the hold, and records it; see [mortise.Hold.Unlock].
func (h *Hold) Unlock() error {
	h.once.Do(h.begin)
	err := h.Hold.Unlock()
	if !errors.Is(err, mortise.ErrReleased) {
		h.end(err)
	}
	return err
}
