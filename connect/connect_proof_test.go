//go:build proof

package connect

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/canary"
)

// A server that accepts and stays silent must not delay Open beyond ctx, nor forever without one.
func TestOpenSilentServerInTime(t *testing.T) {
	canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
		addr := silentServer(t)
		abandoned(t, addr, func(d time.Duration) { b.Within("a context of 50ms", d, 2*time.Second) })
		for _, scheme := range []string{"redis://", "rediss://"} {
			start := time.Now()
			refused(t, t.Context(), scheme+addr, driver.NotSent, addr, "no answer in time")
			b.Within("a silent server", time.Since(start), 10*time.Second)
		}
	})
}

func TestOpenOldServerInTime(t *testing.T) {
	canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
		start := time.Now()
		refusesAnOldServer(t)
		b.Within("a refusal", time.Since(start), 10*time.Second)
	})
}
