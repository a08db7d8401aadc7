package torture

import (
	"context"
	"errors"
	"fmt"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/torture"
)

// meet takes what has no lease, or makes callers wait for each other.
func (l *locks) meet(ctx context.Context, load torture.Load, o mortise.WaitOptions) (torture.Held, context.Context, error) {
	switch load.Kind {
	case "semaphore":
		s := l.Semaphore(load.Name).With(o)
		if _, err := s.TrySetPermits(ctx, load.Units); err != nil {
			return nil, ctx, err
		}
		if err := s.Acquire(ctx, 1); err != nil {
			return nil, ctx, err
		}
		return until(ctx, func() error { return release(s) })
	case "latch":
		if err := l.latch(ctx, load, o); err != nil {
			return nil, ctx, err
		}
		return until(ctx, nil)
	case "barrier":
		if _, err := l.Barrier(load.Name, load.Units).With(o).Await(ctx); err != nil {
			return nil, ctx, err
		}
		return until(ctx, nil)
	case "double":
		m, inside, err := l.DoubleBarrier(load.Name, load.Units).With(o).Enter(ctx)
		if err != nil {
			return nil, ctx, err
		}
		return member{m, inside}, inside, nil
	}
	return nil, ctx, fmt.Errorf("there is no kind %q", load.Kind)
}

// latch does its part with a latch, which is a new one each time.
func (l *locks) latch(ctx context.Context, load torture.Load, o mortise.WaitOptions) error {
	k := l.CountDownLatch(load.Name).With(o)
	switch load.Role {
	case "set":
		set, err := k.TrySetCount(ctx, load.Units)
		if err == nil && !set {
			return fmt.Errorf("the latch %s, which nobody has set, was set", load.Name)
		}
		return err
	case "count":
		return k.CountDown(ctx)
	}
	return k.Wait(ctx)
}

// release gives a permit back, also if Redis cannot be reached for long: it has no lease.
func release(s *mortise.Semaphore) (err error) {
	for range 3 {
		err = s.Release(context.Background(), 1)
		if !errors.Is(err, mortise.ErrUnreachable) || errors.Is(err, mortise.ErrUnknownOutcome) {
			break
		}
	}
	return err
}

// plain is what was taken and has no lease.
type plain struct {
	ctx context.Context
	end func() error
}

func until(ctx context.Context, end func() error) (torture.Held, context.Context, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return plain{ctx, func() error {
		cancel()
		if end == nil {
			return nil
		}
		return end()
	}}, ctx, nil
}

func (p plain) Valid() bool   { return p.ctx.Err() == nil }
func (p plain) Token() int64  { return 0 }
func (p plain) Owner() string { return "" }
func (p plain) Unlock() error { return p.end() }

// member is a party inside a double barrier as what is held.
type member struct {
	*mortise.Member
	ctx context.Context
}

func (m member) Valid() bool   { return m.ctx.Err() == nil }
func (m member) Token() int64  { return 0 }
func (m member) Owner() string { return "" }
func (m member) Unlock() error { return m.Leave(context.Background()) }
