//go:build proof

package examples_test

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/canary"
)

// No program ever waits until a lease ends: that would take 30 seconds.
func TestNoProgramWaitsForALease(t *testing.T) {
	for name, run := range map[string]func(t *testing.T){
		"nightly": nightly, "orders": orders, "workers": workers, "leader": leader, "ledger": ledger, "cron": cron,
		"steps.sh": func(t *testing.T) { steps(t, "steps/deploy.sh") }, "steps.py": func(t *testing.T) { steps(t, "steps/deploy.py") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
				start := time.Now()
				run(t)
				b.Within(name, time.Since(start), 25*time.Second)
			})
		})
	}
}
