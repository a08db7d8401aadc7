package server

import (
	"context"
	"errors"
	"testing"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/internal/redistest"
)

// A lone party that gives up and tries again at once, by its own client or another one, never
// passes with itself.
func TestRealBarriersOfOneThatGivesUp(t *testing.T) {
	eachDriver(t, func(t *testing.T, s *redistest.Server, dial func(string, *mortise.Options) *mortise.Client) {
		cs := []*mortise.Client{dial(s.Addr(), nil), dial(s.Addr(), nil)}
		// givesUp ends what a party does once Redis counts it.
		givesUp := func(key string, await func(context.Context) error) error {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- await(ctx) }()
			redistest.Eventually(t, "the party is counted", func() error {
				if s.Int(t, "EXISTS", key) == 0 {
					return errors.New("not yet")
				}
				return nil
			})
			cancel()
			return <-ended
		}
		for round := range 50 {
			err := givesUp("job", func(ctx context.Context) error {
				_, err := cs[0].Barrier("job", 2).Await(ctx)
				return err
			})
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("round %d: %v, want the context's error", round, err)
			}
			if _, err := cs[round%2].Barrier("job", 2).Await(t.Context()); !errors.Is(err, mortise.ErrBroken) {
				t.Fatalf("round %d: the next one: %v, want ErrBroken", round, err)
			}
			if err := cs[0].Barrier("job", 2).Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			err = givesUp("double", func(ctx context.Context) error {
				_, _, err := cs[round/2%2].DoubleBarrier("double", 2).Enter(ctx)
				return err
			})
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("round %d: Enter: %v, want the context's error", round, err)
			}
		}
	})
}
