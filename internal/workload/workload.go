// Package workload drives a system of locks the way its users do, and measures
// what they would notice: how often a lock is taken, by whom, after how long,
// and what that costs.
//
// A run has three phases, so that several processes can be measured together
// and a server be looked at in between: [Start] sets it going without counting
// anything, Begin opens the window in which it counts, End closes the window
// and stops it. [Do] goes through them by the clock.
package workload

import (
	"context"
	"fmt"
	"time"
)

// Locker is the system under load. Its methods are called by many goroutines.
type Locker interface {
	// Lock waits until the lock called key is held, or ctx ends. An error
	// while ctx lives counts as a failure, and the goroutine asks again.
	Lock(ctx context.Context, key string) (Hold, error)
}

// Namer is a Locker whose users keep something for each lock. Goroutines that
// take the same lock again and again ask for it once.
type Namer interface {
	// Of returns what takes the lock called key.
	Of(key string) Locker
}

// Hold is a lock that is held. If it also has a method Valid() bool, that tells
// whether it still is.
type Hold interface {
	Unlock() error
}

// Kind is what the goroutines of a run do.
type Kind string

// The kinds of run.
const (
	Cycle  Kind = "cycle"  // N goroutines take and release, again and again
	Keep   Kind = "keep"   // N locks are taken and kept
	Queued Kind = "queued" // N goroutines wait for a lock that somebody else holds
)

// Spec says what to run. It travels to worker processes as JSON.
type Spec struct {
	Kind Kind `json:"kind"`
	// N is the number of goroutines, or of locks that are kept.
	N int `json:"n"`
	// Key is the name of the lock, or what all names begin with.
	Key string `json:"key"`
	// Shared makes all goroutines, of all processes, contend for one lock.
	// Otherwise each has its own.
	Shared bool `json:"shared,omitempty"`
	// Inside is how long each holds the lock, in ns. It sleeps meanwhile.
	Inside time.Duration `json:"inside,omitempty"`
	// Takers is how many goroutines take the locks that are kept, and release
	// them. Default 64.
	Takers int `json:"takers,omitempty"`
	// Process tells processes that run the same Spec apart; from 0.
	Process int `json:"process,omitempty"`
}

// Running is a run under way. Its methods are called in this order, once.
type Running interface {
	// Begin opens the window.
	Begin()
	// End closes the window, stops the run and returns what was measured.
	// What has not stopped after grace is reported as Hung, and left behind.
	End(grace time.Duration) *Result
}

// Start sets a run going. Ctx ends it early. A nil gate is one that is not
// shared with other processes.
//
// It returns when all goroutines are about to ask for their lock, or when all
// locks are held.
func Start(ctx context.Context, locker Locker, spec Spec, gate *Gate) (Running, error) {
	if spec.N < 1 || spec.Key == "" {
		return nil, fmt.Errorf("workload: %d × %q: it needs a number and a key", spec.N, spec.Key)
	}
	switch spec.Kind {
	case Cycle:
		return startCycle(ctx, locker, spec, gate), nil
	case Keep:
		return startKeep(ctx, locker, spec)
	case Queued:
		return startQueued(ctx, locker, spec), nil
	}
	return nil, fmt.Errorf("workload: unknown kind %q", spec.Kind)
}

// Do runs spec for a time that does not count and then for a window that does.
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
