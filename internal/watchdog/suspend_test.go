package watchdog

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// While the machine is suspended the monotonic clock stands still, and the wall clock goes on, as
// does that of Redis. What has ended meanwhile is not trusted any more, and not renewed.
func TestTrustEndsWhileTheMachineIsSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards the following
		renewals := 0
		lost := make(map[any]Reason)
		w := New(Config{
			Renew: func(_ context.Context, leases []*Lease) []Answer {
				mu.Lock()
				defer mu.Unlock()
				renewals++
				return make([]Answer, len(leases)) // renewed
			},
			Shard: func(*Lease) string { return "" },
			Lost: func(l *Lease, reason Reason, _ error) {
				mu.Lock()
				defer mu.Unlock()
				lost[l.Of] = reason
			},
		})
		defer w.Close()
		terms := &Terms{TTL: 30 * time.Second, Trust: 29 * time.Second}
		asked, sleeping, fixed := &Lease{Of: "asked", Terms: terms}, &Lease{Of: "sleeping", Terms: terms}, &Lease{Of: "fixed", Terms: terms}
		for _, l := range []*Lease{asked, sleeping, fixed} {
			w.Add(l, time.Now(), 29*time.Second, l != fixed)
			w.mu.Lock()
			l.until.wall -= time.Minute // as if a minute had passed on this clock alone
			w.mu.Unlock()
		}
		if over, why, _ := w.Expire(asked); !over || why != LostUnconfirmed {
			t.Errorf("after the suspend Expire says %v, %v, want that the trust is over", over, why)
		}
		time.Sleep(10 * time.Second) // a renewal is due
		synctest.Wait()
		over, why, _ := w.Expire(fixed)
		mu.Lock()
		defer mu.Unlock()
		if lost["sleeping"] != LostUnconfirmed || renewals != 0 {
			t.Errorf("the losses are %v after %d renewals, want that of the lease that was due instead of a renewal", lost, renewals)
		}
		if !over || why != LostExpired || len(lost) != 3 {
			t.Errorf("Expire of a fixed lease says %v, %v; the losses are %v, want all three", over, why, lost)
		}
	})
}
