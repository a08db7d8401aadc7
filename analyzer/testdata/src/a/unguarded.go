package a

import (
	"context"
	"log/slog"

	"github.com/mortise-go/mortise"
)

func work(context.Context) error { return nil }

func unguarded(ctx context.Context, c *mortise.Client) error {
	hold, _, err := c.Lock("x").Lock(ctx)
	if err != nil {
		slog.InfoContext(ctx, "busy")
		return work(ctx) // without the lock
	}
	defer hold.Unlock()
	if ctx.Err() != nil || context.Cause(ctx) != nil {
		return work(context.WithoutCancel(ctx))
	}
	_, _ = c.Lock("y").Inspect(ctx)
	return work(ctx) // want `ctx does not end when the lock is lost; the context that does was dropped in line 13`
}

func unguardedGoroutine(ctx context.Context, c *mortise.Client) {
	hold, _, err := c.Lock("x").TryLock(ctx)
	if err != nil {
		return
	}
	go func() { _ = work(ctx) }() // want `ctx does not end`
	<-ctx.Done()
	_ = hold.Unlock()
}

func unguardedElse(ctx context.Context, c *mortise.Client) error {
	term, _, err := c.Election("x").Campaign(ctx, "v")
	if err != nil {
		return err
	}
	for range 3 {
		if err := work(ctx); err != nil { // want `ctx does not end`
			break
		}
	}
	return term.Resign()
}

func unguardedInTheBranch(ctx context.Context, c *mortise.Client) {
	if hold, _, err := c.Lock("x").TryLock(ctx); err == nil {
		_ = work(ctx) // want `ctx does not end`
		_ = hold.Unlock()
	} else {
		_ = work(ctx)
	}
	_ = work(ctx)
}

func afterwards(ctx context.Context, c *mortise.Client) error {
	hold, _, err := c.Lock("x").Lock(ctx)
	if err != nil {
		return err
	}
	if err := hold.Unlock(); err != nil {
		return err
	}
	return work(ctx)
}

func another(ctx context.Context, c *mortise.Client) error {
	hold, _, err := c.Lock("x").Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Unlock()
	ctx = context.Background()
	return work(ctx)
}

// Holds of one owner that overlap.
func overlapping(ctx context.Context, c *mortise.Client) {
	ctx = mortise.WithOwner(ctx)
	first, _, err := c.Lock("x").Lock(ctx)
	if err != nil {
		return
	}
	second, _, err := c.Lock("x").Lock(ctx)
	if err != nil {
		return
	}
	_ = first.Unlock()
	_ = second.Unlock()
}

func fresh(c *mortise.Client) error {
	hold, _, err := c.Lock("x").Lock(context.Background())
	if err != nil {
		return err
	}
	defer hold.Unlock()
	return work(context.Background())
}
