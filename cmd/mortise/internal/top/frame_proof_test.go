//go:build proof

package top

import (
	"slices"
	"testing"
	"time"

	"github.com/mortise-go/mortise/internal/canary"
)

// With 10,000 locks a frame is ready well within a refresh of the screen.
func TestFramesOfManyLocks(t *testing.T) {
	canary.Judge(t, func(t *testing.T, b *canary.Bounds) {
		const locks, frames, refresh = 10_000, 21, 16 * time.Millisecond
		m, _ := newScreen(t, 140, 40)
		at := time.Now()
		s := sighted(at, crowd(at, locks, orderName))
		var looks, moves []time.Duration
		for range frames {
			start := time.Now()
			m.Update(s)
			_ = m.View()
			looks = append(looks, time.Since(start))
			start = time.Now()
			press(m, "pgdown")
			_ = m.View()
			moves = append(moves, time.Since(start))
		}
		slices.Sort(looks)
		slices.Sort(moves)
		b.Within("a frame after a look, with 10,000 locks", looks[frames/2], refresh)
		b.Within("a frame after a key, with 10,000 locks", moves[frames/2], refresh)
	})
}
