package lease

import (
	"context"
	"time"
)

// ownState is the state of the contexts of [Hold.OwnContext]: derived from the parent's values alone, once one is needed.
type ownState struct {
	context.Context // nil with why
	cancel          context.CancelCauseFunc
	why             *ending // the hold ended before there was such a context
}

// releasedOwn is that of most holds.
var releasedOwn = &ownState{why: endReleased}

// endOwn ends the contexts of OwnContext with the cause of why, unless they have ended.
func (b *backing) endOwn(why *ending) {
	gone := releasedOwn
	if why != endReleased {
		gone = &ownState{why: why}
	}
	if b.own.CompareAndSwap(nil, gone) {
		return
	}
	if own := b.own.Load(); own.why == nil {
		own.cancel(why.contextCause())
	}
}

// OwnContext returns a context with the values of the hold's, among them the owner, that ends when the hold does, and not with
// the parent.
func (h *Hold) OwnContext() context.Context {
	b := h.derive()
	for {
		own := b.own.Load()
		if own != nil && own.why == nil {
			return &ownContext{own, h}
		}
		made := new(ownState)
		made.Context, made.cancel = context.WithCancelCause(context.WithoutCancel(h.parent))
		if own != nil {
			made.cancel(own.why.contextCause())
		}
		if b.own.CompareAndSwap(own, made) {
			return &ownContext{made, h}
		}
		made.cancel(nil)
	}
}

// ownContext is a context of OwnContext. As that of the hold, it checks the clock when it is asked.
type ownContext struct {
	of   *ownState
	hold *Hold
}

func (c *ownContext) Deadline() (time.Time, bool) { return time.Time{}, false }

func (c *ownContext) Err() error {
	if err := c.of.Err(); err != nil {
		return err
	}
	c.hold.of.Expire()
	return c.of.Err()
}

func (c *ownContext) Done() <-chan struct{} {
	c.hold.of.Expire()
	return c.of.Done()
}

func (c *ownContext) Value(key any) any {
	if v := c.hold.value(key); v != nil {
		return v
	}
	return c.of.Value(key)
}
