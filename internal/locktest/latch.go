package locktest

import (
	"context"
	"testing"

	"github.com/mortise-go/mortise"
)

// ClosedLatch returns a latch of c with count n.
func ClosedLatch(t *testing.T, c *mortise.Client, name string, n int) *mortise.CountDownLatch {
	t.Helper()
	l := c.CountDownLatch(name)
	if set, err := l.TrySetCount(t.Context(), n); err != nil || !set {
		t.Fatalf("TrySetCount = %v, %v, want true", set, err)
	}
	return l
}

// WantCount checks the count of a latch.
func WantCount(t *testing.T, l *mortise.CountDownLatch, want int) {
	t.Helper()
	if n, err := l.Count(t.Context()); err != nil || n != want {
		t.Errorf("Count = %d, %v, want %d", n, err, want)
	}
}

// MustCountDown counts a latch down by one.
func MustCountDown(t *testing.T, l *mortise.CountDownLatch) {
	t.Helper()
	if err := l.CountDown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// WaitLater waits for a latch in the background, and returns a channel for the outcome.
func WaitLater(ctx context.Context, l *mortise.CountDownLatch) <-chan error {
	outcome := make(chan error, 1)
	go func() { outcome <- l.Wait(ctx) }()
	return outcome
}
