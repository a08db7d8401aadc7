package behavior

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/locktest"
	"github.com/mortise-go/mortise/memredis"
)

// The context of a hold is made into one that can be cancelled when that is first
// needed. Whenever that is, it tells the same: what ended first.
func TestContextOfAHoldTellsWhatEndedIt(t *testing.T) {
	t.Parallel()
	own := errors.New("the caller's")
	looks := map[string]func(ctx context.Context){
		"never looked at": func(context.Context) {},
		"Err":             func(ctx context.Context) { _ = ctx.Err() },
		"Done":            func(ctx context.Context) { _ = ctx.Done() },
		"a child":         func(ctx context.Context) { _, cancel := context.WithCancel(ctx); cancel() },
	}
	ends := map[string]struct {
		end   func(hold *mortise.Hold, cancel context.CancelCauseFunc)
		cause error
	}{
		"released": {func(h *mortise.Hold, _ context.CancelCauseFunc) { _ = h.Unlock() }, mortise.ErrReleased},
		"released before its parent": {func(h *mortise.Hold, cancel context.CancelCauseFunc) {
			_ = h.Unlock()
			cancel(own)
		}, mortise.ErrReleased},
		"parent": {func(_ *mortise.Hold, cancel context.CancelCauseFunc) { cancel(own) }, own},
		"parent before the release": {func(h *mortise.Hold, cancel context.CancelCauseFunc) {
			cancel(own)
			_ = h.Unlock()
		}, own},
	}
	for look, early := range looks {
		for how, test := range ends {
			t.Run(how+", "+look, func(t *testing.T) {
				bubble(t, func(t *testing.T, s *memredis.Server) {
					c, _ := open(t, s, nil)
					parent, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					hold, ctx := mustLock(t, c.Lock("job"), parent)
					early(ctx)
					if ctx.Err() != nil || context.Cause(ctx) != nil {
						t.Fatalf("while it is held: %v, %v, want no error", ctx.Err(), context.Cause(ctx))
					}
					test.end(hold, cancel)
					if err, cause := ctx.Err(), context.Cause(ctx); !errors.Is(err, context.Canceled) || !errors.Is(cause, test.cause) {
						t.Errorf("it ended with %v, cause %v; want canceled by %v", err, cause, test.cause)
					}
					select {
					case <-ctx.Done():
					default:
						t.Error("Done is open")
					}
					late, stop := context.WithTimeout(ctx, time.Hour)
					defer stop()
					if !errors.Is(context.Cause(late), test.cause) {
						t.Errorf("a child made afterwards has the cause %v, want %v", context.Cause(late), test.cause)
					}
					_ = hold.Unlock()
				})
			})
		}
	}
}

// Contexts that are derived from that of a hold end with it, and cost no
// goroutine each.
func TestChildrenOfAHoldsContext(t *testing.T) {
	alone(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		hold, ctx := mustLock(t, c.Lock("job"), t.Context())
		before := locktest.Goroutines()
		var children []context.Context
		var told atomic.Int32
		for range 100 {
			child, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			children = append(children, child)
			context.AfterFunc(ctx, func() { told.Add(1) })
		}
		if n := locktest.Goroutines(); n > before {
			t.Errorf("%d more goroutines for 100 contexts, want none", n-before)
		}
		mustUnlock(t, hold)
		synctest.Wait()
		for _, child := range children {
			if !errors.Is(context.Cause(child), mortise.ErrReleased) {
				t.Fatalf("a child ended with %v, want ErrReleased", context.Cause(child))
			}
		}
		if told.Load() != 100 {
			t.Errorf("%d of 100 were told of the end", told.Load())
		}
	})
}

// hookContext is a parent that ends, by its deadline, in the middle of whatever
// asks it next.
type hookContext struct {
	context.Context
	onErr, onDone atomic.Pointer[func()]
}

func (c *hookContext) Err() error {
	err := c.Context.Err() // what it was when it was asked
	if f := c.onErr.Swap(nil); f != nil {
		(*f)()
	}
	return err
}

func (c *hookContext) Done() <-chan struct{} {
	if f := c.onDone.Swap(nil); f != nil {
		(*f)()
	}
	return c.Context.Done()
}

// Whatever ends first, and whichever goroutine sees that, the error of a context stays.
func TestErrorOfAHoldsContextStays(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(h *mortise.Hold, k *mortise.Lock){
		"released": func(h *mortise.Hold, _ *mortise.Lock) { _ = h.Unlock() },
		"lost":     func(_ *mortise.Hold, k *mortise.Lock) { _, _ = k.ForceUnlock(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				limited, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				parent := &hookContext{Context: limited}
				hold, ctx := mustLock(t, c.Lock("job"), parent)
				var seen error
				look := func() {
					time.Sleep(2 * time.Second) // the deadline passes
					seen = ctx.Err()
				}
				parent.onErr.Store(&look)
				end(hold, c.Lock("job"))
				if seen == nil {
					t.Fatal("the parent was not asked")
				}
				if err := ctx.Err(); !errors.Is(err, seen) || !errors.Is(seen, err) {
					t.Errorf("the error is now %v, want %v as before", err, seen)
				}
				_ = hold.Unlock()
			})
		})
	}
}

// The parent may be the context of another hold, which looks at the clock when it
// is asked, and so may end this one.
func TestHoldEndsWhileItsParentIsAsked(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, _ := open(t, s, nil)
		parent := &hookContext{Context: t.Context()}
		hold, ctx := mustLock(t, c.Lock("job"), parent)
		unlock := func() { mustUnlock(t, hold) }
		parent.onDone.Store(&unlock)
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, mortise.ErrReleased) {
			t.Errorf("the cause is %v, want ErrReleased", cause)
		}
	})
}
