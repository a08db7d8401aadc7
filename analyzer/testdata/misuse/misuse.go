// Package misuse is a program against the real package mortise; TestVetTool knows its lines.
package misuse

import (
	"context"

	"github.com/mortise-go/mortise"
)

func misuse(ctx context.Context, c *mortise.Client, work func(context.Context)) {
	c.Lock("a").Lock(ctx)
	mortise.NewMultiLock(c.Lock("a"), c.FairLock("b")).Lock(ctx)
	mortise.NewRedlock("a", c).TryLock(ctx)
	c.RWLock("a").Read().Lock(ctx)
	c.PermitSemaphore("a").Acquire(ctx)
	c.Election("a").Campaign(ctx, "v")
	c.DoubleBarrier("a", 2).Enter(ctx)
	if hold, _, err := c.FencedLock("a").Lock(ctx); err == nil {
		_ = hold.Unlock()
	}
	hold, _, err := c.GroupLock("a", "v").Lock(ctx)
	if err != nil {
		return
	}
	work(ctx)
	_ = hold.Unlock()
	hold, lctx, err := c.SpinLock("a").Lock(ctx)
	if err != nil {
		return
	}
	_ = hold.Unlock()
	work(lctx)
	_ = mortise.NewMultiLock(c.Lock("a")).Do(ctx, func(context.Context) error {
		work(ctx)
		return nil
	})
	_ = c.Semaphore("a").Do(ctx, 1, func(context.Context) error {
		work(ctx)
		return nil
	})
	_ = c.Election("a").Lead(ctx, "v", func(context.Context, *mortise.Term) error {
		work(ctx)
		return nil
	})
	again := func(lctx context.Context) error {
		return c.FairLock("a").Do(ctx, func(context.Context) error { return nil })
	}
	_ = c.FairLock("a").Do(ctx, again)
	_ = c.RWLock("a").Read().Do(ctx, func(context.Context) error {
		return c.RWLock("a").Read().Do(ctx, func(context.Context) error { return nil })
	})
	hold, _, err = c.Lock("a").TryLock(ctx)
	switch {
	case err == nil:
		<-hold.Context().Done()
		<-ctx.Done()
		_ = hold.Unlock()
	default:
		work(ctx)
	}
}
