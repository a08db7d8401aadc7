package a

import (
	"context"

	"github.com/mortise-go/mortise"
)

func statements(ctx context.Context, c *mortise.Client) {
	c.Lock("x").Lock(ctx)              // want `the hold is dropped: nothing can release the lock with Unlock`
	c.Lock("x").TryLock(ctx)           // want `the hold is dropped`
	go c.Lock("x").Lock(ctx)           // want `the hold is dropped`
	defer c.Lock("x").Lock(ctx)        // want `the hold is dropped`
	c.Election("x").Campaign(ctx, "v") // want `the term is dropped: nothing can release the lock with Resign`
	c.Barrier("x").Enter(ctx)          // want `the member is dropped`
	c.Lock("x").Inspect(ctx)
	lock := c.Lock("x").Lock
	lock(ctx) // want `the hold is dropped`
}

func blanks(ctx context.Context, c *mortise.Client) error {
	_, _, err := c.Lock("x").Lock(ctx) // want `the hold is dropped`
	if err != nil {
		return err
	}
	_, lctx, err := c.Lock("x").Lock(ctx) // want `the hold is dropped`
	if err != nil {
		return err
	}
	var _, _, _ = (c.Lock("x").Lock(lctx)) // want `the hold is dropped`
	hold, _, err := c.Lock("x").Lock(ctx)
	if err != nil {
		return err
	}
	return hold.Unlock()
}

func passedOn(ctx context.Context, c *mortise.Client) (*mortise.Hold, context.Context, error) {
	return c.Lock("x").Lock(ctx)
}

// A function of one's own that returns a hold is an acquisition as well.
func own(ctx context.Context, c *mortise.Client) {
	passedOn(ctx, c) // want `the hold is dropped`
}
