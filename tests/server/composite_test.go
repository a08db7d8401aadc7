package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/canary"
	"github.com/mortise-go/mortise/internal/redistest"
)

func TestCompositesAreReleasedCrosswiseOnARealServer(t *testing.T) {
	eachDriverInTime(t, func(t *testing.T, b *canary.Bounds, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		for what, k := range composites {
			t.Run(what, func(t *testing.T) {
				c, d, other := dial(s.Addr(), nil), dial(s.Addr(), nil), dial(s.Addr(), nil)
				crosswise(t, k.Open(c, d), strings.Fields(k.Names), blocker(t, func(name string) taker { return k.One(other, name) }), func(name string) {
					redistest.Eventually(t, "somebody listens for the release of "+name, func() error {
						channels, err := s.Do("PUBSUB", "CHANNELS", "*"+name+"*")
						if err == nil && len(channels.([]any)) == 0 {
							return errors.New("nobody does")
						}
						return err
					})
				}, func(took time.Duration) { b.Within("two releases at once", took, 10*time.Second) })
			})
		}
	})
}
