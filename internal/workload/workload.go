// Package workload drives a system of locks as its users do, and measures what they would
// notice: how often locks are acquired, by which goroutines, after how long, and at what cost.
//
// A run has three phases, so that several processes can be measured together and a server can
// be examined in between: [Start] starts the load without counting anything, Begin opens the
// window in which it counts, End closes the window and stops the load. [Do] times all three.
package workload

import (
	"context"
	"fmt"
	"time"
)

// Locker is the system under load. Its methods are called by many goroutines.
type Locker interface {
	// Lock waits until the lock called key is held, or ctx ends. An error before ctx has ended
	// counts as a failure, and the goroutine retries.
	Lock(ctx context.Context, key string) (Hold, error)
}

// Namer is a Locker that keeps something for each lock name. Goroutines that acquire the same
// lock again and again call Of once.
type Namer interface {
	// Of returns the Locker for the lock called key.
	Of(key string) Locker
}

// Sided is a Locker of read/write locks. Its own methods acquire the write side.
type Sided interface {
	// Read returns the Locker for the read side.
	Read() Locker
}

// Permitter is a Locker of semaphores: what it acquires is a permit.
type Permitter interface {
	// Permit sets the number of permits of the semaphore called key, unless that was done before.
	Permit(ctx context.Context, key string, n int) error
}

// Hold is a held lock. If it also has a method Valid() bool, that reports whether the lock is
// still held.
type Hold interface {
	Unlock() error
}

// Kind is what the goroutines of a run do.
type Kind string

// The kinds of run.
const (
	Cycle  Kind = "cycle"  // N goroutines acquire and release, again and again
	Keep   Kind = "keep"   // N locks are acquired and kept
	Queued Kind = "queued" // N goroutines wait for a lock that is held elsewhere
)

// Spec says what to run. It is sent to worker processes as JSON.
type Spec struct {
	Kind Kind `json:"kind"`
	// N is the number of goroutines, or of locks that are kept.
	N int `json:"n"`
	// Key is the name of the lock, or the prefix of all names.
	Key string `json:"key"`
	// Shared makes all goroutines, of all processes, contend for one lock.
	// Otherwise each has its own.
	Shared bool `json:"shared,omitempty"`
	// Sides makes it a read/write lock, of a [Sided] Locker. The first Writers of the goroutines
	// acquire its write side, the others its read side.
	Sides   bool `json:"sides,omitempty"`
	Writers int  `json:"writers,omitempty"`
	// Permits makes it a semaphore, of a [Permitter], with that many permits.
	Permits int `json:"permits,omitempty"`
	// Inside is how long each holds the lock, in ns. It sleeps meanwhile.
	Inside time.Duration `json:"inside,omitempty"`
	// Takers is the number of goroutines that acquire and release the locks that are kept.
	// Default 64.
	Takers int `json:"takers,omitempty"`
	// Process distinguishes processes that run the same Spec; from 0.
	Process int `json:"process,omitempty"`

	// epoch is where time begins; zero if the machine's clock says so. Tests with virtual time that have several
	// processes set it: the machine's clock goes on between two looks at it.
	epoch time.Time
}

// Running is a load in progress. Its methods are called in this order, once.
type Running interface {
	// Begin opens the window.
	Begin()
	// End closes the window, stops the load and returns the measurements. Goroutines that
	// have not stopped after grace are reported as Hung and left behind.
	End(grace time.Duration) *Result
}

// Start starts a load. Ctx ends it early. A nil gate stands for one that is not shared with
// other processes.
//
// It returns when all goroutines are about to acquire their lock, or when all locks are held.
func Start(ctx context.Context, locker Locker, spec Spec, gate *Gate) (Running, error) {
	if spec.N < 1 || spec.Key == "" {
		return nil, fmt.Errorf("workload: %d × %q: it needs a number and a key", spec.N, spec.Key)
	}
	switch spec.Kind {
	case Cycle:
		return startCycle(ctx, locker, spec, gate)
	case Keep:
		return startKeep(ctx, locker, spec)
	case Queued:
		return startQueued(ctx, locker, spec), nil
	}
	return nil, fmt.Errorf("workload: unknown kind %q", spec.Kind)
}

// Do runs spec for a warm-up time that does not count and then for a window that does.
func Do(ctx context.Context, locker Locker, spec Spec, warmup, window time.Duration) (*Result, error) {
	run, err := Start(ctx, locker, spec, nil)
	if err != nil {
		return nil, err
	}
	pause(ctx, warmup)
	run.Begin()
	pause(ctx, window)
	r := run.End(10 * time.Second)
	return r, ctx.Err()
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
