package server

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// While the process has work for twice the CPUs it has, no renewal comes so late
// that a lock is lost.
func TestRealRenewalsWhileCPUsAreBusy(t *testing.T) { canary.Judge(t, renewalsWhileCPUsAreBusy) }

func renewalsWhileCPUsAreBusy(t *testing.T, b *canary.Bounds) {
	const locks, lease = 2000, 12 * time.Second
	s := redistest.Single(t)
	c := mortise.New(dialers["rueidis"](t, s.Addr(), ""), &mortise.Options{TTL: lease})
	defer c.Close()
	holds := make([]*mortise.Hold, locks)
	var all sync.WaitGroup
	for part := range slices.Chunk(holds, locks/20) {
		all.Go(func() {
			for i := range part {
				part[i], _, _ = c.Lock(fmt.Sprintf("job:%p", &part[i])).Lock(t.Context())
			}
		})
	}
	all.Wait()
	var stop atomic.Bool
	defer all.Wait()
	defer stop.Store(true)
	for range 2 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for !stop.Load() {
			}
		})
	}
	begin := time.Now()
	redistest.Eventually(t, "all locks are renewed", func() error {
		for _, h := range holds {
			switch {
			case h == nil:
				t.Fatal("a lock was not taken")
			case !h.Valid():
				b.Within("the next renewal of "+h.Name(), lease+time.Since(h.Until()), lease)
				return nil // it was lost
			case h.Until().Before(begin.Add(lease + lease/4)):
				return fmt.Errorf("%s is trusted until %v after the start", h.Name(), h.Until().Sub(begin))
			}
		}
		return nil
	})
}
