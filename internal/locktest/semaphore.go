package locktest

import (
	"context"
	"testing"

	"github.com/mortise-go/mortise"
)

// Permitted returns a semaphore of c with n permits.
func Permitted(t *testing.T, c *mortise.Client, name string, n int) *mortise.Semaphore {
	t.Helper()
	s := c.Semaphore(name)
	if set, err := s.TrySetPermits(t.Context(), n); err != nil || !set {
		t.Fatalf("TrySetPermits = %v, %v, want true", set, err)
	}
	return s
}

// WantAvailable checks how many permits are available.
func WantAvailable(t *testing.T, s *mortise.Semaphore, want int) {
	t.Helper()
	if n, err := s.Available(t.Context()); err != nil || n != want {
		t.Errorf("Available = %d, %v, want %d", n, err, want)
	}
}

// MustAcquire acquires permits that the test expects to be available.
func MustAcquire(t *testing.T, s *mortise.Semaphore, n int) {
	t.Helper()
	if err := s.Acquire(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// MustRelease releases permits that the test holds.
func MustRelease(t *testing.T, s *mortise.Semaphore, n int) {
	t.Helper()
	if err := s.Release(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// AcquireLater waits for permits in the background, and returns a channel for the outcome.
func AcquireLater(ctx context.Context, s *mortise.Semaphore, n int) <-chan error {
	outcome := make(chan error, 1)
	go func() { outcome <- s.Acquire(ctx, n) }()
	return outcome
}
