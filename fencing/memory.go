package fencing

import (
	"context"
	"sync"
)

// Store remembers the newest token of each resource. A [Guard] is a store that all processes of a
// service share, [Memory] one for a single process.
type Store interface {
	// Admit returns an error that matches ErrStale if it has seen a newer token for the
	// resource, and remembers this one otherwise. A token below 1 is none: the error must match
	// ErrInvalid of package mortise. It must be safe for concurrent use, and must not forget.
	Admit(ctx context.Context, resource string, token int64) error
}

// Memory is a [Store] in memory: it forgets when the process ends, so a late request that arrives
// after a restart is admitted. It keeps some dozens of bytes for every resource, forever. Its zero
// value is ready, and it is safe for concurrent use.
type Memory struct {
	mu     sync.Mutex
	newest map[string]int64 // guarded by mu
}

// Admit makes Memory a [Store]. It does not block.
func (m *Memory) Admit(_ context.Context, resource string, token int64) error {
	if err := checkToken(token); err != nil {
		return fail(resource, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if newest := m.newest[resource]; token < newest {
		return &StaleError{Resource: resource, Token: token, Newest: newest}
	}
	if m.newest == nil {
		m.newest = make(map[string]int64)
	}
	m.newest[resource] = token
	return nil
}
