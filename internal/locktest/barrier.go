package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
)

// Arrival is how one call of Await ended.
type Arrival struct {
	Index int
	Err   error
	After time.Duration
}

// Arrive calls Await in the background.
func Arrive(ctx context.Context, b *mortise.Barrier) <-chan Arrival {
	ended := make(chan Arrival, 1)
	start := time.Now()
	go func() {
		index, err := b.Await(ctx)
		ended <- Arrival{index, err, time.Since(start)}
	}()
	return ended
}

// WantBroken checks why a barrier is broken, and returns the party to blame.
func WantBroken(t *testing.T, err error, reason mortise.BrokenReason) (by string) {
	t.Helper()
	var broken *mortise.BrokenError
	if !errors.As(err, &broken) || !errors.Is(err, mortise.ErrBroken) || broken.Reason != reason {
		t.Fatalf("got %v, want ErrBroken because %s", err, reason)
	}
	if (broken.By == "") != (reason == mortise.BrokenLost) {
		t.Errorf("broken by %q because %s", broken.By, reason)
	}
	return broken.By
}

// Entry is how one call of Enter ended.
type Entry struct {
	Member *mortise.Member
	Ctx    context.Context
	Err    error
	After  time.Duration
}

// Enter enters the barrier in the background, and returns a channel for the outcome.
func Enter(ctx context.Context, b *mortise.DoubleBarrier) <-chan Entry {
	ended := make(chan Entry, 1)
	start := time.Now()
	go func() {
		m, ctx, err := b.Enter(ctx)
		ended <- Entry{m, ctx, err, time.Since(start)}
	}()
	return ended
}

// Leave calls Leave in the background.
func Leave(ctx context.Context, m *mortise.Member) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- m.Leave(ctx) }()
	return ended
}
