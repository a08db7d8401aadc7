package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const usualTakers = 64

// keep is a run that acquires locks and keeps them.
type keep struct {
	holds  []Hold
	takers int
	each   *Footprint
	began  time.Time
	before usage
}

// startKeep acquires spec.N locks, and fails if it cannot acquire them all. If the lock is Shared
// there is one, and N must be 1.
func startKeep(ctx context.Context, locker Locker, spec Spec) (*keep, error) {
	k := &keep{holds: make([]Hold, spec.N), takers: cmp.Or(spec.Takers, usualTakers)}
	keys := make([]string, spec.N)
	for i := range keys {
		keys[i] = spec.key(i)
	}
	// What a client opens for its first lock must not be counted.
	first, err := locker.Lock(ctx, spec.Key+":first:"+strconv.Itoa(spec.Process))
	if err == nil {
		err = first.Unlock()
	}
	if err != nil {
		return nil, fmt.Errorf("workload: a first lock: %w", err)
	}
	footing := standing()
	err = share(k.takers, spec.N, func(i int) (err error) {
		k.holds[i], err = locker.Lock(ctx, keys[i])
		return err
	})
	if err != nil {
		_ = k.release() // the first error matters more
		return nil, fmt.Errorf("workload: take %d locks: %w", spec.N, err)
	}
	k.each = footing.each(spec.N)
	keys[0] = "" // keeps the names alive until here
	return k, nil
}

// share calls do for all numbers below n, in several goroutines, until a call fails.
func share(goroutines, n int, do func(i int) error) error {
	var (
		next atomic.Int64
		mu   sync.Mutex
		errs []error
		all  sync.WaitGroup
	)
	for range min(goroutines, n) {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(i); err != nil {
					next.Store(int64(n))
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Begin implements [Running].
func (k *keep) Begin() { k.before, k.began = used(), time.Now() }

// End implements [Running].
func (k *keep) End(grace time.Duration) *Result {
	r := &Result{Seconds: time.Since(k.began).Seconds(), Each: k.each}
	k.before.since(r)
	for _, h := range k.holds {
		if v, ok := h.(interface{ Valid() bool }); ok && !v.Valid() {
			r.Each.Lost++
		}
	}
	released := make(chan error, 1)
	go func() { released <- k.release() }()
	select {
	case err := <-released:
		if err != nil {
			r.Failures = 1
			r.Failure, _, _ = strings.Cut(err.Error(), "\n") // those of other goroutines are much the same
		}
	case <-time.After(grace):
		r.Hung = 1
	}
	return r
}

// release releases all holds, up to the first failure.
func (k *keep) release() error {
	return share(k.takers, len(k.holds), func(i int) error {
		if k.holds[i] == nil {
			return nil
		}
		return k.holds[i].Unlock()
	})
}
