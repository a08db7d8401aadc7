package behavior

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/mortisetest"
)

// A failover forgets a release that has granted the lock to a waiter. The waiter learns that, and
// queues again; its former place in the queue, of which its client knows nothing, delays the
// others for as long as a silent head may.
func TestFairGrantThatAFailoverForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mortisetest.NewServer()
		defer s.Close()
		open := func() *mortise.FairLock {
			c := mortise.New(s.Link(), &mortise.Options{TTL: 6 * time.Second})
			t.Cleanup(func() { _ = c.Close() })
			return c.FairLock("job")
		}
		first, second, third := open(), open(), open()
		block := mustTake(t, first)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			hold, ctx, err := second.Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			wantLost(t, ctx, hold, mortise.LostTaken, 0, 2*time.Second)
			if hold, _, err = second.Lock(t.Context()); err != nil { // so its client lives on
				t.Error(err)
				return
			}
			mustUnlock(t, hold)
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		got := later(t, ctx, third)
		synctest.Wait()
		mustUnlock(t, block)
		synctest.Wait()
		s.FailOver(1)
		start := time.Now()
		mustUnlock(t, <-got)
		if d := time.Since(start); d > 17*time.Second { // the former lease, and ten seconds
			t.Errorf("the third waiter has the lock after %v", d)
		}
		waiting.Wait()
	})
}
