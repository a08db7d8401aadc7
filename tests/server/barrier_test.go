package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// A lone party that gives up and tries again at once, by its own client or another one, never
// passes with itself.
func TestRealBarriersOfOneThatGivesUp(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		cs := []*mortise.Client{dial(s.Addr(), nil), dial(s.Addr(), nil)}
		brief := func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 10*time.Millisecond)
		}
		for round := range 50 {
			ctx, cancel := brief()
			if _, err := cs[0].Barrier("job", 2).Await(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("round %d: %v, want the deadline's error", round, err)
			}
			cancel()
			ctx, cancel = brief()
			if _, err := cs[round%2].Barrier("job", 2).Await(ctx); !errors.Is(err, mortise.ErrBroken) {
				t.Fatalf("round %d: the next one: %v, want ErrBroken", round, err)
			}
			cancel()
			if err := cs[0].Barrier("job", 2).Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel = brief()
			if _, _, err := cs[round/2%2].DoubleBarrier("double", 2).Enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("round %d: Enter: %v, want the deadline's error", round, err)
			}
			cancel()
		}
	})
}
