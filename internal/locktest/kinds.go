package locktest

import (
	"context"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/memredis"
)

// Taker is what all kinds of lock have in common.
type Taker interface {
	Name() string
	Lock(ctx context.Context) (*mortise.Hold, context.Context, error)
	TryLock(ctx context.Context) (*mortise.Hold, context.Context, error)
	Do(ctx context.Context, f func(ctx context.Context) error) error
}

// Kind is one kind of lock, for the tests that all of them must pass.
type Kind struct {
	Open func(c *mortise.Client, name string, o mortise.LockOptions) Taker
	// The scripts that acquire, re-enter, partly leave and release it. Other scripts run for it
	// too, but only these change what it holds.
	Acquire, Reenter, Leave, Release string
}

var Kinds = map[string]Kind{
	"Lock": {func(c *mortise.Client, name string, o mortise.LockOptions) Taker { return c.Lock(name).With(o) },
		"lock_acquire", "lock_reenter", "lock_leave", "lock_release"},
	"FencedLock": {func(c *mortise.Client, name string, o mortise.LockOptions) Taker { return c.FencedLock(name).With(o) },
		"fenced_acquire", "fenced_reenter", "lock_leave", "lock_release"},
	"SpinLock": {func(c *mortise.Client, name string, o mortise.LockOptions) Taker { return c.SpinLock(name).With(o) },
		"lock_acquire", "lock_reenter", "lock_leave", "lock_release"},
	"GroupLock": {func(c *mortise.Client, name string, o mortise.LockOptions) Taker {
		return c.GroupLock(name, "a", "b", "").With(o)
	},
		"group_acquire", "group_reenter", "group_leave", "group_release"},
	"FairLock": {func(c *mortise.Client, name string, o mortise.LockOptions) Taker { return c.FairLock(name).With(o) },
		"fair_acquire", "lock_reenter", "lock_leave", "fair_release"},
	"RWLock.Write": {func(c *mortise.Client, name string, o mortise.LockOptions) Taker {
		return c.RWLock(name).Write().With(o)
	},
		"rw_write_acquire", "lock_reenter", "lock_leave", "rw_write_release"},
}

// EachKind runs f in virtual time for every kind of lock.
func EachKind(t *testing.T, f func(t *testing.T, s *memredis.Server, k Kind)) {
	t.Helper()
	t.Parallel()
	for name, k := range Kinds {
		t.Run(name, func(t *testing.T) {
			Bubble(t, func(t *testing.T, s *memredis.Server) { f(t, s, k) })
		})
	}
}
