package watchdog_test

import (
	"fmt"
	"testing"
	"time"
)

// Leases that were acquired at different times come to share their renewals: what is due within
// a tenth of a period joins the batch.
func TestLeasesSpreadOverAPeriodShareTheirRenewals(t *testing.T) {
	virtual(t, func(b *bench) {
		const leases, periods = 5000, 10
		for i := range leases {
			b.Add(b.lease(fmt.Sprintf("s:%d", i)), time.Now(), trust, true)
			time.Sleep(period / leases)
		}
		b.mu.Lock()
		before := len(b.attempts["s"])
		b.mu.Unlock()
		time.Sleep(periods * period)
		b.mu.Lock()
		defer b.mu.Unlock()
		if n := len(b.attempts["s"]) - before; n > 12*periods {
			t.Errorf("%d leases took %d attempts in %d periods, want about ten in each", leases, n, periods)
		}
		if len(b.losses) != 0 {
			t.Errorf("%d leases were lost", len(b.losses))
		}
	})
}
