package a

import (
	"context"
	"testing"

	"github.com/mortise-go/mortise"
)

func TestRefused(t *testing.T) {
	c, ctx := new(mortise.Client), context.Background()
	if _, _, err := c.Lock("x").TryLock(ctx); err == nil { // a test of the error
		t.Error("no error")
	}
	_, _, _ = c.Lock("x").TryLock(ctx) // want `the hold is dropped`
	c.Lock("x").TryLock(ctx)           // want `the hold is dropped`
}
