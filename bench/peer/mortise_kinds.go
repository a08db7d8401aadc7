package peer

import (
	"context"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/workload"
)

// rwLocks locks with the two sides of an RWLock.
func rwLocks(client *mortise.Client) workload.Locker {
	return mortiseSides{
		mortiseLocker[*mortise.WriteLock]{func(key string) *mortise.WriteLock { return client.RWLock(key).Write() }},
		mortiseLocker[*mortise.ReadLock]{func(key string) *mortise.ReadLock { return client.RWLock(key).Read() }},
	}
}

type mortiseSides struct {
	mortiseLocker[*mortise.WriteLock]
	read mortiseLocker[*mortise.ReadLock]
}

// Read implements [workload.Sided].
func (m mortiseSides) Read() workload.Locker { return m.read }

// permitSemaphores takes permits of a PermitSemaphore.
func permitSemaphores(client *mortise.Client) workload.Locker {
	return mortisePermits{mortiseLocker[permitLock]{func(key string) permitLock { return permitLock{client.PermitSemaphore(key)} }}}
}

// permitLock acquires its permits as locks are acquired.
type permitLock struct{ *mortise.PermitSemaphore }

func (s permitLock) Lock(ctx context.Context) (*mortise.Hold, context.Context, error) {
	return s.Acquire(ctx)
}

type mortisePermits struct{ mortiseLocker[permitLock] }

// Permit implements [workload.Permitter].
func (s mortisePermits) Permit(ctx context.Context, key string, n int) error {
	_, err := s.of(key).TrySetPermits(ctx, n)
	return err
}

// semaphores takes permits of a Semaphore.
func semaphores(client *mortise.Client) workload.Locker { return mortiseSemaphores{client} }

type mortiseSemaphores struct{ client *mortise.Client }

func (s mortiseSemaphores) Lock(ctx context.Context, key string) (workload.Hold, error) {
	return s.Of(key).Lock(ctx, key)
}

// Of implements [workload.Namer].
func (s mortiseSemaphores) Of(key string) workload.Locker {
	return mortiseSemaphore{s.client.Semaphore(key)}
}

// Permit implements [workload.Permitter].
func (s mortiseSemaphores) Permit(ctx context.Context, key string, n int) error {
	_, err := s.client.Semaphore(key).TrySetPermits(ctx, n)
	return err
}

// mortiseSemaphore is a semaphore, and the hold of one of its permits.
type mortiseSemaphore struct{ of *mortise.Semaphore }

func (s mortiseSemaphore) Lock(ctx context.Context, _ string) (workload.Hold, error) {
	return s, s.of.Acquire(ctx, 1)
}

func (s mortiseSemaphore) Unlock() error { return s.of.Release(context.Background(), 1) }
