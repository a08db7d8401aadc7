package locktest

import (
	"context"
	"testing"

	"github.com/mortise-go/mortise"
)

// AtOnce returns the options for n permits in one acquisition.
func AtOnce(n int) mortise.PermitOptions { return mortise.PermitOptions{Permits: n} }

// MustTakePermits acquires a permit that the test expects to be free.
func MustTakePermits(t *testing.T, s *mortise.PermitSemaphore) (*mortise.Hold, context.Context) {
	t.Helper()
	hold, ctx, err := s.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return hold, ctx
}

// PermitsOf returns a semaphore with n permits.
func PermitsOf(t *testing.T, c *mortise.Client, n int) *mortise.PermitSemaphore {
	t.Helper()
	s := c.PermitSemaphore("job")
	if err := s.SetPermits(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return s
}

// WantPermits checks how many permits are available, and how many are acquired.
func WantPermits(t *testing.T, s *mortise.PermitSemaphore, available, acquired int) {
	t.Helper()
	a, err := s.Available(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Acquired(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Permits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a != available || b != acquired || all != a+b {
		t.Errorf("%d available and %d acquired, %d in all; want %d and %d", a, b, all, available, acquired)
	}
}
