//go:build server && proof

package connect

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

// A server of a cluster that stands still does not keep a client from the others.
func TestOpenClusterBesideAFrozenServer(t *testing.T) {
	c := redistest.Cluster(t, 0)
	c.Masters[2].Pause(t)
	for range 8 { // who is asked is random
		canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
			start := time.Now()
			d, err := Open(t.Context(), "redis+cluster://"+c.Masters[0].Addr()+","+c.Masters[1].Addr())
			if err != nil {
				t.Fatal(err)
			}
			b.Within("it opens", time.Since(start), time.Second)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
