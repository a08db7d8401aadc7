// Package mortise has the signatures of the real one that matter to the analyzer.
package mortise

import (
	"context"
	"errors"
)

type (
	Client    struct{}
	locker    struct{}
	Lock      struct{ locker }
	RWLock    struct{}
	Semaphore struct{}
	Election  struct{}
	Barrier   struct{}
	Hold      struct{}
	Term      struct{}
	Member    struct{}
	State     struct{}

	ReadLock  struct{ locker }
	WriteLock struct{ locker }
	MultiLock struct{ locker }

	PermitSemaphore struct{ locker }
	LockOptions     struct{}
	HeldError       struct{}
)

var ErrLocked = errors.New("locked")

func (*HeldError) Error() string { return "held" }

func (*Client) Lock(string) *Lock           { return nil }
func (*Client) Semaphore(string) *Semaphore { return nil }
func (*Client) Election(string) *Election   { return nil }
func (*Client) Barrier(string) *Barrier     { return nil }

func (*locker) Lock(ctx context.Context) (*Hold, context.Context, error)    { return nil, ctx, nil }
func (*locker) TryLock(ctx context.Context) (*Hold, context.Context, error) { return nil, ctx, nil }
func (*locker) Inspect(context.Context) (State, error)                      { return State{}, nil }
func (*locker) Do(context.Context, func(context.Context) error) error       { return nil }
func (*locker) TryDo(context.Context, func(context.Context) error) (bool, error) {
	return false, nil
}
func (l *Lock) With(LockOptions) *Lock { return l }
func (*Hold) Unlock() error            { return nil }
func (*Hold) Valid() bool              { return true }
func (*Hold) Context() context.Context { return nil }
func (*RWLock) Read() *ReadLock        { return nil }
func (*RWLock) Write() *WriteLock      { return nil }

func (*Semaphore) Do(context.Context, int, func(context.Context) error) error { return nil }

func (*Election) Campaign(ctx context.Context, value string) (*Term, context.Context, error) {
	return nil, ctx, nil
}
func (*Election) Lead(ctx context.Context, value string, f func(context.Context, *Term) error) error {
	return nil
}
func (*Term) Resign() error { return nil }

func (*Barrier) Enter(ctx context.Context) (*Member, context.Context, error) { return nil, ctx, nil }
func (*Member) Leave(context.Context) error                                  { return nil }

func HoldFrom(context.Context) (*Hold, bool)        { return nil, false }
func WithOwner(ctx context.Context) context.Context { return ctx }
