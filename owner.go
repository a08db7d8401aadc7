package mortise

import (
	"context"
	"sync"
)

// owner is what a lock belongs to in this process: a line of work that re-enters
// its own locks. It travels in the context. In Redis each of its leases has an id
// of its own.
type owner struct {
	mu     sync.Mutex // guards leases, and lease.sibling
	leases *lease     // a linked list, because an owner holds few locks at a time
}

type ownerKey struct{}

// WithOwner returns a context with a new owner. Locks acquired with it, or with
// a context derived from it, have that owner: acquiring one of them again
// re-enters.
//
// It is needed only for holds of one owner that overlap instead of nesting,
// because the context that Lock returns carries the owner as well, but ends
// with its hold.
func WithOwner(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownerKey{}, new(owner))
}

// Detach returns a context without an owner: a lock acquired with it contends
// with all others, including those of the owner that ctx carries. Use it for
// work that is started under a lock but is not part of what the lock protects.
func Detach(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownerKey{}, (*owner)(nil))
}

// ownerOf returns the owner that ctx carries, or nil.
func ownerOf(ctx context.Context) *owner {
	o, _ := ctx.Value(ownerKey{}).(*owner)
	return o
}

// lease returns the owner's lease on p or its twin, or nil.
func (o *owner) lease(c *Client, p place) *lease {
	twin := p.twin()
	o.mu.Lock()
	defer o.mu.Unlock()
	for l := o.leases; l != nil; l = l.sibling {
		if l.client == c && (l.place == p || l.place == twin) {
			return l
		}
	}
	return nil
}

// all returns the owner's leases.
func (o *owner) all() (leases []*lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for l := o.leases; l != nil; l = l.sibling {
		leases = append(leases, l)
	}
	return leases
}

func (o *owner) add(l *lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l.sibling, o.leases = o.leases, l
}

func (o *owner) remove(l *lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for at := &o.leases; *at != nil; at = &(*at).sibling {
		if *at == l {
			*at, l.sibling = l.sibling, nil
			return
		}
	}
}
