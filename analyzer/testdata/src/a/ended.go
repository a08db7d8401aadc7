package a

import (
	"context"
	"errors"
	"log/slog"

	"github.com/mortise-go/mortise"
)

func ended(ctx context.Context, c *mortise.Client) error {
	hold, ctx, err := c.Lock("x").Lock(ctx)
	if err != nil {
		return err
	}
	if err := work(ctx); err != nil {
		return errors.Join(err, hold.Unlock())
	}
	if err := hold.Unlock(); err != nil {
		slog.ErrorContext(ctx, "unlock", "err", err)
		return context.Cause(ctx)
	}
	if ctx.Err() != nil && mortiseHold(ctx) { // want `ctx has ended: its hold was released by Unlock in line 19`
		return nil
	}
	return nil
}

func mortiseHold(ctx context.Context) bool {
	hold, ok := mortise.HoldFrom(ctx)
	return ok && hold.Valid()
}

func endedInOneBranch(ctx context.Context, c *mortise.Client, early bool) error {
	hold, lctx, err := c.Lock("x").Lock(ctx)
	if err != nil {
		return err
	}
	if early {
		_ = hold.Unlock()
	} else {
		defer hold.Unlock()
	}
	return work(lctx) // want `lctx has ended`
}

func endedInALoop(ctx context.Context, c *mortise.Client) {
	for {
		var hold *mortise.Hold
		var err error
		hold, ctx, err = c.Lock("x").Lock(ctx) // want `ctx has ended`
		if err != nil {
			return
		}
		_ = hold.Unlock()
	}
}

func endedTerm(ctx context.Context, c *mortise.Client) {
	term, tctx, err := c.Election("x").Campaign(ctx, "v")
	if err != nil {
		return
	}
	_ = term.Resign()
	<-tctx.Done() // want `tctx has ended: its term was released by Resign`
}

func notEnded(ctx context.Context, c *mortise.Client) error {
	for range 3 {
		hold, lctx, err := c.Lock("x").Lock(ctx)
		if err != nil {
			return err
		}
		_ = work(lctx)
		_ = hold.Unlock()
		_ = work(ctx)
	}
	hold, lctx, err := c.Lock("x").Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Unlock()
	defer func() { _ = hold.Unlock() }()
	return work(lctx)
}

func reassigned(ctx context.Context, c *mortise.Client) error {
	outer := ctx
	hold, ctx, err := c.Lock("x").Lock(ctx)
	if err != nil {
		return err
	}
	_ = hold.Unlock()
	ctx = outer
	return work(ctx)
}

func noted(ctx context.Context, c *mortise.Client) {
	hold, lctx, err := c.Lock("x").Lock(ctx)
	if err != nil {
		return
	}
	_ = hold.Unlock()
	if h, ok := mortise.HoldFrom(lctx); ok && h.Valid() {
		return
	}
}
