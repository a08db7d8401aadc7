package lease

import (
	"context"
	"slices"
	"time"

	"github.com/mortise-go/mortise/internal/record"
)

// Work under a hold that waits for another lock is nested in the hold. Nobody is told who waits for what by the context of a wait
// alone: a hold counts those that wait under it, for the cycles that the recorder looks for.

type nestKey struct{}

// NestedIn returns the innermost hold that work with ctx is part of, or nil.
func NestedIn(ctx context.Context) *Hold {
	h, _ := ctx.Value(nestKey{}).(*Hold)
	return h
}

// WaitUnder notes that a goroutine begins to wait under h, which may be nil, and under all holds that h
// is under, or with n = -1 that it has ended. It does not matter what the goroutine waits for, nor by which
// client.
func (h *Hold) WaitUnder(n int32) {
	for ; h != nil; h = NestedIn(h.parent) {
		if most := h.waits.Add(n) - min(n, 0); most > 1 {
			now := time.Now()
			h.derive()
			h.backing.Load().company.Store(&now)
		}
	}
}

// companyFor is how long a goroutine counts that has waited under a hold. What it does between two waits is not known.
const companyFor = 10 * time.Second

// HadCompany reports whether several goroutines waited under h a short time before now.
func (h *Hold) HadCompany(now time.Time) bool {
	b := h.backing.Load()
	if b == nil {
		return false
	}
	last := b.company.Load()
	return last != nil && now.Sub(*last) < companyFor
}

// Leases returns the leases that h keeps others out with.
func (h *Hold) Leases() (list []record.Under) {
	if h.Context().Err() != nil {
		return nil
	}
	leases, whole := h.of.Parts()
	if !whole {
		return nil
	}
	for _, l := range leases {
		if !l.traits.Unowned {
			list = append(list, record.Under{Name: l.Name(), Owner: l.id})
		}
	}
	return list
}

// isPart reports whether l is one of the parts that h is made of, and not h's own lease.
func (h *Hold) isPart(l *Lease) bool {
	if h.of == Holding(l) {
		return false
	}
	leases, _ := h.of.Parts()
	return slices.Contains(leases, l)
}
