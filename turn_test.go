package mortise_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mortise-go/mortise"
	"github.com/mortise-go/mortise/driver"
	"github.com/mortise-go/mortise/internal/keyspace"
	"github.com/mortise-go/mortise/memredis"
)

// The message that a lock was given, or is free, can come after the client has
// asked by itself, and been told that it has it. Then it is no reason to give it
// back.
func TestMessageOfALockThatIsHeldAlready(t *testing.T) {
	kinds := map[string]struct {
		open    func(c *mortise.Client) waiting
		channel func(name, client string) string
	}{
		"Lock":     {func(c *mortise.Client) waiting { return c.Lock("job") }, keyspace.TurnChannel},
		"FairLock": {func(c *mortise.Client) waiting { return c.FairLock("job") }, keyspace.FairTurnChannel},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memredis.Server) {
				holder, _ := open(t, s, nil)
				c, f := open(t, s, nil)
				first, _, err := kind.open(holder).Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got := make(chan *mortise.Hold, 1)
				go func() {
					hold, _, err := kind.open(c).Lock(t.Context())
					if err != nil {
						t.Error(err)
					}
					got <- hold
				}()
				synctest.Wait() // it listens, and has a turn
				mustUnlock(t, first)
				hold := <-got
				client, _, _ := strings.Cut(hold.Owner(), ":")
				for _, message := range []string{hold.Owner() + " 1", "?" + hold.Owner()} {
					call := driver.Call{Script: publish, Keys: []string{"job"}, Args: []string{kind.channel("job", client), message}}
					if heard, err := f.Eval(t.Context(), call); err != nil || heard.Int() != 1 {
						t.Fatalf("%d listen to the client's channel, %v, want 1", heard.Int(), err)
					}
					synctest.Wait()
				}
				if err := hold.Unlock(); err != nil {
					t.Errorf("unlock after the late message: %v", err)
				}
			})
		})
	}
}

// waiting is what can be waited for.
type waiting interface {
	Lock(ctx context.Context) (*mortise.Hold, context.Context, error)
}
