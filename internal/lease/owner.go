package lease

import (
	"context"
	"sync"
)

// Owner is what a lock belongs to in this process: a line of work that re-enters
// its own locks. It travels in the context. In Redis each of its leases has an id
// of its own.
type Owner struct {
	mu     sync.Mutex // guards leases, and lease.sibling
	leases *Lease     // a linked list, because an owner holds few locks at a time
}

type ownerKey struct{}

// WithOwner returns a context with a new owner.
func WithOwner(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownerKey{}, new(Owner))
}

// Detach returns a context without an owner.
func Detach(ctx context.Context) context.Context {
	return context.WithValue(context.WithValue(ctx, nestKey{}, (*Hold)(nil)), ownerKey{}, (*Owner)(nil))
}

// OwnerOf returns the owner that ctx carries, or nil.
func OwnerOf(ctx context.Context) *Owner {
	o, _ := ctx.Value(ownerKey{}).(*Owner)
	return o
}

// leaseOn returns the owner's lease on p or its twin, or nil.
func (o *Owner) leaseOn(c *Client, p Place) *Lease {
	if o == nil {
		return nil
	}
	twin := p.Twin()
	o.mu.Lock()
	defer o.mu.Unlock()
	for l := o.leases; l != nil; l = l.sibling {
		if at := l.Place(); l.client == c && (at == p || at == twin) {
			return l
		}
	}
	return nil
}

// all returns the owner's leases.
func (o *Owner) all() (leases []*Lease) {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for l := o.leases; l != nil; l = l.sibling {
		leases = append(leases, l)
	}
	return leases
}

func (o *Owner) Add(l *Lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l.sibling, o.leases = o.leases, l
}

func (o *Owner) remove(l *Lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for at := &o.leases; *at != nil; at = &(*at).sibling {
		if *at == l {
			*at, l.sibling = l.sibling, nil
			return
		}
	}
}

// Has reports whether o has a lease on k.
func (o *Owner) Has(k *Lock) bool { return o.leaseOn(k.client, k.Place()) != nil }

// LeaseID returns the id of the valid lease on k of the owner that ctx carries, or an empty
// text if there is none.
func (k *Lock) LeaseID(ctx context.Context) (id string) {
	if o := OwnerOf(ctx); o != nil {
		if l := o.leaseOn(k.client, k.Place()); l != nil && l.Over() == nil {
			return l.id
		}
	}
	return ""
}

// OtherSide returns the id of o's lease on the other side of k, or an empty text if there
// is none. It returns the lease's error if that was lost.
func (o *Owner) OtherSide(k *Lock) (id string, err error) {
	l := o.leaseOn(k.client, k.Place().Other())
	if l == nil {
		return "", nil
	}
	switch end := l.Over(); end {
	case nil:
		return l.id, nil
	case endReleased:
		return "", nil
	default:
		return "", end.Err
	}
}

// HasPart reports whether o has a lease on another part of k's name for which overlaps
// returns true, given the scripts of that lease. It returns the lease's error if that was
// lost.
func (o *Owner) HasPart(k *Lock, overlaps func(has Ops) bool) (bool, error) {
	for _, l := range o.all() {
		if l.client != k.client || l.name != k.name || l.traits.Use != k.traits.Use || l.Place() == k.Place() || !overlaps(l.ops) {
			continue
		}
		switch end := l.Over(); end {
		case nil:
			return true, nil
		case endReleased:
		default:
			return false, end.Err
		}
	}
	return false, nil
}
