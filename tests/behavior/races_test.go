package behavior

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/memredis"
)

// While a lease is handed from goroutine to goroutine, the next one gives up, messages wake those who wait, and
// others look at the hold that ends. In a bubble only one of these happens at a time: here it is the race detector
// that has something to say, and the count of those inside.
func TestHandOffWhileAllElseHappens(t *testing.T) {
	server := memredis.New()
	defer server.Close()
	c, _ := open(t, server, nil)
	lock := c.Lock("job")
	var inside, had atomic.Int64
	var current atomic.Pointer[mortise.Hold]
	over := make(chan struct{})
	var beside, all sync.WaitGroup
	beside.Go(func() { // looks at whatever hold there is, also while it is released
		for {
			select {
			case <-over:
				return
			default:
			}
			if h := current.Load(); h != nil {
				_, _ = h.Valid(), h.Until()
			}
		}
	})
	beside.Go(func() { // wakes those who wait, for nothing
		for {
			select {
			case <-over:
				return
			default:
				do(t, server, "PUBLISH", keyspace.LockChannel("job"), "0")
			}
		}
	})
	for i := range 8 {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		all.Go(func() {
			for range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(20))*time.Millisecond)
				hold, _, err := lock.Lock(ctx)
				cancel()
				if err != nil {
					continue
				}
				if inside.Add(1) != 1 {
					t.Error("two are inside")
				}
				had.Add(1)
				current.Store(hold)
				inside.Add(-1)
				mustUnlock(t, hold)
			}
		})
	}
	all.Wait()
	close(over)
	beside.Wait()
	if had.Load() == 0 {
		hold, _ := mustLock(t, lock, t.Context()) // a busy machine: the last one is in time
		mustUnlock(t, hold)
	}
	t.Logf("%d acquisitions", had.Load())
	wantFree(t, server, "job")
}
