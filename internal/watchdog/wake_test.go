package watchdog

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A lease that comes and goes does not wake the scheduler each time: it would cost a free lock more
// than all else that the watchdog does.
func TestLeaseThatComesAndGoesWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		renewed := 0
		w := New(Config{
			Renew: func(_ context.Context, leases []*Lease) []Answer {
				renewed += len(leases)
				return make([]Answer, len(leases))
			},
			Shard: func(*Lease) string { return "" },
			Lost:  func(_ *Lease, reason Reason, err error) { t.Errorf("lost: %v, %v", reason, err) },
		})
		defer w.Close()
		terms := &Terms{TTL: 30 * time.Second, Trust: 29 * time.Second}
		hold := func(d time.Duration) {
			l := &Lease{Terms: terms}
			w.Add(l, time.Now(), terms.Trust, true)
			if d > 0 {
				time.Sleep(d)
			}
			w.Remove(l) // on one CPU, a scheduler that Add has woken runs after this
			synctest.Wait()
		}
		runs := map[time.Duration]bool{}
		for range 2000 {
			hold(0)
			time.Sleep(10 * time.Millisecond)
			w.mu.Lock()
			runs[w.woken] = true
			w.mu.Unlock()
		}
		// 20 seconds: the first lease wakes it, and then one in each period.
		if len(runs) > 4 {
			t.Errorf("the scheduler was woken %d times", len(runs))
		}
		if renewed != 0 {
			t.Errorf("%d leases were renewed that were long gone", renewed)
		}
		if hold(11 * time.Second); renewed != 1 {
			t.Errorf("a lease of 11 s was renewed %d times, want once", renewed)
		}
	})
}
