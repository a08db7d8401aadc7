package behavior

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// Replies and requests of the reader's scripts that are lost; the writer's are
// tried with those of all kinds.
func TestRWLockReaderSurvivesLostRepliesAndRequests(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		other, _ := open(t, s, nil)
		k, rival := c.RWLock("doc"), other.RWLock("doc")
		for _, withOther := range []bool{false, true} { // another reader
			for _, lost := range losses {
				var theirs *mortise.Hold
				others := []any{}
				if withOther {
					theirs, _ = must(t, rival.Read(), t.Context())
					others = []any{theirs.Owner(), 1}
				}
				lost.Set(f, "rw_read_acquire")
				outer, ctx := must(t, k.Read(), t.Context())
				wantHolders(t, k, "read", append([]any{outer.Owner(), 1}, others...)...)
				lost.Set(f, "rw_read_reenter")
				inner, _ := must(t, k.Read(), ctx)
				wantHolders(t, k, "read", append([]any{outer.Owner(), 2}, others...)...)
				lost.Set(f, "rw_read_renew")
				time.Sleep(time.Minute)
				if ctx.Err() != nil {
					t.Errorf("lost with %v: %v", lost, context.Cause(ctx))
				}
				lost.Set(f, "rw_read_leave")
				mustUnlock(t, inner)
				wantHolders(t, k, "read", append([]any{outer.Owner(), 1}, others...)...)
				lost.Set(f, "rw_read_release")
				if err := outer.Unlock(); err != nil && !errors.Is(err, mortise.ErrUnknownOutcome) {
					t.Errorf("Unlock with %v: %v", lost, err)
				}
				f.Set(nil, nil)
				if withOther {
					wantHolders(t, k, "read", others...)
					mustUnlock(t, theirs)
				}
				wantHolders(t, k, "")
			}
		}
		wantEmpty(t, s)
	})
}

// While a slot of a cluster moves, the key of a reader's hold may be on another server than
// the lock: Redis ends the script there, and the client asks again.
func TestRWLockReaderWhoseSlotMoves(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		c, f := open(t, s, nil)
		const reply = "ERR Script attempted to access a non local key in a cluster node script: c157, on @user_script:104."
		var left atomic.Int32
		moves := func(_ context.Context, name string) error {
			if left.Add(-1) < 0 {
				return nil
			}
			return driver.ReplyError(errors.New(reply), reply)
		}
		for _, before := range []bool{true, false} {
			if f.Set(nil, moves); before {
				f.Set(moves, nil)
			}
			left.Store(2)
			hold, _ := must(t, c.RWLock("doc").Read(), t.Context())
			left.Store(2)
			if err := hold.Unlock(); err != nil && (before || !errors.Is(err, mortise.ErrUnknownOutcome)) {
				t.Errorf("Unlock: %v", err)
			}
		}
		f.Set(nil, nil)
		wantEmpty(t, s)
	})
}

// Callers that give up, in the queue and in the middle of an attempt, and a
// client that is closed, leave nothing behind.
func TestRWLockReaderGivesUp(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *mortise.Client, cancel func()) error{
		"context": func(_ *mortise.Client, cancel func()) error { cancel(); return context.Canceled },
		"client":  func(c *mortise.Client, _ func()) error { _ = c.Close(); return mortise.ErrClosed },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				c, _ := open(t, s, nil)
				other, _ := open(t, s, nil)
				writer, _ := must(t, other.RWLock("doc").Write(), t.Context())
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var all sync.WaitGroup
				errs := make(chan error, 20)
				for range 20 {
					all.Go(func() {
						_, _, err := c.RWLock("doc").Read().Lock(ctx)
						errs <- err
					})
				}
				time.Sleep(3 * time.Second)
				start := time.Now()
				want := end(c, cancel)
				all.Wait()
				if d := time.Since(start); d != 0 {
					t.Errorf("the waits ended after %v, want 0", d)
				}
				for range 20 {
					if err := <-errs; !errors.Is(err, want) {
						t.Errorf("got %v, want %v", err, want)
					}
				}
				mustUnlock(t, writer)
				wantHad(t, other.RWLock("doc").Write())
				wantEmpty(t, s)
			})
		})
	}
	t.Run("attempt", func(t *testing.T) {
		bubble(t, func(t *testing.T, s *memredis.Server) {
			c, f := open(t, s, nil)
			other, _ := open(t, s, nil)
			f.Set(nil, hang) // it runs, but its answer does not come
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, _, err := c.RWLock("doc").Read().Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the deadline's error", err)
			}
			f.Set(nil, nil)
			start := time.Now()
			hold, _ := must(t, other.RWLock("doc").Write(), t.Context())
			if d := time.Since(start); d > 2*time.Second {
				t.Errorf("a read lock nobody wants kept a writer out for %v", d)
			}
			mustUnlock(t, hold)
			wantEmpty(t, s)
		})
	})
}
