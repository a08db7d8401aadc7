package composite

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/internal/lease"
	"github.com/mortise-go/mortise/internal/outcome"
	"github.com/mortise-go/mortise/internal/terms"
	"github.com/mortise-go/mortise/internal/waiting"
)

// Batch is several locks that are acquired together: all of them or none.
type Batch struct {
	name  string
	locks []*lease.Lock // each once, in the order in which they are acquired
}

// NewBatch returns a batch of the given locks. A lock that is listed twice counts once. It
// returns an error, too, if there is none, or a lock is listed with different options.
func NewBatch(locks []*lease.Lock) (*Batch, error) {
	b := &Batch{}
	var invalid error
	for _, k := range locks {
		invalid = cmp.Or(invalid, b.add(k))
	}
	if len(b.locks) == 0 {
		return b, outcome.Invalid("a MultiLock needs at least one lock")
	}
	slices.SortStableFunc(b.locks, lockOrder)
	var names []string
	for _, k := range b.locks {
		names = append(names, k.Name())
	}
	b.name = strings.Join(names, ", ")
	return b, invalid
}

// Name returns the names of the locks, in the order in which they are acquired.
func (b *Batch) Name() string { return b.name }

// Locks returns the locks, in the order in which they are acquired.
func (b *Batch) Locks() []*lease.Lock { return b.locks }

// With returns the same batch with these options for each lock.
func (b *Batch) With(o terms.Options) *Batch {
	with := &Batch{name: b.name}
	for _, k := range b.locks {
		with.locks = append(with.locks, k.With(&o))
	}
	return with
}

func (b *Batch) add(k *lease.Lock) error {
	for _, have := range b.locks {
		switch {
		case have.Client() != k.Client():
		case have.Key() == k.Key() && have.Place().Use.Class().Queued != k.Place().Use.Class().Queued:
			return outcome.Invalid("the lock %q is named twice, as a FairLock and as another kind; in Redis they are one lock", k.Name())
		case have.Place() == k.Place():
			if *have.Options() != *k.Options() {
				return outcome.Invalid("the lock %q is named twice, with different options", k.Name())
			}
			return nil
		}
	}
	b.locks = append(b.locks, k)
	return nil
}

// lockOrder is the order in which all processes acquire several locks. It depends only on
// their names and uses. Locks of one slot are adjacent, so that one script can acquire
// them. The write side of an RWLock comes before its read side: only that order lets
// an owner have both.
func lockOrder(a, b *lease.Lock) int {
	return cmp.Or(
		cmp.Compare(keyspace.Slot(a.Key()), keyspace.Slot(b.Key())),
		strings.Compare(a.Place().Name, b.Place().Name),
		cmp.Compare(b.Place().Use, a.Place().Use),
	)
}

// Acquire acquires all locks. If wait is true, it blocks until it has them or ctx ends. If it
// fails, it returns the name of the lock that failed.
func (b *Batch) Acquire(ctx context.Context, wait bool) (*lease.Hold, string, error) {
	c := b.locks[0].Client()
	told := c.Observe(ctx, b.name, "multilock")
	h, at, err := b.acquire(ctx, wait, told)
	c.Concluded(told, h, err)
	return h, at, err
}

// acquire is Acquire for a caller that reports it.
func (b *Batch) acquire(ctx context.Context, wait bool, told *lease.Call) (*lease.Hold, string, error) {
	r := &batchRequest{Batch: b, composite: newComposite(ctx, b.name, len(b.locks), len(b.locks)), told: told}
	limited, cancel := outcome.Within(ctx, r.waitLimit())
	defer cancel()
	at, err := r.acquire(wait)
	if err == nil {
		if err = r.composite.complete(); err == nil {
			return r.composite.hold, "", nil
		}
	}
	members, _, lost := r.composite.finish(err)
	releaseAndWait(limited, members, err)
	if lost != nil {
		err = fmt.Errorf("lost while waiting for others: %w", lost)
	}
	return nil, at.Name(), at.Client().Because(ctx, err)
}

// ready checks all locks, and asks Redis for what a request must know before it acquires
// them. If it fails, it returns the lock that failed.
func (b *Batch) ready(ctx context.Context) (at *lease.Lock, err error) {
	for _, k := range b.locks {
		if k.Client().Config().Invalid != nil {
			return k, k.Client().Config().Invalid
		}
		if err := k.Sound(); err != nil {
			return k, err
		}
		if k.Options().MinHold != 0 {
			return k, lease.ErrKeeps
		}
	}
	for _, k := range b.locks {
		if err := k.Ready(ctx); err != nil {
			return k, err
		}
	}
	return nil, nil
}

// mayKeep reports whether locks may be kept while a request waits for another: if their
// leases are renewed, and all processes acquire these locks in the same order.
func (b *Batch) mayKeep() bool {
	for i, k := range b.locks {
		if k.Options().MaxHold != 0 || i > 0 && lockOrder(b.locks[i-1], k) == 0 {
			return false
		}
	}
	return true
}

// contended returns the index of a lock that another request of this process has or waits
// for, or that is left to Redisson's threads, so that asking Redis for it is pointless; noIndex if there is no such lock.
func (b *Batch) contended(o *lease.Owner) int {
	return slices.IndexFunc(b.locks, func(k *lease.Lock) bool {
		k.Client().Mu.Lock()
		defer k.Client().Mu.Unlock()
		return (waiting.SiteOf(k).Wanted() || time.Now().Before(waiting.QueuesOf(k.Client()).After(k))) && !o.Has(k)
	})
}

// noIndex is not the index of a lock.
const noIndex = -1

// member returns the lock of that index, for a composite that has not acquired it yet.
func (b *Batch) member(nth int) *member { return &member{of: b.locks[nth], nth: nth} }
