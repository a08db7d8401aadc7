package behavior

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/memredis"
)

// An attempt in doubt is looked for even if its request asks with the id of a turn later.
func TestDoubtIsNotForgottenByATurn(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		_, f := open(t, s, nil)
		holder, _ := open(t, s, nil)
		raw := s.Driver()
		defer raw.Close()
		var copied atomic.Bool
		var late sync.WaitGroup
		c := mortise.New(&hook{Driver: f, eval: func(_ context.Context, call driver.Call) (driver.Value, error, bool) {
			if call.Script.Name() != "lock_acquire" || !copied.CompareAndSwap(false, true) {
				return driver.Value{}, nil, false
			}
			late.Go(func() { time.Sleep(3 * time.Second); _, _ = raw.Eval(context.Background(), call) })
			return driver.Value{}, errCut, true
		}}, nil)
		defer c.Close()
		block := mustTake(t, holder.Lock("job"))
		ctx, cancel := context.WithCancel(t.Context())
		got := later(t, ctx, c.Lock("job"))
		time.Sleep(2 * time.Second) // it has its turn
		cancel()
		if hold := <-got; hold != nil {
			t.Fatal("the waiter that was canceled has the lock")
		}
		mustUnlock(t, block)
		late.Wait()
		time.Sleep(10 * time.Second)
		wantState(t, holder.Lock("job"), "", 0)
	})
}

// A request gives up in doubt, and its id is released again and again. The next waiter of
// its client has another id, so it keeps the lock.
func TestTurnOfARequestInDoubtIsNotThatOfTheNextWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, s *memredis.Server) {
		holder, _ := open(t, s, nil)
		other, _ := open(t, s, nil)
		c, f := open(t, s, nil)
		block := mustTake(t, holder.Lock("job"))
		ctx, cancel := context.WithCancel(t.Context())
		first := later(t, ctx, c.Lock("job"))
		second := later(t, t.Context(), c.Lock("job"))
		f.Set(nil, loseReplies("lock_acquire", 1))
		time.Sleep(1500 * time.Millisecond) // the first waiter has asked, and asked again
		cancel()
		if hold := <-first; hold != nil {
			t.Fatal("the waiter that was canceled has the lock")
		}
		mustUnlock(t, block)
		hold := <-second
		wantToKeep(t, s, hold, later(t, t.Context(), other.Lock("job")))
	})
}
