package a

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/mortise-go/mortise"
)

func do(ctx context.Context, c *mortise.Client) error {
	return c.Lock("x").Do(ctx, func(context.Context) error {
		slog.InfoContext(ctx, "has it")
		return work(ctx) // want `ctx does not end when the lock is lost; the context that does is the parameter of the function in line 12, which has no name`
	})
}

func doBlank(ctx context.Context, l *mortise.Lock) error {
	return l.Do(ctx, func(_ context.Context) error {
		go func() { _ = work(ctx) }() // want `ctx does not end`
		return nil
	})
}

func doLater(ctx context.Context, l *mortise.Lock) error {
	err := l.Do(ctx, func(context.Context) error {
		for range 3 {
			if work(ctx) != nil { // want `ctx does not end`
				break
			}
		}
		return nil
	})
	return cmp.Or(err, work(ctx))
}

func doWithItsOwn(ctx context.Context, l *mortise.Lock) error {
	_ = l.Do(ctx, func(ctx context.Context) error { return work(ctx) })
	return l.Do(ctx, func(lctx context.Context) error {
		_ = context.AfterFunc(ctx, func() {})
		return work(lctx)
	})
}

func doWithout(ctx context.Context, l *mortise.Lock) error {
	_ = l.Do(context.Background(), func(context.Context) error { return work(ctx) })
	_ = l.Do(ctx, func(context.Context) error {
		ctx := context.Background()
		return work(ctx)
	})
	return l.Do(ctx, func(context.Context) error {
		if ctx.Err() != nil || context.Cause(ctx) != nil {
			return work(context.WithoutCancel(ctx))
		}
		hold, _ := mortise.HoldFrom(ctx)
		_ = hold.Valid()
		return work(context.Background())
	})
}

func doNested(ctx context.Context, l, m *mortise.Lock) error {
	return l.Do(ctx, func(context.Context) error {
		return m.Do(ctx, func(ctx context.Context) error { return work(ctx) })
	})
}

// No permit of a Semaphore is ever lost: its Do passes on the context that it gets.
func doSemaphore(ctx context.Context, s *mortise.Semaphore) error {
	return s.Do(ctx, 1, func(context.Context) error { return work(ctx) })
}

func doOuter(ctx context.Context, l *mortise.Lock) error {
	return l.Do(ctx, func(lctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		default:
		}
		_ = work(lctx)
		return work(ctx) // want `ctx does not end when the lock is lost; the context that does is lctx`
	})
}

func doTwice(ctx context.Context, c *mortise.Client, l, m *mortise.Lock) error {
	_, _ = l.TryDo(ctx, func(lctx context.Context) error {
		_ = m.Do(ctx, func(ctx context.Context) error { return work(ctx) })
		return l.Do(ctx, func(ctx context.Context) error { return work(ctx) }) // want `ctx waits for the lock that is held here, unless it has an owner; the context that re-enters is lctx`
	})
	return c.Lock("x").Do(ctx, func(lctx context.Context) error {
		_ = c.Lock("x").Do(lctx, func(ctx context.Context) error { return work(ctx) })
		_ = c.Lock("y").Do(ctx, func(ctx context.Context) error { return work(ctx) })
		return c.Lock("x").Do(ctx, func(ctx context.Context) error { return work(ctx) }) // want `ctx waits for the lock`
	})
}

func unused(c *mortise.Client, l *mortise.Lock) {
	c.Lock("x")                   // want `nothing is done with what this returns, and it does nothing else`
	l.With(mortise.LockOptions{}) // want `nothing is done`
	l = l.With(mortise.LockOptions{})
	_ = l
}

type other struct{}

func (other) Do(context.Context, func(context.Context) error) error { return nil }

func doElsewhere(ctx context.Context) error {
	return other{}.Do(ctx, func(context.Context) error { return work(ctx) })
}
