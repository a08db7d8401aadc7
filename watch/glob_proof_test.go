//go:build proof

package watch

import (
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/canary"
)

func TestMatchOfManyStarsIsFast(t *testing.T) {
	canary.Judge(t, func(_ *testing.T, b *canary.Bounds) {
		start := time.Now()
		Match(manyStars())
		b.Within("a pattern of many stars", time.Since(start), 5*time.Second)
	})
}
